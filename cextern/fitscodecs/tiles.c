/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many tiles in one call: stream -> tile -> pixels of the image's type -> the part that is wanted,
 * where it belongs in the image.
 *
 * A tile passes through up to two scratch arrays: what the codec gives, and, if the types differ,
 * what the image wants.
 */
#include "convert.h"

static size_t type_nbytes(enum fitscodecs_pixel type)
{
    static const size_t nbytes[] = {1, 2, 4, 8, 4, 8};
    return nbytes[type];
}

static bool type_is_float(enum fitscodecs_pixel type)
{
    return type == FITSCODECS_F32 || type == FITSCODECS_F64;
}

static bool needs_conversion(const struct fitscodecs_batch *batch)
{
    return batch->quantized || batch->tile_type != batch->image_type ||
           (batch->offset != 0 && !type_is_float(batch->tile_type));
}

/* Each part of the scratch memory starts at a multiple of 8 bytes, aligned for any pixel. */
static size_t aligned(size_t nbytes)
{
    return saturating_mul(ceil_div(nbytes, 8), 8);
}

size_t fitscodecs_batch_scratch_nbytes(const struct fitscodecs_batch *batch, size_t npixels,
                                       size_t codec_nbytes)
{
    size_t tile = aligned(saturating_mul(npixels, type_nbytes(batch->tile_type)));
    size_t image = needs_conversion(batch)
                       ? aligned(saturating_mul(npixels, type_nbytes(batch->image_type)))
                       : 0;
    return saturating_add(saturating_add(tile, image), aligned(codec_nbytes));
}

/* ------------------------------------------------------------------- types */

/*
 * Pixels of a tile to those of the image.  An integer outside the image's type is clipped if the
 * batch says so (a lossy HCOMPRESS stream may leave the range), else it is a fault.
 */
static enum fitscodecs_status convert(const struct fitscodecs_batch *batch,
                                      const struct fitscodecs_job *job, const void *tile,
                                      size_t npixels, void *image, struct fitscodecs_result *result)
{
    bool gives_floats = batch->quantized || type_is_float(batch->tile_type);

    if (gives_floats != type_is_float(batch->image_type)) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "integers and floats mixed: pixel types {found} and {wanted}",
                               (int64_t)batch->tile_type, (int64_t)batch->image_type);
    }
    if (batch->quantized) {
        return fitscodecs_dequantize(batch->dither, batch->seed, job->row, tile, batch->tile_type,
                                     npixels, job->scale, job->zero, job->has_blank, job->blank,
                                     image, batch->image_type == FITSCODECS_F64, result);
    }
    if (type_is_float(batch->tile_type)) {
        fitscodecs_convert_floats(tile, npixels, image, batch->image_type);
        return FITSCODECS_OK;
    }
    return fitscodecs_convert_integers(tile, batch->tile_type, npixels, batch->offset, batch->clip,
                                       image, batch->image_type, result);
}

/* ------------------------------------------------------------------- places */

/* One row of pixels, with any distance between them on both sides. */
static void copy_row(const uint8_t *in, ptrdiff_t in_step, uint8_t *out, ptrdiff_t out_step,
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

/* Copy the wanted part of a tile to its place in the image: an odometer over all axes but the
 * fast one. */
static void place(const struct fitscodecs_batch *batch, const struct fitscodecs_job *job,
                  const void *pixels)
{
    size_t ndim = batch->ndim, itemsize = type_nbytes(batch->image_type), last = ndim - 1;
    ptrdiff_t in_strides[FITSCODECS_MAX_DIMENSIONS];
    int64_t position[FITSCODECS_MAX_DIMENSIONS] = {0};
    const uint8_t *in = pixels;
    uint8_t *out = job->out;
    ptrdiff_t stride = (ptrdiff_t)itemsize;

    for (size_t k = ndim; k-- > 0;) {
        if (job->count[k] == 0) {
            return;
        }
        in += job->start[k] * stride;
        in_strides[k] = job->step[k] * stride;
        stride *= job->shape[k];
    }
    for (;;) {
        copy_row(in, in_strides[last], out, batch->strides[last], (size_t)job->count[last],
                 itemsize);
        size_t k = last;
        for (;;) {
            if (k == 0) {
                return;
            }
            k--;
            in += in_strides[k];
            out += batch->strides[k];
            if (++position[k] < job->count[k]) {
                break;
            }
            in -= job->count[k] * in_strides[k];
            out -= job->count[k] * batch->strides[k];
            position[k] = 0;
        }
    }
}

/* ------------------------------------------------------------------- tiles */

/* The tile as its codec sees it: nx is the last axis longer than 1, ny the product of the others. */
static struct fitscodecs_tile tile_of_job(const struct fitscodecs_batch *batch,
                                          const struct fitscodecs_job *job)
{
    struct fitscodecs_tile tile = {1, 1, {0}};
    size_t k = batch->ndim;

    while (k > 0 && tile.nx == 1) {
        tile.nx = (size_t)job->shape[--k];
    }
    while (k > 0) {
        tile.ny = saturating_mul(tile.ny, (size_t)job->shape[--k]);
    }
    memcpy(tile.parameters, batch->parameters, sizeof tile.parameters);
    return tile;
}

static enum fitscodecs_status decode_tile(const struct fitscodecs_batch *batch,
                                          struct fitscodecs_job *job, uint8_t *scratch,
                                          size_t scratch_nbytes, struct fitscodecs_result *result)
{
    const struct fitscodecs_codec *codec = batch->codec;
    struct fitscodecs_tile tile = tile_of_job(batch, job);
    enum fitscodecs_status status = codec->check(&tile, result);

    if (status != FITSCODECS_OK) {
        return status;
    }
    size_t npixels = tile.nx * tile.ny;
    size_t codec_nbytes = codec->scratch_nbytes(&tile);
    if (codec->pixel_nbytes(&tile) != type_nbytes(batch->tile_type)) {
        return fitscodecs_fail(
            result, FITSCODECS_BAD_PARAMETER, "pixels of {found} bytes, wanted {wanted}",
            (int64_t)codec->pixel_nbytes(&tile), (int64_t)type_nbytes(batch->tile_type));
    }
    if (fitscodecs_batch_scratch_nbytes(batch, npixels, codec_nbytes) > scratch_nbytes) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of scratch for {wanted} pixels",
                               (int64_t)scratch_nbytes, (int64_t)npixels);
    }

    uint8_t *pixels = scratch + aligned(codec_nbytes);
    status = codec->decode(&tile, job->in, job->in_nbytes, pixels, scratch, result);
    job->used_nbytes = result->nbytes;
    if (status == FITSCODECS_OK && needs_conversion(batch)) {
        uint8_t *image = pixels + aligned(npixels * type_nbytes(batch->tile_type));
        status = convert(batch, job, pixels, npixels, image, result);
        pixels = image;
    }
    if (status == FITSCODECS_OK) {
        place(batch, job, pixels);
    }
    return status;
}

enum fitscodecs_status fitscodecs_decode_tiles(const struct fitscodecs_batch *batch,
                                               struct fitscodecs_job *jobs, size_t njobs,
                                               void *scratch, size_t scratch_nbytes, size_t *ndone,
                                               struct fitscodecs_result *result)
{
    *ndone = 0;
    *result = (struct fitscodecs_result){0};
    if (batch->ndim < 1 || batch->ndim > FITSCODECS_MAX_DIMENSIONS) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "{found} axes, wanted 1 to {wanted}", (int64_t)batch->ndim,
                               FITSCODECS_MAX_DIMENSIONS);
    }
    for (; *ndone < njobs; ++*ndone) {
        enum fitscodecs_status status =
            decode_tile(batch, &jobs[*ndone], scratch, scratch_nbytes, result);
        if (status != FITSCODECS_OK) {
            return status;
        }
    }
    return FITSCODECS_OK;
}
