/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding of many tiles in one call, each from its place in the image, into streams that lie one
 * after the other.
 *
 * A tile whose pixels lie together in the image and are of the codec's type is read where it is.
 * Any other is gathered in scratch memory, converted row by row on the way.
 */
#include "kernels.h"
#include "places.h"

/* Whether the tile has to be integers of another type than the image, which can be done row by
 * row. */
static bool needs_conversion(const struct fitscodecs_batch *batch)
{
    return !batch->quantized && (batch->tile_type != batch->image_type || batch->offset != 0);
}

/* ------------------------------------------------------------------- scratch memory */

/* The pixels of the tile as the image has them, the integers that they become, the codec's stream
 * if it is to be deflated, and what quantization and codec need, which do not work at the same
 * time. */
struct workspace {
    uint8_t *pixels, *integers, *stream;
    void *scratch;
};

static size_t pixels_nbytes(const struct fitscodecs_batch *batch, size_t npixels)
{
    return aligned(saturating_mul(npixels, type_nbytes(batch->image_type)));
}

static size_t integers_nbytes(const struct fitscodecs_batch *batch, size_t npixels)
{
    return aligned(saturating_mul(npixels, type_nbytes(batch->tile_type)));
}

static size_t stream_nbytes(const struct fitscodecs_batch *batch,
                            const struct fitscodecs_tile *tile)
{
    return batch->gzip == NULL ? 0 : aligned(batch->codec->encode_bound(tile));
}

size_t fitscodecs_stream_bound(const struct fitscodecs_batch *batch,
                               const struct fitscodecs_tile *tile)
{
    size_t bound = batch->codec->encode_bound(tile);
    return batch->gzip == NULL ? bound : fitscodecs_gzip_bound(bound);
}

/* The tile as its noise is measured. */
static struct fitscodecs_tile noise_tile(const struct fitscodecs_batch *batch,
                                         const struct fitscodecs_tile *tile)
{
    struct fitscodecs_tile rows = *tile;
    if (batch->is_flat) {
        rows.nx = tile->nx * tile->ny;
        rows.ny = 1;
    }
    return rows;
}

static size_t working_nbytes(const struct fitscodecs_batch *batch,
                             const struct fitscodecs_tile *tile)
{
    bool is_f64 = batch->image_type == FITSCODECS_F64;
    struct fitscodecs_tile rows = noise_tile(batch, tile);
    size_t codec = batch->codec->scratch_nbytes(tile);
    size_t noise = batch->quantized ? fitscodecs_noise_scratch_nbytes(rows.nx, rows.ny, is_f64) : 0;
    return aligned(codec > noise ? codec : noise);
}

size_t fitscodecs_encode_scratch_nbytes(const struct fitscodecs_batch *batch,
                                        const struct fitscodecs_tile *tile)
{
    size_t npixels = tile->nx * tile->ny;
    size_t nbytes = saturating_add(pixels_nbytes(batch, npixels), integers_nbytes(batch, npixels));
    nbytes = saturating_add(nbytes, stream_nbytes(batch, tile));
    return saturating_add(nbytes, working_nbytes(batch, tile));
}

static struct workspace carve_scratch(const struct fitscodecs_batch *batch,
                                      const struct fitscodecs_tile *tile, uint8_t *scratch)
{
    size_t npixels = tile->nx * tile->ny;
    struct workspace work;
    work.pixels = scratch;
    work.integers = work.pixels + pixels_nbytes(batch, npixels);
    work.stream = work.integers + integers_nbytes(batch, npixels);
    work.scratch = work.stream + stream_nbytes(batch, tile);
    return work;
}

/* ------------------------------------------------------------------- gathering */

/* The pixels of a tile one after the other. */
static void gather(const struct part *part, const uint8_t *in, size_t itemsize, uint8_t *out)
{
    struct row row;

    first_row(part, &row);
    do {
        copy_row(in + row.place, part->out_step[0], out, (ptrdiff_t)itemsize, part->count[0],
                 itemsize);
        out += part->count[0] * itemsize;
    } while (next_row(part, &row));
}

/* Whether the type of the tiles holds all pixels of the image. */
static bool can_widen(const struct fitscodecs_batch *batch)
{
    if (batch->offset < 0 || batch->offset > INT16_MAX + 1) {
        return false;
    }
    if (batch->tile_type == batch->image_type) {
        return batch->offset == 0;
    }
    return (batch->tile_type == FITSCODECS_I16 && batch->image_type == FITSCODECS_U8 &&
            batch->offset == 0) ||
           (batch->tile_type == FITSCODECS_I32 && batch->image_type < FITSCODECS_I32);
}

/* The pixels of a tile, contiguous, native and in the type that quantization or the codec wants. */
static const void *take_tile(const struct fitscodecs_batch *batch, const struct part *part,
                             const uint8_t *in, size_t npixels, const struct workspace *work)
{
    size_t itemsize = type_nbytes(batch->image_type);
    bool is_ready = part->ndim == 1 && !batch->flip && !batch->is_big_endian &&
                    is_plain(in, part->out_step[0], itemsize);
    const void *pixels = in;

    if (!is_ready) {
        gather(part, in, itemsize, work->pixels);
        pixels = work->pixels;
    }
    if (batch->is_big_endian) {
        fitscodecs_kernels.bytes->swap(work->pixels, work->pixels, npixels, itemsize);
    }
    if (batch->flip) {
        flip_signs(work->pixels, npixels, itemsize);
    }
    if (needs_conversion(batch)) {
        fitscodecs_kernels.convert->subtract[batch->image_type][batch->tile_type](
            pixels, npixels, -batch->offset, work->integers); /* can_widen(): nothing is cut */
        pixels = work->integers;
    }
    return pixels;
}

/* ------------------------------------------------------------------- tiles */

static bool has_nan(const void *pixels, bool is_f64, size_t n)
{
    const float *f32 = pixels;
    const double *f64 = pixels;
    int found = 0;

    if (is_f64) {
        for (size_t i = 0; i < n; i++) {
            found |= f64[i] != f64[i];
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            found |= f32[i] != f32[i];
        }
    }
    return found != 0;
}

static enum fitscodecs_status quantize_tile(const struct fitscodecs_batch *batch,
                                            struct fitscodecs_encode_job *job,
                                            const struct fitscodecs_tile *tile, const void *pixels,
                                            const struct workspace *work,
                                            struct fitscodecs_result *result)
{
    struct fitscodecs_quantizer quantizer = {batch->level, batch->dither, batch->seed};
    struct fitscodecs_tile rows = noise_tile(batch, tile);
    bool is_f64 = batch->image_type == FITSCODECS_F64;

    job->has_nan = has_nan(pixels, is_f64, tile->nx * tile->ny);
    if (job->has_nan && batch->leaves_nan) {
        return FITSCODECS_NOT_QUANTIZABLE;
    }
    return fitscodecs_quantize(&quantizer, pixels, is_f64, rows.nx, rows.ny, job->row,
                               (int32_t *)work->integers, &job->scale, &job->zero, work->scratch,
                               result);
}

static enum fitscodecs_status encode_stream(const struct fitscodecs_batch *batch,
                                            const struct fitscodecs_tile *tile, const void *pixels,
                                            uint8_t *out, size_t out_nbytes,
                                            const struct workspace *work,
                                            struct fitscodecs_result *result)
{
    const struct fitscodecs_codec *codec = batch->codec;
    enum fitscodecs_status status;

    if (batch->gzip == NULL) {
        return codec->encode(tile, pixels, out, out_nbytes, work->scratch, result);
    }
    status =
        codec->encode(tile, pixels, work->stream, codec->encode_bound(tile), work->scratch, result);
    if (status != FITSCODECS_OK) {
        return status;
    }
    result->nbytes =
        fitscodecs_gzip_deflate(batch->gzip, work->stream, result->nbytes, out, out_nbytes);
    if (result->nbytes == 0) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "no gzip member in {found} bytes, wanted {wanted}",
                               (int64_t)out_nbytes, (int64_t)fitscodecs_stream_bound(batch, tile));
    }
    return FITSCODECS_OK;
}

static enum fitscodecs_status encode_tile(const struct fitscodecs_batch *batch,
                                          struct fitscodecs_encode_job *job,
                                          const struct fitscodecs_tile *tile, uint8_t *out,
                                          size_t out_nbytes, uint8_t *scratch,
                                          struct fitscodecs_result *result)
{
    size_t npixels = tile->nx * tile->ny;
    struct workspace work = carve_scratch(batch, tile, scratch);
    enum fitscodecs_status status;
    const void *pixels;
    struct part part;

    make_part(&part, batch->ndim, batch->strides, type_nbytes(batch->image_type), job->shape, NULL,
              NULL, job->shape);
    pixels = take_tile(batch, &part, job->in, npixels, &work);
    job->nbytes = 0;
    job->is_left = batch->gzip != NULL && batch->codec->encode_bound(tile) < FITSCODECS_GZIP_LEAST;
    if (job->is_left) {
        return FITSCODECS_OK;
    }
    if (batch->quantized) {
        status = quantize_tile(batch, job, tile, pixels, &work, result);
        if (status == FITSCODECS_NOT_QUANTIZABLE) {
            job->is_left = true;
            return FITSCODECS_OK;
        }
        if (status != FITSCODECS_OK) {
            return status;
        }
        pixels = work.integers;
    }
    status = encode_stream(batch, tile, pixels, out, out_nbytes, &work, result);
    job->nbytes = status == FITSCODECS_OK ? result->nbytes : 0;
    return status;
}

static enum fitscodecs_status check_batch(const struct fitscodecs_batch *batch,
                                          struct fitscodecs_result *result)
{
    bool is_float = type_is_float(batch->image_type);

    if (batch->ndim < 1 || batch->ndim > FITSCODECS_MAX_DIMENSIONS) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "{found} axes, wanted 1 to {wanted}", (int64_t)batch->ndim,
                               FITSCODECS_MAX_DIMENSIONS);
    }
    if (batch->quantized ? !is_float || batch->tile_type != FITSCODECS_I32 : !can_widen(batch)) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "an image of pixel type {found} cannot become tiles of type "
                               "{wanted}",
                               (int64_t)batch->image_type, (int64_t)batch->tile_type);
    }
    return FITSCODECS_OK;
}

static enum fitscodecs_status check_tile(const struct fitscodecs_batch *batch,
                                         const struct fitscodecs_tile *tile, size_t scratch_nbytes,
                                         struct fitscodecs_result *result)
{
    enum fitscodecs_status status = batch->codec->check(tile, result);

    if (status != FITSCODECS_OK) {
        return status;
    }
    if (batch->codec->pixel_nbytes(tile) != type_nbytes(batch->tile_type)) {
        return fitscodecs_fail(
            result, FITSCODECS_BAD_PARAMETER, "pixels of {found} bytes, wanted {wanted}",
            (int64_t)batch->codec->pixel_nbytes(tile), (int64_t)type_nbytes(batch->tile_type));
    }
    if (fitscodecs_encode_scratch_nbytes(batch, tile) > scratch_nbytes) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of scratch for {wanted} pixels",
                               (int64_t)scratch_nbytes, (int64_t)(tile->nx * tile->ny));
    }
    return FITSCODECS_OK;
}

enum fitscodecs_status fitscodecs_encode_tiles(const struct fitscodecs_batch *batch,
                                               struct fitscodecs_encode_job *jobs, size_t njobs,
                                               uint8_t *out, size_t out_nbytes, void *scratch,
                                               size_t scratch_nbytes, size_t *ndone,
                                               struct fitscodecs_result *result)
{
    enum fitscodecs_status status;
    size_t used = 0;

    *ndone = 0;
    *result = (struct fitscodecs_result){0};
    status = check_batch(batch, result);
    for (; status == FITSCODECS_OK && *ndone < njobs; ++*ndone) {
        struct fitscodecs_encode_job *job = &jobs[*ndone];
        struct fitscodecs_tile tile = tile_of_shape(batch, job->shape);
        status = check_tile(batch, &tile, scratch_nbytes, result);
        if (status != FITSCODECS_OK) {
            break;
        }
        size_t bound = fitscodecs_stream_bound(batch, &tile);
        if (bound > out_nbytes - used) {
            if (*ndone == 0) {
                status = fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                                         "{found} bytes of output, wanted {wanted}",
                                         (int64_t)out_nbytes, (int64_t)bound);
            }
            break;
        }
        status = encode_tile(batch, job, &tile, out + used, bound, scratch, result);
        if (status != FITSCODECS_OK) {
            break;
        }
        used += job->nbytes;
    }
    if (status == FITSCODECS_OK) {
        result->detail = NULL; /* of a tile that is left */
    }
    result->nbytes = used;
    return status;
}
