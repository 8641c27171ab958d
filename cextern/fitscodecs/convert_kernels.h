/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pixels of one type to another.  Included once for each instruction set, see kernels.h.
 *
 * The loops are as simple as they can be, so that the compiler makes vectors of them.
 */

#define RANGE(name, type)                                                                          \
    static void NAME(name)(const void *in, size_t n, int64_t *lowest, int64_t *highest)            \
    {                                                                                              \
        const type *p = in;                                                                        \
        type low = p[0], high = p[0];                                                              \
        for (size_t i = 1; i < n; i++) {                                                           \
            low = p[i] < low ? p[i] : low;                                                         \
            high = p[i] > high ? p[i] : high;                                                      \
        }                                                                                          \
        *lowest = low;                                                                             \
        *highest = high;                                                                           \
    }

RANGE(range_u8, uint8_t)
RANGE(range_i16, int16_t)
RANGE(range_i32, int32_t)
RANGE(range_i64, int64_t)

/* 'bits' is the unsigned type of the output: no overflow, and modulo its width. */
#define SUBTRACT(name, type, bits)                                                                 \
    static void NAME(name)(const void *restrict in, size_t n, int64_t offset, void *restrict out)  \
    {                                                                                              \
        const type *from = in;                                                                     \
        bits *to = out;                                                                            \
        const bits change = (bits)offset;                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            to[i] = (bits)((bits)from[i] - change);                                                \
        }                                                                                          \
    }

SUBTRACT(u8_to_u8, uint8_t, uint8_t)
SUBTRACT(u8_to_i16, uint8_t, uint16_t)
SUBTRACT(u8_to_i32, uint8_t, uint32_t)
SUBTRACT(u8_to_i64, uint8_t, uint64_t)
SUBTRACT(i16_to_u8, int16_t, uint8_t)
SUBTRACT(i16_to_i16, int16_t, uint16_t)
SUBTRACT(i16_to_i32, int16_t, uint32_t)
SUBTRACT(i16_to_i64, int16_t, uint64_t)
SUBTRACT(i32_to_u8, int32_t, uint8_t)
SUBTRACT(i32_to_i16, int32_t, uint16_t)
SUBTRACT(i32_to_i32, int32_t, uint32_t)
SUBTRACT(i32_to_i64, int32_t, uint64_t)
SUBTRACT(i64_to_u8, int64_t, uint8_t)
SUBTRACT(i64_to_i16, int64_t, uint16_t)
SUBTRACT(i64_to_i32, int64_t, uint32_t)
SUBTRACT(i64_to_i64, int64_t, uint64_t)

static void NAME(f32_to_f64)(const float *restrict in, size_t n, double *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = in[i];
    }
}

static void NAME(f64_to_f32)(const double *restrict in, size_t n, float *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (float)in[i];
    }
}

/* In the order of enum fitscodecs_pixel. */
static const struct fitscodecs_convert_kernels NAME(convert) = {
    .range = {NAME(range_u8), NAME(range_i16), NAME(range_i32), NAME(range_i64)},
    .subtract =
        {
            {NAME(u8_to_u8), NAME(u8_to_i16), NAME(u8_to_i32), NAME(u8_to_i64)},
            {NAME(i16_to_u8), NAME(i16_to_i16), NAME(i16_to_i32), NAME(i16_to_i64)},
            {NAME(i32_to_u8), NAME(i32_to_i16), NAME(i32_to_i32), NAME(i32_to_i64)},
            {NAME(i64_to_u8), NAME(i64_to_i16), NAME(i64_to_i32), NAME(i64_to_i64)},
        },
    .f32_to_f64 = NAME(f32_to_f64),
    .f64_to_f32 = NAME(f64_to_f32),
};

#undef RANGE
#undef SUBTRACT
