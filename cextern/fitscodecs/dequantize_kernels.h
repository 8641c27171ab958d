/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Integers to floats for dequantize.c: plain C that compilers turn into vector code.  Included once
 * for each instruction set, see kernels.h.
 */
#define INTEGER uint8_t
#define PIXEL float
#define TYPED(name) NAME(name##_u8_f32)
#include "dequantize_template.h"

#define INTEGER uint8_t
#define PIXEL double
#define TYPED(name) NAME(name##_u8_f64)
#include "dequantize_template.h"

#define INTEGER int16_t
#define PIXEL float
#define TYPED(name) NAME(name##_i16_f32)
#include "dequantize_template.h"

#define INTEGER int16_t
#define PIXEL double
#define TYPED(name) NAME(name##_i16_f64)
#include "dequantize_template.h"

#define INTEGER int32_t
#define PIXEL float
#define TYPED(name) NAME(name##_i32_f32)
#include "dequantize_template.h"

#define INTEGER int32_t
#define PIXEL double
#define TYPED(name) NAME(name##_i32_f64)
#include "dequantize_template.h"

#define INTEGER int64_t
#define PIXEL float
#define TYPED(name) NAME(name##_i64_f32)
#include "dequantize_template.h"

#define INTEGER int64_t
#define PIXEL double
#define TYPED(name) NAME(name##_i64_f64)
#include "dequantize_template.h"

#define LOOPS(types, integer, pixel)                                                               \
    {                                                                                              \
        .plain = NAME(plain##types),                                                               \
        .dithered = NAME(dithered##types),                                                         \
        .contains = NAME(contains##types),                                                         \
        .replace = NAME(replace##types),                                                           \
        .integer_nbytes = sizeof(integer),                                                         \
        .pixel_nbytes = sizeof(pixel),                                                             \
    }

static const struct fitscodecs_dequantize_kernels NAME(dequantize) = {
    .u8 = {LOOPS(_u8_f32, uint8_t, float), LOOPS(_u8_f64, uint8_t, double)},
    .i16 = {LOOPS(_i16_f32, int16_t, float), LOOPS(_i16_f64, int16_t, double)},
    .i32 = {LOOPS(_i32_f32, int32_t, float), LOOPS(_i32_f64, int32_t, double)},
    .i64 = {LOOPS(_i64_f32, int64_t, float), LOOPS(_i64_f64, int64_t, double)},
};

#undef LOOPS
