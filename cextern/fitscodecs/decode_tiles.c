/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding of many tiles in one call, each straight to its place in the image.
 *
 * A tile of the image's own type is decoded where it belongs if its pixels lie together there, or its
 * rows do and the codec can leave room between them.  Any other is decoded into scratch memory, and from there its wanted rows go to the image, converted
 * on the way.  Codecs that can work on several tiles at once get as many as fit the cache.
 *
 * What gzip members hold is inflated into scratch memory first.
 */
#include "convert.h"
#include "dequantize.h"
#include "places.h"

/* Tiles of a group, which are decoded at once, and the bytes of their pixels: what the second level cache of a
 * CPU holds, so that rows are still there when they are converted. */
#define GROUP_NTILES 16
#define GROUP_NBYTES ((size_t)1 << 20)

/* Where decoding stops before the end of a tile: a multiple of the blocks that fast kernels do. */
#define FRONT_NPIXELS 64

/* Pixels that are converted before they go to places that do not lie together. */
#define LINE_NPIXELS 1024

static bool needs_conversion(const struct fitscodecs_batch *batch)
{
    return batch->quantized || batch->tile_type != batch->image_type ||
           (batch->offset != 0 && !type_is_float(batch->tile_type));
}

/* ------------------------------------------------------------------- scratch memory */

static size_t tile_nbytes(const struct fitscodecs_batch *batch, size_t npixels)
{
    return aligned(saturating_mul(npixels, type_nbytes(batch->tile_type)));
}

static bool has_groups(const struct fitscodecs_batch *batch)
{
    return batch->codec->decode_several != NULL && batch->gzip == NULL;
}

/* Whether the codec flips the highest bit, where that is wanted; else it is done here, behind it. */
static bool codec_flips(const struct fitscodecs_batch *batch)
{
    return batch->flip && batch->codec->flips && has_groups(batch) && !needs_conversion(batch);
}

/* What the codec needs and what gzip members hold, and before the first tile of a group. */
static size_t head_nbytes(const struct fitscodecs_batch *batch, size_t npixels, size_t codec_nbytes)
{
    size_t inflated = batch->gzip == NULL ? 0 : tile_nbytes(batch, npixels);
    return saturating_add(aligned(codec_nbytes), inflated);
}

/* The head, and the tiles of a group, or one if they are large. */
size_t fitscodecs_batch_scratch_nbytes(const struct fitscodecs_batch *batch, size_t npixels,
                                       size_t codec_nbytes)
{
    size_t tile = tile_nbytes(batch, npixels);
    bool is_group = has_groups(batch) && tile < GROUP_NBYTES;
    return saturating_add(head_nbytes(batch, npixels, codec_nbytes),
                          is_group ? GROUP_NBYTES : tile);
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

/* ------------------------------------------------------------------- places */

/* Whether a codec that gives the image's type can decode the tile where it belongs: all of it, as one
 * row or as rows that the codec knows. */
static bool is_direct(const struct fitscodecs_batch *batch, const struct part *part,
                      const struct fitscodecs_tile *tile, const uint8_t *out)
{
    const struct fitscodecs_codec *codec = batch->codec;
    size_t itemsize = type_nbytes(batch->image_type);

    if (needs_conversion(batch) || part->in_step[0] != 1 ||
        !is_plain(out, part->out_step[0], itemsize)) {
        return false;
    }
    if (part->ndim == 1) {
        return part->count[0] == tile->nx * tile->ny;
    }
    return part->ndim == 2 && part->count[0] == tile->nx && part->count[1] == tile->ny &&
           part->in_step[1] == (ptrdiff_t)tile->nx &&
           part->out_step[1] % (ptrdiff_t)itemsize == 0 && has_groups(batch) &&
           codec->has_free_rows != NULL && codec->has_free_rows(tile);
}

/* Up to LINE_NPIXELS pixels from 'first' on to places with any distance between them. */
static enum fitscodecs_status store_few(struct converter *converter, const uint8_t *tile,
                                        size_t first, ptrdiff_t in_step, size_t n, uint8_t *out,
                                        ptrdiff_t out_step, struct fitscodecs_result *result)
{
    size_t in_nbytes = type_nbytes(converter->batch->tile_type);
    size_t out_nbytes = type_nbytes(converter->batch->image_type);
    uint64_t picked[LINE_NPIXELS], line[LINE_NPIXELS];
    enum fitscodecs_status status;

    copy_row(tile + first * in_nbytes, in_step * (ptrdiff_t)in_nbytes, (uint8_t *)picked,
             (ptrdiff_t)in_nbytes, n, in_nbytes);
    status = convert(converter, picked, first, n, line, result);
    copy_row((const uint8_t *)line, (ptrdiff_t)out_nbytes, out, out_step, n, out_nbytes);
    return status;
}

/*
 * One row of the part.  Dither belongs to the place of a pixel in its tile, so that pixels which
 * are not neighbours there are converted one by one if there is dither.
 */
static enum fitscodecs_status store_row(struct converter *converter, const uint8_t *tile,
                                        size_t first, ptrdiff_t in_step, size_t n, uint8_t *out,
                                        ptrdiff_t out_step, struct fitscodecs_result *result)
{
    const struct fitscodecs_batch *batch = converter->batch;
    bool is_dithered = batch->quantized && batch->dither != FITSCODECS_NO_DITHER;
    size_t most = in_step != 1 && is_dithered ? 1 : LINE_NPIXELS;

    if (in_step == 1 && is_plain(out, out_step, type_nbytes(batch->image_type))) {
        return convert(converter, tile + first * type_nbytes(batch->tile_type), first, n, out,
                       result);
    }
    while (n > 0) {
        size_t m = n < most ? n : most;
        enum fitscodecs_status status =
            store_few(converter, tile, first, in_step, m, out, out_step, result);
        if (status != FITSCODECS_OK) {
            return status;
        }
        first += (size_t)in_step * m; /* modulo the size of the address space if backwards */
        out += out_step * (ptrdiff_t)m;
        n -= m;
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
    size_t itemsize = type_nbytes(batch->image_type);
    struct row row;

    if (!needs_conversion(batch) && (!batch->flip || codec_flips(batch)) && part->in_step[0] == 1 &&
        part->out_step[0] == (ptrdiff_t)itemsize) {
        copy_part(part, tile, itemsize, out);
        return FITSCODECS_OK;
    }
    first_row(part, &row);
    do {
        enum fitscodecs_status status =
            store_row(converter, tile, row.first, part->in_step[0], part->count[0], out + row.place,
                      part->out_step[0], result);
        if (status != FITSCODECS_OK) {
            return status;
        }
    } while (next_row(part, &row));
    return FITSCODECS_OK;
}

/* ------------------------------------------------------------------- tiles */

/* The tiles that are decoded at once. */
struct group {
    size_t n;
    struct fitscodecs_tile tiles[GROUP_NTILES];
    struct part parts[GROUP_NTILES];
    const uint8_t *in[GROUP_NTILES];
    size_t in_nbytes[GROUP_NTILES];
    struct fitscodecs_rows out[GROUP_NTILES];
    enum fitscodecs_status statuses[GROUP_NTILES];
    struct fitscodecs_result results[GROUP_NTILES];
};

static enum fitscodecs_status check_job(const struct fitscodecs_batch *batch,
                                        const struct fitscodecs_tile *tile, size_t scratch_nbytes,
                                        struct fitscodecs_result *result)
{
    const struct fitscodecs_codec *codec = batch->codec;
    enum fitscodecs_status status = codec->check(tile, result);

    if (status != FITSCODECS_OK) {
        return status;
    }
    if (codec->pixel_nbytes(tile) != type_nbytes(batch->tile_type)) {
        return fitscodecs_fail(
            result, FITSCODECS_BAD_PARAMETER, "pixels of {found} bytes, wanted {wanted}",
            (int64_t)codec->pixel_nbytes(tile), (int64_t)type_nbytes(batch->tile_type));
    }
    if (fitscodecs_batch_scratch_nbytes(batch, tile->nx * tile->ny, codec->scratch_nbytes(tile)) >
        scratch_nbytes) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of scratch for {wanted} pixels",
                               (int64_t)scratch_nbytes, (int64_t)(tile->nx * tile->ny));
    }
    return FITSCODECS_OK;
}

/* The tile up to the last pixel that is wanted and the end of its block, if its codec can stop
 * there. */
static struct fitscodecs_tile front_of_tile(const struct fitscodecs_batch *batch,
                                            const struct part *part, struct fitscodecs_tile tile)
{
    size_t last = part->first, npixels = tile.nx * tile.ny;

    if (!batch->codec->decodes_front || batch->gzip != NULL || is_empty(part)) {
        return tile;
    }
    for (size_t k = 0; k < part->ndim; k++) {
        last += part->in_step[k] > 0 ? (part->count[k] - 1) * (size_t)part->in_step[k] : 0;
    }
    size_t wanted = (last / FRONT_NPIXELS + 1) * FRONT_NPIXELS;
    tile.nx = wanted < npixels ? wanted : npixels;
    tile.ny = 1;
    return tile;
}

/* Rows of a tile that follow each other. */
static struct fitscodecs_rows rows_together(const struct fitscodecs_batch *batch,
                                            const struct fitscodecs_tile *tile, void *pixels)
{
    struct fitscodecs_rows rows = {
        .pixels = pixels,
        .row_nbytes = (ptrdiff_t)(tile->nx * type_nbytes(batch->tile_type)),
        .flip = codec_flips(batch),
    };
    return rows;
}

/*
 * Take as many jobs as go together: at least one, if that is sound.  The status is that of the
 * first job, since a fault of a later one is found when it is the first.
 */
static enum fitscodecs_status make_group(const struct fitscodecs_batch *batch,
                                         const struct fitscodecs_job *jobs, size_t njobs,
                                         uint8_t *scratch, size_t scratch_nbytes,
                                         struct group *group, struct fitscodecs_result *result)
{
    const struct fitscodecs_codec *codec = batch->codec;
    size_t most = has_groups(batch) ? codec->most_at_once() : 1, used = 0, first_head = 0;

    most = most < GROUP_NTILES ? most : GROUP_NTILES;
    for (group->n = 0; group->n < most && group->n < njobs; group->n++) {
        size_t i = group->n;
        struct fitscodecs_tile tile = tile_of_shape(batch, jobs[i].shape);
        enum fitscodecs_status status = check_job(batch, &tile, scratch_nbytes, result);
        if (status != FITSCODECS_OK) {
            return i == 0 ? status : FITSCODECS_OK;
        }
        size_t npixels = tile.nx * tile.ny;
        size_t head = head_nbytes(batch, npixels, codec->scratch_nbytes(&tile));
        if (i == 0) {
            used = first_head = head;
        } else if (head > first_head) {
            return FITSCODECS_OK;
        }
        make_part(&group->parts[i], batch->ndim, batch->strides, type_nbytes(batch->image_type),
                  jobs[i].shape, jobs[i].start, jobs[i].step, jobs[i].count);
        if (is_direct(batch, &group->parts[i], &tile, jobs[i].out)) {
            group->tiles[i] = tile;
            group->out[i] = rows_together(batch, &tile, jobs[i].out);
            if (group->parts[i].ndim > 1) {
                group->out[i].row_nbytes = group->parts[i].out_step[1];
            }
        } else {
            group->tiles[i] = front_of_tile(batch, &group->parts[i], tile);
            size_t nbytes = tile_nbytes(batch, group->tiles[i].nx * group->tiles[i].ny);
            if (scratch_nbytes - used < nbytes) {
                return FITSCODECS_OK;
            }
            group->out[i] = rows_together(batch, &group->tiles[i], scratch + used);
            used += nbytes;
        }
        group->in[i] = jobs[i].in;
        group->in_nbytes[i] = jobs[i].in_nbytes;
    }
    return FITSCODECS_OK;
}

/* Put what the gzip members of a job hold in the place of its stream; false if it is left. */
static bool inflate_job(const struct fitscodecs_batch *batch, struct fitscodecs_job *job,
                        struct group *group, uint8_t *scratch)
{
    const struct fitscodecs_tile *tile = &group->tiles[0];
    size_t wanted = tile->nx * tile->ny * type_nbytes(batch->tile_type), found;
    uint8_t *inflated = scratch + aligned(batch->codec->scratch_nbytes(tile));

    job->is_left = !fitscodecs_gzip_inflate(batch->gzip, job->in, job->in_nbytes, inflated, wanted,
                                            &job->used_nbytes, &found) ||
                   found != wanted;
    group->in[0] = inflated;
    group->in_nbytes[0] = wanted;
    return !job->is_left;
}

static void decode_group(const struct fitscodecs_codec *codec, struct group *group, void *scratch)
{
    if (codec->decode_several == NULL) {
        group->statuses[0] = codec->decode(&group->tiles[0], group->in[0], group->in_nbytes[0],
                                           group->out[0].pixels, scratch, &group->results[0]);
    } else {
        codec->decode_several(group->n, group->tiles, group->in, group->in_nbytes, group->out,
                              scratch, group->statuses, group->results);
    }
}

/* Flip the pixels that were decoded where they belong. */
static void flip_part(const struct fitscodecs_batch *batch, const struct part *part, uint8_t *out)
{
    struct row row;

    first_row(part, &row);
    do {
        flip_signs(out + row.place, part->count[0], type_nbytes(batch->image_type));
    } while (next_row(part, &row));
}

/* From the pixels of a tile that was decoded to those of the image. */
static enum fitscodecs_status finish_job(const struct fitscodecs_batch *batch,
                                         const struct fitscodecs_job *job, const struct part *part,
                                         uint8_t *pixels, struct fitscodecs_result *result)
{
    struct converter converter;
    enum fitscodecs_status status = converter_start(&converter, batch, job, result);

    if (status != FITSCODECS_OK || is_empty(part)) {
        return status;
    }
    if (pixels == job->out) {
        if (batch->flip && !codec_flips(batch)) {
            flip_part(batch, part, pixels);
        }
        return FITSCODECS_OK;
    }
    return store_part(&converter, part, pixels, job->out, result);
}

enum fitscodecs_status fitscodecs_decode_tiles(const struct fitscodecs_batch *batch,
                                               struct fitscodecs_job *jobs, size_t njobs,
                                               void *scratch, size_t scratch_nbytes, size_t *ndone,
                                               struct fitscodecs_result *result)
{
    struct group group;

    *ndone = 0;
    *result = (struct fitscodecs_result){0};
    if (batch->ndim < 1 || batch->ndim > FITSCODECS_MAX_DIMENSIONS) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "{found} axes, wanted 1 to {wanted}", (int64_t)batch->ndim,
                               FITSCODECS_MAX_DIMENSIONS);
    }
    while (*ndone < njobs) {
        enum fitscodecs_status status = make_group(batch, jobs + *ndone, njobs - *ndone, scratch,
                                                   scratch_nbytes, &group, result);
        if (status != FITSCODECS_OK) {
            return status;
        }
        if (batch->gzip != NULL && !inflate_job(batch, &jobs[*ndone], &group, scratch)) {
            ++*ndone;
            continue;
        }
        decode_group(batch->codec, &group, scratch);
        for (size_t i = 0; i < group.n; i++, ++*ndone) {
            struct fitscodecs_job *job = &jobs[*ndone];
            *result = group.results[i];
            job->is_left = false;
            job->used_nbytes = batch->gzip == NULL ? result->nbytes : job->used_nbytes;
            status = group.statuses[i];
            if (status == FITSCODECS_OK) {
                status = finish_job(batch, job, &group.parts[i], group.out[i].pixels, result);
            }
            if (status != FITSCODECS_OK) {
                return status;
            }
        }
    }
    *result = (struct fitscodecs_result){0};
    return FITSCODECS_OK;
}
