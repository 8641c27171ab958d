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
 *     bytes 10-13  scale; 1 and less mean lossless
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
 * There are two ways through all of this.  The wide one, hcompress_transform.h and
 * hcompress_planes.h, takes any tile and any stream and says in the plainest words what the format
 * is.  The narrow one, hcompress_narrow.h, is for nearly all of them: where 32 bits hold the
 * coefficients and rows are not too short, the same is done by kernels, many cells at a time.
 */
#include "hcompress_narrow.h"
#include "hcompress_planes.h"
#include "hcompress_transform.h"

enum parameter { SCALE, SMOOTH };

#define MAGIC 0xDD99
#define HEADER_NBYTES 25

/* A test sets it to 0 to compare the two ways of encoding and decoding. */
#ifndef HCOMPRESS_USE_KERNELS
#define HCOMPRESS_USE_KERNELS 1
#endif

/* ----------------------------------------------------------------------- stream header */

struct header {
    int64_t nrows, ncols, scale;
    uint64_t total;     /* coefficient [0][0] */
    uint8_t nplanes[3]; /* nb0, nb1, nb2 */
};

/* The total is known and the planes are counted later. */
static struct header make_header(const struct fitscodecs_tile *tile)
{
    struct header header;
    header.nrows = (int64_t)tile->ny;
    header.ncols = (int64_t)tile->nx;
    header.scale = tile->parameters[SCALE];
    header.total = 0;
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
    if (header->scale < 0) { /* what astropy writes for a negative request, lossless */
        header->scale = 0;
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
    struct quadrant quadrants[NQUADRANTS];
    make_quadrants(tile, quadrants);
    for (size_t i = 0; i < NQUADRANTS && depth > 0; i++) {
        size_t nplanes = i == 0 ? FIRST_QUADRANT_MAX_PLANES(depth) : OUTER_QUADRANT_MAX_PLANES;
        size_t ncells =
            saturating_mul(ceil_div(quadrants[i].nrows, 2), ceil_div(quadrants[i].ncols, 2));
        size_t plane_nbytes = saturating_add(1, ceil_div(ncells, 2));
        nbytes = saturating_add(nbytes, saturating_mul(nplanes, plane_nbytes));
    }
    size_t npixels = saturating_mul(tile->nx, tile->ny);
    /* ceil_div() would make a small number of SIZE_MAX; the planes, being more, say so already */
    return saturating_add(nbytes, ceil_div(npixels, 8));
}

static size_t coefficients_nbytes(const struct fitscodecs_tile *tile)
{
    /* One more, so that behind the coefficients of 32 bits there is room for those of 64 bits of a
     * corner of half as many rows and columns, whatever is odd. */
    size_t n = saturating_add(saturating_mul(tile->nx, tile->ny), 1);
    return saturating_mul(n, sizeof(uint64_t));
}

static size_t means_nbytes(const struct fitscodecs_tile *tile, unsigned k)
{
    return saturating_mul(means_length(tile, k), sizeof(uint64_t));
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
    nbytes = saturating_add(nbytes, narrow_nbytes(tile));
    return saturating_add(nbytes, tree_nbytes(reduced(tile->ny, 1), reduced(tile->nx, 1)));
}

static struct workspace carve_scratch(const struct fitscodecs_tile *tile, void *scratch)
{
    struct workspace work;
    work.coefficients = scratch;
    work.means[0] = work.coefficients + coefficients_nbytes(tile) / sizeof(uint64_t);
    work.means[1] = work.means[0] + means_nbytes(tile, 0) / sizeof(uint64_t);
    work.row_pair = work.means[1] + means_nbytes(tile, 1) / sizeof(uint64_t);
    work.narrow = work.row_pair + row_pair_nbytes(tile) / sizeof(uint64_t);
    work.codes = (uint8_t *)(work.narrow + narrow_nbytes(tile) / sizeof(uint64_t));
    return work;
}

static enum fitscodecs_status short_output(const struct fitscodecs_tile *tile, size_t out_nbytes,
                                           struct fitscodecs_result *result)
{
    return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                           "output has room for {found} bytes; {wanted} are always enough",
                           (int64_t)out_nbytes, (int64_t)hcompress_encode_bound(tile));
}

/* Pixels to header and what follows it, with coefficients of 64 bits. */
static void encode_wide(struct bitwriter *bw, const struct fitscodecs_tile *tile,
                        const int32_t *pixels, const struct workspace *work, struct header *header)
{
    const size_t npixels = tile->nx * tile->ny;
    struct quadrant quadrants[NQUADRANTS];

    forward_transform(tile, pixels, work);
    digitize(work->coefficients, npixels, header->scale);
    header->total = work->coefficients[0];
    work->coefficients[0] = 0;
    fold_signs(work->coefficients, npixels);
    make_quadrants(tile, quadrants);
    count_planes(work->coefficients, quadrants, header->nplanes);
    set_planes(quadrants, header->nplanes);

    for (size_t i = 0; i < NQUADRANTS; i++) {
        encode_quadrant(bw, work->coefficients, &quadrants[i], work->codes);
    }
    bits_put(bw, 0, 4);
    bits_put_padding(bw);
    put_signs(bw, work->coefficients, npixels);
}

/* The same with 32 bits; false, and nothing written, if they do not suffice. */
static bool encode_narrow(struct bitwriter *bw, const struct fitscodecs_tile *tile,
                          const int32_t *pixels, const struct workspace *work,
                          struct header *header)
{
    struct narrow_workspace narrow;
    struct quadrant quadrants[NQUADRANTS];

    if (!HCOMPRESS_USE_KERNELS || !has_narrow_shape(tile)) {
        return false;
    }
    narrow = carve_narrow(tile, work);
    if (!forward_narrow_transform(tile, pixels, work, &narrow, &header->total)) {
        return false;
    }
    digitize(&header->total, 1, header->scale);
    digitize_narrow(&narrow, tile->nx * tile->ny, header->scale);
    make_quadrants(tile, quadrants);
    count_narrow_planes(narrow.coefficients, quadrants, header->nplanes);
    set_planes(quadrants, header->nplanes);

    for (size_t i = 0; i < NQUADRANTS; i++) {
        encode_narrow_quadrant(bw, &quadrants[i], &narrow, narrow.planes[i]);
    }
    bits_put(bw, 0, 4);
    bits_put_padding(bw);
    fitscodecs_kernels.hcompress->put_signs(bw, narrow.coefficients, tile->nx * tile->ny);
    bits_put_padding(bw);
    return true;
}

static enum fitscodecs_status hcompress_encode(const struct fitscodecs_tile *tile,
                                               const void *pixels, uint8_t *out, size_t out_nbytes,
                                               void *scratch, struct fitscodecs_result *result)
{
    struct workspace work = carve_scratch(tile, scratch);
    struct header header = make_header(tile);
    struct bitwriter bw;

    if (transform_depth(tile) > MAX_ENCODE_DEPTH) {
        return fitscodecs_fail(result, FITSCODECS_VALUE_RANGE,
                               "tile needs {found} levels of transform, 64 bits hold {wanted}",
                               transform_depth(tile), MAX_ENCODE_DEPTH);
    }
    if (out_nbytes < HEADER_NBYTES) {
        return short_output(tile, out_nbytes, result);
    }
    bits_create(&bw, out + HEADER_NBYTES, out_nbytes - HEADER_NBYTES);
    if (!encode_narrow(&bw, tile, pixels, &work, &header)) {
        encode_wide(&bw, tile, pixels, &work, &header);
    }
    if (bw.overflow) {
        return short_output(tile, out_nbytes, result);
    }
    store_header(&header, out);
    result->nbytes = HEADER_NBYTES + bits_written_nbytes(&bw);
    result->detail = NULL;
    return FITSCODECS_OK;
}

/* Limit of the smoothing, 0 for none */
static int64_t smooth_limit(const struct fitscodecs_tile *tile, const struct header *header)
{
    return tile->parameters[SMOOTH] != 0 ? header->scale >> 1 : 0;
}

/* All that follows the header, up to the pixels, with coefficients of 64 bits. */
static enum fitscodecs_status decode_wide(struct bitreader *br, const struct fitscodecs_tile *tile,
                                          const struct header *header, const struct workspace *work,
                                          int32_t *pixels, struct fitscodecs_result *result)
{
    const size_t npixels = tile->nx * tile->ny;
    struct quadrant quadrants[NQUADRANTS];
    enum fitscodecs_status status;

    memset(work->coefficients, 0, npixels * sizeof(uint64_t));
    make_quadrants(tile, quadrants);
    set_planes(quadrants, header->nplanes);
    status = decode_quadrants(br, work->coefficients, quadrants, work->codes, result);
    if (status == FITSCODECS_OK) {
        status = decode_end_nibble(br, result);
    }
    if (status == FITSCODECS_OK) {
        status = decode_signs(br, work->coefficients, npixels, result);
    }
    if (status == FITSCODECS_OK) {
        work->coefficients[0] = header->total;
        undigitize(work->coefficients, npixels, header->scale);
        inverse_transform(tile, work, work->coefficients[0], smooth_limit(tile, header), pixels);
    }
    return status;
}

/* Whether decode_narrow() may be used. */
static bool is_narrow_stream(const struct fitscodecs_tile *tile, const struct header *header)
{
    return HCOMPRESS_USE_KERNELS && has_narrow_shape(tile) &&
           max_nplanes(header->nplanes) <= NARROW_MAX_PLANES;
}

/*
 * The same where the stream has planes for no more than 32 bits.  If the transform or its smoothing
 * needs 64, the coefficients are widened for it.
 */
static enum fitscodecs_status
decode_narrow(struct bitreader *br, const struct fitscodecs_tile *tile, const struct header *header,
              const struct workspace *work, int32_t *pixels, struct fitscodecs_result *result)
{
    const struct narrow_workspace narrow = carve_narrow(tile, work);
    const int64_t limit = smooth_limit(tile, header), scale = max_i64(header->scale, 1);
    const bool is_narrow =
        inverse_is_narrow(tile, header->total, max_nplanes(header->nplanes), scale, limit);
    struct quadrant quadrants[NQUADRANTS];
    enum fitscodecs_status status;

    make_quadrants(tile, quadrants);
    set_planes(quadrants, header->nplanes);
    status = decode_narrow_quadrants(br, quadrants, &narrow, result);
    if (status == FITSCODECS_OK) {
        status = decode_end_nibble(br, result);
    }
    if (status == FITSCODECS_OK) {
        status =
            join_narrow_rows(br, tile, quadrants, &narrow, is_narrow ? (int32_t)scale : 1, result);
    }
    if (status != FITSCODECS_OK) {
        return status;
    }
    if (is_narrow) {
        inverse_narrow_transform(tile, &narrow, header->total * (uint64_t)scale, (int32_t)limit,
                                 pixels);
    } else {
        widen_coefficients(work->coefficients, tile->nx * tile->ny);
        work->coefficients[0] = header->total;
        undigitize(work->coefficients, tile->nx * tile->ny, scale);
        inverse_transform(tile, work, work->coefficients[0], limit, pixels);
    }
    return FITSCODECS_OK;
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
    status = is_narrow_stream(tile, &header)
                 ? decode_narrow(&br, tile, &header, &work, pixels, result)
                 : decode_wide(&br, tile, &header, &work, pixels, result);
    if (status != FITSCODECS_OK) {
        return status;
    }
    result->nbytes = HEADER_NBYTES + bits_used_nbytes(&br);
    result->detail = NULL;
    return FITSCODECS_OK;
}

extern const struct fitscodecs_codec fitscodecs_hcompress_1;
const struct fitscodecs_codec fitscodecs_hcompress_1 = {
    .name = "HCOMPRESS_1",
    .parameters = {"SCALE", "SMOOTH", NULL},
    .check = hcompress_check,
    .pixel_nbytes = hcompress_pixel_nbytes,
    .encode_bound = hcompress_encode_bound,
    .scratch_nbytes = hcompress_scratch_nbytes,
    .encode = hcompress_encode,
    .decode = hcompress_decode,
};
