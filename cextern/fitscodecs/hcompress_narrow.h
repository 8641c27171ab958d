/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCOMPRESS_1 with coefficients of 32 bits, by kernels: the fast way for the tiles that it holds.
 * Included by hcompress.c, whose other functions take 64 bits and all tiles; both ways give the
 * same streams, pixels and errors.
 *
 * All planes are kept until the signs are known, so that each coefficient is written once.
 */
#ifndef FITSCODECS_HCOMPRESS_NARROW_H
#define FITSCODECS_HCOMPRESS_NARROW_H

#include "hcompress_planes.h"
#include "hcompress_transform.h"
#include "hcompress_words.h"
#include "kernels.h"

/* Magnitudes are below 2^31. */
#define NARROW_MAX_PLANES 31

/*
 * Rows that fill only a part of their words take scratch: with C columns, 31 planes of all
 * quadrants are 248 * ceil(C / 64) / C bytes a pixel, which is 4 for wide tiles and at most 15.5
 * from here on. They take time as well: with half as many columns the other way is as fast.
 */
#define NARROW_MIN_COLUMNS 16

/* Scratch of the narrow way. */
struct narrow_workspace {
    int32_t *coefficients; /* R x C */
    uint64_t *corner;      /* R x C of level 1, for levels of the transform that need 64 bits */
    int32_t *means[2];     /* h0 of even and of odd levels */
    uint64_t *planes[NQUADRANTS];
    uint64_t *levels; /* of a quadtree, but for the lowest, which is the plane */
    uint64_t *list;   /* codes of a level, or of a quadtree */
};

/* The quadtree of one plane: level 0 has a code for each 2 x 2 cell, the last level is the root. */
struct narrow_tree {
    unsigned nlevels;
    struct fitscodecs_hcompress_grid levels[MAX_TREE_LEVELS];
};

/* ------------------------------------------------------------------------------ scratch */

static bool has_narrow_shape(const struct fitscodecs_tile *tile)
{
    return tile->nx >= NARROW_MIN_COLUMNS;
}

/* Words of a level of the tree of the first quadrant, which is the largest */
static size_t narrow_level_nwords(const struct fitscodecs_tile *tile, unsigned level)
{
    return saturating_mul(reduced(tile->ny, level + 2),
                          words_per_row(reduced(tile->nx, level + 2)));
}

static size_t narrow_planes_nwords(const struct fitscodecs_tile *tile)
{
    return saturating_mul(narrow_level_nwords(tile, 0), NARROW_MAX_PLANES);
}

static size_t narrow_levels_nwords(const struct fitscodecs_tile *tile)
{
    size_t nwords = 0;
    for (unsigned i = 1; i < tree_nlevels(reduced(tile->ny, 1), reduced(tile->nx, 1)); i++) {
        nwords = saturating_add(nwords, narrow_level_nwords(tile, i));
    }
    return nwords;
}

/* Codes of a whole tree: those of its words, each of which may have 16. */
static size_t narrow_list_nwords(const struct fitscodecs_tile *tile)
{
    size_t nwords = saturating_add(narrow_level_nwords(tile, 0), narrow_levels_nwords(tile));
    return saturating_add(nwords, list_nwords(0));
}

/* What the narrow way needs beside the coefficients and means of the other way, in which it has its
 * own. */
static size_t narrow_nbytes(const struct fitscodecs_tile *tile)
{
    if (!has_narrow_shape(tile)) {
        return 0;
    }
    size_t nwords = saturating_mul(narrow_planes_nwords(tile), NQUADRANTS);
    nwords = saturating_add(nwords, narrow_levels_nwords(tile));
    nwords = saturating_add(nwords, narrow_list_nwords(tile));
    return saturating_mul(nwords, sizeof(uint64_t));
}

/* The corner is behind the coefficients, which fill half of their place; coefficients_nbytes(). */
static struct narrow_workspace carve_narrow(const struct fitscodecs_tile *tile,
                                            const struct workspace *work)
{
    struct narrow_workspace narrow;
    uint64_t *words = work->narrow; /* narrow_nbytes() */
    narrow.coefficients = (int32_t *)work->coefficients;
    narrow.corner = work->coefficients + ceil_div(tile->nx * tile->ny, 2);
    narrow.means[0] = (int32_t *)work->means[0];
    narrow.means[1] = (int32_t *)work->means[1];
    for (size_t i = 0; i < NQUADRANTS; i++) {
        narrow.planes[i] = words;
        words += narrow_planes_nwords(tile);
    }
    narrow.levels = words;
    narrow.list = words + narrow_levels_nwords(tile);
    return narrow;
}

/* ---------------------------------------------------------------------- planes and trees */

/* Words of one row of codes of one plane; the same row of the next plane follows, so that the
 * planes of a row are close together. */
static size_t plane_stride(const struct quadrant *quadrant)
{
    return words_per_row(ceil_div(quadrant->ncols, 2));
}

/* The tree of plane 0 of a quadrant that is not empty. */
static void make_narrow_tree(const struct quadrant *quadrant, uint64_t *words,
                             struct narrow_tree *tree)
{
    tree->nlevels = tree_nlevels(quadrant->nrows, quadrant->ncols);
    for (unsigned i = 0; i < tree->nlevels; i++) {
        struct fitscodecs_hcompress_grid *grid = &tree->levels[i];
        grid->nrows = reduced(quadrant->nrows, i + 1);
        grid->ncols = reduced(quadrant->ncols, i + 1);
        grid->lacks_lower = reduced(quadrant->nrows, i) % 2 != 0;
        grid->lacks_right = reduced(quadrant->ncols, i) % 2 != 0;
        grid->stride = words_per_row(grid->ncols);
        grid->words = words;
        if (i == 0) {
            grid->stride *= quadrant->nplanes;
        } else {
            words += grid->nrows * grid->stride;
        }
    }
}

/* The levels above are shared by all planes. */
static void set_narrow_plane(const struct quadrant *quadrant, uint64_t *planes, unsigned plane,
                             struct narrow_tree *tree)
{
    tree->levels[0].words = planes + plane * plane_stride(quadrant);
}

/* ------------------------------------------------------------------------ decoding planes */

/* Codes of all cells, 4 bits each; false if the stream ends. */
static bool take_narrow_cells(struct bitreader *br, const struct fitscodecs_hcompress_grid *grid)
{
    const size_t nwords = words_per_row(grid->ncols), nbits = 4 * grid->ncols;
    const uint64_t last_mask = last_word_mask(grid);
    size_t position = bits_position(br);
    if (bits_left(br) / nbits < grid->nrows) {
        return false;
    }
    for (size_t i = 0; i < grid->nrows; i++, position += nbits) {
        uint64_t *words = grid->words + i * grid->stride;
        const uint64_t mask = row_mask(grid, i);
        for (size_t w = 0; w < nwords; w++) {
            words[w] = word_at(br, position + 64 * w) & mask;
        }
        words[nwords - 1] &= last_mask;
    }
    bits_seek(br, position);
    return true;
}

static void clear_grid(const struct fitscodecs_hcompress_grid *grid)
{
    for (size_t i = 0; i < grid->nrows; i++) {
        memset(grid->words + i * grid->stride, 0, words_per_row(grid->ncols) * sizeof(uint64_t));
    }
}

/* A quadtree, whose root is there even if the plane is all zero.  False if the stream ends. */
static bool take_narrow_tree(struct bitreader *br, const struct narrow_tree *tree, uint64_t *list)
{
    const struct fitscodecs_hcompress_kernels *kernels = fitscodecs_kernels.hcompress;
    const struct fitscodecs_hcompress_grid *root = &tree->levels[tree->nlevels - 1];
    uint8_t code;
    if (!take_code_if(br, 1, &code)) {
        return false;
    }
    if (code == 0) {
        clear_grid(&tree->levels[0]);
        return true;
    }
    root->words[0] = (uint64_t)code << 60 & row_mask(root, 0) & last_word_mask(root);
    size_t nflags = 0;
    for (uint64_t flags = root->words[0]; flags != 0; flags &= flags - 1) {
        nflags++;
    }
    for (unsigned level = tree->nlevels - 1; level-- > 0;) {
        if (!kernels->take_codes(br, nflags, list)) {
            return false;
        }
        nflags = kernels->spread_codes(&tree->levels[level + 1], list, &tree->levels[level]);
    }
    return true;
}

/* What follows the format of a plane, if there are no cells: nothing, or a root. */
static bool take_empty_plane(struct bitreader *br, uint64_t format)
{
    uint8_t code;
    return format == 0 || take_code_if(br, 1, &code);
}

static enum fitscodecs_status decode_narrow_plane(struct bitreader *br, bool empty,
                                                  const struct narrow_tree *tree, uint64_t *list,
                                                  const struct progress *progress,
                                                  struct fitscodecs_result *result)
{
    uint64_t format;
    bool complete = bits_take(br, 4, &format);
    if (complete && format != 0 && format != 15) {
        return bad_plane_format(format, result);
    }
    if (complete) {
        complete = empty         ? take_empty_plane(br, format)
                   : format == 0 ? take_narrow_cells(br, &tree->levels[0])
                                 : take_narrow_tree(br, tree, list);
    }
    return complete ? FITSCODECS_OK : short_plane(progress, result);
}

static enum fitscodecs_status decode_narrow_quadrants(struct bitreader *br,
                                                      const struct quadrant quadrants[NQUADRANTS],
                                                      const struct narrow_workspace *work,
                                                      struct fitscodecs_result *result)
{
    struct progress progress = {0, 0};
    for (size_t i = 0; i < NQUADRANTS; i++) {
        progress.nplanes += quadrants[i].nplanes;
    }
    for (size_t i = 0; i < NQUADRANTS; i++) {
        struct narrow_tree tree;
        bool empty = is_empty(&quadrants[i]);
        if (!empty) {
            make_narrow_tree(&quadrants[i], work->levels, &tree);
        }
        for (unsigned plane = quadrants[i].nplanes; plane-- > 0;) {
            progress.plane++;
            if (!empty) {
                set_narrow_plane(&quadrants[i], work->planes[i], plane, &tree);
            }
            enum fitscodecs_status status =
                decode_narrow_plane(br, empty, &tree, work->list, &progress, result);
            if (status != FITSCODECS_OK) {
                return status;
            }
        }
    }
    return FITSCODECS_OK;
}

/* Planes and signs to coefficients, multiplied by scale. */
static enum fitscodecs_status join_narrow_rows(struct bitreader *br,
                                               const struct fitscodecs_tile *tile,
                                               const struct quadrant quadrants[NQUADRANTS],
                                               const struct narrow_workspace *work, int32_t scale,
                                               struct fitscodecs_result *result)
{
    for (size_t i = 0; i < tile->ny; i++) {
        size_t below = i < quadrants[0].nrows ? 0 : 1, row = i - below * quadrants[0].nrows;
        for (size_t right = 0; right < 2; right++) {
            const struct quadrant *quadrant = &quadrants[2 * below + right];
            const uint64_t *planes = work->planes[2 * below + right];
            size_t stride = plane_stride(quadrant);
            int32_t *out = work->coefficients + quadrant->start + row * quadrant->stride;
            size_t n = fitscodecs_kernels.hcompress->join_row(
                br, planes + row / 2 * quadrant->nplanes * stride, stride, quadrant->nplanes,
                row % 2 == 0 ? 2 : 0, scale, out, quadrant->ncols);
            if (n < quadrant->ncols) {
                return missing_sign(i * tile->nx + right * quadrants[0].ncols + n,
                                    tile->nx * tile->ny, result);
            }
        }
    }
    return FITSCODECS_OK;
}

/* ------------------------------------------------------------------------------ transform */

static uint64_t widen(int32_t v)
{
    return (uint64_t)(int64_t)v;
}

/*
 * Whether 32 bits hold all of an inverse transform whose total is 'total' and whose other
 * coefficients have 'nplanes' bits, times scale, and are moved by smoothing by up to 'limit', or 0:
 * they are below B = scale * 2^nplanes + limit.
 *
 * Let M bound the means that go into level k.  Rounding adds less than 2^k to hx, hy and hc each
 * and up to 2^depth to the total, and the lowest bits of h0 up to 3 * 2^k; so no sum of the level
 * is over M + 3 B + 7 * 2^k, and the means that come out, half of that and rounded, are not over
 * the larger of M and 3 B + 8 * 2^k.
 *
 * In smoothing a sum of four means has to fit, 4 M, or SMOOTH_MAX_MEAN each.  And the largest
 * number that a curvature may be wanted to be, 16 * (2^27 - 1) / 64, must not be nearer than
 * 'limit' to what it is: B < SMOOTH_BOUND.
 */
#define SMOOTH_MAX_MEAN (INT32_MAX / 4 - 3)
#define SMOOTH_BOUND ((int64_t)1 << 25)

static bool inverse_is_narrow(const struct fitscodecs_tile *tile, uint64_t total, unsigned nplanes,
                              int64_t scale, int64_t limit)
{
    const unsigned depth = transform_depth(tile);
    const int64_t bound = (scale << nplanes) + limit; /* below 2^62 + 2^30 */
    const int64_t mean = max_i64((int64_t)total, (int64_t)(0 - total));
    if (depth > 24 || bound > INT32_MAX / 8 || mean < 0 || mean > INT32_MAX / scale) {
        return false;
    }
    int64_t step = 3 * bound + ((int64_t)8 << depth);
    int64_t means = max_i64(mean * scale + ((int64_t)1 << depth), step);
    return means + step <= INT32_MAX &&
           (limit == 0 || (means <= SMOOTH_MAX_MEAN && bound < SMOOTH_BOUND));
}

/* The slopes and curvatures of row i of cells, as smooth_level() has it: row by row, since they
 * depend on means, which stay as they are. */
static void smooth_narrow_row(const struct narrow_workspace *work, const struct level *level,
                              size_t i, int32_t limit)
{
    const struct fitscodecs_hcompress_kernels *kernels = fitscodecs_kernels.hcompress;
    const size_t ninner = inner_cells(level->ncols);
    const int32_t *h0 = work->means[level->k & 1] + h0_row(level, i);
    int32_t *hy = work->coefficients + hy_row(level, i);

    kernels->smooth_slopes(ninner, h0, h0 + 1, h0 + 2, limit, hy + 1);
    if (i >= 1 && i <= inner_cells(level->nrows)) {
        const int32_t *above = h0 - level->cell_ncols, *below = h0 + level->cell_ncols;
        int32_t *hx = work->coefficients + hx_row(level, i);
        int32_t *hc = work->coefficients + hc_row(level, i);
        kernels->smooth_slopes(level->cell_ncols, above, h0, below, limit, hx);
        kernels->smooth_curvatures(ninner, above, h0, below, hx, hy, limit, hc);
    }
}

/* inverse_edge() */
static void narrow_edge(unsigned k, int32_t h0, int32_t slope, int32_t *first, int32_t *second)
{
    uint64_t wide_first, wide_second;
    inverse_edge(k, widen(h0), widen(slope), &wide_first, &wide_second);
    *first = (int32_t)wide_first;
    *second = (int32_t)wide_second;
}

/* Row i of cells to two rows of values, or to one if it is the last of an odd number. */
static void inverse_narrow_rows(const struct narrow_workspace *work, const struct level *level,
                                size_t i, int32_t *top, int32_t *bottom)
{
    const int32_t *h0 = work->means[level->k & 1] + h0_row(level, i);
    const int32_t *hy = work->coefficients + hy_row(level, i);
    const size_t nwhole = level->ncols / 2;
    const bool odd_column = level->ncols % 2 != 0;

    if (has_bottom_row(level, i)) {
        const int32_t *hx = work->coefficients + hx_row(level, i);
        const int32_t *hc = work->coefficients + hc_row(level, i);
        fitscodecs_kernels.hcompress->inverse_cells(level->k, nwhole, h0, hx, hy, hc, top, bottom);
        if (odd_column) {
            narrow_edge(level->k, h0[nwhole], hx[nwhole], &top[2 * nwhole], &bottom[2 * nwhole]);
        }
    } else {
        for (size_t j = 0; j < nwhole; j++) {
            narrow_edge(level->k, h0[j], hy[j], &top[2 * j], &top[2 * j + 1]);
        }
        if (odd_column) {
            top[2 * nwhole] = h0[nwhole] >> inverse_shift(level->k);
        }
    }
}

static void inverse_narrow_transform(const struct fitscodecs_tile *tile,
                                     const struct narrow_workspace *work, uint64_t total,
                                     int32_t limit, int32_t *pixels)
{
    unsigned depth = transform_depth(tile);
    work->means[(depth - 1) & 1][0] = (int32_t)round_to(total, (uint64_t)2 << depth);
    for (unsigned k = depth; k-- > 0;) {
        struct level level = make_level(tile, k, tile->nx);
        int32_t *out = k == 0 ? pixels : work->means[(k - 1) & 1];
        for (size_t i = 0; i < level.cell_nrows; i++) {
            int32_t *top = out + 2 * i * level.ncols;
            if (limit > 0) {
                smooth_narrow_row(work, &level, i, limit);
            }
            inverse_narrow_rows(work, &level, i, top, top + level.ncols);
        }
    }
}

/* 32-bit numbers in their place to 64-bit ones: from the end, as they move up. */
static void widen_coefficients(uint64_t *coefficients, size_t n)
{
    const uint8_t *narrow = (const uint8_t *)coefficients;
    for (size_t i = n; i-- > 0;) {
        int32_t value;
        memcpy(&value, narrow + i * sizeof value, sizeof value);
        coefficients[i] = widen(value);
    }
}

static unsigned max_nplanes(const uint8_t counts[3])
{
    unsigned n = counts[0] > counts[1] ? counts[0] : counts[1];
    return n > counts[2] ? n : counts[2];
}

/* ------------------------------------------------------------------------------- encoding */

static void forward_narrow_rows(const struct narrow_workspace *work, const struct level *level,
                                size_t i, const int32_t *top, const int32_t *bottom)
{
    const bool has_bottom = has_bottom_row(level, i);
    const size_t nwhole = has_bottom ? level->ncols / 2 : 0;
    int32_t *h0 = work->means[level->k & 1] + h0_row(level, i);
    int32_t *hy = work->coefficients + hy_row(level, i);
    int32_t *hx = work->coefficients + hx_row(level, i);
    int32_t *hc = work->coefficients + hc_row(level, i);

    fitscodecs_kernels.hcompress->forward_cells(level->k, nwhole, top, bottom, h0, hx, hy, hc);
    for (size_t j = nwhole; j < level->cell_ncols; j++) {
        bool has_right = 2 * j + 1 < level->ncols;
        size_t left = 2 * j, right = has_right ? left + 1 : left;
        uint64_t cell_h0, cell_hx, cell_hy, cell_hc;
        forward_cell(widen(top[left]), widen(top[right]), widen(bottom[left]), widen(bottom[right]),
                     level->k, &cell_h0, &cell_hx, &cell_hy, &cell_hc);
        h0[j] = (int32_t)cell_h0;
        if (has_right) {
            hy[j] = (int32_t)cell_hy;
        }
        if (has_bottom) {
            hx[j] = (int32_t)cell_hx;
        }
    }
}

/*
 * The levels for which 32 bits suffice, from the first on; returns how many.  With 'mean' a bound
 * of what goes into level k, its sums of four are not over 4 * mean, and rounding adds up to
 * 2 * 2^k.
 */
static unsigned forward_narrow_levels(const struct fitscodecs_tile *tile, const int32_t *pixels,
                                      const struct narrow_workspace *work)
{
    const unsigned depth = transform_depth(tile);
    int64_t mean = fitscodecs_kernels.hcompress->join_magnitudes(pixels, tile->nx * tile->ny);
    unsigned k = 0;
    for (; k < depth && 4 * mean + ((int64_t)4 << k) <= INT32_MAX; k++) {
        struct level level = make_level(tile, k, tile->nx);
        const int32_t *in = k == 0 ? pixels : work->means[(k - 1) & 1];
        for (size_t i = 0; i < level.cell_nrows; i++) {
            const int32_t *top = in + 2 * i * level.ncols;
            forward_narrow_rows(work, &level, i, top,
                                has_bottom_row(&level, i) ? top + level.ncols : top);
        }
        mean = (4 * mean >> (k == 0 ? 0 : 1)) + ((int64_t)2 << k);
    }
    return k;
}

/* The coefficients of level k and those above it, which are in the corner, to the others.  False if
 * 32 bits do not hold them. */
static bool narrow_corner(const struct fitscodecs_tile *tile, unsigned k,
                          const struct narrow_workspace *work)
{
    const size_t nrows = reduced(tile->ny, k), ncols = reduced(tile->nx, k);
    for (size_t i = 0; i < nrows; i++) {
        for (size_t j = 0; j < ncols; j++) {
            int64_t value = (int64_t)work->corner[i * ncols + j];
            if (value < -INT32_MAX || value > INT32_MAX) {
                return false;
            }
            work->coefficients[i * tile->nx + j] = (int32_t)value;
        }
    }
    return true;
}

/* The levels from k >= 1 on with 64 bits; false if 32 do not hold their coefficients. */
static bool forward_wide_levels(const struct fitscodecs_tile *tile, unsigned k,
                                const struct workspace *wide, const struct narrow_workspace *work,
                                uint64_t *total)
{
    const unsigned depth = transform_depth(tile);
    const size_t stride = reduced(tile->nx, k);
    struct workspace corner = *wide;
    corner.coefficients = work->corner;
    widen_coefficients(wide->means[(k - 1) & 1], reduced(tile->ny, k) * stride);
    for (unsigned i = k; i < depth; i++) {
        struct level level = make_level(tile, i, stride);
        forward_means(&corner, &level);
    }
    *total = wide->means[(depth - 1) & 1][0];
    work->corner[0] = 0;
    return narrow_corner(tile, k, work);
}

/*
 * Pixels to coefficients before digitizing, [0][0] of which is 0 and in 'total'; false if 32 bits
 * do not hold them.
 */
static bool forward_narrow_transform(const struct fitscodecs_tile *tile, const int32_t *pixels,
                                     const struct workspace *wide,
                                     const struct narrow_workspace *work, uint64_t *total)
{
    const unsigned depth = transform_depth(tile);
    unsigned k = forward_narrow_levels(tile, pixels, work);
    if (k == 0) {
        return false;
    }
    if (k < depth) {
        return forward_wide_levels(tile, k, wide, work, total);
    }
    *total = widen(work->means[(depth - 1) & 1][0]);
    work->coefficients[0] = 0;
    return true;
}

/* digitize() */
static void digitize_narrow(const struct narrow_workspace *work, size_t n, int64_t scale)
{
    if (scale > 1) {
        fitscodecs_kernels.hcompress->digitize(work->coefficients, n, (int32_t)scale);
    }
}

/* nb0, nb1, nb2; the second and third quadrant share nb1. */
static void count_narrow_planes(const int32_t *coefficients,
                                const struct quadrant quadrants[NQUADRANTS], uint8_t counts[3])
{
    memset(counts, 0, 3);
    for (size_t i = 0; i < NQUADRANTS; i++) {
        uint32_t all = 0;
        for (size_t row = 0; row < quadrants[i].nrows; row++) {
            all |= fitscodecs_kernels.hcompress->join_magnitudes(
                coefficients + quadrants[i].start + row * quadrants[i].stride, quadrants[i].ncols);
        }
        uint8_t *count = &counts[plane_count_index(i)];
        unsigned nplanes = bit_length(all);
        *count = (uint8_t)(nplanes > *count ? nplanes : *count);
    }
}

static void split_narrow_quadrant(const int32_t *coefficients, const struct quadrant *quadrant,
                                  uint64_t *planes)
{
    const size_t stride = plane_stride(quadrant);
    for (size_t i = 0; i < quadrant->nrows; i += 2) {
        const int32_t *top = coefficients + quadrant->start + i * quadrant->stride;
        fitscodecs_kernels.hcompress->split_rows(
            top, i + 1 < quadrant->nrows ? top + quadrant->stride : NULL, quadrant->ncols,
            quadrant->nplanes, planes + i / 2 * quadrant->nplanes * stride, stride);
    }
}

/* build_tree() */
static bool build_narrow_tree(const struct narrow_tree *tree)
{
    const struct fitscodecs_hcompress_kernels *kernels = fitscodecs_kernels.hcompress;
    uint64_t limit = ceil_div(tree->levels[0].nrows * tree->levels[0].ncols, 2);
    uint64_t nbits = kernels->count_nbits(&tree->levels[0]);
    for (unsigned i = 1; i < tree->nlevels && nbits / 8 < limit; i++) {
        kernels->gather_codes(&tree->levels[i - 1], &tree->levels[i]);
        nbits += kernels->count_nbits(&tree->levels[i]);
    }
    return nbits / 8 < limit;
}

static void put_narrow_cells(struct bitwriter *bw, const struct fitscodecs_hcompress_grid *grid)
{
    struct bitwriter local = *bw;
    bits_put(&local, 0, 4);
    for (size_t i = 0; i < grid->nrows; i++) {
        const uint64_t *word = grid->words + i * grid->stride;
        size_t ncodes = grid->ncols;
        for (; ncodes >= CODES_PER_WORD; ncodes -= CODES_PER_WORD, word++) {
            if (has_room(&local)) {
                put_word_with_room(&local, *word);
            } else {
                bits_put(&local, *word >> 32, 32);
                bits_put(&local, *word & 0xFFFFFFFF, 32);
            }
        }
        for (size_t j = 0; j < ncodes; j++) {
            bits_put(&local, *word >> (60 - 4 * j) & 15, 4);
        }
    }
    *bw = local;
}

static void put_narrow_tree(struct bitwriter *bw, const struct narrow_tree *tree, uint64_t *list)
{
    const struct fitscodecs_hcompress_kernels *kernels = fitscodecs_kernels.hcompress;
    size_t ncodes = 0;
    for (unsigned level = tree->nlevels; level-- > 0;) {
        ncodes = kernels->list_codes(&tree->levels[level], list, ncodes);
    }
    bits_put(bw, 15, 4);
    if (ncodes == 0) {
        put_code(bw, 0);
    }
    kernels->put_codes(bw, list, ncodes);
}

static void encode_narrow_quadrant(struct bitwriter *bw, const struct quadrant *quadrant,
                                   const struct narrow_workspace *work, uint64_t *planes)
{
    struct narrow_tree tree;
    if (is_empty(quadrant)) {
        bits_put_zeros(bw, 4 * (uint64_t)quadrant->nplanes);
        return;
    }
    split_narrow_quadrant(work->coefficients, quadrant, planes);
    make_narrow_tree(quadrant, work->levels, &tree);
    for (unsigned plane = quadrant->nplanes; plane-- > 0;) {
        set_narrow_plane(quadrant, planes, plane, &tree);
        if (build_narrow_tree(&tree)) {
            put_narrow_tree(bw, &tree, work->list);
        } else {
            put_narrow_cells(bw, &tree.levels[0]);
        }
    }
}

#endif
