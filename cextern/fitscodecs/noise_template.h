/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The noise of a tile of one pixel type.  Included by noise.c once for each type, with
 *
 *   PIXEL    float or double; all arithmetic on pixels is done in this type
 *   SUFFIX   added to the name of each function
 *   LARGEST  largest finite number
 *   ABSOLUTE function for the absolute value
 *   COUNTER  unsigned integer of the size of PIXEL: loops that count with it become vector code
 */
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)
#define NAME(name) JOIN(name, SUFFIX)

/*
 * Count and range of the pixels that are not NaN.  A comparison with NaN is false, which leaves it
 * out.  LANES independent ranges, merged at the end, let the compiler work on several pixels at a
 * time: it must not reorder comparisons of floats by itself.
 */
static void NAME(survey)(const PIXEL *pixels, size_t n, struct fitscodecs_noise *noise)
{
    PIXEL low[LANES], high[LANES];
    size_t ngood = 0;
    size_t nblocks = n / LANES;

    for (size_t j = 0; j < LANES; j++) {
        low[j] = LARGEST;
        high[j] = -LARGEST;
    }
    for (size_t i = 0; i < nblocks * LANES; i += LANES) {
        for (size_t j = 0; j < LANES; j++) {
            PIXEL v = pixels[i + j];
            low[j] = v < low[j] ? v : low[j];
            high[j] = v > high[j] ? v : high[j];
        }
    }
    for (size_t i = nblocks * LANES; i < n; i++) {
        PIXEL v = pixels[i];
        low[0] = v < low[0] ? v : low[0];
        high[0] = v > high[0] ? v : high[0];
    }
    for (size_t j = 1; j < LANES; j++) {
        low[0] = low[j] < low[0] ? low[j] : low[0];
        high[0] = high[j] > high[0] ? high[j] : high[0];
    }
    for (size_t i = 0; i < n; i++) {
        ngood += pixels[i] == pixels[i];
    }
    *noise = (struct fitscodecs_noise){.ngood = ngood, .minimum = low[0], .maximum = high[0]};
}

static inline void NAME(swap)(PIXEL *a, size_t i, size_t j)
{
    PIXEL t = a[i];
    a[i] = a[j];
    a[j] = t;
}

static inline void NAME(order)(PIXEL *a, size_t i, size_t j)
{
    if (a[i] > a[j]) {
        NAME(swap)(a, i, j);
    }
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
static size_t NAME(split)(PIXEL *a, size_t lo, size_t hi, size_t *up_end)
{
    size_t mid = lo + (hi - lo) / 2;
    size_t up = lo + 1;
    size_t down = hi;
    PIXEL pivot;

    NAME(order)(a, mid, hi);
    NAME(order)(a, lo, hi);
    NAME(order)(a, mid, lo);
    NAME(swap)(a, mid, lo + 1);
    pivot = a[lo];
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
        NAME(swap)(a, up, down);
    }
    NAME(swap)(a, lo, down);
    *up_end = up;
    return down;
}

/*
 * The value that sorting would bring to index k of n > k values, none of them a NaN.  It ends up
 * there, with nothing larger before it and nothing smaller behind it.
 *
 * The order in which the others are left is part of the rule: the medians of second differences
 * may see what an earlier row left behind (see add_second).
 */
static PIXEL NAME(select_in_order)(PIXEL *a, size_t n, size_t k)
{
    size_t lo = 0;
    size_t hi = n - 1;

    while (hi > lo + 1) {
        size_t up;
        size_t pivot = NAME(split)(a, lo, hi, &up);
        if (pivot <= k) {
            lo = up;
        }
        if (pivot >= k) {
            hi = pivot - 1;
        }
    }
    if (hi == lo + 1) {
        NAME(order)(a, lo, hi);
    }
    return a[k];
}

/* Sorted values from places that no pattern of an image is likely to be in step with. */
static void NAME(take_samples)(const PIXEL *a, size_t n, PIXEL *samples)
{
    for (size_t i = 0; i < NSAMPLES; i++) {
        PIXEL v = a[(i + 1) * SAMPLE_STRIDE % n];
        size_t j = i;
        for (; j > 0 && samples[j - 1] > v; j--) {
            samples[j] = samples[j - 1];
        }
        samples[j] = v;
    }
}

/* How many values are smaller than 'low', and how many not larger than 'high'. */
static void NAME(count)(const PIXEL *a, size_t n, PIXEL low, PIXEL high, size_t *nbelow,
                        size_t *nupto)
{
    *nbelow = 0;
    *nupto = 0;
    while (n > 0) {
        size_t nblock = n < COUNT_BLOCK ? n : COUNT_BLOCK;
        COUNTER below = 0;
        COUNTER upto = 0;
        for (size_t i = 0; i < nblock; i++) {
            below += a[i] < low;
            upto += a[i] <= high;
        }
        *nbelow += below;
        *nupto += upto;
        a += nblock;
        n -= nblock;
    }
}

/* Keep the values from 'low' to 'high', and return how many.  There is no branch, since which
 * values stay cannot be predicted: that makes this quicker than swapping them. */
static size_t NAME(keep)(PIXEL *a, size_t n, PIXEL low, PIXEL high)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        PIXEL v = a[i];
        a[m] = v; /* overwritten by the next one if it does not stay */
        m += (v >= low) & (v <= high);
    }
    return m;
}

/*
 * The lower median of n >= 1 values, none of them a NaN: the one that sorting would bring to index
 * (n - 1) / 2.  The values are lost.
 *
 * Samples give two values that most likely enclose the median closely.  Counting tells whether it
 * is before, between or behind them, and the others are dropped.  Where nothing can be dropped
 * (few different values) or little is left, swapping does the rest.
 */
static PIXEL NAME(lower_median)(PIXEL *a, size_t n)
{
    size_t k = (n - 1) / 2;

    while (n > FEW) {
        PIXEL samples[NSAMPLES], low, high;
        size_t nbelow, nupto, nkept;
        size_t rank = (size_t)((double)k / (double)n * NSAMPLES);
        NAME(take_samples)(a, n, samples);
        low = samples[rank > SAMPLE_MARGIN ? rank - SAMPLE_MARGIN : 0];
        high = samples[rank + SAMPLE_MARGIN < NSAMPLES ? rank + SAMPLE_MARGIN : NSAMPLES - 1];
        NAME(count)(a, n, low, high, &nbelow, &nupto);
        if (k < nbelow) {
            nkept = NAME(keep)(a, n, (PIXEL)-INFINITY, low);
        } else if (k < nupto) {
            nkept = NAME(keep)(a, n, low, high);
            k -= nbelow;
        } else {
            nkept = NAME(keep)(a, n, high, (PIXEL)INFINITY);
            k -= n - nkept;
        }
        if (nkept == n) {
            break;
        }
        n = nkept;
    }
    return NAME(select_in_order)(a, n, k);
}

/* Copy the pixels that are not NaN, and return their number. */
static size_t NAME(drop_nan)(const PIXEL *restrict in, size_t n, PIXEL *restrict out)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        out[m] = in[i]; /* overwritten by the next one if it is a NaN */
        m += in[i] == in[i];
    }
    return m;
}

/*
 * Absolute differences of order 2, 3 and 5 around x[i + 4], for 0 <= i < n; x has n + 8 values.
 * Returns whether two neighbours are equal anywhere, without which there is nothing for
 * drop_flat() to drop.
 *
 * Differences of finite pixels may overflow to infinity.  Only in the fifth difference may two
 * infinities meet and give NaN (6e - 4c; in the others an infinity meets finite numbers only).
 * It counts as infinite, as a difference too large for the type: no median ever sees a NaN.
 */
static bool NAME(differences)(const PIXEL *restrict x, size_t n, PIXEL *restrict d2,
                              PIXEL *restrict d3, PIXEL *restrict d5)
{
    COUNTER has_equal = 0;

    for (size_t i = 0; i < n; i++) {
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
static void NAME(drop_flat)(const PIXEL *x, size_t n, PIXEL *d2, PIXEL *d3, PIXEL *d5, size_t *n2,
                            size_t *n3)
{
    size_t m2 = 0;
    size_t m3 = 0;

    for (size_t i = 0; i < n; i++) {
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

/*
 * Add the median of a row's n2 second differences, of which there may be fewer than the n3 others.
 *
 * The software that set the custom takes the median over n3 values all the same: the rest of its
 * buffer is what the rows before left there in their order, at first zeros.  With 'keeps_order'
 * this is done here, in 'buffer', which lives for the whole tile.  But few tiles need it.  Without
 * 'keeps_order' there is no such buffer, and false is returned if the rows before matter.
 */
static bool NAME(add_second)(PIXEL *d2, size_t n2, size_t n3, bool keeps_order, PIXEL *buffer,
                             struct medians *medians)
{
    bool is_first = medians->nthird == 0;
    bool is_used = n2 > 1 || n2 == n3; /* a single one of several is not */
    PIXEL median = 0;

    if (keeps_order) {
        memcpy(buffer, d2, n2 * sizeof(PIXEL));
        if (is_used) {
            median = NAME(select_in_order)(buffer, n3, (n3 - 1) / 2);
        }
    } else if (n2 < n3 && !is_first) {
        return false;
    } else if (is_used) {
        memset(d2 + n2, 0, (n3 - n2) * sizeof(PIXEL));
        median = NAME(lower_median)(d2, n3);
    }
    if (is_used) {
        medians->second[medians->nsecond++] = median;
    }
    return true;
}

/* Add the medians of one row of n >= MIN_GOOD good pixels to the lists of row medians.  'work' is
 * four rows of 'stride' values, the last of them the buffer of add_second(), which may ask to have
 * its order kept: then false. */
static bool NAME(add_row)(const PIXEL *x, size_t n, bool keeps_order, PIXEL *work, size_t stride,
                          struct medians *medians)
{
    PIXEL *d2 = work, *d3 = work + stride, *d5 = work + 2 * stride;
    size_t n2 = n - (MIN_GOOD - 1);
    size_t n3 = n2;

    if (NAME(differences)(x, n2, d2, d3, d5)) {
        NAME(drop_flat)(x, n2, d2, d3, d5, &n2, &n3);
    }
    if (n3 == 0) {
        return true;
    }
    if (!NAME(add_second)(d2, n2, n3, keeps_order, work + 3 * stride, medians)) {
        return false;
    }
    medians->third[medians->nthird] = NAME(lower_median)(d3, n3);
    medians->fifth[medians->nthird] = NAME(lower_median)(d5, n3);
    medians->nthird++;
    return true;
}

/* The row medians of a tile.  'work' is five rows of nx values.  Returns false if the medians need
 * 'keeps_order'. */
static bool NAME(add_rows)(const PIXEL *pixels, size_t nx, size_t ny, bool has_nan,
                           bool keeps_order, PIXEL *work, struct medians *medians)
{
    PIXEL *good = work + 4 * nx;

    medians->nsecond = 0;
    medians->nthird = 0;
    memset(work + 3 * nx, 0, nx * sizeof(PIXEL)); /* the buffer of add_second() */
    for (size_t y = 0; y < ny; y++) {
        const PIXEL *row = pixels + y * nx;
        size_t n = nx;
        if (has_nan) {
            n = NAME(drop_nan)(row, nx, good);
            row = good;
        }
        if (n >= MIN_GOOD && !NAME(add_row)(row, n, keeps_order, work, nx, medians)) {
            return false;
        }
    }
    return true;
}

/* The same, in the quick way if that will do. */
static void NAME(find_medians)(const PIXEL *pixels, size_t nx, size_t ny, bool has_nan, PIXEL *work,
                               struct medians *medians)
{
    if (!NAME(add_rows)(pixels, nx, ny, has_nan, false, work, medians)) {
        NAME(add_rows)(pixels, nx, ny, has_nan, true, work, medians);
    }
}

#undef JOIN_TOKENS
#undef JOIN
#undef NAME
#undef PIXEL
#undef SUFFIX
#undef LARGEST
#undef ABSOLUTE
#undef COUNTER
