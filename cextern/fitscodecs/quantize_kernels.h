/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Floats to integers for quantize.c: plain C that compilers turn into vector code.  Included once
 * for each instruction set for which this is worth it, see kernels.h.
 *
 * All arithmetic is in double, with a rounding after each operation (compile with
 * -ffp-contract=off).
 */
#include "quantize.h"

#if WITH_AVX512
#include <math.h>
#endif

#define PIXEL float
#define TYPED(name) NAME(name##_f32)
#if WITH_AVX512
#define LOAD_AS_F64(mask, p) _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, p))
#endif
#include "quantize_template.h"

#define PIXEL double
#define TYPED(name) NAME(name##_f64)
#if WITH_AVX512
#define LOAD_AS_F64(mask, p) _mm512_maskz_loadu_pd(mask, p)
#endif
#include "quantize_template.h"

static const struct fitscodecs_quantize_kernels NAME(quantize) = {
    .quantize = {NAME(quantize_f32), NAME(quantize_f64)},
    .quantize_saturating = {NAME(quantize_saturating_f32), NAME(quantize_saturating_f64)},
    .mark_nan = {NAME(mark_nan_f32), NAME(mark_nan_f64)},
    .mark_zero = {NAME(mark_zero_f32), NAME(mark_zero_f64)},
};
