/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the loops of noise_avx2.h and noise_avx512.h have in common, whatever a comparison gives.
 * Included before them, with their macros VECTOR and V().
 */

static inline VECTOR TYPED(load)(const PIXEL *p)
{
    return V(loadu)(p);
}

/* Absolute differences of a vector of pixels, see find_differences() of noise_template.h. */
static inline void TYPED(store_differences)(const PIXEL *p, PIXEL *d2, PIXEL *d3, PIXEL *d5)
{
    const VECTOR two = V(set1)(2), four = V(set1)(4), six = V(set1)(6), sign = V(set1)((PIXEL)-0.0);
    const VECTOR infinity = V(set1)((PIXEL)INFINITY);
    VECTOR c = TYPED(load)(p + 2), e = TYPED(load)(p + 4), g = TYPED(load)(p + 6);
    VECTOR third = V(sub)(V(sub)(V(mul)(two, e), c), g);
    VECTOR fifth = V(sub)(V(sub)(V(mul)(six, e), V(mul)(four, c)), V(mul)(four, g));
    fifth = V(andnot)(sign, V(add)(V(add)(fifth, TYPED(load)(p)), TYPED(load)(p + 8)));
    V(storeu)(d2, V(andnot)(sign, V(sub)(e, g)));
    V(storeu)(d3, V(andnot)(sign, third));
    V(storeu)(d5, V(min)(fifth, infinity)); /* the second one if the first is NaN */
}
