/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop of quantize_template.h for AVX-512, without divisions, which take two thirds of its time
 * otherwise.  Included once for each type, with the macros of quantize_template.h and
 *
 *   LOAD_AS_F64(mask, p)  eight values of type PIXEL as doubles, 0 where the mask has no bit
 */

/*
 * Eight quotients a / scale, each the double nearest to it, as a division gives them.
 *
 * With u = 2^-53, half a unit in the last place (ulp) of a number from 1 to 2:
 *
 *  - inverse = (1 / scale)(1 + e), |e| <= u / (1 + u), is the double nearest to it, and rest
 *    what is missing, so that the sum of the two is right to a few u^2.
 *  - q, one rounding of a * inverse + a * rest, is off by half an ulp and a few u^2 of it, which
 *    makes it one of the doubles on either side of the quotient.
 *  - So the remainder r = a - q * scale is a double: less than an ulp of q times scale, and a
 *    multiple of an ulp of q times an ulp of scale.
 *  - q + r * inverse is off by d u / (1 + u), d = |q - a / scale|.  That rounds to the right side
 *    if the point halfway between two doubles is farther than this from it.  It is: written
 *    as fractions of integers, the two differ by a multiple of 1 / (2 S) ulp, S < 2^53 being
 *    the significand of scale, by more than u / 2; and not by 0, since the point halfway has 54
 *    bits.  Near that point d is 1/2 and the difference.
 *
 * That takes for granted that nothing under- or overflows; see can_multiply().
 */
static inline __m512d TYPED(divide)(__m512d a, __m512d scale, __m512d inverse, __m512d rest)
{
    __m512d q = _mm512_fmadd_pd(a, inverse, _mm512_mul_pd(a, rest));
    return _mm512_fmadd_pd(_mm512_fnmadd_pd(q, scale, a), inverse, q);
}

/*
 * Whether the integers come out right with such quotients.  For |scale| from 2^-500 to 2^500 those
 * from 2^-100 to 2^100 are right.  Those below give the same integer whatever they are, as they do
 * not change the half that is added or subtracted; those above, infinities and NaN do not fit.
 */
static inline bool TYPED(can_multiply)(double scale)
{
    const double largest = 0x1p500;
    return (fabs(scale) >= 1 / largest) & (fabs(scale) <= largest);
}

/* Eight pixels, or as many as the mask has bits. */
static inline __m256i TYPED(quantize_eight)(__m512d v, __m512d dither, bool is_dithered,
                                            const __m512d mapping[4])
{
    const __m512d sign = _mm512_set1_pd(-0.0), half = _mm512_set1_pd(0.5);
    __m512d x = TYPED(divide)(_mm512_sub_pd(v, mapping[0]), mapping[1], mapping[2], mapping[3]);

    if (is_dithered) {
        x = _mm512_sub_pd(_mm512_add_pd(x, dither), half);
    }
    x = _mm512_add_pd(x, _mm512_or_pd(half, _mm512_and_pd(x, sign)));
    return _mm512_cvttpd_epi32(x); /* INT32_MIN for what does not fit */
}

static void TYPED(quantize_vectors)(const PIXEL *pixels, const float *table, size_t n, double scale,
                                    double zero, int32_t *out)
{
    double inverse = 1 / scale, rest = fma(-inverse, scale, 1) * inverse;
    const __m512d mapping[4] = {_mm512_set1_pd(zero), _mm512_set1_pd(scale),
                                _mm512_set1_pd(inverse), _mm512_set1_pd(rest)};
    const __m512d none = _mm512_setzero_pd();
    size_t i = 0;

    for (; table != NULL && i + 8 <= n; i += 8) {
        __m512d dither = _mm512_cvtps_pd(_mm256_loadu_ps(table + i));
        __m512d v = LOAD_AS_F64(0xFF, pixels + i);
        _mm256_storeu_si256((__m256i *)(void *)(out + i),
                            TYPED(quantize_eight)(v, dither, true, mapping));
    }
    for (; table == NULL && i + 8 <= n; i += 8) {
        __m512d v = LOAD_AS_F64(0xFF, pixels + i);
        _mm256_storeu_si256((__m256i *)(void *)(out + i),
                            TYPED(quantize_eight)(v, none, false, mapping));
    }
    if (i < n) {
        __mmask8 mask = (__mmask8)((1u << (n - i)) - 1);
        __m512d v = LOAD_AS_F64(mask, pixels + i), dither = none;
        if (table != NULL) {
            dither = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, table + i));
        }
        _mm256_mask_storeu_epi32(out + i, mask,
                                 TYPED(quantize_eight)(v, dither, table != NULL, mapping));
    }
}
