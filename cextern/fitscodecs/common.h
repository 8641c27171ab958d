/* SPDX-License-Identifier: BSD-3-Clause */
/* Private helpers that every file of the library may use. */
#ifndef FITSCODECS_COMMON_H
#define FITSCODECS_COMMON_H

#include <string.h>

#include "fitscodecs.h"

/* Record why a call fails and return its status, so that a fault is one line where it is found. */
static inline enum fitscodecs_status fitscodecs_fail(struct fitscodecs_result *result,
                                                     enum fitscodecs_status status,
                                                     const char *detail, int64_t found,
                                                     int64_t wanted)
{
    result->detail = detail;
    result->found = found;
    result->wanted = wanted;
    return status;
}

/* A tile has at least one pixel and at most as many as an 8-byte array of them can have. */
static inline enum fitscodecs_status fitscodecs_check_npixels(const struct fitscodecs_tile *tile,
                                                              struct fitscodecs_result *result)
{
    if (tile->nx == 0 || tile->ny == 0) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "a tile of {found} pixels, wanted at least {wanted}", 0, 1);
    }
    if (tile->nx > (size_t)PTRDIFF_MAX / 8 / tile->ny) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "a tile with rows of {found} pixels, too many to address",
                               (int64_t)tile->nx, 0);
    }
    result->detail = NULL;
    return FITSCODECS_OK;
}

/* a * b and a + b, or SIZE_MAX if that does not fit; SIZE_MAX as an input stays SIZE_MAX. */
static inline size_t saturating_mul(size_t a, size_t b)
{
    return b != 0 && a > SIZE_MAX / b ? SIZE_MAX : a * b;
}

static inline size_t saturating_add(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static inline size_t ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* Number of bits of the value: 0 for 0, 1 for 1, 2 for 2 and 3, ... */
static inline unsigned bit_length(uint64_t value)
{
    unsigned n = 0;
    for (; value != 0; value >>= 1) {
        n++;
    }
    return n;
}

/* Zero bits above the highest one bit; value must not be 0. */
static inline unsigned leading_zeros64(uint64_t value)
{
#if defined(__GNUC__) || defined(__clang__)
    return (unsigned)__builtin_clzll(value);
#else
    return 64 - bit_length(value);
#endif
}

/* Big-endian numbers of a stream; the caller has checked that the bytes are there. */
static inline uint32_t load_be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static inline uint32_t load_be32(const uint8_t *p)
{
    return load_be16(p) << 16 | load_be16(p + 2);
}

/* Not every compiler sees one instruction in 8 bytes, and streams are read by 8. */
#if (defined(__GNUC__) || defined(__clang__)) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline uint64_t load_be64(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return __builtin_bswap64(value);
}
#else
static inline uint64_t load_be64(const uint8_t *p)
{
    return (uint64_t)load_be32(p) << 32 | load_be32(p + 4);
}
#endif

static inline void store_be16(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
}

static inline void store_be32(uint8_t *p, uint32_t value)
{
    store_be16(p, value >> 16);
    store_be16(p + 2, value);
}

#if (defined(__GNUC__) || defined(__clang__)) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline void store_be64(uint8_t *p, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(p, &value, 8);
}
#else
static inline void store_be64(uint8_t *p, uint64_t value)
{
    store_be32(p, (uint32_t)(value >> 32));
    store_be32(p + 4, (uint32_t)value);
}
#endif

/* Two's complement value of the low 'width' bits, 1 <= width <= 64. */
static inline int64_t sign_extend(uint64_t value, unsigned width)
{
    uint64_t sign = (uint64_t)1 << (width - 1);
    value &= sign | (sign - 1);
    return (int64_t)((value ^ sign) - sign);
}

#endif
