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
 * and for AVX2 what noise_avx2.h needs.
 */
#if WITH_AVX2
#include "noise_avx2.h"
#endif

/*
 * Count and range of the pixels that are not NaN.  A comparison with NaN is false, which leaves it
 * out.  NOISE_LANES independent ranges, merged at the end, let the compiler work on several pixels
 * at a time: it must not reorder comparisons of floats by itself.
 */
static void TYPED(survey)(const void *in, size_t n, struct fitscodecs_noise *noise)
{
    const PIXEL *pixels = in;
    PIXEL low[NOISE_LANES], high[NOISE_LANES];
    size_t ngood = 0;
    size_t nblocks = n / NOISE_LANES;

    for (size_t j = 0; j < NOISE_LANES; j++) {
        low[j] = LARGEST;
        high[j] = -LARGEST;
    }
    for (size_t i = 0; i < nblocks * NOISE_LANES; i += NOISE_LANES) {
        for (size_t j = 0; j < NOISE_LANES; j++) {
            PIXEL v = pixels[i + j];
            low[j] = v < low[j] ? v : low[j];
            high[j] = v > high[j] ? v : high[j];
        }
    }
    for (size_t i = nblocks * NOISE_LANES; i < n; i++) {
        PIXEL v = pixels[i];
        low[0] = v < low[0] ? v : low[0];
        high[0] = v > high[0] ? v : high[0];
    }
    for (size_t j = 1; j < NOISE_LANES; j++) {
        low[0] = low[j] < low[0] ? low[j] : low[0];
        high[0] = high[j] > high[0] ? high[j] : high[0];
    }
    for (size_t i = 0; i < n; i++) {
        ngood += pixels[i] == pixels[i];
    }
    *noise = (struct fitscodecs_noise){.ngood = ngood, .minimum = low[0], .maximum = high[0]};
}

/* ------------------------------------------------------------------ medians in any order */

/* How many values are smaller than 'low' and than 'high', and how many not larger than each. */
struct TYPED(counts) {
    size_t below_low, upto_low, below_high, upto_high;
};

static struct TYPED(counts) TYPED(count)(const PIXEL *a, size_t n, PIXEL low, PIXEL high)
{
    struct TYPED(counts) counts = {0};

    while (n > 0) {
        size_t nblock = n < NOISE_COUNT_BLOCK ? n : NOISE_COUNT_BLOCK;
        COUNTER below_low = 0, upto_low = 0, below_high = 0, upto_high = 0;
        for (size_t i = 0; i < nblock; i++) {
            below_low += a[i] < low;
            upto_low += a[i] <= low;
            below_high += a[i] < high;
            upto_high += a[i] <= high;
        }
        counts.below_low += below_low;
        counts.upto_low += upto_low;
        counts.below_high += below_high;
        counts.upto_high += upto_high;
        a += nblock;
        n -= nblock;
    }
    return counts;
}

/* Keep the values between 'low' and 'high', and return how many.  There is no branch, since which
 * values stay cannot be predicted: that makes this quicker than swapping them. */
static size_t TYPED(keep)(PIXEL *a, size_t n, PIXEL low, PIXEL high)
{
    size_t i = 0;
    size_t m = 0;

#if WITH_AVX2
    m = TYPED(keep_vectors)(a, n, low, high, &i);
#endif
    for (; i < n; i++) {
        PIXEL v = a[i];
        a[m] = v; /* overwritten by the next one if it does not stay */
        m += (v > low) & (v < high);
    }
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

static PIXEL TYPED(select_few)(const PIXEL *a, size_t n, size_t k)
{
    PIXEL few[NOISE_FEW], value, same;

    for (size_t i = 0; i < NOISE_FEW; i++) {
        few[i] = (PIXEL)INFINITY;
    }
    memcpy(few, a, n * sizeof(PIXEL));
    TYPED(pick)(few, n, k, k, &value, &same);
    return value;
}

/*
 * The value that sorting would bring to index k of n > k values, none of them negative or NaN.
 * The values are lost.
 *
 * A guess or samples give two values that most likely enclose the one wanted closely.  Counting
 * tells whether it is before, between or behind them or one of them, and the others are dropped.
 * That at least drops the two if they are from samples, so it comes to an end.
 */
static PIXEL TYPED(select)(PIXEL *a, size_t n, size_t k, PIXEL guess)
{
    PIXEL low = 0, high = 0;

    if (guess > 0) {
        PIXEL width = guess * (PIXEL)(3.0 / sqrt((double)n));
        low = guess - width;
        high = guess + width;
    }
    while (n > NOISE_FEW) {
        struct TYPED(counts) counts;
        if (!(low < high)) {
            TYPED(enclose)(a, n, k, &low, &high);
        }
        counts = TYPED(count)(a, n, low, high);
        if (k < counts.below_low) {
            n = TYPED(keep)(a, n, -1, low);
        } else if (k < counts.upto_low) {
            return low;
        } else if (k < counts.below_high) {
            n = TYPED(keep)(a, n, low, high);
            k -= counts.upto_low;
        } else if (k < counts.upto_high) {
            return high;
        } else {
            n = TYPED(keep)(a, n, high, (PIXEL)INFINITY);
            k -= counts.upto_high;
            if (k >= n) {
                return (PIXEL)INFINITY;
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

/* Bit i tells whether a[i] >= pivot, or a[i] <= pivot. */
static uint64_t TYPED(mask_from)(const PIXEL *a, PIXEL pivot)
{
    uint64_t mask = 0;

    for (size_t i = 0; i < NOISE_MASK; i++) {
        mask |= (uint64_t)(a[i] >= pivot) << i;
    }
    return mask;
}

static uint64_t TYPED(mask_upto)(const PIXEL *a, PIXEL pivot)
{
    uint64_t mask = 0;

    for (size_t i = 0; i < NOISE_MASK; i++) {
        mask |= (uint64_t)(a[i] <= pivot) << i;
    }
    return mask;
}

/*
 * What split() does between *up and *down, as far as they are two masks apart.  The scans never
 * come to a value again, so what they will stop at can be found for many values at once: without
 * the branches, that nobody can predict.
 */
static void TYPED(swap_by_masks)(PIXEL *a, size_t *up, size_t *down, PIXEL pivot)
{
    size_t start = *up + 1, end = *down; /* of what has not been scanned */
    uint64_t large = 0, small = 0;       /* what is left to swap behind 'start', before 'end' */

    while (end - start >= 2 * NOISE_MASK) {
        large = large != 0 ? large : TYPED(mask_from)(a + start, pivot);
        small = small != 0 ? small : TYPED(mask_upto)(a + end - NOISE_MASK, pivot);
        while (large != 0 && small != 0) {
            unsigned first = 63 - leading_zeros64(large & (0 - large));
            unsigned last = 63 - leading_zeros64(small);
            TYPED(swap)(a, start + first, end - NOISE_MASK + last);
            large &= large - 1;
            small ^= (uint64_t)1 << last;
        }
        start += large == 0 ? NOISE_MASK : 0;
        end -= small == 0 ? NOISE_MASK : 0;
    }
    if (large != 0) {
        start += 63 - leading_zeros64(large & (0 - large));
    }
    if (small != 0) {
        end -= leading_zeros64(small);
    }
    *up = start - 1;
    *down = end;
}

/*
 * Split a[lo .. hi], at least three values, around a pivot and return the pivot's index: nothing
 * before it is larger, nothing behind it smaller.
 *
 * The pivot is the median of the first, middle and last value.  After they are put in place
 * a[lo + 1] <= a[lo] = pivot <= a[hi], so the scan upwards stops at hi and the scan downwards at
 * lo + 1 at the latest, and after a swap at the values just swapped.  This holds because no value
 * is a NaN.
 */
static size_t TYPED(split)(PIXEL *a, size_t lo, size_t hi, size_t *up_end)
{
    size_t mid = lo + (hi - lo) / 2;
    size_t up = lo + 1;
    size_t down = hi;
    PIXEL pivot;

    TYPED(order)(a, mid, hi);
    TYPED(order)(a, lo, hi);
    TYPED(order)(a, mid, lo);
    TYPED(swap)(a, mid, lo + 1);
    pivot = a[lo];
    TYPED(swap_by_masks)(a, &up, &down, pivot);
    for (;;) {
        do {
            up++;
        } while (a[up] < pivot);
        do {
            down--;
        } while (a[down] > pivot);
        if (down < up) {
            break;
        }
        TYPED(swap)(a, up, down);
    }
    TYPED(swap)(a, lo, down);
    *up_end = up;
    return down;
}

/*
 * The value that sorting would bring to index k of n > k values, none of them negative or NaN.
 *
 * The order in which the others are left from index 'fixed' on is part of the rule: the medians of
 * second differences may see what an earlier row left behind (see replay_seconds).
 */
static PIXEL TYPED(select_in_order)(PIXEL *a, size_t n, size_t k, size_t fixed)
{
    size_t lo = 0;
    size_t hi = n - 1;

    while (hi > lo + 1) {
        size_t up, pivot;
        if (hi < fixed) { /* k < lo if the value is the pivot of the last split */
            return k < lo ? a[k] : TYPED(select)(a + lo, hi - lo + 1, k - lo, 0);
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
 * Those of flat places, which say nothing about the noise, become NaN: second differences where
 * x[i + 4 .. i + 6] are equal, the others where x[i + 2 .. i + 6] are.  Returns whether there are
 * any.
 *
 * Differences of finite pixels may overflow to infinity.  Only in the fifth difference may two
 * infinities meet and give NaN (6e - 4c; in the others an infinity meets finite numbers only).
 * It counts as infinite, as a difference too large for the type.
 */
static bool TYPED(find_differences)(const PIXEL *restrict x, size_t n, PIXEL *restrict d2,
                                    PIXEL *restrict d3, PIXEL *restrict d5)
{
    COUNTER has_flat = 0;
    size_t i = 0;

#if WITH_AVX2
    has_flat = TYPED(difference_vectors)(x, n, d2, d3, d5, &i);
#endif
    for (; i < n; i++) {
        PIXEL a = x[i], c = x[i + 2], d = x[i + 3], e = x[i + 4], f = x[i + 5], g = x[i + 6];
        PIXEL second = ABSOLUTE(e - g);
        PIXEL third = ABSOLUTE(2 * e - c - g);
        PIXEL fifth = ABSOLUTE(6 * e - 4 * c - 4 * g + a + x[i + 8]);
        COUNTER flat2 = (COUNTER)(e == f) & (COUNTER)(f == g);
        COUNTER flat3 = flat2 & (COUNTER)(c == d) & (COUNTER)(d == e);
        fifth = fifth == fifth ? fifth : (PIXEL)INFINITY;
        d2[i] = flat2 != 0 ? (PIXEL)NAN : second;
        d3[i] = flat3 != 0 ? (PIXEL)NAN : third;
        d5[i] = flat3 != 0 ? (PIXEL)NAN : fifth;
        has_flat |= flat2;
    }
    return has_flat != 0;
}

/* The pixels of a row that are not NaN, and their number; 'good' has room for the row. */
static const PIXEL *TYPED(good_pixels)(const PIXEL *row, size_t nx, bool has_nan, PIXEL *good,
                                       size_t *n)
{
    if (!has_nan) {
        *n = nx;
        return row;
    }
    *n = TYPED(drop_nan)(row, nx, good);
    return good;
}

/*
 * The software that set the custom takes the median of n2 second differences over n3 values, even
 * if n2 is less: the rest of its buffer is what the rows before left there in their order, at
 * first zeros.  A row with n2 = 1 < n3 counts as having none.
 *
 * Here this is done once more from the first row on, in a buffer that lives for the whole tile,
 * for tiles with a row that sees what others left.  'fixed' is the smallest n2 of such a row: what
 * is before that index is always overwritten before it is seen.
 */
static void TYPED(replay_seconds)(const PIXEL *pixels, size_t nx, size_t ny, bool has_nan,
                                  size_t fixed, PIXEL *work,
                                  struct fitscodecs_noise_medians *medians)
{
    PIXEL *d2 = work, *d3 = work + nx, *d5 = work + 2 * nx, *buffer = work + 3 * nx;

    medians->nsecond = 0;
    memset(buffer, 0, nx * sizeof(PIXEL));
    for (size_t y = 0; y < ny; y++) {
        size_t n, n2, n3;
        const PIXEL *x = TYPED(good_pixels)(pixels + y * nx, nx, has_nan, work + 4 * nx, &n);
        if (n < NOISE_MIN_GOOD) {
            continue;
        }
        n2 = n3 = n - (NOISE_MIN_GOOD - 1);
        if (TYPED(find_differences)(x, n2, d2, d3, d5)) {
            n2 = TYPED(drop_nan)(d2, n2, d2);
            n3 = TYPED(drop_nan)(d3, n3, d3);
        }
        memcpy(buffer, d2, n2 * sizeof(PIXEL));
        if (n3 > 0 && (n2 > 1 || n2 == n3)) {
            medians->second[medians->nsecond++] =
                TYPED(select_in_order)(buffer, n3, (n3 - 1) / 2, fixed);
        }
    }
}

/* A median of a tile's rows is close to those before it. */
static void TYPED(improve)(PIXEL *guess, PIXEL median)
{
    *guess = *guess > 0 ? *guess + (median - *guess) / 8 : median;
}

/* The row medians of a tile.  'work' is NOISE_WORK_ROWS rows of nx values. */
static void TYPED(find_medians)(const void *in, size_t nx, size_t ny, bool has_nan, void *space,
                                struct fitscodecs_noise_medians *medians)
{
    const PIXEL *pixels = in;
    PIXEL *work = space, *d2 = work, *d3 = work + nx, *d5 = work + 2 * nx;
    PIXEL guess2 = 0, guess3 = 0, guess5 = 0;
    size_t fixed = SIZE_MAX;

    medians->nsecond = 0;
    medians->nthird = 0;
    for (size_t y = 0; y < ny; y++) {
        size_t n, n2, n3;
        const PIXEL *x = TYPED(good_pixels)(pixels + y * nx, nx, has_nan, work + 4 * nx, &n);
        if (n < NOISE_MIN_GOOD) {
            continue;
        }
        n2 = n3 = n - (NOISE_MIN_GOOD - 1);
        if (TYPED(find_differences)(x, n2, d2, d3, d5)) {
            n2 = TYPED(drop_nan)(d2, n2, d2);
            n3 = TYPED(drop_nan)(d3, n3, d3);
            TYPED(drop_nan)(d5, n - (NOISE_MIN_GOOD - 1), d5);
        }
        if (n3 == 0) {
            continue;
        }
        if (n2 < n3 && medians->nthird > 0) {
            fixed = n2 < fixed ? n2 : fixed;
        }
        if (fixed == SIZE_MAX && (n2 > 1 || n2 == n3)) {
            PIXEL median;
            memset(d2 + n2, 0, (n3 - n2) * sizeof(PIXEL));
            median = TYPED(select)(d2, n3, (n3 - 1) / 2, guess2);
            TYPED(improve)(&guess2, median);
            medians->second[medians->nsecond++] = median;
        }
        PIXEL m3 = TYPED(select)(d3, n3, (n3 - 1) / 2, guess3);
        PIXEL m5 = TYPED(select)(d5, n3, (n3 - 1) / 2, guess5);
        TYPED(improve)(&guess3, m3);
        TYPED(improve)(&guess5, m5);
        medians->third[medians->nthird] = m3;
        medians->fifth[medians->nthird] = m5;
        medians->nthird++;
    }
    if (fixed != SIZE_MAX) {
        TYPED(replay_seconds)(pixels, nx, ny, has_nan, fixed, work, medians);
    }
}

#undef PIXEL
#undef TYPED
#undef LARGEST
#undef ABSOLUTE
#undef COUNTER
#if WITH_AVX2
#undef VECTOR
#undef V
#undef IV
#undef IV_SET1
#undef AS_F32
#undef AS_INT
#undef FROM_INT
#endif
