/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the pixels of a tile are in an image: what decoding and encoding of many tiles share. */
#ifndef FITSCODECS_PLACES_H
#define FITSCODECS_PLACES_H

#include "common.h"

static inline size_t type_nbytes(enum fitscodecs_pixel type)
{
    static const size_t nbytes[] = {1, 2, 4, 8, 4, 8};
    return nbytes[type];
}

static inline bool type_is_float(enum fitscodecs_pixel type)
{
    return type == FITSCODECS_F32 || type == FITSCODECS_F64;
}

/* Each part of the scratch memory starts at a multiple of 8 bytes, aligned for any pixel. */
static inline size_t aligned(size_t nbytes)
{
    return saturating_mul(ceil_div(nbytes, 8), 8);
}

/* The tile as its codec sees it: nx is the last axis longer than 1, ny the product of those before
 * it. */
static inline struct fitscodecs_tile tile_of_shape(const struct fitscodecs_batch *batch,
                                                   const int64_t *shape)
{
    struct fitscodecs_tile tile = {1, 1, {0}};
    size_t k = batch->ndim;

    while (k > 0 && tile.nx == 1) {
        tile.nx = (size_t)shape[--k];
    }
    while (k > 0) {
        tile.ny = saturating_mul(tile.ny, (size_t)shape[--k]);
    }
    memcpy(tile.parameters, batch->parameters, sizeof tile.parameters);
    return tile;
}

/* Flip the highest bit of integers: those with BZERO are stored as the type of the other
 * signedness (section 4.4.2.5, table 11). */
static inline void flip_signs(void *pixels, size_t n, size_t itemsize)
{
    uint8_t *u8 = pixels;
    uint16_t *u16 = pixels;
    uint32_t *u32 = pixels;
    uint64_t *u64 = pixels;

    for (size_t i = 0; itemsize == 1 && i < n; i++) {
        u8[i] ^= (uint8_t)1 << 7;
    }
    for (size_t i = 0; itemsize == 2 && i < n; i++) {
        u16[i] ^= (uint16_t)1 << 15;
    }
    for (size_t i = 0; itemsize == 4 && i < n; i++) {
        u32[i] ^= (uint32_t)1 << 31;
    }
    for (size_t i = 0; itemsize == 8 && i < n; i++) {
        u64[i] ^= (uint64_t)1 << 63;
    }
}

/* The part of a tile that is wanted, with as few axes as describe it, the fast one first. */
struct part {
    size_t first; /* its first pixel in the tile */
    size_t ndim;  /* at least 1 */
    size_t count[FITSCODECS_MAX_DIMENSIONS];
    ptrdiff_t in_step[FITSCODECS_MAX_DIMENSIONS];  /* pixels of the tile */
    ptrdiff_t out_step[FITSCODECS_MAX_DIMENSIONS]; /* bytes of the image */
};

/*
 * Axes of one pixel are left out, and two axes that one step describes are one.  'start' and 'step'
 * may be NULL for a whole tile.  Filled in place: a part has room for many axes and uses few.
 */
static inline void make_part(struct part *part, size_t ndim, const ptrdiff_t *strides,
                             size_t itemsize, const int64_t *shape, const int64_t *start,
                             const int64_t *step, const int64_t *counts)
{
    ptrdiff_t distance = 1; /* of neighbours along axis k in the tile */
    size_t n = 0;

    part->first = 0;
    for (size_t k = ndim; k-- > 0; distance *= (ptrdiff_t)shape[k]) {
        size_t count = (size_t)counts[k], last = n - 1;
        ptrdiff_t in_step = (step == NULL ? 1 : (ptrdiff_t)step[k]) * distance;
        part->first += start == NULL ? 0 : (size_t)start[k] * (size_t)distance;
        if (n > 0 && part->in_step[last] * (ptrdiff_t)part->count[last] == in_step &&
            part->out_step[last] * (ptrdiff_t)part->count[last] == strides[k]) {
            part->count[last] *= count;
        } else if (count != 1) {
            part->count[n] = count;
            part->in_step[n] = in_step;
            part->out_step[n] = strides[k];
            n++;
        }
    }
    if (n == 0) {
        part->count[0] = 1;
        part->in_step[0] = 1;
        part->out_step[0] = (ptrdiff_t)itemsize;
    }
    part->ndim = n > 0 ? n : 1;
}

static inline bool is_empty(const struct part *part)
{
    for (size_t k = 0; k < part->ndim; k++) {
        if (part->count[k] == 0) {
            return true;
        }
    }
    return false;
}

/* Where a row of a part begins: an odometer over all axes but the fast one. */
struct row {
    size_t first;    /* its first pixel in the tile */
    ptrdiff_t place; /* bytes from the first pixel of the part in the image */
    size_t position[FITSCODECS_MAX_DIMENSIONS];
};

static inline void first_row(const struct part *part, struct row *row)
{
    row->first = part->first;
    row->place = 0;
    for (size_t k = 1; k < part->ndim; k++) {
        row->position[k] = 0;
    }
}

/* Go on to the next row; false if there is none. */
static inline bool next_row(const struct part *part, struct row *row)
{
    size_t k = 1;

    for (; k < part->ndim && ++row->position[k] == part->count[k]; k++) {
        row->first -= (part->count[k] - 1) * (size_t)part->in_step[k];
        row->place -= (ptrdiff_t)(part->count[k] - 1) * part->out_step[k];
        row->position[k] = 0;
    }
    if (k == part->ndim) {
        return false;
    }
    row->first += (size_t)part->in_step[k];
    row->place += part->out_step[k];
    return true;
}

/* Whether pixels can be stored one after the other from here. */
static inline bool is_plain(const uint8_t *out, ptrdiff_t out_step, size_t itemsize)
{
    return out_step == (ptrdiff_t)itemsize && (uintptr_t)out % itemsize == 0;
}

/* One row of pixels, with any distance between them on both sides. */
static inline void copy_row(const uint8_t *in, ptrdiff_t in_step, uint8_t *out, ptrdiff_t out_step,
                            size_t n, size_t itemsize)
{
    if (in_step == (ptrdiff_t)itemsize && out_step == (ptrdiff_t)itemsize) {
        memcpy(out, in, n * itemsize);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(out, in, itemsize);
        in += in_step;
        out += out_step;
    }
}

#endif
