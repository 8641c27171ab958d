/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the noise estimate of noise.c does to each pixel.  Included once for each instruction set,
 * see kernels.h.
 *
 * Nearly all of the time goes into medians.  They are found by counting and dropping (see
 * select() in noise_template.h) in loops without branches that depend on pixels, which are plain C
 * that compilers turn into vector code.  Only what they cannot do, moving values together, is
 * written for the instruction sets as well.
 */
#include "noise.h"

#include <float.h>
#include <math.h>

#define NOISE_LANES 8 /* pixels that survey() works on at a time */

/* How select() takes samples; measured, and uncritical. */
#define NOISE_NSAMPLES 32
#define NOISE_MARGIN 5                           /* 1.8 sigma of the rank of a median of them */
#define NOISE_FEW 64                             /* values of which all ranks are found at once */
#define NOISE_STRIDE 2654435769u                 /* 2^32 times the golden ratio's fraction */
#define NOISE_COUNT_BLOCK ((size_t)1 << 20)      /* values that uint32_t can count, and more */
#define NOISE_MASK 64                            /* values whose comparisons make a mask */

#define PIXEL float
#define TYPED(name) NAME(name##_f32)
#define LARGEST FLT_MAX
#define ABSOLUTE fabsf
#define COUNTER uint32_t
#include "noise_template.h"

#define PIXEL double
#define TYPED(name) NAME(name##_f64)
#define LARGEST DBL_MAX
#define ABSOLUTE fabs
#define COUNTER uint64_t
#include "noise_template.h"

static double NAME(select_double)(double *values, size_t n, size_t k)
{
    return NAME(select_f64)(values, n, k, 0);
}

static const struct fitscodecs_noise_kernels NAME(noise) = {
    .survey = {NAME(survey_f32), NAME(survey_f64)},
    .find_medians = {NAME(find_medians_f32), NAME(find_medians_f64)},
    .select = NAME(select_double),
};

#undef NOISE_LANES
#undef NOISE_NSAMPLES
#undef NOISE_MARGIN
#undef NOISE_FEW
#undef NOISE_STRIDE
#undef NOISE_COUNT_BLOCK
#undef NOISE_MASK
