/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a stream bit by bit, most significant bit first.
 *
 * 'window' holds the next 'nbits' bits at its top, zeros below.  bits_refill() brings it to at
 * least 56 bits, or to all that is left.  Past the end of the stream the window is zeros:
 * a peek may look there, a take fails.
 */
#ifndef FITSCODECS_BITREADER_H
#define FITSCODECS_BITREADER_H

#include "common.h"

struct bitreader {
    const uint8_t *start, *next, *end;
    uint64_t window;
    unsigned nbits;
};

static inline void bits_open(struct bitreader *br, const uint8_t *in, size_t in_nbytes)
{
    br->start = br->next = in;
    br->end = in + in_nbytes;
    br->window = 0;
    br->nbits = 0;
}

static inline void bits_refill(struct bitreader *br)
{
    if (br->end - br->next >= 8) {
        /* Whole bytes that fit beside the nbits that are there; the bits below them are cut off,
         * so that the window stays clean. */
        unsigned nbytes = (63 - br->nbits) >> 3;
        uint64_t bits = load_be64(br->next) >> br->nbits;
        br->nbits += 8 * nbytes;
        br->next += nbytes;
        br->window |= br->nbits == 0 ? 0 : bits & (~(uint64_t)0 << (64 - br->nbits));
        return;
    }
    while (br->nbits <= 56 && br->next < br->end) {
        br->window |= (uint64_t)*br->next++ << (56 - br->nbits);
        br->nbits += 8;
    }
}

/* The next n bits, 1 <= n <= 56, after a refill. */
static inline uint64_t bits_peek(const struct bitreader *br, unsigned n)
{
    return br->window >> (64 - n);
}

/* Drop n <= br->nbits bits. */
static inline void bits_drop(struct bitreader *br, unsigned n)
{
    br->window = n == 64 ? 0 : br->window << n;
    br->nbits -= n;
}

/* The next n bits, 0 <= n <= 56; false if the stream has fewer. */
static inline bool bits_take(struct bitreader *br, unsigned n, uint64_t *value)
{
    if (br->nbits < n) {
        bits_refill(br);
        if (br->nbits < n) {
            return false;
        }
    }
    *value = n == 0 ? 0 : bits_peek(br, n);
    bits_drop(br, n);
    return true;
}

/* Skip to the next byte boundary of the stream. */
static inline void bits_align(struct bitreader *br)
{
    bits_drop(br, br->nbits & 7);
}

/* Bytes of the stream that were touched, a partly read byte included. */
static inline size_t bits_used_nbytes(const struct bitreader *br)
{
    return (size_t)(br->next - br->start) - br->nbits / 8;
}

#endif
