/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transform of HCOMPRESS_1: pixels to coefficients and back, level by level, the smoothing of
 * a decoder, and the division by a scale.  Included by hcompress.c, whose head describes it.
 *
 * Arithmetic.  Coefficients are 64-bit two's complement numbers kept as uint64_t: a hostile stream
 * makes them wrap, which is harmless, where int64_t would be undefined.
 */
#ifndef FITSCODECS_HCOMPRESS_TRANSFORM_H
#define FITSCODECS_HCOMPRESS_TRANSFORM_H

#include "hcompress_geometry.h"

/*
 * Sizes of coefficients.  Pixels are in [-2^31, 2^31 - 1].  By induction h0 of level k is in
 * [-2^(33+k), 2^(33+k) - 2^(k+2)]: at k = 0 it is the sum of 4 pixels, later half the sum of 4
 * means, and as both ends are multiples of 2^(k+2), rounding stays inside.  hx, hy and hc are
 * differences of two of these terms and two others, so at most 2^(33+k) - 2^(k+1), which is a
 * number of 33 + k bits.
 *
 * The largest intermediate is the sum of 4 means of level k - 1, at most 2^(34+k), and rounding
 * adds less than 2^(k+2): it fits into 64 bits for k <= 28, which is a transform of 29 levels.
 * A tile that needs more has a side over 2^29; encode refuses it.
 */
#define MAX_ENCODE_DEPTH 29

/* ------------------------------------------------------------------- numbers modulo 2^64 */

static inline uint64_t is_negative(uint64_t v)
{
    return v >> 63;
}

/* v / 2^n, rounded down, of a signed v; all compilers of interest shift in copies of the sign. */
static inline uint64_t shift_right(uint64_t v, unsigned n)
{
    return (uint64_t)((int64_t)v >> n);
}

/* v if negative is 0, -v if it is 1 */
static inline uint64_t negate_if(uint64_t v, uint64_t negative)
{
    return (v ^ (0 - negative)) + negative;
}

/* v brought closer to 0 by 'amount' (0 itself counts as positive) */
static inline uint64_t toward_zero(uint64_t v, uint64_t amount)
{
    return v - negate_if(amount, is_negative(v));
}

/* Nearest multiple of m, a power of two; exact halves go away from zero. */
static inline uint64_t round_to(uint64_t v, uint64_t m)
{
    uint64_t half = m >> 1;
    return half == 0 ? v : (v + half - is_negative(v)) & (0 - m);
}

static inline int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t clamp(int64_t v, int64_t low, int64_t high)
{
    return max_i64(min_i64(v, high), low);
}

static inline int32_t clip_to_i32(uint64_t v)
{
    return (int32_t)clamp((int64_t)v, INT32_MIN, INT32_MAX);
}

/* Scratch of one call. */
struct workspace {
    uint64_t *coefficients; /* R x C */
    uint64_t *means[2];     /* h0 of even and of odd levels */
    uint64_t *row_pair;     /* two rows of the tile, when they have to be 64 bits wide */
    uint64_t *narrow;       /* what hcompress_narrow.h has of its own */
    uint8_t *codes;         /* quadtree of one plane */
};

/* h0 of row i of cells */
static uint64_t *means_row(const struct workspace *work, const struct level *level, size_t i)
{
    return work->means[level->k & 1] + h0_row(level, i);
}

/* ------------------------------------------------------------------- forward transform */

/* One cell, its sums halved on all levels but the first. */
static inline void forward_cell(uint64_t p, uint64_t q, uint64_t s, uint64_t u, unsigned k,
                                uint64_t *h0, uint64_t *hx, uint64_t *hy, uint64_t *hc)
{
    unsigned shift = k == 0 ? 0 : 1;
    *h0 = round_to(shift_right(p + q + s + u, shift), (uint64_t)4 << k);
    *hx = round_to(shift_right(s + u - p - q, shift), (uint64_t)2 << k);
    *hy = round_to(shift_right(q + u - p - s, shift), (uint64_t)2 << k);
    *hc = shift_right(p + u - q - s, shift);
}

/* Row i of cells from two rows of values.  A missing row or column is a copy of the last one; what
 * it would make of hx, hy and hc is 0 and not stored. */
static void forward_rows(const struct workspace *work, const struct level *level, size_t i,
                         const uint64_t *top, const uint64_t *bottom)
{
    bool has_bottom = has_bottom_row(level, i);
    uint64_t *h0 = means_row(work, level, i);
    uint64_t *hy = work->coefficients + hy_row(level, i);
    uint64_t *hx = work->coefficients + hx_row(level, i);
    uint64_t *hc = work->coefficients + hc_row(level, i);

    for (size_t j = 0; j < level->cell_ncols; j++) {
        bool has_right = 2 * j + 1 < level->ncols;
        size_t left = 2 * j, right = has_right ? left + 1 : left;
        uint64_t cell_hx, cell_hy, cell_hc;
        forward_cell(top[left], top[right], bottom[left], bottom[right], level->k, &h0[j], &cell_hx,
                     &cell_hy, &cell_hc);
        if (has_right) {
            hy[j] = cell_hy;
        }
        if (has_bottom) {
            hx[j] = cell_hx;
        }
        if (has_right && has_bottom) {
            hc[j] = cell_hc;
        }
    }
}

static const uint64_t *widen_row(const int32_t *pixels, size_t npixels, uint64_t *out)
{
    for (size_t i = 0; i < npixels; i++) {
        out[i] = (uint64_t)(int64_t)pixels[i];
    }
    return out;
}

static void forward_pixels(const struct workspace *work, const struct level *level,
                           const int32_t *pixels)
{
    size_t ncols = level->ncols;
    for (size_t i = 0; i < level->cell_nrows; i++) {
        const int32_t *row = pixels + 2 * i * ncols;
        const uint64_t *top = widen_row(row, ncols, work->row_pair), *bottom = top;
        if (has_bottom_row(level, i)) {
            bottom = widen_row(row + ncols, ncols, work->row_pair + ncols);
        }
        forward_rows(work, level, i, top, bottom);
    }
}

/* A level from the means of the one below it. */
static void forward_means(const struct workspace *work, const struct level *level)
{
    const uint64_t *means = work->means[(level->k - 1) & 1];
    for (size_t i = 0; i < level->cell_nrows; i++) {
        const uint64_t *top = means + 2 * i * level->ncols;
        forward_rows(work, level, i, top, has_bottom_row(level, i) ? top + level->ncols : top);
    }
}

/* Pixels to coefficients. */
static void forward_transform(const struct fitscodecs_tile *tile, const int32_t *pixels,
                              const struct workspace *work)
{
    unsigned depth = transform_depth(tile);
    if (depth == 0) {
        widen_row(pixels, 1, work->coefficients);
        return;
    }
    for (unsigned k = 0; k < depth; k++) {
        struct level level = make_level(tile, k, tile->nx);
        if (k == 0) {
            forward_pixels(work, &level, pixels);
        } else {
            forward_means(work, &level);
        }
    }
    work->coefficients[0] = work->means[(depth - 1) & 1][0];
}

/* --------------------------------------------------------------------------- smoothing */

/*
 * Smoothing, for lossy streams only, moves slopes and curvatures from what was stored, which may
 * be off by half of scale, toward what the means around the cell suggest, but never further than
 * 'limit' = scale / 2.  Cells at the border, which lack a neighbour, stay as they are.
 */

/* What to add to 'stored', which should be wanted / 2^n. */
static int64_t correction(int64_t wanted, uint64_t stored, unsigned n, int64_t limit)
{
    int64_t step = (int64_t)((uint64_t)wanted - (stored << n));
    /* divided by 2^n, rounded toward zero */
    uint64_t bias = step >= 0 ? 0 : ((uint64_t)1 << n) - 1;
    return clamp((int64_t)shift_right((uint64_t)step + bias, n), -limit, limit);
}

/* hx or hy from the means before, in and after its cell: their slope, as long as it is monotonic */
static uint64_t smooth_slope(uint64_t slope, uint64_t before, uint64_t here, uint64_t after,
                             int64_t limit)
{
    int64_t rise = (int64_t)(after - here), fall = (int64_t)(here - before);
    int64_t high = (int64_t)((uint64_t)max_i64(min_i64(rise, fall), 0) << 2);
    int64_t low = (int64_t)((uint64_t)min_i64(max_i64(rise, fall), 0) << 2);
    if (low >= high) {
        return slope;
    }
    int64_t wanted = clamp((int64_t)(after - before), low, high);
    return slope + (uint64_t)correction(wanted, slope, 3, limit);
}

static void smooth_hx(const struct workspace *work, const struct level *level, int64_t limit)
{
    for (size_t i = 1; i <= inner_cells(level->nrows); i++) {
        const uint64_t *h0 = means_row(work, level, i);
        const uint64_t *above = h0 - level->cell_ncols, *below = h0 + level->cell_ncols;
        uint64_t *hx = work->coefficients + hx_row(level, i);
        for (size_t j = 0; j < level->cell_ncols; j++) {
            hx[j] = smooth_slope(hx[j], above[j], h0[j], below[j], limit);
        }
    }
}

static void smooth_hy(const struct workspace *work, const struct level *level, int64_t limit)
{
    for (size_t i = 0; i < level->cell_nrows; i++) {
        const uint64_t *h0 = means_row(work, level, i);
        uint64_t *hy = work->coefficients + hy_row(level, i);
        for (size_t j = 1; j <= inner_cells(level->ncols); j++) {
            hy[j] = smooth_slope(hy[j], h0[j - 1], h0[j], h0[j + 1], limit);
        }
    }
}

/*
 * hc from the means of the four diagonal neighbours, kept where no corner of the cell, with the
 * slopes hx and hy, passes the neighbour there.
 */
static uint64_t smooth_curvature(uint64_t hc, uint64_t hx, uint64_t hy, const uint64_t *above,
                                 const uint64_t *here, const uint64_t *below, int64_t limit)
{
    uint64_t h0 = here[0], mm = above[-1], mp = above[1], pm = below[-1], pp = below[1];
    uint64_t sum = 2 * hx + 2 * hy, difference = 2 * hx - 2 * hy;
    int64_t to_pp = (int64_t)(pp - h0), to_pm = (int64_t)(h0 - pm);
    int64_t to_mp = (int64_t)(h0 - mp), to_mm = (int64_t)(mm - h0);

    int64_t high = min_i64(min_i64((int64_t)((uint64_t)max_i64(to_pp, 0) - sum),
                                   (int64_t)((uint64_t)max_i64(to_pm, 0) + difference)),
                           min_i64((int64_t)((uint64_t)max_i64(to_mp, 0) - difference),
                                   (int64_t)((uint64_t)max_i64(to_mm, 0) + sum)));
    int64_t low = max_i64(max_i64((int64_t)((uint64_t)min_i64(to_pp, 0) - sum),
                                  (int64_t)((uint64_t)min_i64(to_pm, 0) + difference)),
                          max_i64((int64_t)((uint64_t)min_i64(to_mp, 0) - difference),
                                  (int64_t)((uint64_t)min_i64(to_mm, 0) + sum)));
    high = (int64_t)((uint64_t)high << 4);
    low = (int64_t)((uint64_t)low << 4);
    if (low >= high) {
        return hc;
    }
    int64_t wanted = clamp((int64_t)(pp + mm - mp - pm), low, high);
    return hc + (uint64_t)correction(wanted, hc, 6, limit);
}

static void smooth_hc(const struct workspace *work, const struct level *level, int64_t limit)
{
    for (size_t i = 1; i <= inner_cells(level->nrows); i++) {
        const uint64_t *h0 = means_row(work, level, i);
        const uint64_t *above = h0 - level->cell_ncols, *below = h0 + level->cell_ncols;
        const uint64_t *hx = work->coefficients + hx_row(level, i);
        const uint64_t *hy = work->coefficients + hy_row(level, i);
        uint64_t *hc = work->coefficients + hc_row(level, i);
        for (size_t j = 1; j <= inner_cells(level->ncols); j++) {
            hc[j] = smooth_curvature(hc[j], hx[j], hy[j], above + j, h0 + j, below + j, limit);
        }
    }
}

/* The order matters: hc is found from hx and hy that are smooth already. */
static void smooth_level(const struct workspace *work, const struct level *level, int64_t limit)
{
    smooth_hx(work, level, limit);
    smooth_hy(work, level, limit);
    smooth_hc(work, level, limit);
}

/* ------------------------------------------------------------------- inverse transform */

/* All sums are four times (k = 0) or twice what they were made from. */
static inline unsigned inverse_shift(unsigned k)
{
    return k == 0 ? 2 : 1;
}

/*
 * Whole cells of one row of cells.
 *
 * p + q + s + u and its three relatives differ by even numbers, so that their lowest bits agree:
 * low0 is that bit, taken from hc, the only one that was not rounded.  h0 - hx - hy + hc is 4 p, or
 * 2 p above level 0, which leaves one choice for low1, the bit above low0 in h0.
 */
static void inverse_cells(unsigned k, size_t ncells, const uint64_t *h0_row, const uint64_t *hx_row,
                          const uint64_t *hy_row, const uint64_t *hc_row, uint64_t *top,
                          uint64_t *bottom)
{
    const uint64_t bit0 = (uint64_t)1 << k, bit1 = (uint64_t)2 << k;
    const unsigned shift = inverse_shift(k);
    for (size_t j = 0; j < ncells; j++) {
        uint64_t hc = round_to(hc_row[j], bit0);
        uint64_t low0 = hc & bit0;
        uint64_t hx = toward_zero(round_to(hx_row[j], bit1), low0);
        uint64_t hy = toward_zero(round_to(hy_row[j], bit1), low0);
        uint64_t low1 = (hc ^ hx ^ hy) & bit1;
        uint64_t h0 = h0_row[j];
        /* -low1 everywhere but for a negative h0 without low0 */
        h0 += low0 + negate_if(low1, 1 ^ (is_negative(h0) & (low0 == 0)));
        top[2 * j] = shift_right(h0 - hx - hy + hc, shift);
        top[2 * j + 1] = shift_right(h0 - hx + hy - hc, shift);
        bottom[2 * j] = shift_right(h0 + hx - hy - hc, shift);
        bottom[2 * j + 1] = shift_right(h0 + hx + hy + hc, shift);
    }
}

/* A cell of two values at an odd edge: h0 and one slope. */
static inline void inverse_edge(unsigned k, uint64_t h0, uint64_t slope, uint64_t *first,
                                uint64_t *second)
{
    const uint64_t bit1 = (uint64_t)2 << k;
    slope = round_to(slope, bit1);
    h0 = toward_zero(h0, slope & bit1);
    *first = shift_right(h0 - slope, inverse_shift(k));
    *second = shift_right(h0 + slope, inverse_shift(k));
}

/* Row i of cells to two rows of values, or to one if it is the last of an odd number. */
static void inverse_rows(const struct workspace *work, const struct level *level, size_t i,
                         uint64_t *top, uint64_t *bottom)
{
    const uint64_t *h0 = means_row(work, level, i);
    const uint64_t *hy = work->coefficients + hy_row(level, i);
    const size_t nwhole = level->ncols / 2; /* cells that have both columns */
    const bool odd_column = level->ncols % 2 != 0;

    if (has_bottom_row(level, i)) {
        const uint64_t *hx = work->coefficients + hx_row(level, i);
        const uint64_t *hc = work->coefficients + hc_row(level, i);
        inverse_cells(level->k, nwhole, h0, hx, hy, hc, top, bottom);
        if (odd_column) {
            inverse_edge(level->k, h0[nwhole], hx[nwhole], &top[2 * nwhole], &bottom[2 * nwhole]);
        }
    } else {
        for (size_t j = 0; j < nwhole; j++) {
            inverse_edge(level->k, h0[j], hy[j], &top[2 * j], &top[2 * j + 1]);
        }
        if (odd_column) {
            top[2 * nwhole] = shift_right(h0[nwhole], inverse_shift(level->k));
        }
    }
}

static void clip_row(const uint64_t *values, size_t nvalues, int32_t *pixels)
{
    for (size_t i = 0; i < nvalues; i++) {
        pixels[i] = clip_to_i32(values[i]);
    }
}

static void inverse_pixels(const struct workspace *work, const struct level *level, int32_t *pixels)
{
    size_t ncols = level->ncols;
    for (size_t i = 0; i < level->cell_nrows; i++) {
        int32_t *row = pixels + 2 * i * ncols;
        inverse_rows(work, level, i, work->row_pair, work->row_pair + ncols);
        clip_row(work->row_pair, ncols, row);
        if (has_bottom_row(level, i)) {
            clip_row(work->row_pair + ncols, ncols, row + ncols);
        }
    }
}

/* A level to the means of the one below it. */
static void inverse_means(const struct workspace *work, const struct level *level)
{
    uint64_t *means = work->means[(level->k - 1) & 1];
    for (size_t i = 0; i < level->cell_nrows; i++) {
        uint64_t *top = means + 2 * i * level->ncols;
        inverse_rows(work, level, i, top, top + level->ncols);
    }
}

/*
 * Coefficients, whose [0][0] is 'total', to pixels.  'limit' is the limit of the smoothing, or 0
 * for none.
 *
 * A tile of one pixel is not transformed at all, so that its total is the pixel; rounding it as
 * the total of a larger tile would lose its lowest bit.
 */
static void inverse_transform(const struct fitscodecs_tile *tile, const struct workspace *work,
                              uint64_t total, int64_t limit, int32_t *pixels)
{
    unsigned depth = transform_depth(tile);
    if (depth == 0) {
        pixels[0] = clip_to_i32(total);
        return;
    }
    work->means[(depth - 1) & 1][0] = round_to(total, (uint64_t)2 << depth);
    for (unsigned k = depth; k-- > 0;) {
        struct level level = make_level(tile, k, tile->nx);
        if (limit > 0) {
            smooth_level(work, &level, limit);
        }
        if (k == 0) {
            inverse_pixels(work, &level, pixels);
        } else {
            inverse_means(work, &level);
        }
    }
}

/* ---------------------------------------------------------------------------- digitize */

/* Divide by scale, rounding to nearest with halves toward zero. */
static void digitize(uint64_t *coefficients, size_t n, int64_t scale)
{
    if (scale <= 1) {
        return;
    }
    uint64_t divisor = (uint64_t)scale, bias = (divisor + 1) / 2 - 1;
    for (size_t i = 0; i < n; i++) {
        uint64_t negative = is_negative(coefficients[i]);
        uint64_t magnitude = negate_if(coefficients[i], negative);
        coefficients[i] = negate_if((magnitude + bias) / divisor, negative);
    }
}

static void undigitize(uint64_t *coefficients, size_t n, int64_t scale)
{
    if (scale <= 1) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        coefficients[i] *= (uint64_t)scale;
    }
}

#endif
