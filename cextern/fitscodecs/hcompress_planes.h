/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Coefficients of HCOMPRESS_1 as bits and back: Huffman code, quadtrees, bit planes of the four
 * quadrants, and signs.  Included by hcompress.c, whose head describes them.
 */
#ifndef FITSCODECS_HCOMPRESS_PLANES_H
#define FITSCODECS_HCOMPRESS_PLANES_H

#include "bitreader.h"
#include "bitwriter.h"
#include "hcompress_code.h"
#include "hcompress_geometry.h"
#include "hcompress_transform.h"

/* Planes: level 0 alone makes the three quadrants other than the first. */
#define OUTER_QUADRANT_MAX_PLANES 33u
#define FIRST_QUADRANT_MAX_PLANES(depth) (32u + (depth))

/* Most planes that a stream may have.  By the above an encoder of int32 pixels has no more than
 * 32 + 29 of them; and a magnitude of 62 bits and its sign fit into 64 with a bit to spare. */
#define MAX_PLANES 62

/* ------------------------------------------------------------------------ Huffman code */

/* What the next 6 bits begin with: 16 * length + value, in the order of the codes.  The code is
 * complete, so that there is nothing a stream could do wrong. */
#define CODE_6(value) 0x60 | (value)
#define CODE_5(value) 0x50 | (value), 0x50 | (value)
#define CODE_4(value) 0x40 | (value), 0x40 | (value), 0x40 | (value), 0x40 | (value)
#define CODE_3_HALF(value) 0x30 | (value), 0x30 | (value), 0x30 | (value), 0x30 | (value)
#define CODE_3(value) CODE_3_HALF(value), CODE_3_HALF(value)
/* clang-format off */
static const uint8_t huffman_lookup[1 << HUFFMAN_MAX_NBITS] = {
    CODE_3(1),  CODE_3(2),  CODE_3(4), CODE_3(8),                /* 000 to 011 */
    CODE_4(3),  CODE_4(5),  CODE_4(10), CODE_4(12), CODE_4(15),  /* 1000 to 1100 */
    CODE_5(6),  CODE_5(7),  CODE_5(9), CODE_5(11), CODE_5(13),   /* 11010 to 11110 */
    CODE_6(0),  CODE_6(14),                                      /* 111110, 111111 */
};
/* clang-format on */

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

/* -------------------------------------------------------------------------------- trees */

/* The codes of one plane: level 0 has one for each cell, the last level is the root. */
struct tree {
    unsigned nlevels;
    size_t nrows[MAX_TREE_LEVELS], ncols[MAX_TREE_LEVELS];
    uint8_t *codes[MAX_TREE_LEVELS];
};

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
    if (is_empty(quadrant)) {
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
static void gather_plane(const uint64_t *coefficients, const struct quadrant *quadrant,
                         unsigned bit, const struct tree *tree)
{
    const uint64_t *start = coefficients + quadrant->start;
    memset(tree->codes[0], 0, tree->nrows[0] * tree->ncols[0]);
    for (size_t i = 0; i < quadrant->nrows; i++) {
        gather_row(start + i * quadrant->stride, quadrant->ncols, bit, i % 2 == 0 ? 2 : 0,
                   tree->codes[0] + i / 2 * tree->ncols[0]);
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

static void scatter_plane(const struct tree *tree, unsigned bit, const struct quadrant *quadrant,
                          uint64_t *coefficients)
{
    uint64_t *start = coefficients + quadrant->start;
    for (size_t i = 0; i < quadrant->nrows; i++) {
        scatter_row(tree->codes[0] + i / 2 * tree->ncols[0], i % 2 == 0 ? 2 : 0, bit,
                    start + i * quadrant->stride, quadrant->ncols);
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
static unsigned quadrant_nplanes(const uint64_t *coefficients, const struct quadrant *quadrant)
{
    uint64_t all = 0;
    for (size_t i = 0; i < quadrant->nrows; i++) {
        const uint64_t *row = coefficients + quadrant->start + i * quadrant->stride;
        for (size_t j = 0; j < quadrant->ncols; j++) {
            all |= row[j];
        }
    }
    return bit_length(all >> 1);
}

/* nb0, nb1, nb2; the second and third quadrant share nb1. */
static void count_planes(const uint64_t *coefficients, const struct quadrant quadrants[NQUADRANTS],
                         uint8_t counts[3])
{
    memset(counts, 0, 3);
    for (size_t i = 0; i < NQUADRANTS; i++) {
        uint8_t *count = &counts[plane_count_index(i)];
        unsigned nplanes = quadrant_nplanes(coefficients, &quadrants[i]);
        *count = (uint8_t)(nplanes > *count ? nplanes : *count);
    }
}

static void encode_quadrant(struct bitwriter *bw, const uint64_t *coefficients,
                            const struct quadrant *quadrant, uint8_t *codes)
{
    struct tree tree;
    make_tree(quadrant, codes, &tree);
    for (unsigned plane = quadrant->nplanes; plane-- > 0;) {
        gather_plane(coefficients, quadrant, plane + 1, &tree);
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

static enum fitscodecs_status bad_plane_format(uint64_t format, struct fitscodecs_result *result)
{
    return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                           "bit plane has format {found}, wanted 0 or {wanted}", (int64_t)format,
                           15);
}

static enum fitscodecs_status short_plane(const struct progress *progress,
                                          struct fitscodecs_result *result)
{
    return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                           "data ends in bit plane {found} of {wanted}", progress->plane,
                           progress->nplanes);
}

static enum fitscodecs_status missing_sign(size_t i, size_t n, struct fitscodecs_result *result)
{
    return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                           "data ends at the sign of coefficient {found} of {wanted}", (int64_t)i,
                           (int64_t)n);
}

static enum fitscodecs_status decode_plane(struct bitreader *br, uint64_t *coefficients,
                                           const struct quadrant *quadrant, const struct tree *tree,
                                           unsigned plane, const struct progress *progress,
                                           struct fitscodecs_result *result)
{
    uint64_t format;
    bool is_zero = false;
    bool complete = bits_take(br, 4, &format);
    if (complete && format != 0 && format != 15) {
        return bad_plane_format(format, result);
    }
    complete = complete && (format == 0 ? take_cells(br, tree) : take_tree(br, tree, &is_zero));
    if (!complete) {
        return short_plane(progress, result);
    }
    if (!is_zero) {
        scatter_plane(tree, plane, quadrant, coefficients);
    }
    return FITSCODECS_OK;
}

static enum fitscodecs_status decode_quadrants(struct bitreader *br, uint64_t *coefficients,
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
                decode_plane(br, coefficients, &quadrants[i], &tree, plane, &progress, result);
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
            return missing_sign(i, n, result);
        }
        coefficients[i] = negate_if(coefficients[i], bits_peek(&local, 1) & has_sign);
        bits_drop(&local, has_sign);
    }
    *br = local;
    return FITSCODECS_OK;
}

#endif
