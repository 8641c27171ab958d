/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of quantize_kernels.h that depend on the pixel type.  Included once for each type, with
 *
 *   PIXEL       float or double
 *   TYPED(name) the name of a function for this type and instruction set
 *
 * and for AVX-512 what quantize_avx512.h needs.
 */
#if WITH_AVX512
#include "quantize_avx512.h"
#endif

/* Round half away from zero: add half and cut off the fraction; what does not fit becomes
 * INT32_MIN, as x86 converts it.  The range test comes before the conversion, as an operation on
 * doubles, because C does not define the conversion otherwise. */
static inline int32_t TYPED(round_or_minimum)(double steps)
{
    double x = steps + (steps >= 0 ? 0.5 : -0.5);
    bool fits = (x > INT32_MIN - 1.0) & (x < INT32_MAX + 1.0);
    return (int32_t)(fits ? x : INT32_MIN);
}

/* Round; what does not fit, or is reserved, becomes the nearest integer that is neither. */
static inline int32_t TYPED(round_and_saturate)(double steps)
{
    double x = steps + (steps >= 0 ? 0.5 : -0.5);
    x = x > QUANTIZE_LOWEST ? x : QUANTIZE_LOWEST; /* NaN, of infinities, goes here as well */
    x = x < QUANTIZE_LARGEST ? x : QUANTIZE_LARGEST;
    return (int32_t)x;
}

/* Pixels as a number of steps from the zero point, and rounded.  With dither, section 10.2.1 has
 * the steps as (steps + R) - 0.5. */
static void TYPED(quantize)(const void *in, const float *restrict table, size_t n, double scale,
                            double zero, int32_t *restrict out)
{
    const PIXEL *restrict pixels = in;
    size_t i = 0;

#if WITH_AVX512
    if (TYPED(can_multiply)(scale)) {
        TYPED(quantize_vectors)(pixels, table, n, scale, zero, out);
        return;
    }
#endif
    for (; table != NULL && i < n; i++) {
        out[i] = TYPED(round_or_minimum)(((double)pixels[i] - zero) / scale + table[i] - 0.5);
    }
    for (; i < n; i++) {
        out[i] = TYPED(round_or_minimum)(((double)pixels[i] - zero) / scale);
    }
}

static void TYPED(quantize_saturating)(const void *in, const float *restrict table, size_t n,
                                       double scale, double zero, int32_t *restrict out)
{
    const PIXEL *restrict pixels = in;
    size_t i = 0;

    for (; table != NULL && i < n; i++) {
        out[i] = TYPED(round_and_saturate)(((double)pixels[i] - zero) / scale + table[i] - 0.5);
    }
    for (; i < n; i++) {
        out[i] = TYPED(round_and_saturate)(((double)pixels[i] - zero) / scale);
    }
}

static void TYPED(mark_nan)(const void *in, size_t n, int32_t *restrict out)
{
    const PIXEL *restrict pixels = in;

    for (size_t i = 0; i < n; i++) {
        out[i] = pixels[i] != pixels[i] ? FITSCODECS_NULL_INTEGER : out[i];
    }
}

/* Zeros of either sign. */
static void TYPED(mark_zero)(const void *in, size_t n, int32_t *restrict out)
{
    const PIXEL *restrict pixels = in;

    for (size_t i = 0; i < n; i++) {
        out[i] = pixels[i] == 0 ? FITSCODECS_ZERO_INTEGER : out[i];
    }
}

#undef PIXEL
#undef TYPED
#if WITH_AVX512
#undef LOAD_AS_F64
#endif
