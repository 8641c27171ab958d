/* SPDX-License-Identifier: BSD-3-Clause */
/* From the decoded pixels of a tile to those of the image: converted, and put where they belong. */
#ifndef FITSCODECS_STORE_H
#define FITSCODECS_STORE_H

#include "convert.h"
#include "dequantize.h"
#include "places.h"

/* Pixels that are converted before they go to places that do not lie together. */
#define LINE_NPIXELS 1024

static bool needs_conversion(const struct fitscodecs_batch *batch)
{
    return batch->quantized || batch->tile_type != batch->image_type ||
           (batch->offset != 0 && !type_is_float(batch->tile_type));
}

/* Whether the codec decodes several tiles at once: those whose streams are there as they are. */
static bool has_groups(const struct fitscodecs_batch *batch)
{
    return batch->codec->decode_several != NULL && batch->gzip == NULL;
}

/* Whether the codec flips the highest bit, where that is wanted; else it is done here. */
static bool codec_flips(const struct fitscodecs_batch *batch)
{
    return batch->flip && batch->codec->flips && has_groups(batch) && !needs_conversion(batch);
}

/* ------------------------------------------------------------------- conversion */

/* How the pixels of one tile become those of the image. */
struct converter {
    const struct fitscodecs_batch *batch;
    struct fitscodecs_dequantizer dequantizer;
};

static enum fitscodecs_status converter_start(struct converter *converter,
                                              const struct fitscodecs_batch *batch,
                                              const struct fitscodecs_job *job,
                                              struct fitscodecs_result *result)
{
    bool gives_floats = batch->quantized || type_is_float(batch->tile_type);

    converter->batch = batch;
    if (gives_floats != type_is_float(batch->image_type)) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "integers and floats mixed: pixel types {found} and {wanted}",
                               (int64_t)batch->tile_type, (int64_t)batch->image_type);
    }
    if (!batch->quantized) {
        return FITSCODECS_OK;
    }
    return fitscodecs_dequantizer_start(
        &converter->dequantizer, batch->dither, batch->seed, job->row, batch->tile_type, job->scale,
        job->zero, job->has_blank, job->blank, batch->image_type == FITSCODECS_F64, result);
}

/* Convert n pixels, of which the first is pixel 'first' of the tile; 'out' is aligned. */
static enum fitscodecs_status convert(struct converter *converter, const void *in, size_t first,
                                      size_t n, void *out, struct fitscodecs_result *result)
{
    const struct fitscodecs_batch *batch = converter->batch;
    enum fitscodecs_status status = FITSCODECS_OK;

    if (batch->quantized) {
        fitscodecs_dequantizer_seek(&converter->dequantizer, first);
        fitscodecs_dequantizer_run(&converter->dequantizer, in, n, out);
    } else if (!needs_conversion(batch)) {
        memcpy(out, in, n * type_nbytes(batch->tile_type));
    } else if (type_is_float(batch->tile_type)) {
        fitscodecs_convert_floats(in, n, out, batch->image_type);
    } else {
        /* a lossy HCOMPRESS stream may leave the range of the image's type */
        status = fitscodecs_convert_integers(in, batch->tile_type, n, batch->offset, batch->clip,
                                             out, batch->image_type, result);
    }
    if (batch->flip && !codec_flips(batch)) {
        flip_signs(out, n, type_nbytes(batch->image_type));
    }
    return status;
}

/* Up to LINE_NPIXELS pixels, of which the first is pixel 'first' of the tile, to places with any
 * distance between them. */
static enum fitscodecs_status store_few(struct converter *converter, const uint8_t *pixels,
                                        size_t first, ptrdiff_t in_step, size_t n, uint8_t *out,
                                        ptrdiff_t out_step, struct fitscodecs_result *result)
{
    size_t in_nbytes = type_nbytes(converter->batch->tile_type);
    size_t out_nbytes = type_nbytes(converter->batch->image_type);
    uint64_t picked[LINE_NPIXELS], line[LINE_NPIXELS];
    enum fitscodecs_status status;

    picked[0] = 0; /* n is not 0, which GCC does not see */
    copy_row(pixels, in_step * (ptrdiff_t)in_nbytes, (uint8_t *)picked, (ptrdiff_t)in_nbytes, n,
             in_nbytes);
    status = convert(converter, picked, first, n, line, result);
    copy_row((const uint8_t *)line, (ptrdiff_t)out_nbytes, out, out_step, n, out_nbytes);
    return status;
}

/*
 * One row of the part, from pixel 'first' of the tile on.  Dither belongs to the place of a pixel
 * in its tile, so that pixels which are not neighbours there are converted one by one if there is
 * dither.
 */
static enum fitscodecs_status store_row(struct converter *converter, const uint8_t *pixels,
                                        size_t first, ptrdiff_t in_step, size_t n, uint8_t *out,
                                        ptrdiff_t out_step, struct fitscodecs_result *result)
{
    const struct fitscodecs_batch *batch = converter->batch;
    bool is_dithered = batch->quantized && batch->dither != FITSCODECS_NO_DITHER;
    size_t most = in_step != 1 && is_dithered ? 1 : LINE_NPIXELS;

    if (in_step == 1 && is_plain(out, out_step, type_nbytes(batch->image_type))) {
        return convert(converter, pixels, first, n, out, result);
    }
    while (n > 0) {
        size_t m = n < most ? n : most;
        ptrdiff_t distance = in_step * (ptrdiff_t)m;
        enum fitscodecs_status status =
            store_few(converter, pixels, first, in_step, m, out, out_step, result);
        if (status != FITSCODECS_OK) {
            return status;
        }
        n -= m;
        if (n > 0) {
            pixels += distance * (ptrdiff_t)type_nbytes(batch->tile_type);
        }
        first += (size_t)distance; /* modulo the size of the address space if backwards */
        out += out_step * (ptrdiff_t)m;
    }
    return FITSCODECS_OK;
}

/* Store the part row by row, where pixels need not be changed. */
static void copy_part(const struct part *part, const uint8_t *tile, size_t itemsize, uint8_t *out)
{
    size_t row_nbytes = part->count[0] * itemsize;
    struct row row;

    first_row(part, &row);
    if (part->ndim == 2) { /* as nearly always: tiles of few pixels take half the time */
        const uint8_t *in = tile + row.first * itemsize;
        const ptrdiff_t in_step = part->in_step[1] * (ptrdiff_t)itemsize;
        for (size_t i = 0; i < part->count[1]; i++) {
            memcpy(out + (ptrdiff_t)i * part->out_step[1], in + (ptrdiff_t)i * in_step, row_nbytes);
        }
        return;
    }
    do {
        memcpy(out + row.place, tile + row.first * itemsize, row_nbytes);
    } while (next_row(part, &row));
}

/* Store the part row by row. */
static enum fitscodecs_status store_part(struct converter *converter, const struct part *part,
                                         const uint8_t *tile, uint8_t *out,
                                         struct fitscodecs_result *result)
{
    const struct fitscodecs_batch *batch = converter->batch;
    size_t itemsize = type_nbytes(batch->image_type), in_nbytes = type_nbytes(batch->tile_type);
    struct row row;

    if (!needs_conversion(batch) && (!batch->flip || codec_flips(batch)) && part->in_step[0] == 1 &&
        part->out_step[0] == (ptrdiff_t)itemsize) {
        copy_part(part, tile, itemsize, out);
        return FITSCODECS_OK;
    }
    first_row(part, &row);
    do {
        enum fitscodecs_status status =
            store_row(converter, tile + row.first * in_nbytes, row.first, part->in_step[0],
                      part->count[0], out + row.place, part->out_step[0], result);
        if (status != FITSCODECS_OK) {
            return status;
        }
    } while (next_row(part, &row));
    return FITSCODECS_OK;
}

/* ------------------------------------------------------------------- row by row */

/* A part of a tile that is stored while the tile is decoded; all its rows have the same memory. */
struct row_target {
    struct converter converter;
    const uint8_t *row;
    size_t nx, x, y;    /* of the tile: pixels of a row; the first pixel and row that are wanted, */
    size_t npixels, ny; /* and how many pixels and rows */
    uint8_t *out;       /* where they go, */
    ptrdiff_t out_steps[2]; /* pixels and rows so many bytes apart */
    enum fitscodecs_status status;
    struct fitscodecs_result result;
};

/* Whether a part is some neighbouring pixels of neighbouring rows of the tile, and which. */
static bool is_block_of_rows(const struct part *part, size_t nx, struct row_target *target)
{
    size_t n = part->count[0];

    target->nx = nx;
    target->x = part->first % nx;
    target->y = part->first / nx;
    target->npixels = n;
    target->ny = part->ndim == 1 ? 1 : part->count[1];
    target->out_steps[0] = part->out_step[0];
    target->out_steps[1] = part->ndim == 1 ? 0 : part->out_step[1];
    if (part->ndim == 1 && target->x == 0 && n % nx == 0) { /* several whole rows */
        target->npixels = nx;
        target->ny = n / nx;
        target->out_steps[1] = (ptrdiff_t)nx * part->out_step[0];
        return part->in_step[0] == 1;
    }
    return part->in_step[0] == 1 && target->x + n <= nx &&
           (part->ndim == 1 || (part->ndim == 2 && part->in_step[1] == (ptrdiff_t)nx));
}

/* Row y of the tile has been decoded. */
static void store_decoded_row(void *context, size_t y)
{
    struct row_target *t = context;

    if (t->status == FITSCODECS_OK && y >= t->y && y - t->y < t->ny) {
        const uint8_t *pixels = t->row + t->x * type_nbytes(t->converter.batch->tile_type);
        uint8_t *out = t->out + (ptrdiff_t)(y - t->y) * t->out_steps[1];
        t->status = store_row(&t->converter, pixels, y * t->nx + t->x, 1, t->npixels, out,
                              t->out_steps[0], &t->result);
    }
}

#endif
