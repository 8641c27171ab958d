/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the reference coder of RICE_1 in rice.c and its kernels in rice_decode_kernels.h and
 * rice_encode_kernels.h share; rice.c tells what a stream is.
 */
#ifndef FITSCODECS_RICE_H
#define FITSCODECS_RICE_H

#include "common.h"

/* Bits of a block code and the level from which a block is stored raw, by the width of a pixel. */
enum {
    RICE_IDBITS_u8 = 3,
    RICE_IDBITS_u16 = 4,
    RICE_IDBITS_u32 = 5,
    RICE_RAWLEVEL_u8 = 6,
    RICE_RAWLEVEL_u16 = 14,
    RICE_RAWLEVEL_u32 = 25,
};

#if defined(__GNUC__) || defined(__clang__)
#define RICE_UNLIKELY(condition) __builtin_expect(condition, 0)
#else
#define RICE_UNLIKELY(condition) (condition)
#endif

/*
 * What the kernels may read beyond the start of a block: it is read in at most 8 groups, each of
 * which moves on by at most 8 bytes, and 16 bytes are read where a group begins.
 */
#define RICE_MARGIN 80

/* A difference with its sign folded into the lowest bit: 0, -1, 1, -2 ... become 0, 1, 2, 3 ... */
static inline uint8_t rice_fold_u8(uint8_t difference)
{
    return (uint8_t)((uint8_t)(difference << 1) ^ (uint8_t)(0 - (difference >> 7)));
}

static inline uint16_t rice_fold_u16(uint16_t difference)
{
    return (uint16_t)((uint16_t)(difference << 1) ^ (uint16_t)(0 - (difference >> 15)));
}

static inline uint32_t rice_fold_u32(uint32_t difference)
{
    return difference << 1 ^ (0 - (difference >> 31));
}

/* The difference again, in the bits that a pixel has. */
static inline uint32_t rice_unfold(uint32_t u)
{
    return u >> 1 ^ (0 - (u & 1));
}

/*
 * Level for a block of m pixels whose folded differences sum to 'sum': the number of bits in half
 * of their mean, the mean rounded down after taking off half a pixel's worth.
 */
static inline unsigned rice_level(uint64_t sum, size_t m)
{
    uint64_t cut = m / 2 + 1;
    uint64_t half = sum < cut ? 0 : (sum - cut) / m >> 1;
    return half == 0 ? 0 : 64 - leading_zeros64(half);
}

#endif
