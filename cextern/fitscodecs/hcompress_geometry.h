/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where things are in HCOMPRESS_1: sizes of the levels of the transform, of the quadrants and of
 * the levels of a quadtree, and offsets in the array of coefficients, whatever its numbers are.
 * Included by hcompress.c, whose head describes them.
 */
#ifndef FITSCODECS_HCOMPRESS_GEOMETRY_H
#define FITSCODECS_HCOMPRESS_GEOMETRY_H

#include "common.h"

#define NQUADRANTS 4

/* Levels of a quadtree: at most 31, as a quadrant has no side over 2^30 and 31 halvings of that
 * are more than enough to reach 1. */
#define MAX_TREE_LEVELS 31

/* ceil(log2(n)) for n >= 1 */
static unsigned log2_ceil(size_t n)
{
    return bit_length(n - 1);
}

/* ceil(n / 2^k) for n >= 1 */
static size_t reduced(size_t n, unsigned k)
{
    return k == 0 ? n : ((n - 1) >> k) + 1;
}

/* --------------------------------------------------------------- levels of the transform */

static unsigned transform_depth(const struct fitscodecs_tile *tile)
{
    return log2_ceil(tile->nx > tile->ny ? tile->nx : tile->ny);
}

/* One level: a corner of the array of coefficients. */
struct level {
    unsigned k;
    size_t nrows, ncols;           /* r, c */
    size_t cell_nrows, cell_ncols; /* ceil(r / 2), ceil(c / 2) */
    size_t stride;                 /* from a row of the array to the next */
};

/* 'stride' is tile->nx, unless the array has only a corner of the tile. */
static struct level make_level(const struct fitscodecs_tile *tile, unsigned k, size_t stride)
{
    struct level level;
    level.k = k;
    level.nrows = reduced(tile->ny, k);
    level.ncols = reduced(tile->nx, k);
    level.cell_nrows = reduced(level.nrows, 1);
    level.cell_ncols = reduced(level.ncols, 1);
    level.stride = stride;
    return level;
}

/* Where row i of cells starts: of h0 among the means, which have no gaps, of the others among the
 * coefficients. */
static inline size_t h0_row(const struct level *level, size_t i)
{
    return i * level->cell_ncols;
}

static inline size_t hy_row(const struct level *level, size_t i)
{
    return i * level->stride + level->cell_ncols;
}

static inline size_t hx_row(const struct level *level, size_t i)
{
    return (level->cell_nrows + i) * level->stride;
}

static inline size_t hc_row(const struct level *level, size_t i)
{
    return hx_row(level, i) + level->cell_ncols;
}

/* Whether row i of cells has both rows of its values: it may be the last of an odd number. */
static inline bool has_bottom_row(const struct level *level, size_t i)
{
    return 2 * i + 1 < level->nrows;
}

/*
 * Cells of a row or column of n values that are smoothed with those before and behind them: this
 * many, from number 1 on.  The last cell is none of them, and the one before it only if the last
 * one lacks a value.
 */
static size_t inner_cells(size_t n)
{
    return n < 3 ? 0 : (n - 3) / 2;
}

/* Number of means of all levels k with the same parity: none has more than level 0 or 1. */
static size_t means_length(const struct fitscodecs_tile *tile, unsigned k)
{
    return saturating_mul(reduced(tile->ny, k + 1), reduced(tile->nx, k + 1));
}

/* ------------------------------------------------------------------- quadrants and trees */

/* One of the four parts of the array of coefficients; it may be empty. */
struct quadrant {
    size_t nrows, ncols, start, stride;
    unsigned nplanes;
};

/* Which of nb0, nb1, nb2 counts the planes of quadrant i: 0, 1, 1, 2 */
static size_t plane_count_index(size_t i)
{
    return i / 2 + i % 2;
}

static void make_quadrants(const struct fitscodecs_tile *tile,
                           struct quadrant quadrants[NQUADRANTS])
{
    const size_t nrows[2] = {tile->ny - tile->ny / 2, tile->ny / 2};
    const size_t ncols[2] = {tile->nx - tile->nx / 2, tile->nx / 2};
    for (size_t i = 0; i < NQUADRANTS; i++) {
        size_t below = i / 2, right = i % 2;
        quadrants[i].nrows = nrows[below];
        quadrants[i].ncols = ncols[right];
        quadrants[i].start = below * nrows[0] * tile->nx + right * ncols[0];
        quadrants[i].stride = tile->nx;
        quadrants[i].nplanes = 0;
    }
}

static void set_planes(struct quadrant quadrants[NQUADRANTS], const uint8_t counts[3])
{
    for (size_t i = 0; i < NQUADRANTS; i++) {
        quadrants[i].nplanes = counts[plane_count_index(i)];
    }
}

static bool is_empty(const struct quadrant *quadrant)
{
    return quadrant->nrows == 0 || quadrant->ncols == 0;
}

/* Levels of the tree of a quadrant that is not empty: max(1, ceil(log2(max(rows, columns)))).
 * Level i has reduced(rows, i + 1) rows and reduced(columns, i + 1) columns of codes. */
static unsigned tree_nlevels(size_t nrows, size_t ncols)
{
    size_t n = nrows > ncols ? nrows : ncols;
    return n <= 2 ? 1 : log2_ceil(n);
}

#endif
