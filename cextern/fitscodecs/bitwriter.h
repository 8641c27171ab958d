/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writing a stream bit by bit, most significant bit first.
 *
 * Fewer than 8 bits wait in 'window' between calls.  A write past the capacity is remembered in
 * 'overflow' and drops the bytes; the encoders are given encode_bound() bytes, so that it means a
 * caller that gave less.
 */
#ifndef FITSCODECS_BITWRITER_H
#define FITSCODECS_BITWRITER_H

#include "common.h"

struct bitwriter {
    uint8_t *start, *next, *end;
    uint64_t window; /* the waiting bits, in the low 'nbits' bits */
    unsigned nbits;
    bool overflow;
};

static inline void bits_create(struct bitwriter *bw, uint8_t *out, size_t out_nbytes)
{
    bw->start = bw->next = out;
    bw->end = out + out_nbytes;
    bw->window = 0;
    bw->nbits = 0;
    bw->overflow = false;
}

/* Append the low n bits of value, 0 <= n <= 56; the bits above them must be 0. */
static inline void bits_put(struct bitwriter *bw, uint64_t value, unsigned n)
{
    bw->window = bw->window << n | value;
    bw->nbits += n;
    while (bw->nbits >= 8) {
        bw->nbits -= 8;
        if (bw->next == bw->end) {
            bw->overflow = true;
        } else {
            *bw->next++ = (uint8_t)(bw->window >> bw->nbits);
        }
    }
    bw->window &= ((uint64_t)1 << bw->nbits) - 1;
}

/* Append n zero bits. */
static inline void bits_put_zeros(struct bitwriter *bw, uint64_t n)
{
    for (; n > 32; n -= 32) {
        bits_put(bw, 0, 32);
    }
    bits_put(bw, 0, (unsigned)n);
}

/* Fill the last byte with zero bits. */
static inline void bits_put_padding(struct bitwriter *bw)
{
    bits_put(bw, 0, (8 - bw->nbits) & 7);
}

static inline size_t bits_written_nbytes(const struct bitwriter *bw)
{
    return (size_t)(bw->next - bw->start);
}

#endif
