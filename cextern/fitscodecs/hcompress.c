/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCOMPRESS_1 (FITS Standard 4.0, section 10.4.4): a two-dimensional Haar-like transform whose
 * coefficients are stored bit plane by bit plane, each plane as a quadtree or as it is.
 *
 * A tile has R = ny rows of C = nx pixels.  The stream, big-endian:
 *
 *     bytes 0-1    DD 99
 *     bytes 2-5    R
 *     bytes 6-9    C
 *     bytes 10-13  scale; 0 and 1 mean lossless
 *     bytes 14-21  coefficient [0][0], the mean of the tile times 2^(L+1) / scale
 *     bytes 22-24  number of bit planes of the quadrants: nb0, nb1, nb2
 *     then bits    the planes of four quadrants, a nibble 0, zeros up to a byte
 *     then bits    a sign for each non-zero coefficient in raster order, zeros up to a byte
 *
 * Transform.  L = ceil(log2(max(R, C))) levels.  Level k works on the top left corner of r =
 * ceil(R / 2^k) rows and c = ceil(C / 2^k) columns and turns its cells of 2 x 2 values into a mean
 * h0, a vertical slope hx, a horizontal slope hy and a curvature hc:
 *
 *     p q      h0 h0 | hy        The means are regrouped to the top left, to be the corner of
 *     s u  ->  h0 h0 | hy        level k + 1; the others stay.  With r or c odd, the last cells
 *              ------+---        lack a row or a column: they have no hx or no hy, and no hc.
 *              hx hx | hc
 *
 * The means of a level are never regrouped here: they live in an array of their own, which is the
 * input of the next level (encoding) or of the level before (decoding).
 *
 * Bits that are known from other coefficients are dropped: h0 is rounded to a multiple of 4 * 2^k,
 * hx and hy to 2 * 2^k.  The inverse finds them again from the parity of the others.
 *
 * Quadrants, in the order of the stream, with R2 = ceil(R / 2) and C2 = ceil(C / 2): top left
 * R2 x C2 (nb0 planes), top right (nb1), bottom left (nb1), bottom right (nb2); each from its
 * highest plane to plane 0.  A quadrant may be empty (R or C is 1), its planes are then a nibble.
 *
 * Plane.  Each 2 x 2 cell makes a code 8 * top left + 4 * top right + 2 * bottom left + bottom
 * right.  A nibble 0000 is followed by these codes, 4 bits each.  A nibble 1111 is followed by a
 * quadtree: on each level above, the bits of a code tell which of the four codes below are not 0,
 * up to a level with one code, the root.  The Huffman codes of the root and then of all codes that
 * are flagged follow, level by level, each level from its last cell to its first.
 *
 * Arithmetic.  Coefficients are 64-bit two's complement numbers kept as uint64_t: a hostile stream
 * makes them wrap, which is harmless, where int64_t would be undefined.
 */
#include "bitreader.h"
#include "bitwriter.h"
#include "common.h"

enum parameter { SCALE, SMOOTH };

#define MAGIC 0xDD99
#define HEADER_NBYTES 25
#define NQUADRANTS 4

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

/* Planes: level 0 alone makes the three quadrants other than the first. */
#define OUTER_QUADRANT_MAX_PLANES 33u
#define FIRST_QUADRANT_MAX_PLANES(depth) (32u + (depth))

/* Most planes that a stream may have.  By the above an encoder of int32 pixels has no more than
 * 32 + 29 of them; and a magnitude of 62 bits and its sign fit into 64 with a bit to spare. */
#define MAX_PLANES 62

/* Levels of a quadtree: at most 31, as a quadrant has no side over 2^30 and 31 halvings of that
 * are more than enough to reach 1. */
#define MAX_TREE_LEVELS 31

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

/* ---------------------------------------------------------------------------- geometry */

/* ceil(log2(n)) for n >= 1 */
static unsigned log2_ceil(size_t n)
{
    return bit_length(n - 1);
}

static unsigned transform_depth(const struct fitscodecs_tile *tile)
{
    return log2_ceil(tile->nx > tile->ny ? tile->nx : tile->ny);
}

/* ceil(n / 2^k) */
static size_t reduced(size_t n, unsigned k)
{
    return k == 0 ? n : ((n - 1) >> k) + 1;
}

/* One level of the transform: a corner of the coefficient array and the means of its cells. */
struct level {
    unsigned k;
    size_t nrows, ncols;           /* r, c */
    size_t cell_nrows, cell_ncols; /* ceil(r / 2), ceil(c / 2) */
    size_t stride;                 /* from a row to the next of hx, hy and hc */
    uint64_t *hx, *hy, *hc;        /* where each of the three regions starts */
    uint64_t *h0;                  /* cell_nrows x cell_ncols, without gaps */
};

/* Scratch of one call. */
struct workspace {
    uint64_t *coefficients; /* R x C */
    uint64_t *means[2];     /* h0 of even and of odd levels */
    uint64_t *row_pair;     /* two rows of the tile, when they have to be 64 bits wide */
    uint8_t *codes;         /* quadtree of one plane */
};

static struct level make_level(const struct fitscodecs_tile *tile, const struct workspace *work,
                               unsigned k)
{
    struct level level;
    level.k = k;
    level.nrows = reduced(tile->ny, k);
    level.ncols = reduced(tile->nx, k);
    level.cell_nrows = reduced(level.nrows, 1);
    level.cell_ncols = reduced(level.ncols, 1);
    level.stride = tile->nx;
    level.hy = work->coefficients + level.cell_ncols;
    level.hx = work->coefficients + level.cell_nrows * tile->nx;
    level.hc = level.hx + level.cell_ncols;
    level.h0 = work->means[k & 1];
    return level;
}

/* Means of all levels k with the same parity: none is larger than those of level 0 or 1. */
static size_t means_nbytes(const struct fitscodecs_tile *tile, unsigned k)
{
    size_t ncells = saturating_mul(reduced(tile->ny, k + 1), reduced(tile->nx, k + 1));
    return saturating_mul(ncells, sizeof(uint64_t));
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
static void forward_rows(const struct level *level, size_t i, const uint64_t *top,
                         const uint64_t *bottom)
{
    bool has_bottom = 2 * i + 1 < level->nrows;
    uint64_t *h0 = level->h0 + i * level->cell_ncols;
    uint64_t *hy = level->hy + i * level->stride;
    uint64_t *hx = level->hx + i * level->stride;
    uint64_t *hc = level->hc + i * level->stride;

    for (size_t j = 0; j < level->cell_ncols; j++) {
        bool has_right = 2 * j + 1 < level->ncols;
        size_t left = 2 * j, right = has_right ? left + 1 : left;
        uint64_t cell_hx, cell_hy, cell_hc;
        forward_cell(top[left], top[right], bottom[left], bottom[right], level->k, &h0[j],
                     &cell_hx, &cell_hy, &cell_hc);
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

static void forward_pixels(const struct level *level, const int32_t *pixels, uint64_t *row_pair)
{
    size_t ncols = level->ncols;
    for (size_t i = 0; i < level->cell_nrows; i++) {
        bool has_bottom = 2 * i + 1 < level->nrows;
        const int32_t *row = pixels + 2 * i * ncols;
        const uint64_t *top = widen_row(row, ncols, row_pair);
        forward_rows(level, i, top,
                     has_bottom ? widen_row(row + ncols, ncols, row_pair + ncols) : top);
    }
}

static void forward_means(const struct level *level, const uint64_t *means)
{
    for (size_t i = 0; i < level->cell_nrows; i++) {
        bool has_bottom = 2 * i + 1 < level->nrows;
        const uint64_t *top = means + 2 * i * level->ncols;
        forward_rows(level, i, top, has_bottom ? top + level->ncols : top);
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
        struct level level = make_level(tile, work, k);
        if (k == 0) {
            forward_pixels(&level, pixels, work->row_pair);
        } else {
            forward_means(&level, work->means[(k - 1) & 1]);
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

static void smooth_hx(const struct level *level, int64_t limit)
{
    for (size_t i = 1; 2 * i + 2 < level->nrows; i++) {
        const uint64_t *h0 = level->h0 + i * level->cell_ncols;
        const uint64_t *above = h0 - level->cell_ncols, *below = h0 + level->cell_ncols;
        uint64_t *hx = level->hx + i * level->stride;
        for (size_t j = 0; j < level->cell_ncols; j++) {
            hx[j] = smooth_slope(hx[j], above[j], h0[j], below[j], limit);
        }
    }
}

static void smooth_hy(const struct level *level, int64_t limit)
{
    for (size_t i = 0; i < level->cell_nrows; i++) {
        const uint64_t *h0 = level->h0 + i * level->cell_ncols;
        uint64_t *hy = level->hy + i * level->stride;
        for (size_t j = 1; 2 * j + 2 < level->ncols; j++) {
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

static void smooth_hc(const struct level *level, int64_t limit)
{
    for (size_t i = 1; 2 * i + 2 < level->nrows; i++) {
        const uint64_t *h0 = level->h0 + i * level->cell_ncols;
        const uint64_t *above = h0 - level->cell_ncols, *below = h0 + level->cell_ncols;
        const uint64_t *hx = level->hx + i * level->stride;
        const uint64_t *hy = level->hy + i * level->stride;
        uint64_t *hc = level->hc + i * level->stride;
        for (size_t j = 1; 2 * j + 2 < level->ncols; j++) {
            hc[j] = smooth_curvature(hc[j], hx[j], hy[j], above + j, h0 + j, below + j, limit);
        }
    }
}

/* The order matters: hc is found from hx and hy that are smooth already. */
static void smooth_level(const struct level *level, int64_t limit)
{
    smooth_hx(level, limit);
    smooth_hy(level, limit);
    smooth_hc(level, limit);
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
static void inverse_cells(unsigned k, size_t ncells, const uint64_t *h0_row,
                          const uint64_t *hx_row, const uint64_t *hy_row, const uint64_t *hc_row,
                          uint64_t *top, uint64_t *bottom)
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
static void inverse_rows(const struct level *level, size_t i, uint64_t *top, uint64_t *bottom)
{
    const uint64_t *h0 = level->h0 + i * level->cell_ncols;
    const uint64_t *hy = level->hy + i * level->stride;
    const size_t nwhole = level->ncols / 2; /* cells that have both columns */
    const bool odd_column = level->ncols % 2 != 0;

    if (2 * i + 1 < level->nrows) {
        const uint64_t *hx = level->hx + i * level->stride;
        const uint64_t *hc = level->hc + i * level->stride;
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

static void inverse_pixels(const struct level *level, int32_t *pixels, uint64_t *row_pair)
{
    size_t ncols = level->ncols;
    for (size_t i = 0; i < level->cell_nrows; i++) {
        int32_t *row = pixels + 2 * i * ncols;
        inverse_rows(level, i, row_pair, row_pair + ncols);
        clip_row(row_pair, ncols, row);
        if (2 * i + 1 < level->nrows) {
            clip_row(row_pair + ncols, ncols, row + ncols);
        }
    }
}

static void inverse_means(const struct level *level, uint64_t *means)
{
    for (size_t i = 0; i < level->cell_nrows; i++) {
        uint64_t *top = means + 2 * i * level->ncols;
        inverse_rows(level, i, top, top + level->ncols);
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
        struct level level = make_level(tile, work, k);
        if (limit > 0) {
            smooth_level(&level, limit);
        }
        if (k == 0) {
            inverse_pixels(&level, pixels, work->row_pair);
        } else {
            inverse_means(&level, work->means[(k - 1) & 1]);
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

/* ------------------------------------------------------------------------ Huffman code */

#define HUFFMAN_MAX_NBITS 6

static const struct {
    uint8_t bits, nbits;
} huffman_codes[16] = {
    {0x3E, 6}, {0x00, 3}, {0x01, 3}, {0x08, 4}, {0x02, 3}, {0x09, 4}, {0x1A, 5}, {0x1B, 5},
    {0x03, 3}, {0x1C, 5}, {0x0A, 4}, {0x1D, 5}, {0x0B, 4}, {0x1E, 5}, {0x3F, 6}, {0x0C, 4},
};

/* What the next 6 bits begin with: 16 * length + value, in the order of the codes.  The code is
 * complete, so that there is nothing a stream could do wrong. */
#define CODE_6(value) 0x60 | (value)
#define CODE_5(value) 0x50 | (value), 0x50 | (value)
#define CODE_4(value) 0x40 | (value), 0x40 | (value), 0x40 | (value), 0x40 | (value)
#define CODE_3_HALF(value) 0x30 | (value), 0x30 | (value), 0x30 | (value), 0x30 | (value)
#define CODE_3(value) CODE_3_HALF(value), CODE_3_HALF(value)
static const uint8_t huffman_lookup[1 << HUFFMAN_MAX_NBITS] = {
    CODE_3(1),  CODE_3(2),  CODE_3(4), CODE_3(8),                /* 000 to 011 */
    CODE_4(3),  CODE_4(5),  CODE_4(10), CODE_4(12), CODE_4(15),  /* 1000 to 1100 */
    CODE_5(6),  CODE_5(7),  CODE_5(9), CODE_5(11), CODE_5(13),   /* 11010 to 11110 */
    CODE_6(0),  CODE_6(14),                                      /* 111110, 111111 */
};

static void put_code(struct bitwriter *bw, unsigned value)
{
    bits_put(bw, huffman_codes[value].bits, huffman_codes[value].nbits);
}

/* Read a code if 'flag' is 1; if it is 0, the value is 0 and nothing is read.  Without a branch on
 * the flag, which is hard to predict.  False if the stream ends. */
static inline bool take_code_if(struct bitreader *br, unsigned flag, uint8_t *value)
{
    if (br->nbits < HUFFMAN_MAX_NBITS) {
        bits_refill(br);
    }
    unsigned entry = huffman_lookup[bits_peek(br, HUFFMAN_MAX_NBITS)] & (0 - flag);
    unsigned nbits = entry >> 4;
    if (nbits > br->nbits) {
        return false;
    }
    bits_drop(br, nbits);
    *value = (uint8_t)(entry & 15);
    return true;
}

/* ----------------------------------------------------------------- quadrants and trees */

/* One of the four parts of the coefficient array. */
struct quadrant {
    uint64_t *start;
    size_t nrows, ncols, stride;
    unsigned nplanes;
};

static void make_quadrants(const struct fitscodecs_tile *tile, uint64_t *coefficients,
                           struct quadrant quadrants[NQUADRANTS])
{
    const size_t nrows[2] = {tile->ny - tile->ny / 2, tile->ny / 2};
    const size_t ncols[2] = {tile->nx - tile->nx / 2, tile->nx / 2};
    for (size_t i = 0; i < NQUADRANTS; i++) {
        size_t below = i / 2, right = i % 2;
        quadrants[i].nrows = nrows[below];
        quadrants[i].ncols = ncols[right];
        quadrants[i].stride = tile->nx;
        quadrants[i].nplanes = 0;
        quadrants[i].start = coefficients + below * nrows[0] * tile->nx + right * ncols[0];
    }
}

/* Which of nb0, nb1, nb2 counts the planes of quadrant i: 0, 1, 1, 2 */
static size_t plane_count_index(size_t i)
{
    return i / 2 + i % 2;
}

static void set_planes(struct quadrant quadrants[NQUADRANTS], const uint8_t counts[3])
{
    for (size_t i = 0; i < NQUADRANTS; i++) {
        quadrants[i].nplanes = counts[plane_count_index(i)];
    }
}

/* The codes of one plane: level 0 has one for each cell, the last level is the root. */
struct tree {
    unsigned nlevels; /* max(1, ceil(log2(max(rows, columns)))) */
    size_t nrows[MAX_TREE_LEVELS], ncols[MAX_TREE_LEVELS];
    uint8_t *codes[MAX_TREE_LEVELS];
};

static unsigned tree_nlevels(size_t nrows, size_t ncols)
{
    size_t n = nrows > ncols ? nrows : ncols;
    return n <= 2 ? 1 : log2_ceil(n);
}

/* Bytes of all levels, for a quadrant of at least 1 x 1 */
static size_t tree_nbytes(size_t nrows, size_t ncols)
{
    size_t nbytes = 0;
    for (unsigned i = 0; i < tree_nlevels(nrows, ncols); i++) {
        size_t ncells = saturating_mul(reduced(nrows, i + 1), reduced(ncols, i + 1));
        nbytes = saturating_add(nbytes, ncells);
    }
    return nbytes;
}

/* An empty quadrant has one level of no codes. */
static void make_tree(const struct quadrant *quadrant, uint8_t *codes, struct tree *tree)
{
    if (quadrant->nrows == 0 || quadrant->ncols == 0) {
        tree->nlevels = 1;
        tree->nrows[0] = tree->ncols[0] = 0;
        tree->codes[0] = codes;
        return;
    }
    tree->nlevels = tree_nlevels(quadrant->nrows, quadrant->ncols);
    for (unsigned i = 0; i < tree->nlevels; i++) {
        tree->nrows[i] = reduced(quadrant->nrows, i + 1);
        tree->ncols[i] = reduced(quadrant->ncols, i + 1);
        tree->codes[i] = codes;
        codes += tree->nrows[i] * tree->ncols[i];
    }
}

/* -------------------------------------------------------------------- encoding a plane */

/* Append the bits of one row to the codes of its cells, in two places: 2 for the upper row of the
 * cells, 0 for the lower one. */
static void gather_row(const uint64_t *row, size_t ncols, unsigned bit, unsigned place,
                       uint8_t *codes)
{
    for (size_t j = 0; j < ncols; j++) {
        unsigned value = (unsigned)(row[j] >> bit & 1) << (1 - j % 2) << place;
        codes[j / 2] = (uint8_t)(codes[j / 2] | value);
    }
}

/* Codes of the cells of a plane, which is bit 'bit' of the array. */
static void gather_plane(const struct quadrant *quadrant, unsigned bit, const struct tree *tree)
{
    memset(tree->codes[0], 0, tree->nrows[0] * tree->ncols[0]);
    for (size_t i = 0; i < quadrant->nrows; i++) {
        gather_row(quadrant->start + i * quadrant->stride, quadrant->ncols, bit,
                   i % 2 == 0 ? 2 : 0, tree->codes[0] + i / 2 * tree->ncols[0]);
    }
}

/* Codes of a level above from those of the level below it. */
static void gather_level(const struct tree *tree, unsigned level)
{
    size_t nrows = tree->nrows[level - 1], ncols = tree->ncols[level - 1];
    const uint8_t *below = tree->codes[level - 1];
    memset(tree->codes[level], 0, tree->nrows[level] * tree->ncols[level]);
    for (size_t i = 0; i < nrows; i++) {
        uint8_t *codes = tree->codes[level] + i / 2 * tree->ncols[level];
        unsigned place = i % 2 == 0 ? 2 : 0;
        for (size_t j = 0; j < ncols; j++) {
            unsigned value = (unsigned)(below[i * ncols + j] != 0) << (1 - j % 2) << place;
            codes[j / 2] = (uint8_t)(codes[j / 2] | value);
        }
    }
}

/* Huffman bits of the codes of one level that are not 0 */
static uint64_t level_nbits(const struct tree *tree, unsigned level)
{
    const uint8_t *codes = tree->codes[level];
    size_t ncells = tree->nrows[level] * tree->ncols[level];
    uint64_t nbits = 0;
    for (size_t i = 0; i < ncells; i++) {
        nbits += codes[i] == 0 ? 0u : huffman_codes[codes[i]].nbits;
    }
    return nbits;
}

/*
 * Build the tree above its level 0.  False if it is not worth it: when its bits in whole bytes are
 * no less than half a byte per cell.  Every choice can be decoded; this one is what all writers do.
 */
static bool build_tree(const struct tree *tree)
{
    uint64_t limit = ceil_div(tree->nrows[0] * tree->ncols[0], 2);
    uint64_t nbits = level_nbits(tree, 0);
    for (unsigned level = 1; level < tree->nlevels && nbits / 8 < limit; level++) {
        gather_level(tree, level);
        nbits += level_nbits(tree, level);
    }
    return nbits / 8 < limit;
}

static void put_cells(struct bitwriter *bw, const struct tree *tree)
{
    size_t ncells = tree->nrows[0] * tree->ncols[0];
    bits_put(bw, 0, 4);
    for (size_t i = 0; i < ncells; i++) {
        bits_put(bw, tree->codes[0][i], 4);
    }
}

static void put_tree(struct bitwriter *bw, const struct tree *tree)
{
    bits_put(bw, 15, 4);
    if (tree->codes[tree->nlevels - 1][0] == 0) {
        put_code(bw, 0);
        return;
    }
    for (unsigned level = tree->nlevels; level-- > 0;) {
        const uint8_t *codes = tree->codes[level];
        for (size_t i = tree->nrows[level] * tree->ncols[level]; i-- > 0;) {
            if (codes[i] != 0) {
                put_code(bw, codes[i]);
            }
        }
    }
}

/* -------------------------------------------------------------------- decoding a plane */

/* The bits of the codes of a row of cells to one row, as in gather_row(). */
static void scatter_row(const uint8_t *codes, unsigned place, unsigned bit, uint64_t *row,
                        size_t ncols)
{
    size_t j = 0;
    for (; j + 1 < ncols; j += 2) {
        uint64_t pair = (uint64_t)codes[j / 2] >> place;
        row[j] |= (pair >> 1 & 1) << bit;
        row[j + 1] |= (pair & 1) << bit;
    }
    if (j < ncols) {
        row[j] |= ((uint64_t)codes[j / 2] >> place >> 1 & 1) << bit;
    }
}

static void scatter_plane(const struct tree *tree, unsigned bit, const struct quadrant *quadrant)
{
    for (size_t i = 0; i < quadrant->nrows; i++) {
        scatter_row(tree->codes[0] + i / 2 * tree->ncols[0], i % 2 == 0 ? 2 : 0, bit,
                    quadrant->start + i * quadrant->stride, quadrant->ncols);
    }
}

/* Codes of all cells, 4 bits each; false if the stream ends. */
static bool take_cells(struct bitreader *br, const struct tree *tree)
{
    struct bitreader local = *br; /* a copy that can live in registers */
    uint8_t *codes = tree->codes[0];
    size_t ncells = tree->nrows[0] * tree->ncols[0];
    for (size_t i = 0; i < ncells; i++) {
        uint64_t code;
        if (!bits_take(&local, 4, &code)) {
            return false;
        }
        codes[i] = (uint8_t)code;
    }
    *br = local;
    return true;
}

/* Codes of one level below the root, those that the level above flags; false if the stream ends. */
static bool take_level(struct bitreader *br, const struct tree *tree, unsigned level)
{
    struct bitreader local = *br;
    size_t ncols = tree->ncols[level], ncells = tree->ncols[level + 1];
    for (size_t i = tree->nrows[level]; i-- > 0;) {
        const uint8_t *above = tree->codes[level + 1] + i / 2 * ncells;
        uint8_t *codes = tree->codes[level] + i * ncols;
        unsigned place = i % 2 == 0 ? 2 : 0;
        for (size_t j = ncells; j-- > 0;) {
            unsigned flags = above[j] >> place;
            if (2 * j + 1 < ncols && !take_code_if(&local, flags & 1, &codes[2 * j + 1])) {
                return false;
            }
            if (!take_code_if(&local, flags >> 1 & 1, &codes[2 * j])) {
                return false;
            }
        }
    }
    *br = local;
    return true;
}

/* A quadtree.  The root is there even if the plane is empty or all zero, which is said in
 * 'is_zero'.  False if the stream ends. */
static bool take_tree(struct bitreader *br, const struct tree *tree, bool *is_zero)
{
    uint8_t root;
    if (!take_code_if(br, 1, &root)) {
        return false;
    }
    *is_zero = root == 0 || tree->nrows[0] == 0;
    if (*is_zero) {
        return true;
    }
    tree->codes[tree->nlevels - 1][0] = root;
    for (unsigned level = tree->nlevels - 1; level-- > 0;) {
        if (!take_level(br, tree, level)) {
            return false;
        }
    }
    return true;
}

/* --------------------------------------------------------------- all planes and signs */

/* From here to the end of encoding, an element of the coefficient array is 2 * magnitude + sign. */
static void fold_signs(uint64_t *coefficients, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t negative = is_negative(coefficients[i]);
        coefficients[i] = negate_if(coefficients[i], negative) << 1 | negative;
    }
}

/* Bit length of the largest magnitude of a quadrant */
static unsigned quadrant_nplanes(const struct quadrant *quadrant)
{
    uint64_t all = 0;
    for (size_t i = 0; i < quadrant->nrows; i++) {
        const uint64_t *row = quadrant->start + i * quadrant->stride;
        for (size_t j = 0; j < quadrant->ncols; j++) {
            all |= row[j];
        }
    }
    return bit_length(all >> 1);
}

/* nb0, nb1, nb2; the second and third quadrant share nb1. */
static void count_planes(const struct quadrant quadrants[NQUADRANTS], uint8_t counts[3])
{
    memset(counts, 0, 3);
    for (size_t i = 0; i < NQUADRANTS; i++) {
        uint8_t *count = &counts[plane_count_index(i)];
        unsigned nplanes = quadrant_nplanes(&quadrants[i]);
        *count = (uint8_t)(nplanes > *count ? nplanes : *count);
    }
}

static void encode_quadrant(struct bitwriter *bw, const struct quadrant *quadrant, uint8_t *codes)
{
    struct tree tree;
    make_tree(quadrant, codes, &tree);
    for (unsigned plane = quadrant->nplanes; plane-- > 0;) {
        gather_plane(quadrant, plane + 1, &tree);
        if (build_tree(&tree)) {
            put_tree(bw, &tree);
        } else {
            put_cells(bw, &tree);
        }
    }
}

static void put_signs(struct bitwriter *bw, const uint64_t *coefficients, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (coefficients[i] != 0) {
            bits_put(bw, coefficients[i] & 1, 1);
        }
    }
    bits_put_padding(bw);
}

/* Where in the planes of all quadrants a decoder is, for its messages. */
struct progress {
    int64_t plane, nplanes;
};

static enum fitscodecs_status decode_plane(struct bitreader *br, const struct quadrant *quadrant,
                                           const struct tree *tree, unsigned plane,
                                           const struct progress *progress,
                                           struct fitscodecs_result *result)
{
    uint64_t format;
    bool is_zero = false;
    bool complete = bits_take(br, 4, &format);
    if (complete && format != 0 && format != 15) {
        return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                               "bit plane has format {found}, wanted 0 or {wanted}",
                               (int64_t)format, 15);
    }
    complete = complete && (format == 0 ? take_cells(br, tree) : take_tree(br, tree, &is_zero));
    if (!complete) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                               "data ends in bit plane {found} of {wanted}", progress->plane,
                               progress->nplanes);
    }
    if (!is_zero) {
        scatter_plane(tree, plane, quadrant);
    }
    return FITSCODECS_OK;
}

static enum fitscodecs_status decode_quadrants(struct bitreader *br,
                                               const struct quadrant quadrants[NQUADRANTS],
                                               uint8_t *codes, struct fitscodecs_result *result)
{
    struct progress progress = {0, 0};
    for (size_t i = 0; i < NQUADRANTS; i++) {
        progress.nplanes += quadrants[i].nplanes;
    }
    for (size_t i = 0; i < NQUADRANTS; i++) {
        struct tree tree;
        make_tree(&quadrants[i], codes, &tree);
        for (unsigned plane = quadrants[i].nplanes; plane-- > 0;) {
            progress.plane++;
            enum fitscodecs_status status =
                decode_plane(br, &quadrants[i], &tree, plane, &progress, result);
            if (status != FITSCODECS_OK) {
                return status;
            }
        }
    }
    return FITSCODECS_OK;
}

static enum fitscodecs_status decode_end_nibble(struct bitreader *br,
                                                struct fitscodecs_result *result)
{
    uint64_t nibble;
    if (!bits_take(br, 4, &nibble)) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                               "data ends before the end mark of the bit planes", 0, 0);
    }
    if (nibble != 0) {
        return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                               "end mark of the bit planes is {found}, wanted {wanted}",
                               (int64_t)nibble, 0);
    }
    bits_align(br);
    return FITSCODECS_OK;
}

/* A bit for each coefficient that is not 0, and none for the others: without a branch on that,
 * which is hard to predict. */
static enum fitscodecs_status decode_signs(struct bitreader *br, uint64_t *coefficients, size_t n,
                                           struct fitscodecs_result *result)
{
    struct bitreader local = *br;
    for (size_t i = 0; i < n; i++) {
        unsigned has_sign = coefficients[i] != 0;
        if (local.nbits == 0) {
            bits_refill(&local);
        }
        if (has_sign > local.nbits) {
            return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                                   "data ends at the sign of coefficient {found} of {wanted}",
                                   (int64_t)i, (int64_t)n);
        }
        coefficients[i] = negate_if(coefficients[i], bits_peek(&local, 1) & has_sign);
        bits_drop(&local, has_sign);
    }
    *br = local;
    return FITSCODECS_OK;
}

/* ----------------------------------------------------------------------- stream header */

struct header {
    int64_t nrows, ncols, scale;
    uint64_t total;     /* coefficient [0][0] */
    uint8_t nplanes[3]; /* nb0, nb1, nb2 */
};

/* The planes are counted later. */
static struct header make_header(const struct fitscodecs_tile *tile, uint64_t total)
{
    struct header header;
    header.nrows = (int64_t)tile->ny;
    header.ncols = (int64_t)tile->nx;
    header.scale = tile->parameters[SCALE];
    header.total = total;
    memset(header.nplanes, 0, sizeof(header.nplanes));
    return header;
}

static void store_header(const struct header *header, uint8_t *out)
{
    store_be16(out, MAGIC);
    store_be32(out + 2, (uint32_t)header->nrows);
    store_be32(out + 6, (uint32_t)header->ncols);
    store_be32(out + 10, (uint32_t)header->scale);
    store_be64(out + 14, header->total);
    memcpy(out + 22, header->nplanes, 3);
}

static struct header load_header(const uint8_t *in)
{
    struct header header;
    header.nrows = sign_extend(load_be32(in + 2), 32);
    header.ncols = sign_extend(load_be32(in + 6), 32);
    header.scale = sign_extend(load_be32(in + 10), 32);
    header.total = load_be64(in + 14);
    memcpy(header.nplanes, in + 22, 3);
    return header;
}

static enum fitscodecs_status decode_header(const struct fitscodecs_tile *tile, const uint8_t *in,
                                            size_t in_nbytes, struct header *header,
                                            struct fitscodecs_result *result)
{
    const enum fitscodecs_status bad = FITSCODECS_BAD_DATA;
    if (in_nbytes < HEADER_NBYTES) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                               "stream has {found} bytes, its header alone {wanted}",
                               (int64_t)in_nbytes, HEADER_NBYTES);
    }
    if (load_be16(in) != MAGIC) {
        return fitscodecs_fail(result, bad, "stream starts with {found}, wanted {wanted}",
                               load_be16(in), MAGIC);
    }
    *header = load_header(in);
    if (header->nrows != (int64_t)tile->ny) {
        return fitscodecs_fail(result, bad, "stream holds {found} rows, wanted {wanted}",
                               header->nrows, (int64_t)tile->ny);
    }
    if (header->ncols != (int64_t)tile->nx) {
        return fitscodecs_fail(result, bad, "stream holds {found} columns, wanted {wanted}",
                               header->ncols, (int64_t)tile->nx);
    }
    if (header->scale < 0) {
        return fitscodecs_fail(result, bad, "stream has scale {found}, wanted at least {wanted}",
                               header->scale, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        if (header->nplanes[i] > MAX_PLANES) {
            return fitscodecs_fail(result, bad,
                                   "quadrant has {found} bit planes, wanted at most {wanted}",
                                   header->nplanes[i], MAX_PLANES);
        }
    }
    return FITSCODECS_OK;
}

/* --------------------------------------------------------------------------- the codec */

static enum fitscodecs_status hcompress_check(const struct fitscodecs_tile *tile,
                                              struct fitscodecs_result *result)
{
    const enum fitscodecs_status bad = FITSCODECS_BAD_PARAMETER;
    const size_t sides[2] = {tile->nx, tile->ny};
    for (size_t i = 0; i < 2; i++) {
        if (sides[i] < 1) {
            return fitscodecs_fail(result, bad, "tile side is {found}, wanted at least {wanted}",
                                   (int64_t)sides[i], 1);
        }
        if (sides[i] > INT32_MAX) {
            return fitscodecs_fail(result, bad, "tile side is {found}, wanted at most {wanted}",
                                   (int64_t)sides[i], INT32_MAX);
        }
    }
    if (tile->parameters[SCALE] < 0 || tile->parameters[SCALE] > INT32_MAX) {
        return fitscodecs_fail(result, bad, "SCALE is {found}, wanted 0 to {wanted}",
                               tile->parameters[SCALE], INT32_MAX);
    }
    if (tile->parameters[SMOOTH] < 0 || tile->parameters[SMOOTH] > 1) {
        return fitscodecs_fail(result, bad, "SMOOTH is {found}, wanted 0 or {wanted}",
                               tile->parameters[SMOOTH], 1);
    }
    result->detail = NULL;
    return FITSCODECS_OK;
}

static size_t hcompress_pixel_nbytes(const struct fitscodecs_tile *tile)
{
    (void)tile;
    return sizeof(int32_t);
}

/*
 * A plane of N cells is a nibble and one of
 *   - 4 * N <= 8 * ceil(N / 2) bits, the cells as they are;
 *   - a tree, chosen only if its bits make less than ceil(N / 2) whole bytes: fewer than
 *     8 * ceil(N / 2) bits;
 *   - the 6 bits of an all zero tree, where N >= 1.
 * So it has at most 4 + 8 * ceil(N / 2) bits, and 1 + ceil(N / 2) bytes are enough.  The end
 * nibble and its padding add at most 1 byte, and signs a bit per pixel.
 */
static size_t hcompress_encode_bound(const struct fitscodecs_tile *tile)
{
    size_t nbytes = HEADER_NBYTES + 1;
    unsigned depth = transform_depth(tile);
    for (size_t i = 0; i < NQUADRANTS && depth > 0; i++) {
        size_t nrows = i / 2 == 0 ? tile->ny - tile->ny / 2 : tile->ny / 2;
        size_t ncols = i % 2 == 0 ? tile->nx - tile->nx / 2 : tile->nx / 2;
        size_t nplanes = i == 0 ? FIRST_QUADRANT_MAX_PLANES(depth) : OUTER_QUADRANT_MAX_PLANES;
        size_t ncells = saturating_mul(ceil_div(nrows, 2), ceil_div(ncols, 2));
        size_t plane_nbytes = saturating_add(1, ceil_div(ncells, 2));
        nbytes = saturating_add(nbytes, saturating_mul(nplanes, plane_nbytes));
    }
    size_t npixels = saturating_mul(tile->nx, tile->ny);
    /* ceil_div() would make a small number of SIZE_MAX; the planes, being more, say so already */
    return saturating_add(nbytes, ceil_div(npixels, 8));
}

static size_t coefficients_nbytes(const struct fitscodecs_tile *tile)
{
    return saturating_mul(saturating_mul(tile->nx, tile->ny), sizeof(uint64_t));
}

static size_t row_pair_nbytes(const struct fitscodecs_tile *tile)
{
    return saturating_mul(tile->nx, 2 * sizeof(uint64_t));
}

/* The first quadrant is the largest, and so is its tree. */
static size_t hcompress_scratch_nbytes(const struct fitscodecs_tile *tile)
{
    size_t nbytes = coefficients_nbytes(tile);
    nbytes = saturating_add(nbytes, means_nbytes(tile, 0));
    nbytes = saturating_add(nbytes, means_nbytes(tile, 1));
    nbytes = saturating_add(nbytes, row_pair_nbytes(tile));
    return saturating_add(nbytes, tree_nbytes(reduced(tile->ny, 1), reduced(tile->nx, 1)));
}

static struct workspace carve_scratch(const struct fitscodecs_tile *tile, void *scratch)
{
    struct workspace work;
    work.coefficients = scratch;
    work.means[0] = work.coefficients + coefficients_nbytes(tile) / sizeof(uint64_t);
    work.means[1] = work.means[0] + means_nbytes(tile, 0) / sizeof(uint64_t);
    work.row_pair = work.means[1] + means_nbytes(tile, 1) / sizeof(uint64_t);
    work.codes = (uint8_t *)(work.row_pair + row_pair_nbytes(tile) / sizeof(uint64_t));
    return work;
}

/* All that follows the header. */
static void encode_body(struct bitwriter *bw, const struct quadrant quadrants[NQUADRANTS],
                        const struct workspace *work, size_t npixels)
{
    for (size_t i = 0; i < NQUADRANTS; i++) {
        encode_quadrant(bw, &quadrants[i], work->codes);
    }
    bits_put(bw, 0, 4);
    bits_put_padding(bw);
    put_signs(bw, work->coefficients, npixels);
}

static enum fitscodecs_status short_output(const struct fitscodecs_tile *tile, size_t out_nbytes,
                                           struct fitscodecs_result *result)
{
    return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                           "output has room for {found} bytes; {wanted} are always enough",
                           (int64_t)out_nbytes, (int64_t)hcompress_encode_bound(tile));
}

static enum fitscodecs_status hcompress_encode(const struct fitscodecs_tile *tile,
                                               const void *pixels, uint8_t *out,
                                               size_t out_nbytes, void *scratch,
                                               struct fitscodecs_result *result)
{
    const size_t npixels = tile->nx * tile->ny;
    struct workspace work = carve_scratch(tile, scratch);
    struct quadrant quadrants[NQUADRANTS];
    struct header header;
    struct bitwriter bw;

    if (transform_depth(tile) > MAX_ENCODE_DEPTH) {
        return fitscodecs_fail(result, FITSCODECS_VALUE_RANGE,
                               "tile needs {found} levels of transform, 64 bits hold {wanted}",
                               transform_depth(tile), MAX_ENCODE_DEPTH);
    }
    if (out_nbytes < HEADER_NBYTES) {
        return short_output(tile, out_nbytes, result);
    }
    forward_transform(tile, pixels, &work);
    digitize(work.coefficients, npixels, tile->parameters[SCALE]);
    header = make_header(tile, work.coefficients[0]);
    work.coefficients[0] = 0;
    fold_signs(work.coefficients, npixels);
    make_quadrants(tile, work.coefficients, quadrants);
    count_planes(quadrants, header.nplanes);
    set_planes(quadrants, header.nplanes);

    store_header(&header, out);
    bits_create(&bw, out + HEADER_NBYTES, out_nbytes - HEADER_NBYTES);
    encode_body(&bw, quadrants, &work, npixels);
    if (bw.overflow) {
        return short_output(tile, out_nbytes, result);
    }
    result->nbytes = HEADER_NBYTES + bits_written_nbytes(&bw);
    result->detail = NULL;
    return FITSCODECS_OK;
}

/* All that follows the header, up to the coefficients as they were before digitizing. */
static enum fitscodecs_status decode_body(struct bitreader *br, const struct fitscodecs_tile *tile,
                                          const struct header *header,
                                          const struct workspace *work,
                                          struct fitscodecs_result *result)
{
    const size_t npixels = tile->nx * tile->ny;
    struct quadrant quadrants[NQUADRANTS];
    enum fitscodecs_status status;

    memset(work->coefficients, 0, npixels * sizeof(uint64_t));
    make_quadrants(tile, work->coefficients, quadrants);
    set_planes(quadrants, header->nplanes);
    status = decode_quadrants(br, quadrants, work->codes, result);
    if (status == FITSCODECS_OK) {
        status = decode_end_nibble(br, result);
    }
    if (status == FITSCODECS_OK) {
        status = decode_signs(br, work->coefficients, npixels, result);
    }
    if (status == FITSCODECS_OK) {
        work->coefficients[0] = header->total;
        undigitize(work->coefficients, npixels, header->scale);
    }
    return status;
}

static enum fitscodecs_status hcompress_decode(const struct fitscodecs_tile *tile,
                                               const uint8_t *in, size_t in_nbytes, void *pixels,
                                               void *scratch, struct fitscodecs_result *result)
{
    struct workspace work = carve_scratch(tile, scratch);
    struct header header;
    struct bitreader br;
    enum fitscodecs_status status = decode_header(tile, in, in_nbytes, &header, result);
    if (status != FITSCODECS_OK) {
        return status;
    }
    bits_open(&br, in + HEADER_NBYTES, in_nbytes - HEADER_NBYTES);
    status = decode_body(&br, tile, &header, &work, result);
    if (status != FITSCODECS_OK) {
        return status;
    }
    inverse_transform(tile, &work, work.coefficients[0],
                      tile->parameters[SMOOTH] != 0 ? header.scale >> 1 : 0, pixels);
    result->nbytes = HEADER_NBYTES + bits_used_nbytes(&br);
    result->detail = NULL;
    return FITSCODECS_OK;
}

extern const struct fitscodecs_codec fitscodecs_hcompress_1;
const struct fitscodecs_codec fitscodecs_hcompress_1 = {
    "HCOMPRESS_1",
    {"SCALE", "SMOOTH", NULL},
    hcompress_check,
    hcompress_pixel_nbytes,
    hcompress_encode_bound,
    hcompress_scratch_nbytes,
    hcompress_encode,
    hcompress_decode,
};
