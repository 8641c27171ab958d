/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fitscodecs_encode_tiles() against its description: each stream is that of the codec for the
 * pixels of the tile, gathered one by one here, whatever strides, types and byte order the image
 * has; quantized tiles are those of fitscodecs_quantize().
 */
#include "testing.h"

#define NCASES 4000
#define MAX_JOBS 4
#define MAX_NDIM 4
#define MAX_SIDE 12

static const size_t itemsizes[] = {1, 2, 4, 8, 4, 8};

struct test {
    struct fitscodecs_batch batch;
    int64_t image_shape[MAX_NDIM];
    ptrdiff_t strides[MAX_NDIM];
    struct buffer image;
    size_t first; /* byte of the first pixel of the image */
    size_t njobs;
    struct fitscodecs_encode_job jobs[MAX_JOBS];
    int64_t shapes[MAX_JOBS][MAX_NDIM], corners[MAX_JOBS][MAX_NDIM];
};

static bool is_float(enum fitscodecs_pixel type)
{
    return type == FITSCODECS_F32 || type == FITSCODECS_F64;
}

/* ----------------------------------------------------------------------- random settings */

/* A codec, and an image type that its tiles can be made from. */
static void choose_types(struct test *t)
{
    static const enum fitscodecs_pixel integers[] = {
        [1] = FITSCODECS_U8, [2] = FITSCODECS_I16, [4] = FITSCODECS_I32, [8] = FITSCODECS_I64};
    const struct fitscodecs_codec *codec;
    struct fitscodecs_tile tile = {1, 1, {0}};
    size_t ncodecs = 0;

    while (fitscodecs_codecs[ncodecs] != NULL) {
        ncodecs++;
    }
    codec = t->batch.codec = fitscodecs_codecs[random_below(ncodecs)];
    set_parameters(codec, false, random_below(count_settings(codec, false)), t->batch.parameters);
    memcpy(tile.parameters, t->batch.parameters, sizeof tile.parameters);
    t->batch.tile_type = t->batch.image_type = integers[codec->pixel_nbytes(&tile)];
    if (t->batch.tile_type == FITSCODECS_I32 && random_once_in(2)) {
        t->batch.quantized = true;
        t->batch.image_type = random_once_in(2) ? FITSCODECS_F32 : FITSCODECS_F64;
        t->batch.level = random_once_in(2) ? 4 : -0.5;
        t->batch.is_flat = random_once_in(2);
        t->batch.leaves_nan = random_once_in(2);
        t->batch.dither = (enum fitscodecs_dither)random_below(3);
        t->batch.seed = random_between(1, 10000);
    } else if (t->batch.tile_type == FITSCODECS_I32 && random_once_in(2)) {
        t->batch.image_type = (enum fitscodecs_pixel)random_below(2);
        t->batch.offset = random_once_in(2) ? 0 : 32768;
    } else if (t->batch.tile_type == FITSCODECS_I16 && random_once_in(3)) {
        t->batch.image_type = FITSCODECS_U8;
    }
    t->batch.flip = !t->batch.quantized && random_once_in(3);
    t->batch.is_big_endian = random_once_in(3);
}

/* The axes in any order, forward or backward, with gaps. */
static void choose_strides(struct test *t)
{
    size_t order[MAX_NDIM], nbytes = itemsizes[t->batch.image_type];
    bool is_plain = random_once_in(2);

    t->batch.ndim = 1 + random_below(MAX_NDIM);
    for (size_t i = 0; i < t->batch.ndim; i++) {
        size_t other = is_plain ? i : random_below(i + 1);
        t->image_shape[i] = random_between(1, MAX_SIDE);
        order[i] = order[other];
        order[other] = t->batch.ndim - 1 - i;
    }
    for (size_t i = 0; i < t->batch.ndim; i++) {
        size_t k = order[i], reach = (size_t)t->image_shape[k] - 1;
        size_t stride = nbytes + (is_plain ? 0 : random_below(3));
        bool is_backward = !is_plain && random_once_in(2);
        t->strides[k] = is_backward ? -(ptrdiff_t)stride : (ptrdiff_t)stride;
        t->first += is_backward ? reach * stride : 0;
        nbytes += reach * stride;
    }
    t->batch.strides = t->strides;
    t->image = buffer_new(nbytes, 1);
}

static uint8_t *pixel_at(const struct test *t, const int64_t *position)
{
    uint8_t *p = t->image.data + t->first;
    for (size_t k = 0; k < t->batch.ndim; k++) {
        p += position[k] * t->strides[k];
    }
    return p;
}

static bool next_position(const struct test *t, const int64_t *shape, int64_t *position)
{
    for (size_t k = t->batch.ndim; k-- > 0;) {
        if (++position[k] < shape[k]) {
            return true;
        }
        position[k] = 0;
    }
    return false;
}

static void reverse(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        uint8_t byte = p[i];
        p[i] = p[n - 1 - i];
        p[n - 1 - i] = byte;
    }
}

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

/* Values that most codecs take; those of floats with a NaN now and then. */
static void fill_image(struct test *t)
{
    size_t itemsize = itemsizes[t->batch.image_type];
    bool has_nan = random_once_in(3), is_large = random_once_in(4);
    int64_t position[MAX_NDIM] = {0};

    do {
        uint8_t *p = pixel_at(t, position);
        uint64_t bits = is_large ? random_u64() : random_below(100);
        float f32 = has_nan && random_once_in(20) ? (float)(0 * 1e300 * 1e300)
                                                  : (float)random_below(1000) / 7;
        double f64 = f32;
        if (t->batch.image_type == FITSCODECS_F32) {
            memcpy(p, &f32, 4);
        } else if (t->batch.image_type == FITSCODECS_F64) {
            memcpy(p, &f64, 8);
        } else {
            store_pixel(p, itemsize, 0, bits);
        }
        if (t->batch.is_big_endian && is_little_endian()) {
            reverse(p, itemsize);
        }
    } while (next_position(t, t->image_shape, position));
}

static void choose_jobs(struct test *t)
{
    t->njobs = 1 + random_below(MAX_JOBS);
    for (size_t i = 0; i < t->njobs; i++) {
        for (size_t k = 0; k < t->batch.ndim; k++) {
            t->corners[i][k] = (int64_t)random_below((size_t)t->image_shape[k]);
            t->shapes[i][k] = random_between(1, t->image_shape[k] - t->corners[i][k]);
        }
        t->jobs[i] = (struct fitscodecs_encode_job){.in = pixel_at(t, t->corners[i]),
                                                    .shape = t->shapes[i],
                                                    .row = random_between(0, 20000)};
    }
}

/* ------------------------------------------------------------------------ what is wanted */

static struct fitscodecs_tile tile_of(const struct test *t, size_t i)
{
    struct fitscodecs_tile tile = {1, 1, {0}};
    size_t k = t->batch.ndim - 1;

    while (k > 0 && t->shapes[i][k] == 1) {
        k--;
    }
    tile.nx = (size_t)t->shapes[i][k];
    for (size_t j = 0; j < t->batch.ndim; j++) {
        tile.ny *= j == k ? 1 : (size_t)t->shapes[i][j];
    }
    memcpy(tile.parameters, t->batch.parameters, sizeof tile.parameters);
    return tile;
}

/* The pixels of a tile, one by one: native, flipped, and as wide as the codec has them. */
static struct buffer gather(const struct test *t, size_t i, size_t npixels)
{
    size_t in_nbytes = itemsizes[t->batch.image_type];
    size_t out_nbytes = t->batch.quantized ? in_nbytes : itemsizes[t->batch.tile_type];
    struct buffer tile = buffer_new(npixels * out_nbytes, ALIGNMENT);
    int64_t position[MAX_NDIM] = {0};
    size_t n = 0;

    do {
        int64_t at[MAX_NDIM];
        uint8_t item[8];
        for (size_t k = 0; k < t->batch.ndim; k++) {
            at[k] = t->corners[i][k] + position[k];
        }
        memcpy(item, pixel_at(t, at), in_nbytes);
        if (t->batch.is_big_endian && is_little_endian()) {
            reverse(item, in_nbytes);
        }
        uint64_t bits = load_pixel(item, in_nbytes, 0);
        if (t->batch.flip) {
            bits ^= (uint64_t)1 << (8 * in_nbytes - 1);
        }
        if (t->batch.image_type == FITSCODECS_I16) {
            bits = (uint64_t)(int64_t)(int16_t)bits;
        }
        store_pixel(tile.data, out_nbytes, n++, bits + (uint64_t)t->batch.offset);
    } while (next_position(t, t->shapes[i], position));
    CHECK(n == npixels);
    return tile;
}

static bool any_nan(const struct test *t, const struct buffer *pixels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float f32;
        double f64;
        if (t->batch.image_type == FITSCODECS_F32) {
            memcpy(&f32, pixels->data + 4 * i, 4);
            f64 = f32;
        } else {
            memcpy(&f64, pixels->data + 8 * i, 8);
        }
        if (f64 != f64) {
            return true;
        }
    }
    return false;
}

/* Make the integers of a float tile; false if it is to be left. */
static bool quantize(const struct test *t, size_t i, const struct fitscodecs_tile *tile,
                     struct buffer *pixels, struct fitscodecs_encode_job *job)
{
    struct fitscodecs_quantizer quantizer = {t->batch.level, t->batch.dither, t->batch.seed};
    struct fitscodecs_result result = stale_result();
    size_t npixels = tile->nx * tile->ny;
    size_t nx = t->batch.is_flat ? npixels : tile->nx, ny = npixels / nx;
    bool is_f64 = t->batch.image_type == FITSCODECS_F64;
    struct buffer integers = buffer_new(4 * npixels, ALIGNMENT);
    struct buffer scratch = buffer_new(fitscodecs_noise_scratch_nbytes(nx, ny, is_f64), ALIGNMENT);
    enum fitscodecs_status status;

    job->has_nan = any_nan(t, pixels, npixels);
    status = fitscodecs_quantize(&quantizer, pixels->data, is_f64, nx, ny, t->jobs[i].row,
                                 (int32_t *)integers.data, &job->scale, &job->zero, scratch.data,
                                 &result);
    CHECK(status == FITSCODECS_OK || status == FITSCODECS_NOT_QUANTIZABLE);
    buffer_free(&scratch);
    buffer_free(pixels);
    *pixels = integers;
    return status == FITSCODECS_OK && !(job->has_nan && t->batch.leaves_nan);
}

static enum fitscodecs_status wanted_stream(const struct test *t, size_t i,
                                            struct fitscodecs_encode_job *job, struct buffer *out)
{
    struct fitscodecs_tile tile = tile_of(t, i);
    struct buffer pixels = gather(t, i, tile.nx * tile.ny);
    struct buffer scratch = buffer_new(t->batch.codec->scratch_nbytes(&tile), ALIGNMENT);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status = FITSCODECS_OK;

    *job = (struct fitscodecs_encode_job){0};
    *out = buffer_new(t->batch.codec->encode_bound(&tile), 1);
    if (t->batch.quantized && !quantize(t, i, &tile, &pixels, job)) {
        job->is_left = true;
    } else {
        status = t->batch.codec->encode(&tile, pixels.data, out->data, out->nbytes, scratch.data,
                                        &result);
        job->nbytes = result.nbytes;
    }
    buffer_free(&scratch);
    buffer_free(&pixels);
    return status;
}

/* ------------------------------------------------------------------------------- checks */

static size_t largest_scratch(const struct test *t)
{
    size_t largest = 0;
    for (size_t i = 0; i < t->njobs; i++) {
        struct fitscodecs_tile tile = tile_of(t, i);
        size_t nbytes = fitscodecs_encode_scratch_nbytes(&t->batch, &tile);
        largest = nbytes > largest ? nbytes : largest;
    }
    return largest;
}

static size_t bound_of(const struct test *t, size_t i)
{
    struct fitscodecs_tile tile = tile_of(t, i);
    return t->batch.codec->encode_bound(&tile);
}

/* Encode into room for all streams, or for less: then as many as there is room for. */
static void check_streams(struct test *t)
{
    size_t all = 0, room, used = 0, ndone, n = 0;
    struct fitscodecs_result result = stale_result();
    struct buffer scratch = buffer_new(largest_scratch(t), ALIGNMENT), out;
    enum fitscodecs_status status, wanted = FITSCODECS_OK;

    for (size_t i = 0; i < t->njobs; i++) {
        all += bound_of(t, i);
    }
    room = random_once_in(2) ? all : random_below(all + 1);
    out = buffer_new(room, 1);
    status = fitscodecs_encode_tiles(&t->batch, t->jobs, t->njobs, out.data, room, scratch.data,
                                     scratch.nbytes, &ndone, &result);
    for (; n < t->njobs && bound_of(t, n) <= room - used; n++) {
        struct fitscodecs_encode_job job;
        struct buffer stream;
        wanted = wanted_stream(t, n, &job, &stream);
        if (wanted == FITSCODECS_OK) {
            CHECK(n < ndone);
            CHECK(t->jobs[n].is_left == job.is_left);
            CHECK(t->jobs[n].nbytes == job.nbytes);
            CHECK(memcmp(out.data + used, stream.data, job.nbytes) == 0);
            CHECK(!t->batch.quantized || t->jobs[n].has_nan == job.has_nan);
            if (t->batch.quantized && !job.is_left) {
                CHECK(memcmp(&t->jobs[n].scale, &job.scale, sizeof job.scale) == 0);
                CHECK(memcmp(&t->jobs[n].zero, &job.zero, sizeof job.zero) == 0);
            }
            used += job.nbytes;
        }
        buffer_free(&stream);
        if (wanted != FITSCODECS_OK) {
            break;
        }
    }
    if (n == 0 && wanted == FITSCODECS_OK) {
        wanted = FITSCODECS_SHORT_OUTPUT;
    }
    CHECK(status == wanted);
    CHECK(ndone == n);
    CHECK(result.nbytes == used);
    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    buffer_free(&out);
    buffer_free(&scratch);
}

static enum fitscodecs_status run_with(const struct test *t, const struct fitscodecs_batch *batch,
                                       size_t scratch_nbytes)
{
    size_t nbytes = bound_of(t, 0), ndone;
    struct fitscodecs_result result = stale_result();
    struct buffer out = buffer_new(nbytes, 1), scratch = buffer_new(scratch_nbytes, ALIGNMENT);
    struct fitscodecs_encode_job job = t->jobs[0];
    enum fitscodecs_status status = fitscodecs_encode_tiles(
        batch, &job, 1, out.data, nbytes, scratch.data, scratch_nbytes, &ndone, &result);

    CHECK(status == FITSCODECS_OK || ndone == 0);
    buffer_free(&scratch);
    buffer_free(&out);
    return status;
}

static void check_refusals(struct test *t)
{
    struct fitscodecs_tile tile = tile_of(t, 0);
    size_t nbytes = fitscodecs_encode_scratch_nbytes(&t->batch, &tile);
    struct fitscodecs_batch batch = t->batch;

    CHECK(run_with(t, &batch, nbytes - 1) == FITSCODECS_SHORT_OUTPUT);
    batch.ndim = 0;
    CHECK(run_with(t, &batch, nbytes) == FITSCODECS_BAD_PARAMETER);
    batch = t->batch;
    batch.quantized = !batch.quantized; /* floats as they are, or integers to be quantized */
    CHECK(run_with(t, &batch, nbytes) == FITSCODECS_BAD_PARAMETER);
    batch = t->batch;
    batch.image_type = is_float(batch.image_type) ? FITSCODECS_I64 : FITSCODECS_F64;
    CHECK(run_with(t, &batch, nbytes) == FITSCODECS_BAD_PARAMETER);
}

int main(int argc, char **argv)
{
    test_init(argc, argv);
    for (size_t i = 0; i < NCASES; i++) {
        struct test t;
        memset(&t, 0, sizeof t);
        choose_types(&t);
        choose_strides(&t);
        fill_image(&t);
        choose_jobs(&t);
        set_case("%s, case %zu", t.batch.codec->name, i);
        if (i % 8 == 0) {
            check_refusals(&t);
        } else {
            check_streams(&t);
        }
        buffer_free(&t.image);
    }
    return test_done("encode_tiles", NCASES);
}
