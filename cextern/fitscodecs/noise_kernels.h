/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the noise estimate of noise.c does to each pixel.  Included once for each instruction set
 * for which this is worth it, see kernels.h.
 *
 * Nearly all of the time goes into medians.  They are found by taking out what is between two
 * values around the median, again and again, without branches that depend on pixels: which side of
 * a value a pixel is on nobody can predict, and a wrong guess of the CPU costs more than the work
 * on ten pixels.
 */
#include "noise.h"

#include <float.h>
#include <math.h>

/*
 * How select() encloses a median; measured, and uncritical.  The median of NOISE_NSAMPLES samples
 * has a rank with a sigma of sqrt(32)/2 = 2.8, of which the margin is 1.8.  That of n absolute
 * values of a normal distribution has itself a sigma of 1.17/sqrt(n) of its value, of which the
 * width of a guess is 2.6.
 *
 * The rank of a value among n that are spread evenly has a sigma of sqrt(n)/2, of which the spread
 * is 2.  Those around the median of absolute values are not: where their density changes by a
 * half from end to end, the one in the middle is off by 1/16 of n.
 */
#define NOISE_NSAMPLES 32
#define NOISE_MARGIN 5
#define NOISE_WIDTH 3.0f
#define NOISE_SPREAD 1.0f
#define NOISE_BEND 0.06f
#define NOISE_STRIDE 2654435769u /* 2^32 times the golden ratio's fraction */

#define NOISE_FEW 32                        /* values of which all ranks are found at once */
#define NOISE_LANES 8                       /* values whose ranks are counted together */
#define NOISE_BLOCK ((size_t)32)            /* values that are split together */
#define NOISE_COUNT_BLOCK ((size_t)1 << 20) /* values that uint32_t can count, and more */

/* The first and the last bit that is set; one is. */
#define NOISE_FIRST(mask) (63 - leading_zeros64((mask) & (0 - (mask))))
#define NOISE_LAST(mask) (63 - leading_zeros64(mask))

#if WITH_AVX2 && !WITH_AVX512
/* Where the bits that are set in each number of 8 bits are, from the lowest up, one place in each
 * byte: which byte that is, is how many bits are set below. */
#define BIT(m, b) ((uint64_t)((m) >> (b) & 1))
#define NSET(m) (BIT(m, 0) + BIT(m, 1) + BIT(m, 2) + BIT(m, 3) + BIT(m, 4) + BIT(m, 5) + BIT(m, 6))
#define PLACE(m, b) (BIT(m, b) * ((uint64_t)(b) << (8 * NSET((m) & ((1u << (b)) - 1)))))
#define PLACES(m)                                                                                  \
    (PLACE(m, 1) + PLACE(m, 2) + PLACE(m, 3) + PLACE(m, 4) + PLACE(m, 5) + PLACE(m, 6) +           \
     PLACE(m, 7))
#define PLACES4(m) PLACES(m), PLACES((m) + 1), PLACES((m) + 2), PLACES((m) + 3)
#define PLACES16(m) PLACES4(m), PLACES4((m) + 4), PLACES4((m) + 8), PLACES4((m) + 12)
#define PLACES64(m) PLACES16(m), PLACES16((m) + 16), PLACES16((m) + 32), PLACES16((m) + 48)
static const uint64_t NAME(places)[256] = {PLACES64(0u), PLACES64(64u), PLACES64(128u),
                                           PLACES64(192u)};
#undef BIT
#undef NSET
#undef PLACE
#undef PLACES
#undef PLACES4
#undef PLACES16
#undef PLACES64
#endif

#if WITH_AVX512
/* How many of up to 16 bits are set.  Where GCC sees that there are no more, it takes the
 * instruction for 16 bits, which keeps the rest of a register and thus has to wait for it. */
static inline size_t NAME(count_bits)(unsigned mask)
{
    return (unsigned)_mm_popcnt_u32(mask | 0x10000) - 1;
}
#endif

#define PIXEL float
#define TYPED(name) NAME(name##_f32)
#define LARGEST FLT_MAX
#define ABSOLUTE fabsf
#define COUNTER uint32_t
#if WITH_AVX512
#define VECTOR __m512
#define NOISE_VECTOR 16
#define MASK __mmask16
#define V(name) _mm512_##name##_ps
#define IV(name) _mm512_##name##_epi32
#define IV_SET1(value) _mm512_set1_epi32((int)(value))
#define COMPARE _mm512_cmp_ps_mask
#define COMPARE_IF _mm512_mask_cmp_ps_mask
#define RANK_UPTO _mm512_cmple_epu32_mask
#elif WITH_AVX2
#define VECTOR __m256
#define NOISE_VECTOR 8
#define V(name) _mm256_##name##_ps
#define IV(name) _mm256_##name##_epi32
#define IV_SET1(value) _mm256_set1_epi32((int)(value))
#define AS_F32(v) (v)
#define AS_INT _mm256_castps_si256
#define FROM_INT _mm256_castsi256_ps
#endif
#include "noise_template.h"

#define PIXEL double
#define TYPED(name) NAME(name##_f64)
#define LARGEST DBL_MAX
#define ABSOLUTE fabs
#define COUNTER uint64_t
#if WITH_AVX512
#define VECTOR __m512d
#define NOISE_VECTOR 8
#define MASK __mmask8
#define V(name) _mm512_##name##_pd
#define IV(name) _mm512_##name##_epi64
#define IV_SET1(value) _mm512_set1_epi64((long long)(value))
#define COMPARE _mm512_cmp_pd_mask
#define COMPARE_IF _mm512_mask_cmp_pd_mask
#define RANK_UPTO _mm512_cmple_epu64_mask
#elif WITH_AVX2
#define VECTOR __m256d
#define NOISE_VECTOR 4
#define V(name) _mm256_##name##_pd
#define IV(name) _mm256_##name##_epi64
#define IV_SET1(value) _mm256_set1_epi64x((long long)(value))
#define AS_F32 _mm256_castpd_ps
#define AS_INT _mm256_castpd_si256
#define FROM_INT _mm256_castsi256_pd
#endif
#include "noise_template.h"

static double NAME(select_double)(double *values, size_t n, size_t k, double *spare)
{
    return NAME(select_f64)(values, n, k, 0, spare);
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
#undef NOISE_WIDTH
#undef NOISE_STRIDE
#undef NOISE_SPREAD
#undef NOISE_BEND
#undef NOISE_COUNT_BLOCK
#undef NOISE_BLOCK
#undef NOISE_FIRST
#undef NOISE_LAST
