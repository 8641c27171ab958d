/* SPDX-License-Identifier: BSD-3-Clause */
/* The sum that DATASUM and CHECKSUM are made of (FITS Standard 4.0, appendix J). */
#include "common.h"

#define BLOCK_NWORDS ((size_t)1 << 16) /* few enough that their sum fits 64 bits */

/* Shifts, unlike loads byte by byte, become vector code. */
static inline uint32_t from_big_endian(uint32_t word)
{
    const uint16_t one = 1;
    uint8_t is_little_endian;
    memcpy(&is_little_endian, &one, 1);
    return is_little_endian ? word >> 24 | (word >> 8 & 0xFF00) | (word & 0xFF00) << 8 | word << 24
                            : word;
}

uint32_t fitscodecs_ones_sum(const uint8_t *data, size_t nwords, uint32_t start)
{
    uint64_t total = start;

    while (nwords > 0) {
        size_t n = nwords < BLOCK_NWORDS ? nwords : BLOCK_NWORDS;
        for (size_t i = 0; i < n; i++) {
            uint32_t word;
            memcpy(&word, data + 4 * i, 4);
            total += from_big_endian(word);
        }
        while (total > UINT32_MAX) { /* carries go round to the other end */
            total = (total & UINT32_MAX) + (total >> 32);
        }
        data += 4 * n;
        nwords -= n;
    }
    return (uint32_t)total;
}
