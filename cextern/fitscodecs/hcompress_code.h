/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Huffman code of HCOMPRESS_1, which has a word for each of the 16 codes of a 2 x 2 cell, and
 * tables that do several of them at once.
 */
#ifndef FITSCODECS_HCOMPRESS_CODE_H
#define FITSCODECS_HCOMPRESS_CODE_H

#include "common.h"

#define HUFFMAN_MAX_NBITS 6

static const struct {
    uint8_t bits, nbits;
} huffman_codes[16] = {
    {0x3E, 6}, {0x00, 3}, {0x01, 3}, {0x08, 4}, {0x02, 3}, {0x09, 4}, {0x1A, 5}, {0x1B, 5},
    {0x03, 3}, {0x1C, 5}, {0x0A, 4}, {0x1D, 5}, {0x0B, 4}, {0x1E, 5}, {0x3F, 6}, {0x0C, 4},
};

/*
 * What the next 11 bits of a stream begin with: as many whole codes as there are, 1 to 3.  The code
 * is complete, so that there is nothing a stream could do wrong.
 *
 * With 11 bits, five lookups need no more than the 56 bits of one refill, and they make 15 codes at
 * most, which is what goes into a 64-bit word; the table is a quarter of a first level cache.
 */
#define LOOKUP_NBITS 11
extern const uint32_t fitscodecs_hcompress_lookup[1 << LOOKUP_NBITS];

/* An entry has the number of these bits in its lowest byte, 4 times the number of codes in the next
 * one, and above them the codes, 4 bits each, the first one lowest. */
static inline unsigned lookup_nbits(uint32_t entry)
{
    return entry & 0xF;
}

static inline unsigned lookup_ncode_bits(uint32_t entry)
{
    return entry >> 8 & 0xF;
}

static inline uint32_t lookup_codes(uint32_t entry)
{
    return entry >> 16;
}

/* Two codes, the first one in the lower half of the index, to the bits of a stream: 16 * bits +
 * their number, which is at most 12. */
extern const uint16_t fitscodecs_hcompress_pairs[256];

/* Number of bits of two codes, where one that is 0, and so not written, counts as none. */
extern const uint8_t fitscodecs_hcompress_pair_nbits[256];

#endif
