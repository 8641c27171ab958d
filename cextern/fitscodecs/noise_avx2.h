/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of noise_template.h that compilers do not turn into good vector code, for AVX2.  Each
 * does as many whole vectors as there are, starting at *i, and leaves the rest to the plain loop.
 *
 * Included once for each type, with the macros of noise_template.h and
 *
 *   VECTOR    of PIXELs, NOISE_WIDTH of them
 *   V(name)   the intrinsic for it, like V(add)
 *   IV(name)  the intrinsic for integers of the size of PIXEL
 *   AS_F32    VECTOR as __m256
 *   AS_INT    VECTOR as __m256i
 */
#define NOISE_WIDTH (sizeof(VECTOR) / sizeof(PIXEL))
#define COMPARE(a, b, condition) V(cmp)(a, b, condition)

static inline VECTOR TYPED(load)(const PIXEL *p)
{
    return V(loadu)(p);
}

/* Store the values that the mask marks, one behind the other, and return their number.  A whole
 * vector is written. */
static inline size_t TYPED(store_marked)(PIXEL *out, VECTOR values, VECTOR mask)
{
    unsigned bits = (unsigned)_mm256_movemask_ps(AS_F32(mask));
    __m128i places = _mm_loadl_epi64((const __m128i *)(const void *)&noise_places[bits]);
    __m256 packed = _mm256_permutevar8x32_ps(AS_F32(values), _mm256_cvtepu8_epi32(places));

    _mm256_storeu_ps((float *)(void *)out, packed);
    return (unsigned)_mm_popcnt_u32(bits) / (sizeof(PIXEL) / sizeof(float));
}

static size_t TYPED(keep_vectors)(PIXEL *a, size_t n, PIXEL low, PIXEL high, size_t *i)
{
    VECTOR vlow = V(set1)(low), vhigh = V(set1)(high);
    size_t m = 0;

    for (; *i + NOISE_WIDTH <= n; *i += NOISE_WIDTH) {
        VECTOR v = TYPED(load)(a + *i);
        VECTOR mask = V (and)(COMPARE(v, vlow, _CMP_GT_OQ), COMPARE(v, vhigh, _CMP_LT_OQ));
        m += TYPED(store_marked)(a + m, v, mask);
    }
    return m;
}

static size_t TYPED(drop_nan_vectors)(const PIXEL *in, size_t n, PIXEL *out, size_t *i)
{
    size_t m = 0;

    for (; *i + NOISE_WIDTH <= n; *i += NOISE_WIDTH) {
        VECTOR v = TYPED(load)(in + *i);
        m += TYPED(store_marked)(out + m, v, COMPARE(v, v, _CMP_ORD_Q));
    }
    return m;
}

/* The largest value whose rank is at most k, in each lane. */
static inline VECTOR TYPED(take_ranked)(VECTOR found, VECTOR values, __m256i ranks, size_t k)
{
    __m256i too_large = IV(cmpgt)(ranks, IV_SET1((COUNTER)k));
    return V(max)(found, V(andnot)(FROM_INT(too_large), values));
}

static inline PIXEL TYPED(largest)(VECTOR v)
{
    PIXEL lanes[NOISE_WIDTH], found;

    V(storeu)(lanes, v);
    found = lanes[0];
    for (size_t i = 1; i < NOISE_WIDTH; i++) {
        found = lanes[i] > found ? lanes[i] : found;
    }
    return found;
}

/* Two vectors at a time, because each waits for its last count. */
static void TYPED(pick_vectors)(const PIXEL *few, size_t n, size_t k1, size_t k2, PIXEL *v1,
                                PIXEL *v2)
{
    VECTOR first = V(setzero)(), second = V(setzero)();

    for (size_t i = 0; i < n; i += 2 * NOISE_WIDTH) {
        VECTOR a = TYPED(load)(few + i), b = TYPED(load)(few + i + NOISE_WIDTH);
        __m256i a_ranks = _mm256_setzero_si256(), b_ranks = _mm256_setzero_si256();
        for (size_t j = 0; j < n; j++) {
            VECTOR other = V(set1)(few[j]);
            a_ranks = IV(sub)(a_ranks, AS_INT(COMPARE(other, a, _CMP_LT_OQ)));
            b_ranks = IV(sub)(b_ranks, AS_INT(COMPARE(other, b, _CMP_LT_OQ)));
        }
        first = TYPED(take_ranked)(TYPED(take_ranked)(first, a, a_ranks, k1), b, b_ranks, k1);
        second = TYPED(take_ranked)(TYPED(take_ranked)(second, a, a_ranks, k2), b, b_ranks, k2);
    }
    *v1 = TYPED(largest)(first);
    *v2 = TYPED(largest)(second);
}

static inline unsigned TYPED(mask_bits)(VECTOR mask)
{
    return (unsigned)V(movemask)(mask);
}

static COUNTER TYPED(difference_vectors)(const PIXEL *x, size_t n, PIXEL *d2, PIXEL *d3, PIXEL *d5,
                                         size_t *i)
{
    const VECTOR two = V(set1)(2), four = V(set1)(4), six = V(set1)(6), sign = V(set1)((PIXEL)-0.0);
    const VECTOR infinity = V(set1)((PIXEL)INFINITY);
    VECTOR has_flat = V(setzero)();

    for (; *i + NOISE_WIDTH <= n; *i += NOISE_WIDTH) {
        const PIXEL *p = x + *i;
        VECTOR c = TYPED(load)(p + 2), d = TYPED(load)(p + 3), e = TYPED(load)(p + 4);
        VECTOR f = TYPED(load)(p + 5), g = TYPED(load)(p + 6);
        VECTOR flat2 = V (and)(COMPARE(e, f, _CMP_EQ_OQ), COMPARE(f, g, _CMP_EQ_OQ));
        VECTOR flat3 =
            V (and)(flat2, V (and)(COMPARE(c, d, _CMP_EQ_OQ), COMPARE(d, e, _CMP_EQ_OQ)));
        VECTOR second = V(sub)(e, g);
        VECTOR third = V(sub)(V(sub)(V(mul)(two, e), c), g);
        VECTOR fifth = V(sub)(V(sub)(V(mul)(six, e), V(mul)(four, c)), V(mul)(four, g));
        fifth = V(add)(V(add)(fifth, TYPED(load)(p)), TYPED(load)(p + 8));
        fifth = V(blendv)(fifth, infinity, COMPARE(fifth, fifth, _CMP_UNORD_Q));
        /* All bits set are a NaN. */
        V(storeu)(d2 + *i, V(or)(V(andnot)(sign, second), flat2));
        V(storeu)(d3 + *i, V(or)(V(andnot)(sign, third), flat3));
        V(storeu)(d5 + *i, V(or)(V(andnot)(sign, fifth), flat3));
        has_flat = V(or)(has_flat, flat2);
    }
    return V(movemask)(has_flat) != 0;
}

#undef NOISE_WIDTH
#undef COMPARE
