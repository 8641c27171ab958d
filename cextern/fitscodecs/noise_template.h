/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The noise of a tile of one pixel type.  Included by noise_kernels.h once for each type, with
 *
 *   PIXEL       float or double; all arithmetic on pixels is done in this type
 *   TYPED(name) the name of a function for this type and instruction set
 *   LARGEST     largest finite number
 *   ABSOLUTE    function for the absolute value
 *   COUNTER     unsigned integer of the size of PIXEL: loops that count with it become vector code
 *
 * and for AVX2 and AVX-512 what noise_avx2.h or noise_avx512.h needs.
 */
#if WITH_AVX2
#include "noise_vectors.h"
#endif
#if WITH_AVX512
#include "noise_avx512.h"
#elif WITH_AVX2
#include "noise_avx2.h"
#endif

/*
 * Count and range of the pixels that are not NaN.  A comparison with NaN is false, which leaves it
 * out.
 */
static void TYPED(survey)(const void *in, size_t n, struct fitscodecs_noise *noise)
{
    const PIXEL *pixels = in;
    PIXEL low = LARGEST, high = -LARGEST;
    size_t ngood = 0, i = 0;

#if WITH_AVX2
    ngood = TYPED(survey_vectors)(pixels, n, &low, &high, &i);
#endif
    for (; i < n; i++) {
        PIXEL v = pixels[i];
        low = v < low ? v : low;
        high = v > high ? v : high;
        ngood += v == v;
    }
    /* Zeros without a sign, which would depend on the order of comparisons. */
    *noise = (struct fitscodecs_noise){.ngood = ngood, .minimum = low + 0, .maximum = high + 0};
}

/* ------------------------------------------------------------------ medians in any order */

/* How many values are smaller than 'low', and how many not larger than 'low' and than 'high'. */
struct TYPED(counts) {
    size_t below_low, upto_low, upto_high;
};

static struct TYPED(counts) TYPED(count)(const PIXEL *a, size_t n, PIXEL low, PIXEL high)
{
    struct TYPED(counts) counts = {0};

    while (n > 0) {
        size_t nblock = n < NOISE_COUNT_BLOCK ? n : NOISE_COUNT_BLOCK;
        COUNTER below_low = 0, upto_low = 0, upto_high = 0;
        for (size_t i = 0; i < nblock; i++) {
            below_low += a[i] < low;
            upto_low += a[i] <= low;
            upto_high += a[i] <= high;
        }
        counts.below_low += below_low;
        counts.upto_low += upto_low;
        counts.upto_high += upto_high;
        a += nblock;
        n -= nblock;
    }
    return counts;
}

/* Copy the values between 'low' and 'high', and return how many; '*upto_low' tells how many are not
 * larger than 'low'.  'out' may be 'in'.  There is no branch, since which values stay cannot be
 * predicted: that makes this quicker than swapping them. */
static size_t TYPED(copy_between)(const PIXEL *in, size_t n, PIXEL low, PIXEL high, PIXEL *out,
                                  size_t *upto_low)
{
    size_t i = 0, m = 0, nlow = 0;

#if WITH_AVX2
    m = TYPED(copy_between_vectors)(in, n, low, high, out, &nlow, &i);
#endif
    for (; i < n; i++) {
        PIXEL v = in[i];
        out[m] = v; /* overwritten by the next one if it does not stay */
        nlow += v <= low;
        m += (v > low) & (v < high);
    }
    *upto_low = nlow;
    return m;
}

/* Copy the values that are not NaN, and return their number.  'out' may be 'in'. */
static size_t TYPED(drop_nan)(const PIXEL *in, size_t n, PIXEL *out)
{
    size_t i = 0;
    size_t m = 0;

#if WITH_AVX2
    m = TYPED(drop_nan_vectors)(in, n, out, &i);
#endif
    for (; i < n; i++) {
        PIXEL v = in[i];
        out[m] = v; /* overwritten by the next one if it is a NaN */
        m += v == v;
    }
    return m;
}

/*
 * The values that sorting would bring to indexes k1 and k2 of 1 <= n <= NOISE_FEW values.  The
 * array has NOISE_FEW, those behind n are infinite.
 *
 * A value up to the one wanted has at most k smaller ones, a larger one has more: the largest that
 * has at most k is wanted.  The ranks of NOISE_LANES values are counted at a time.
 */
static void TYPED(pick)(const PIXEL *few, size_t n, size_t k1, size_t k2, PIXEL *v1, PIXEL *v2)
{
#if WITH_AVX2
    TYPED(pick_vectors)(few, n, k1, k2, v1, v2);
#else
    PIXEL first = -1, second = -1;

    for (size_t i = 0; i < n; i += NOISE_LANES) {
        COUNTER nbelow[NOISE_LANES] = {0};
        for (size_t j = 0; j < n; j++) {
            for (size_t lane = 0; lane < NOISE_LANES; lane++) {
                nbelow[lane] += few[j] < few[i + lane];
            }
        }
        for (size_t lane = 0; lane < NOISE_LANES; lane++) {
            PIXEL v = few[i + lane];
            first = ((nbelow[lane] <= k1) & (v > first)) ? v : first;
            second = ((nbelow[lane] <= k2) & (v > second)) ? v : second;
        }
    }
    *v1 = first;
    *v2 = second;
#endif
}

/* Two of the values that most likely enclose the one of index k closely, from samples at places
 * that no pattern of an image is likely to be in step with. */
static void TYPED(enclose)(const PIXEL *a, size_t n, size_t k, PIXEL *low, PIXEL *high)
{
    uint64_t reach = n < UINT32_MAX ? n : UINT32_MAX;
    size_t rank = (size_t)((double)k / (double)n * NOISE_NSAMPLES);
    size_t last = NOISE_NSAMPLES - 1;
    PIXEL samples[NOISE_FEW];

    for (size_t i = 0; i < NOISE_NSAMPLES; i++) {
        samples[i] = a[(uint32_t)((i + 1) * NOISE_STRIDE) * reach >> 32];
    }
    TYPED(pick)(samples, NOISE_NSAMPLES, rank > NOISE_MARGIN ? rank - NOISE_MARGIN : 0,
                rank + NOISE_MARGIN < last ? rank + NOISE_MARGIN : last, low, high);
}

/* The same for index k of n values that are between two, from where it is if they are spread
 * evenly: rarely wrong, and quicker than samples. */
static void TYPED(narrow)(size_t n, size_t k, PIXEL *low, PIXEL *high)
{
    float part = ((float)k + 0.5f) / (float)n;
    float margin = NOISE_SPREAD / sqrtf((float)n) + NOISE_BEND;
    PIXEL width = *high - *low, start = *low;

    if (part > margin) {
        *low = start + width * (part - margin);
    }
    if (part + margin < 1) {
        *high = start + width * (part + margin);
    }
}

static PIXEL TYPED(select_few)(const PIXEL *a, size_t n, size_t k)
{
    PIXEL value, same;

#if WITH_AVX512
    TYPED(pick_vectors)(a, n, k, k, &value, &same);
#else
    PIXEL few[NOISE_FEW];

    for (size_t i = 0; i < NOISE_FEW; i++) {
        few[i] = (PIXEL)INFINITY;
    }
    memcpy(few, a, n * sizeof(PIXEL));
    TYPED(pick)(few, n, k, k, &value, &same);
#endif
    return value;
}

/*
 * The value that sorting would bring to index k of n > k values, none of them negative or NaN.
 * The values are lost; 'spare' has room for n.
 *
 * A guess (if not 0) or samples give two values that most likely enclose the one wanted closely.
 * Those between them are taken out, and the next two are places between these or, unless that at
 * least halved their number, samples.  If the one wanted is not there, counting tells whether it
 * is before, behind or one of the two.  That at least drops the two if they are from samples, which
 * they are the next time, so it comes to an end.
 */
static PIXEL TYPED(select)(PIXEL *a, size_t n, size_t k, PIXEL guess, PIXEL *spare)
{
    PIXEL width = guess * (NOISE_WIDTH / sqrtf((float)n));
    PIXEL low = guess - width, high = guess + width;

    while (n > NOISE_FEW) {
        size_t upto_low, nbetween;
        if (!(low < high)) { /* or one is NaN, of an infinite guess */
            TYPED(enclose)(a, n, k, &low, &high);
        }
        nbetween = TYPED(copy_between)(a, n, low, high, spare, &upto_low);
        if (k >= upto_low && k - upto_low < nbetween) {
            PIXEL *t = a;
            a = spare;
            spare = t;
            k -= upto_low;
            if (nbetween <= n / 2) { /* else they may be all the same */
                n = nbetween;
                TYPED(narrow)(n, k, &low, &high);
                continue;
            }
            n = nbetween;
        } else {
            struct TYPED(counts) counts = TYPED(count)(a, n, low, high);
            if (k < counts.below_low) {
                n = TYPED(copy_between)(a, n, -1, low, a, &upto_low);
            } else if (k < counts.upto_low) {
                return low;
            } else if (k < counts.upto_high) {
                return high;
            } else {
                n = TYPED(copy_between)(a, n, high, (PIXEL)INFINITY, a, &upto_low);
                k -= counts.upto_high;
                if (k >= n) {
                    return (PIXEL)INFINITY;
                }
            }
        }
        low = high;
    }
    return TYPED(select_few)(a, n, k);
}

/* ------------------------------------------------------------- medians that keep an order */

static inline void TYPED(swap)(PIXEL *a, size_t i, size_t j)
{
    PIXEL t = a[i];
    a[i] = a[j];
    a[j] = t;
}

static inline void TYPED(order)(PIXEL *a, size_t i, size_t j)
{
    if (a[i] > a[j]) {
        TYPED(swap)(a, i, j);
    }
}

/* Bit i < n <= 64 tells whether a[i] >= pivot, or a[i] <= pivot. */
static uint64_t TYPED(mask_from)(const PIXEL *a, size_t n, PIXEL pivot)
{
    uint64_t mask = 0;
    size_t i = 0;

#if WITH_AVX2
    for (; i + NOISE_VECTOR <= n; i += NOISE_VECTOR) {
        mask |= TYPED(mask_vector)(TYPED(load)(a + i), V(set1)(pivot)) << i;
    }
#endif
    for (; i < n; i++) {
        mask |= (uint64_t)(a[i] >= pivot) << i;
    }
    return mask;
}

static uint64_t TYPED(mask_upto)(const PIXEL *a, size_t n, PIXEL pivot)
{
    uint64_t mask = 0;
    size_t i = 0;

#if WITH_AVX2
    for (; i + NOISE_VECTOR <= n; i += NOISE_VECTOR) {
        mask |= TYPED(mask_vector)(V(set1)(pivot), TYPED(load)(a + i)) << i;
    }
#endif
    for (; i < n; i++) {
        mask |= (uint64_t)(a[i] <= pivot) << i;
    }
    return mask;
}

/* Swap the values that bits of two masks stand for, the first of a block with the last of another
 * one behind it and so on, until one has no more. */
static void TYPED(swap_marked)(PIXEL *a, uint64_t *large, PIXEL *b, uint64_t *small)
{
    while (*large != 0 && *small != 0) {
        unsigned first = NOISE_FIRST(*large);
        unsigned last = NOISE_LAST(*small);
        PIXEL t = a[first];
        a[first] = b[last];
        b[last] = t;
        *large ^= (uint64_t)1 << first;
        *small ^= (uint64_t)1 << last;
    }
}

/* The same in one block of n <= 64 values, where the scans meet: returns where the one downwards
 * stops, with *up where the one upwards does.  Each stops at the latest at what the other has
 * swapped, or beyond the end of the block. */
static size_t TYPED(split_block)(PIXEL *a, size_t n, PIXEL pivot, size_t start, size_t *up)
{
    uint64_t large = TYPED(mask_from)(a + start, n, pivot);
    uint64_t small = TYPED(mask_upto)(a + start, n, pivot);

    while (large != 0 && small != 0) {
        unsigned first = NOISE_FIRST(large);
        unsigned last = NOISE_LAST(small);
        if (first > last) {
            break;
        }
        TYPED(swap)(a, start + first, start + last);
        large = (large | (uint64_t)1 << last) & ~((uint64_t)1 << first);
        small = (small | (uint64_t)1 << first) & ~((uint64_t)1 << last);
    }
    *up = start + (large != 0 ? NOISE_FIRST(large) : n);
    return small != 0 ? start + NOISE_LAST(small) : start - 1;
}

/*
 * Split a[lo .. hi], at least three values, around a pivot and return the pivot's index: nothing
 * before it is larger, nothing behind it smaller.
 *
 * The pivot is the median of the first, middle and last value.  After they are put in place
 * a[lo + 1] <= a[lo] = pivot <= a[hi].  What is between, a[start .. end - 1], is scanned upwards
 * for values from the pivot on and downwards for values up to it, which are swapped until the
 * scans have met.  A scan never comes to a value again, so what it stops at can be found for many
 * at once, without branches, that nobody can predict.
 */
static size_t TYPED(split)(PIXEL *a, size_t lo, size_t hi, size_t *up)
{
    size_t mid = lo + (hi - lo) / 2;
    size_t start = lo + 2, end = hi, down;
    uint64_t large = 0, small = 0; /* of the first and last block, what is not swapped yet */
    PIXEL pivot;

    TYPED(order)(a, mid, hi);
    TYPED(order)(a, lo, hi);
    TYPED(order)(a, mid, lo);
    TYPED(swap)(a, mid, lo + 1);
    pivot = a[lo];
    while (end - start >= 2 * NOISE_BLOCK) {
        large = large != 0 ? large : TYPED(mask_from)(a + start, NOISE_BLOCK, pivot);
        small = small != 0 ? small : TYPED(mask_upto)(a + end - NOISE_BLOCK, NOISE_BLOCK, pivot);
        TYPED(swap_marked)(a + start, &large, a + end - NOISE_BLOCK, &small);
        start += large == 0 ? NOISE_BLOCK : 0;
        end -= small == 0 ? NOISE_BLOCK : 0;
    }
    start += large != 0 ? NOISE_FIRST(large) : 0;
    end -= small != 0 ? NOISE_BLOCK - 1 - NOISE_LAST(small) : 0;
    down = TYPED(split_block)(a, end - start, pivot, start, up);
    TYPED(swap)(a, lo, down);
    return down;
}

/*
 * The value that sorting would bring to index k of n > k values, none of them negative or NaN.
 *
 * The order in which the others are left from index 'fixed' on is part of the rule: the medians of
 * second differences may see what an earlier row left behind (see replay_seconds).
 */
static PIXEL TYPED(select_in_order)(PIXEL *a, size_t n, size_t k, size_t fixed, PIXEL *spare)
{
    size_t lo = 0;
    size_t hi = n - 1;

    while (hi > lo + 1) {
        size_t up, pivot;
        if (hi < fixed) { /* k < lo if the value is the pivot of the last split */
            return k < lo ? a[k] : TYPED(select)(a + lo, hi - lo + 1, k - lo, 0, spare);
        }
        pivot = TYPED(split)(a, lo, hi, &up);
        if (pivot <= k) {
            lo = up;
        }
        if (pivot >= k) {
            hi = pivot - 1;
        }
    }
    if (hi == lo + 1) {
        TYPED(order)(a, lo, hi);
    }
    return a[k];
}

/* --------------------------------------------------------------------------- differences */

/*
 * Absolute differences of order 2, 3 and 5 around x[i + 4], for 0 <= i < n; x has n + 8 values.
 * Returns whether two neighbours are equal, without which there is no flat place.
 *
 * Differences of finite pixels may overflow to infinity.  Only in the fifth difference may two
 * infinities meet and give NaN (6e - 4c; in the others an infinity meets finite numbers only).
 * It counts as infinite, as a difference too large for the type.
 */
static bool TYPED(find_differences)(const PIXEL *restrict x, size_t n, PIXEL *restrict d2,
                                    PIXEL *restrict d3, PIXEL *restrict d5)
{
    COUNTER has_equal = 0;
    size_t i = 0;

#if WITH_AVX2
    has_equal = TYPED(difference_vectors)(x, n, d2, d3, d5, &i);
#endif
    for (; i < n; i++) {
        PIXEL a = x[i], c = x[i + 2], e = x[i + 4], f = x[i + 5], g = x[i + 6], h = x[i + 8];
        PIXEL fifth = ABSOLUTE(6 * e - 4 * c - 4 * g + a + h);
        d2[i] = ABSOLUTE(e - g);
        d3[i] = ABSOLUTE(2 * e - c - g);
        d5[i] = fifth == fifth ? fifth : (PIXEL)INFINITY;
        has_equal |= e == f;
    }
    return has_equal != 0;
}

/* Drop the differences of flat places, which say nothing about the noise: second differences
 * where x[i + 4 .. i + 6] are equal, the others where x[i + 2 .. i + 6] are. */
static void TYPED(drop_flat)(const PIXEL *x, size_t n, PIXEL *d2, PIXEL *d3, PIXEL *d5, size_t *n2,
                             size_t *n3)
{
    size_t i = 0, m2 = 0, m3 = 0;

#if WITH_AVX2
    TYPED(drop_flat_vectors)(x, n, d2, d3, d5, &m2, &m3, &i);
#endif
    for (; i < n; i++) {
        PIXEL c = x[i + 2], d = x[i + 3], e = x[i + 4], f = x[i + 5], g = x[i + 6];
        bool flat2 = (e == f) & (f == g);
        bool flat3 = flat2 & (c == d) & (d == e);
        d2[m2] = d2[i];
        d3[m3] = d3[i];
        d5[m3] = d5[i];
        m2 += !flat2;
        m3 += !flat3;
    }
    *n2 = m2;
    *n3 = m3;
}

/* The rows of values that 'work' is made of. */
struct TYPED(work) {
    PIXEL *d2, *d3, *d5, *buffer, *good;
};

static struct TYPED(work) TYPED(share_out)(void *work, size_t nx)
{
    PIXEL *rows = work;
    return (struct TYPED(work)){rows, rows + nx, rows + 2 * nx, rows + 3 * nx, rows + 4 * nx};
}

/* The differences of a row of nx pixels: *n2 of second order and *n3 of third and fifth order,
 * n2 <= n3. */
static void TYPED(find_row)(const PIXEL *row, size_t nx, bool has_nan,
                            const struct TYPED(work) * work, size_t *n2, size_t *n3)
{
    size_t n = nx;

    if (has_nan) {
        n = TYPED(drop_nan)(row, nx, work->good);
        row = work->good;
    }
    n = n < NOISE_MIN_GOOD ? 0 : n - (NOISE_MIN_GOOD - 1);
    *n2 = n;
    *n3 = n;
    if (TYPED(find_differences)(row, n, work->d2, work->d3, work->d5)) {
        TYPED(drop_flat)(row, n, work->d2, work->d3, work->d5, n2, n3);
    }
}

/* ------------------------------------------------------------------------ medians of rows */

/*
 * The software that set the custom takes the median of n2 second differences over n3 values, even
 * if n2 is less: the rest of its buffer is what the rows before left there in their order, at
 * first zeros.  A row with n2 <= 1, n2 < n3 counts as having no median.
 *
 * Few tiles have such a row other than the first one.  For those the second differences are gone
 * through once more from the first row on, in a buffer that lives for the whole tile.  'fixed' is
 * the smallest n2 of such a row: what is before that index is always overwritten before it is seen.
 */
static bool TYPED(has_second)(size_t n2, size_t n3)
{
    return n3 > 0 && (n2 > 1 || n2 == n3);
}

static void TYPED(replay_seconds)(const PIXEL *pixels, size_t nx, size_t ny, bool has_nan,
                                  size_t fixed, const struct TYPED(work) * work,
                                  struct fitscodecs_noise_medians *medians)
{
    medians->nsecond = 0;
    memset(work->buffer, 0, nx * sizeof(PIXEL));
    for (size_t y = 0; y < ny; y++) {
        size_t n2, n3;
        TYPED(find_row)(pixels + y * nx, nx, has_nan, work, &n2, &n3);
        memcpy(work->buffer, work->d2, n2 * sizeof(PIXEL));
        if (TYPED(has_second)(n2, n3)) {
            medians->second[medians->nsecond++] =
                TYPED(select_in_order)(work->buffer, n3, (n3 - 1) / 2, fixed, work->d3);
        }
    }
}

/* The lower median of one row's differences.  Those of a tile's rows are much alike. */
static PIXEL TYPED(find_median)(PIXEL *differences, size_t n, PIXEL *guess, PIXEL *spare)
{
    PIXEL median = TYPED(select)(differences, n, (n - 1) / 2, *guess, spare);

    *guess = *guess > 0 ? *guess + (median - *guess) / 8 : median;
    return median;
}

/* The row medians of a tile.  'space' is NOISE_WORK_ROWS rows of nx values. */
static void TYPED(find_medians)(const void *in, size_t nx, size_t ny, bool has_nan, void *space,
                                struct fitscodecs_noise_medians *medians)
{
    const PIXEL *pixels = in;
    const struct TYPED(work) work = TYPED(share_out)(space, nx);
    PIXEL guess2 = 0, guess3 = 0, guess5 = 0;
    size_t fixed = SIZE_MAX;

    medians->nsecond = 0;
    medians->nthird = 0;
    for (size_t y = 0; y < ny; y++) {
        size_t n2, n3, i = medians->nthird;
        TYPED(find_row)(pixels + y * nx, nx, has_nan, &work, &n2, &n3);
        if (n3 == 0) {
            continue;
        }
        if (n2 < n3 && i > 0) {
            fixed = n2 < fixed ? n2 : fixed;
        }
        if (fixed == SIZE_MAX && TYPED(has_second)(n2, n3)) {
            memset(work.d2 + n2, 0, (n3 - n2) * sizeof(PIXEL));
            medians->second[medians->nsecond++] =
                TYPED(find_median)(work.d2, n3, &guess2, work.buffer);
        }
        medians->third[i] = TYPED(find_median)(work.d3, n3, &guess3, work.buffer);
        medians->fifth[i] = TYPED(find_median)(work.d5, n3, &guess5, work.buffer);
        medians->nthird++;
    }
    if (fixed != SIZE_MAX) {
        TYPED(replay_seconds)(pixels, nx, ny, has_nan, fixed, &work, medians);
    }
}

#undef PIXEL
#undef TYPED
#undef LARGEST
#undef ABSOLUTE
#undef COUNTER
#if WITH_AVX512
#undef MASK
#undef COMPARE
#undef COMPARE_IF
#undef RANK_UPTO
#endif
#if WITH_AVX2
#undef VECTOR
#undef NOISE_VECTOR
#undef V
#undef IV
#undef IV_SET1
#undef AS_F32
#undef AS_INT
#undef FROM_INT
#endif
