/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of noise_avx2.h for AVX-512, where a comparison gives a bit for each value: bits are
 * counted by one instruction, and another one packs the values that they mark.  Loops that start at
 * *i leave the rest, or nothing, to the plain loop.
 *
 * Included once for each type, with the macros of noise_template.h and
 *
 *   VECTOR    NOISE_VECTOR values of type PIXEL
 *   V(name)   the intrinsic for it, like V(add)
 *   IV(name)  the intrinsic for integers of the size of PIXEL, and IV_SET1() for their set1
 *   COMPARE() the bits of a comparison, and COMPARE_IF() those of them that another mask has
 *   RANK_UPTO the bits that tell where an unsigned integer of the size of PIXEL is not larger
 */

/* The bits of the first n < 256 values of a vector, or of all. */
static inline MASK TYPED(first)(size_t n)
{
    return (MASK)_bzhi_u32((1u << NOISE_VECTOR) - 1, (unsigned)n);
}

/* Store the values that the mask marks, one behind the other, and return their number.  A whole
 * vector is written: storing only what is marked takes longer, on some CPUs very much so. */
static inline size_t TYPED(store_marked)(PIXEL *out, VECTOR values, unsigned mask)
{
    V(storeu)(out, V(maskz_compress)((MASK)mask, values));
    return NAME(count_bits)(mask);
}

/* How many values are between the address and the whole vector of memory before it.  From cache
 * line to cache line, loops over long rows take a third less time. */
static inline size_t TYPED(misplaced)(const PIXEL *p)
{
    return (uintptr_t)p % sizeof(VECTOR) / sizeof(PIXEL);
}

/* Returns the number of good pixels. */
static size_t TYPED(survey_vectors)(const PIXEL *pixels, size_t n, PIXEL *low, PIXEL *high,
                                    size_t *i)
{
    VECTOR lows = V(set1)(*low), highs = V(set1)(*high);
    size_t ngood = 0;

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        VECTOR v = TYPED(load)(pixels + *i);
        lows = V(min)(v, lows); /* the second one if the first is NaN */
        highs = V(max)(v, highs);
        ngood += NAME(count_bits)(COMPARE(v, v, _CMP_ORD_Q));
    }
    *low = V(reduce_min)(lows);
    *high = V(reduce_max)(highs);
    return ngood;
}

/* With the rest, since most runs are short. */
static size_t TYPED(copy_between_vectors)(const PIXEL *in, size_t n, PIXEL low, PIXEL high,
                                          PIXEL *out, size_t *upto_low, size_t *i)
{
    VECTOR vlow = V(set1)(low), vhigh = V(set1)(high);
    size_t m = 0, nabove = 0, start = *i;

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        VECTOR v = TYPED(load)(in + *i);
        MASK is_above = COMPARE(v, vlow, _CMP_GT_OQ);
        nabove += NAME(count_bits)(is_above);
        m += TYPED(store_marked)(out + m, v, COMPARE_IF(is_above, v, vhigh, _CMP_LT_OQ));
    }
    if (*i < n) {
        MASK rest = TYPED(first)(n - *i);
        VECTOR v = V(maskz_loadu)(rest, in + *i);
        MASK is_above = COMPARE_IF(rest, v, vlow, _CMP_GT_OQ);
        MASK is_between = COMPARE_IF(is_above, v, vhigh, _CMP_LT_OQ);
        size_t nbetween = NAME(count_bits)(is_between);
        V(mask_storeu)(out + m, TYPED(first)(nbetween), V(maskz_compress)(is_between, v));
        nabove += NAME(count_bits)(is_above);
        m += nbetween;
        *i = n;
    }
    *upto_low += n - start - nabove; /* there is no NaN */
    return m;
}

static size_t TYPED(drop_nan_vectors)(const PIXEL *in, size_t n, PIXEL *out, size_t *i)
{
    size_t m = 0;

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        VECTOR v = TYPED(load)(in + *i);
        m += TYPED(store_marked)(out + m, v, COMPARE(v, v, _CMP_ORD_Q));
    }
    return m;
}

/* Two vectors at a time, because each waits for its last count.  What is behind n is not read. */
static void TYPED(pick_vectors)(const PIXEL *few, size_t n, size_t k1, size_t k2, PIXEL *v1,
                                PIXEL *v2)
{
    const __m512i one = IV_SET1(1), last1 = IV_SET1(k1), last2 = IV_SET1(k2);
    const VECTOR infinity = V(set1)((PIXEL)INFINITY);
    VECTOR first = V(setzero)(), second = V(setzero)();

    for (size_t i = 0; i < n; i += 2 * NOISE_VECTOR) {
        size_t behind = n - i > NOISE_VECTOR ? n - i - NOISE_VECTOR : 0;
        VECTOR a = V(mask_loadu)(infinity, TYPED(first)(n - i), few + i);
        VECTOR b = V(mask_loadu)(infinity, TYPED(first)(behind), few + i + NOISE_VECTOR);
        __m512i a_ranks = _mm512_setzero_si512(), b_ranks = _mm512_setzero_si512();
        for (size_t j = 0; j < n; j++) {
            VECTOR other = V(set1)(few[j]);
            a_ranks = IV(mask_add)(a_ranks, COMPARE(other, a, _CMP_LT_OQ), a_ranks, one);
            b_ranks = IV(mask_add)(b_ranks, COMPARE(other, b, _CMP_LT_OQ), b_ranks, one);
        }
        first = V(mask_max)(first, RANK_UPTO(a_ranks, last1), first, a);
        first = V(mask_max)(first, RANK_UPTO(b_ranks, last1), first, b);
        second = V(mask_max)(second, RANK_UPTO(a_ranks, last2), second, a);
        second = V(mask_max)(second, RANK_UPTO(b_ranks, last2), second, b);
    }
    *v1 = V(reduce_max)(first);
    *v2 = V(reduce_max)(second);
}

/* Bits that tell where a >= b. */
static inline uint64_t TYPED(mask_vector)(VECTOR a, VECTOR b)
{
    return COMPARE(a, b, _CMP_GE_OQ);
}

static bool TYPED(difference_vectors)(const PIXEL *x, size_t n, PIXEL *d2, PIXEL *d3, PIXEL *d5,
                                      size_t *i)
{
    unsigned has_equal = 0;

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        const PIXEL *p = x + *i;
        VECTOR e = TYPED(load)(p + 4);
        TYPED(store_differences)(p, d2 + *i, d3 + *i, d5 + *i);
        has_equal |= COMPARE(e, TYPED(load)(p + 5), _CMP_EQ_OQ);
        *i -= *i == 0 ? TYPED(misplaced)(d2) : 0;
    }
    return has_equal != 0;
}

static void TYPED(drop_flat_vectors)(const PIXEL *x, size_t n, PIXEL *d2, PIXEL *d3, PIXEL *d5,
                                     size_t *n2, size_t *n3, size_t *i)
{
    size_t m2 = 0, m3 = 0;

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        const PIXEL *p = x + *i;
        VECTOR c = TYPED(load)(p + 2), d = TYPED(load)(p + 3), e = TYPED(load)(p + 4);
        VECTOR f = TYPED(load)(p + 5), g = TYPED(load)(p + 6);
        unsigned sloped2 = COMPARE(e, f, _CMP_NEQ_UQ) | COMPARE(f, g, _CMP_NEQ_UQ);
        unsigned sloped3 = sloped2 | COMPARE(c, d, _CMP_NEQ_UQ) | COMPARE(d, e, _CMP_NEQ_UQ);
        m2 += TYPED(store_marked)(d2 + m2, TYPED(load)(d2 + *i), sloped2);
        (void)TYPED(store_marked)(d5 + m3, TYPED(load)(d5 + *i), sloped3);
        m3 += TYPED(store_marked)(d3 + m3, TYPED(load)(d3 + *i), sloped3);
    }
    *n2 = m2;
    *n3 = m3;
}
