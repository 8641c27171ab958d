/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding of many tiles in one call, each straight to its place in the image.
 *
 * A tile of the image's own type is decoded where it belongs if its pixels lie together there, or
 * its rows do and the codec can leave room between them; so is one of a wider type, if the codec
 * can decode to the image's and all pixels fit.  Any other is decoded into scratch memory, and from
 * there its wanted rows go to the image, converted on the way: one by one, if the codec tells when
 * they are complete, and else in the end.  Codecs that can work on several tiles at once get as
 * many as fit the cache.
 *
 * What gzip members hold is inflated into scratch memory first.
 */
#include "store.h"

/* Tiles of a group, which are decoded at once, and the bytes of their pixels: what the second level
 * cache of a CPU holds, so that rows are still there when they are converted. */
#define GROUP_NTILES 16
#define GROUP_NBYTES ((size_t)1 << 20)

/* Where decoding stops before the end of a tile: a multiple of the blocks that fast kernels do. */
#define FRONT_NPIXELS 64

/* ------------------------------------------------------------------- scratch memory */

static size_t tile_nbytes(const struct fitscodecs_batch *batch, size_t npixels)
{
    return aligned(saturating_mul(npixels, type_nbytes(batch->tile_type)));
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

/* Whether the codec gives the tile row by row. */
static bool has_free_rows(const struct fitscodecs_batch *batch, const struct fitscodecs_tile *tile)
{
    return has_groups(batch) && batch->codec->has_free_rows != NULL &&
           batch->codec->has_free_rows(tile);
}

/* Whether a codec that gives the image's type can decode the tile where it belongs: all of it, as
 * one row or as rows that the codec knows. */
static bool is_direct(const struct fitscodecs_batch *batch, const struct part *part,
                      const struct fitscodecs_tile *tile, const uint8_t *out)
{
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
           part->out_step[1] % (ptrdiff_t)itemsize == 0 && has_free_rows(batch, tile);
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
    struct row_target targets[GROUP_NTILES];
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

/* So many pixels of a row of nx, and those to the end of their block. */
static size_t whole_blocks(size_t npixels, size_t nx)
{
    size_t wanted = ceil_div(npixels, FRONT_NPIXELS) * FRONT_NPIXELS;
    return wanted < nx ? wanted : nx;
}

/* The tile up to the last pixel that is wanted, if its codec can stop there. */
static struct fitscodecs_tile front_of_tile(const struct fitscodecs_batch *batch,
                                            const struct part *part, struct fitscodecs_tile tile)
{
    size_t last = part->first;

    if (!batch->codec->decodes_front || batch->gzip != NULL || is_empty(part)) {
        return tile;
    }
    for (size_t k = 0; k < part->ndim; k++) {
        last += part->in_step[k] > 0 ? (part->count[k] - 1) * (size_t)part->in_step[k] : 0;
    }
    tile.nx = whole_blocks(last + 1, tile.nx * tile.ny);
    tile.ny = 1;
    return tile;
}

/* The tile up to the last row that is wanted, or pixel if there is one row. */
static struct fitscodecs_tile front_rows(const struct fitscodecs_batch *batch,
                                         const struct row_target *target,
                                         struct fitscodecs_tile tile)
{
    if (!batch->codec->decodes_front) {
        return tile;
    }
    if (tile.ny == 1) {
        tile.nx = whole_blocks(target->x + target->npixels, tile.nx);
    }
    tile.ny = target->y + target->ny;
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

/* Rows that are stored one by one, all of them decoded to the same memory. */
static struct fitscodecs_rows rows_one_by_one(const struct fitscodecs_batch *batch,
                                              const struct fitscodecs_job *job, uint8_t *row,
                                              struct row_target *target)
{
    struct fitscodecs_rows rows = {
        .pixels = row,
        .row_nbytes = 0,
        .flip = codec_flips(batch),
        .done = store_decoded_row,
        .context = target,
    };
    target->row = row;
    target->out = job->out;
    target->status = converter_start(&target->converter, batch, job, &target->result);
    return rows;
}

/* Where the pixels of the next tile of the group go: to their place, or to so many bytes of
 * scratch. Returns how many it takes. */
static size_t place_tile(const struct fitscodecs_batch *batch, const struct fitscodecs_job *job,
                         struct fitscodecs_tile tile, uint8_t *scratch, size_t scratch_nbytes,
                         struct group *group)
{
    size_t i = group->n, nbytes;
    const struct part *part = &group->parts[i];
    struct row_target *target = &group->targets[i];

    group->tiles[i] = tile;
    if (is_direct(batch, part, &tile, job->out)) {
        group->out[i] = rows_together(batch, &tile, job->out);
        if (part->ndim > 1) {
            group->out[i].row_nbytes = part->out_step[1];
        }
        return 0;
    }
    if (has_free_rows(batch, &tile) && !is_empty(part) && is_block_of_rows(part, tile.nx, target)) {
        group->tiles[i] = front_rows(batch, target, tile);
        nbytes = tile_nbytes(batch, group->tiles[i].nx);
        if (nbytes <= scratch_nbytes) {
            group->out[i] = rows_one_by_one(batch, job, scratch, target);
        }
        return nbytes;
    }
    group->tiles[i] = front_of_tile(batch, part, tile);
    nbytes = tile_nbytes(batch, group->tiles[i].nx * group->tiles[i].ny);
    if (nbytes <= scratch_nbytes) {
        group->out[i] = rows_together(batch, &group->tiles[i], scratch);
    }
    return nbytes;
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
        size_t head = head_nbytes(batch, tile.nx * tile.ny, codec->scratch_nbytes(&tile));
        if (i == 0) {
            used = first_head = head;
        } else if (head > first_head) {
            return FITSCODECS_OK;
        }
        make_part(&group->parts[i], batch->ndim, batch->strides, type_nbytes(batch->image_type),
                  jobs[i].shape, jobs[i].start, jobs[i].step, jobs[i].count);
        size_t room = scratch_nbytes - used;
        size_t nbytes = place_tile(batch, &jobs[i], tile, scratch + used, room, group);
        if (nbytes > room) {
            return FITSCODECS_OK;
        }
        used += nbytes;
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

/* From the pixels of a tile that was decoded to those of the image, if they are not there yet. */
static enum fitscodecs_status finish_job(const struct fitscodecs_batch *batch,
                                         const struct fitscodecs_job *job,
                                         const struct group *group, size_t i,
                                         struct fitscodecs_result *result)
{
    const struct part *part = &group->parts[i];
    uint8_t *pixels = group->out[i].pixels;
    struct converter converter;
    enum fitscodecs_status status;

    if (group->out[i].done != NULL) {
        if (group->targets[i].status != FITSCODECS_OK) {
            *result = group->targets[i].result;
        }
        return group->targets[i].status;
    }
    status = converter_start(&converter, batch, job, result);
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

/* ------------------------------------------------------------------- pixels of fewer bytes */

/* Whether the codec can give the image's type, which is narrower than its own. */
static bool is_narrow(const struct fitscodecs_batch *batch)
{
    bool fits = batch->image_type == FITSCODECS_U8 || batch->image_type == FITSCODECS_I16;

    return fits && batch->codec->decode_narrow != NULL && batch->tile_type == FITSCODECS_I32 &&
           batch->gzip == NULL && !batch->quantized && batch->offset == 0;
}

/* Decode a tile as if the image's type was the codec's own; false if it has to be done as usual,
 * which finds what is wrong with it or converts what does not fit. */
static bool decode_narrow(const struct fitscodecs_batch *batch, struct fitscodecs_job *job,
                          uint8_t *scratch, size_t scratch_nbytes, struct group *group)
{
    struct fitscodecs_batch narrow = *batch;
    struct fitscodecs_tile tile = tile_of_shape(batch, job->shape);
    struct fitscodecs_result result;

    if (check_job(batch, &tile, scratch_nbytes, &result) != FITSCODECS_OK) {
        return false;
    }
    narrow.tile_type = batch->image_type;
    group->n = 0;
    make_part(&group->parts[0], batch->ndim, batch->strides, type_nbytes(batch->image_type),
              job->shape, job->start, job->step, job->count);
    place_tile(&narrow, job, tile, scratch, scratch_nbytes, group);
    if (batch->codec->decode_narrow(&tile, job->in, job->in_nbytes, group->out[0].pixels,
                                    type_nbytes(batch->image_type), &result) != FITSCODECS_OK) {
        return false;
    }
    job->is_left = false;
    job->used_nbytes = result.nbytes;
    return finish_job(&narrow, job, group, 0, &result) == FITSCODECS_OK;
}

/* ------------------------------------------------------------------- all of them */

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
        if (is_narrow(batch) &&
            decode_narrow(batch, &jobs[*ndone], scratch, scratch_nbytes, &group)) {
            ++*ndone;
            continue;
        }
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
                status = finish_job(batch, job, &group, i, result);
            }
            if (status != FITSCODECS_OK) {
                return status;
            }
        }
    }
    *result = (struct fitscodecs_result){0};
    return FITSCODECS_OK;
}
