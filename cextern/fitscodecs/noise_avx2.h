/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of noise_template.h that compilers do not turn into good vector code, for AVX2.  Each
 * does as many whole vectors as there are, starting at *i, and leaves the rest to the plain loop.
 *
 * Included once for each type, with the macros of noise_template.h and
 *
 *   VECTOR    NOISE_VECTOR values of type PIXEL
 *   V(name)   the intrinsic for it, like V(add)
 *   IV(name)  the intrinsic for integers of the size of PIXEL, and IV_SET1() for their set1
 *   AS_F32    VECTOR as __m256
 *   AS_INT    VECTOR as __m256i
 *   FROM_INT  and back
 */

/* Store the values that the mask marks, one behind the other, and return their number.  A whole
 * vector is written. */
static inline size_t TYPED(store_marked)(PIXEL *out, VECTOR values, VECTOR mask)
{
    unsigned bits = (unsigned)_mm256_movemask_ps(AS_F32(mask));
    __m128i places = _mm_loadl_epi64((const __m128i *)(const void *)&NAME(places)[bits]);
    __m256 packed = _mm256_permutevar8x32_ps(AS_F32(values), _mm256_cvtepu8_epi32(places));

    _mm256_storeu_ps((float *)(void *)out, packed);
    return (unsigned)_mm_popcnt_u32(bits) / (sizeof(PIXEL) / sizeof(float));
}

static inline PIXEL TYPED(largest)(VECTOR v)
{
    PIXEL lanes[NOISE_VECTOR], found;

    V(storeu)(lanes, v);
    found = lanes[0];
    for (size_t i = 1; i < NOISE_VECTOR; i++) {
        found = lanes[i] > found ? lanes[i] : found;
    }
    return found;
}

/* The sum of counters. */
static inline size_t TYPED(add_lanes)(__m256i counts)
{
    COUNTER lanes[NOISE_VECTOR];
    size_t sum = 0;

    _mm256_storeu_si256((__m256i *)(void *)lanes, counts);
    for (size_t i = 0; i < NOISE_VECTOR; i++) {
        sum += lanes[i];
    }
    return sum;
}

/* Returns the number of good pixels. */
static size_t TYPED(survey_vectors)(const PIXEL *pixels, size_t n, PIXEL *low, PIXEL *high,
                                    size_t *i)
{
    VECTOR lows = V(set1)(*low), highs = V(set1)(*high);
    size_t ngood = 0;

    while (n - *i >= NOISE_VECTOR) {
        size_t end = n - *i < NOISE_COUNT_BLOCK ? n : *i + NOISE_COUNT_BLOCK;
        __m256i counts = _mm256_setzero_si256();
        for (; *i + NOISE_VECTOR <= end; *i += NOISE_VECTOR) {
            VECTOR v = TYPED(load)(pixels + *i);
            lows = V(min)(v, lows); /* the second one if the first is NaN */
            highs = V(max)(v, highs);
            counts = IV(sub)(counts, AS_INT(V(cmp)(v, v, _CMP_ORD_Q)));
        }
        ngood += TYPED(add_lanes)(counts);
    }
    *low = -TYPED(largest)(V(sub)(V(setzero)(), lows));
    *high = TYPED(largest)(highs);
    return ngood;
}

static size_t TYPED(copy_between_vectors)(const PIXEL *in, size_t n, PIXEL low, PIXEL high,
                                          PIXEL *out, size_t *upto_low, size_t *i)
{
    VECTOR vlow = V(set1)(low), vhigh = V(set1)(high);
    size_t m = 0;

    while (n - *i >= NOISE_VECTOR) {
        size_t end = n - *i < NOISE_COUNT_BLOCK ? n : *i + NOISE_COUNT_BLOCK;
        __m256i counts = _mm256_setzero_si256();
        for (; *i + NOISE_VECTOR <= end; *i += NOISE_VECTOR) {
            VECTOR v = TYPED(load)(in + *i);
            VECTOR is_low = V(cmp)(v, vlow, _CMP_LE_OQ);
            VECTOR is_between = V(andnot)(is_low, V(cmp)(v, vhigh, _CMP_LT_OQ));
            counts = IV(sub)(counts, AS_INT(is_low));
            m += TYPED(store_marked)(out + m, v, is_between);
        }
        *upto_low += TYPED(add_lanes)(counts);
    }
    return m;
}

static size_t TYPED(drop_nan_vectors)(const PIXEL *in, size_t n, PIXEL *out, size_t *i)
{
    size_t m = 0;

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        VECTOR v = TYPED(load)(in + *i);
        m += TYPED(store_marked)(out + m, v, V(cmp)(v, v, _CMP_ORD_Q));
    }
    return m;
}

/* The largest value whose rank is at most k, in each lane. */
static inline VECTOR TYPED(take_ranked)(VECTOR found, VECTOR values, __m256i ranks, size_t k)
{
    __m256i too_large = IV(cmpgt)(ranks, IV_SET1((COUNTER)k));
    return V(max)(found, V(andnot)(FROM_INT(too_large), values));
}

/* Two vectors at a time, because each waits for its last count. */
static void TYPED(pick_vectors)(const PIXEL *few, size_t n, size_t k1, size_t k2, PIXEL *v1,
                                PIXEL *v2)
{
    VECTOR first = V(setzero)(), second = V(setzero)();

    for (size_t i = 0; i < n; i += 2 * NOISE_VECTOR) {
        VECTOR a = TYPED(load)(few + i), b = TYPED(load)(few + i + NOISE_VECTOR);
        __m256i a_ranks = _mm256_setzero_si256(), b_ranks = _mm256_setzero_si256();
        for (size_t j = 0; j < n; j++) {
            VECTOR other = V(set1)(few[j]);
            a_ranks = IV(sub)(a_ranks, AS_INT(V(cmp)(other, a, _CMP_LT_OQ)));
            b_ranks = IV(sub)(b_ranks, AS_INT(V(cmp)(other, b, _CMP_LT_OQ)));
        }
        first = TYPED(take_ranked)(TYPED(take_ranked)(first, a, a_ranks, k1), b, b_ranks, k1);
        second = TYPED(take_ranked)(TYPED(take_ranked)(second, a, a_ranks, k2), b, b_ranks, k2);
    }
    *v1 = TYPED(largest)(first);
    *v2 = TYPED(largest)(second);
}

/* Bits that tell where a >= b. */
static inline uint64_t TYPED(mask_vector)(VECTOR a, VECTOR b)
{
    return (unsigned)V(movemask)(V(cmp)(a, b, _CMP_GE_OQ));
}

static bool TYPED(difference_vectors)(const PIXEL *x, size_t n, PIXEL *d2, PIXEL *d3, PIXEL *d5,
                                      size_t *i)
{
    VECTOR has_equal = V(setzero)();

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        const PIXEL *p = x + *i;
        VECTOR e = TYPED(load)(p + 4);
        TYPED(store_differences)(p, d2 + *i, d3 + *i, d5 + *i);
        has_equal = V(or)(has_equal, V(cmp)(e, TYPED(load)(p + 5), _CMP_EQ_OQ));
    }
    return V(movemask)(has_equal) != 0;
}

static void TYPED(drop_flat_vectors)(const PIXEL *x, size_t n, PIXEL *d2, PIXEL *d3, PIXEL *d5,
                                     size_t *n2, size_t *n3, size_t *i)
{
    size_t m2 = 0, m3 = 0;

    for (; *i + NOISE_VECTOR <= n; *i += NOISE_VECTOR) {
        const PIXEL *p = x + *i;
        VECTOR c = TYPED(load)(p + 2), d = TYPED(load)(p + 3), e = TYPED(load)(p + 4);
        VECTOR f = TYPED(load)(p + 5), g = TYPED(load)(p + 6);
        VECTOR sloped2 = V(or)(V(cmp)(e, f, _CMP_NEQ_UQ), V(cmp)(f, g, _CMP_NEQ_UQ));
        VECTOR sloped3 =
            V(or)(sloped2, V(or)(V(cmp)(c, d, _CMP_NEQ_UQ), V(cmp)(d, e, _CMP_NEQ_UQ)));
        m2 += TYPED(store_marked)(d2 + m2, TYPED(load)(d2 + *i), sloped2);
        (void)TYPED(store_marked)(d5 + m3, TYPED(load)(d5 + *i), sloped3);
        m3 += TYPED(store_marked)(d3 + m3, TYPED(load)(d3 + *i), sloped3);
    }
    *n2 = m2;
    *n3 = m3;
}
