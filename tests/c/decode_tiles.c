/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fitscodecs_decode_tiles() against its description, pixel by pixel: types, offset, clipping,
 * dequantization, parts with any step, any strides of the image, and every refusal.
 */
#include "testing.h"

#define NCASES 6000
#define FEW_JOBS 3
#define MAX_JOBS 20 /* more than are decoded at once */
#define MAX_PIXELS 600
#define MAX_NDIM 6

static const size_t itemsizes[] = {1, 2, 4, 8, 4, 8};

struct test {
    const struct fitscodecs_codec *codec;
    struct fitscodecs_batch batch;
    struct fitscodecs_tile tile;
    int64_t shape[FITSCODECS_MAX_DIMENSIONS], start[FITSCODECS_MAX_DIMENSIONS],
        step[FITSCODECS_MAX_DIMENSIONS], count[FITSCODECS_MAX_DIMENSIONS];
    ptrdiff_t strides[FITSCODECS_MAX_DIMENSIONS];
    bool
        has_rows; /* whole tiles whose rows have whole blocks, and room between them in the image */
    size_t npixels, njobs;
    struct fitscodecs_job jobs[MAX_JOBS];
    struct buffer tiles[MAX_JOBS], streams[MAX_JOBS];
    struct buffer codec_scratch, scratch, image, wanted;
    size_t region_nbytes, first; /* of the image: bytes of each job, and its first pixel there */
};

static bool is_float(enum fitscodecs_pixel type)
{
    return type == FITSCODECS_F32 || type == FITSCODECS_F64;
}

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    return first == 1;
}

static int64_t load_integer(const void *pixels, enum fitscodecs_pixel type, size_t i)
{
    uint64_t bits = load_pixel(pixels, itemsizes[type], i);
    switch (type) {
    case FITSCODECS_U8:
        return (uint8_t)bits;
    case FITSCODECS_I16:
        return (int16_t)bits;
    case FITSCODECS_I32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

/* ----------------------------------------------------------------------- random settings */

static void choose_codec(struct test *t)
{
    size_t ncodecs = 0;

    while (fitscodecs_codecs[ncodecs] != NULL) {
        ncodecs++;
    }
    t->codec = t->batch.codec = fitscodecs_codecs[random_below(ncodecs)];
    set_parameters(t->codec, true, random_below(count_settings(t->codec, true)),
                   t->batch.parameters);
}

static void choose_shape(struct test *t)
{
    size_t room = MAX_PIXELS;

    t->has_rows = random_once_in(6);
    if (t->has_rows) {
        t->batch.ndim = 2;
        t->shape[1] = 16 * random_between(1, 7);
        t->shape[0] = random_between(1, 5);
        t->npixels = (size_t)(t->shape[0] * t->shape[1]);
        return;
    }
    t->batch.ndim = random_once_in(20) ? FITSCODECS_MAX_DIMENSIONS : 1 + random_below(MAX_NDIM);
    t->npixels = 1;
    for (size_t k = t->batch.ndim; k-- > 0;) {
        size_t most = random_once_in(3) ? 1 : room < 12 ? room : 12;
        most = random_once_in(6) ? room : most;
        t->shape[k] = (int64_t)(1 + random_below(most));
        room /= (size_t)t->shape[k];
        t->npixels *= (size_t)t->shape[k];
    }
}

/* The tile as its codec sees it: the fast axis is the last one that is longer than 1. */
static void make_tile(struct test *t)
{
    size_t k = t->batch.ndim - 1;

    while (k > 0 && t->shape[k] == 1) {
        k--;
    }
    t->tile.nx = (size_t)t->shape[k];
    t->tile.ny = t->npixels / t->tile.nx;
    memcpy(t->tile.parameters, t->batch.parameters, sizeof t->tile.parameters);
}

/* All pixels, or a part that stays inside the tile and may be empty. */
static void choose_part(struct test *t)
{
    bool is_all = t->has_rows || random_once_in(3), is_empty = random_once_in(30);

    for (size_t k = 0; k < t->batch.ndim; k++) {
        int64_t n = t->shape[k], distance = is_all ? 1 : random_between(1, 3);
        int64_t count = is_all ? n : random_between(1, (n - 1) / distance + 1);
        int64_t span = (count - 1) * distance;
        t->start[k] = is_all ? 0 : random_between(0, n - 1 - span);
        t->step[k] = distance;
        t->count[k] = count;
        if (!is_all && random_once_in(2)) {
            t->start[k] += span;
            t->step[k] = -distance;
        }
    }
    if (is_empty) {
        t->count[random_below(t->batch.ndim)] = 0;
    }
}

static void choose_types(struct test *t)
{
    static const enum fitscodecs_pixel integers[] = {
        [1] = FITSCODECS_U8, [2] = FITSCODECS_I16, [4] = FITSCODECS_I32, [8] = FITSCODECS_I64};
    static const int64_t offsets[] = {0, 0, 1, 128, 32768, -32768, INT64_MAX, INT64_MIN + 1};
    size_t itemsize = t->codec->pixel_nbytes(&t->tile);

    t->batch.tile_type = integers[itemsize];
    if (itemsize >= 4 && random_once_in(4)) {
        t->batch.tile_type = itemsize == 4 ? FITSCODECS_F32 : FITSCODECS_F64;
    }
    t->batch.image_type = (enum fitscodecs_pixel)random_below(6);
    t->batch.quantized = random_once_in(3);
    t->batch.clip = random_once_in(2);
    t->batch.flip = random_once_in(3) && !is_float(t->batch.image_type);
    t->batch.offset = offsets[random_below(LENGTH(offsets))];
    t->batch.dither = (enum fitscodecs_dither)random_below(3);
    t->batch.seed = random_between(1, 10000);
}

/*
 * The axes of the image in any order, forward or backward, with gaps: as many bytes as they reach
 * are the region of one job.
 */
static void choose_strides(struct test *t)
{
    size_t order[FITSCODECS_MAX_DIMENSIONS], nbytes = itemsizes[t->batch.image_type];
    bool is_plain = t->has_rows || random_once_in(3);

    t->first = 0;
    for (size_t i = 0; i < t->batch.ndim; i++) {
        size_t other = is_plain ? i : random_below(i + 1);
        order[i] = order[other];
        order[other] = t->batch.ndim - 1 - i;
    }
    for (size_t i = 0; i < t->batch.ndim; i++) {
        size_t k = order[i], reach = t->count[k] > 0 ? (size_t)t->count[k] - 1 : 0;
        size_t stride = nbytes + (is_plain ? 0 : random_below(3));
        bool is_backward = !is_plain && random_once_in(2);
        t->strides[k] = is_backward ? -(ptrdiff_t)stride : (ptrdiff_t)stride;
        t->first += is_backward ? reach * stride : 0;
        nbytes += reach * stride;
        nbytes += t->has_rows ? random_below(3) * itemsizes[t->batch.image_type] : 0;
    }
    t->region_nbytes = nbytes;
    t->batch.strides = t->strides;
}

/* ------------------------------------------------------------------------------ the jobs */

static void make_job(struct test *t, size_t i)
{
    struct fitscodecs_job *job = &t->jobs[i];
    size_t itemsize = t->codec->pixel_nbytes(&t->tile);
    enum pattern pattern = (enum pattern)random_below(NPATTERNS);

    t->tiles[i] = buffer_new(t->npixels * itemsize, ALIGNMENT);
    fill_pixels(t->tiles[i].data, itemsize, t->npixels, pattern);
    t->streams[i] = encode_pixels(t->codec, &t->tile, t->tiles[i].data, t->codec_scratch.data);
    *job = (struct fitscodecs_job){
        .in = t->streams[i].data,
        .in_nbytes = t->streams[i].nbytes,
        .row = random_between(0, 20000),
        .shape = t->shape,
        .start = t->start,
        .step = t->step,
        .count = t->count,
        .out = t->image.data + i * t->region_nbytes + t->first,
        .scale = 0.5 + (double)random_below(100),
        .zero = (double)random_between(-100, 100),
        .has_blank = random_once_in(2),
        .blank = random_once_in(2) && !is_float(t->batch.tile_type)
                     ? load_integer(t->tiles[i].data, t->batch.tile_type, 0)
                     : FITSCODECS_NULL_INTEGER,
    };
}

/* The jobs point into the test itself. */
static void test_new(struct test *t)
{
    size_t nbytes;

    memset(t, 0, sizeof *t);
    choose_codec(t);
    choose_shape(t);
    make_tile(t);
    set_tile_case(t->codec, &t->tile, "in a batch");
    choose_part(t);
    choose_types(t);
    choose_strides(t);
    t->njobs = 1 + random_below(random_once_in(5) ? MAX_JOBS : FEW_JOBS);
    nbytes = t->njobs * t->region_nbytes;
    t->image = buffer_new(nbytes, 1);
    random_bytes(t->image.data, nbytes);
    t->wanted = buffer_copy(t->image.data, nbytes, 1);
    t->codec_scratch = buffer_new(t->codec->scratch_nbytes(&t->tile), ALIGNMENT);
    t->scratch = buffer_new(
        fitscodecs_batch_scratch_nbytes(&t->batch, t->npixels, t->codec_scratch.nbytes), ALIGNMENT);
    for (size_t i = 0; i < t->njobs; i++) {
        make_job(t, i);
    }
}

static void test_free(struct test *t)
{
    for (size_t i = 0; i < t->njobs; i++) {
        buffer_free(&t->streams[i]);
        buffer_free(&t->tiles[i]);
    }
    buffer_free(&t->scratch);
    buffer_free(&t->codec_scratch);
    buffer_free(&t->wanted);
    buffer_free(&t->image);
}

/* ------------------------------------------------------------------------ what is wanted */

/* value - offset, clipped to the image's type; false if that needs to clip.  Compared one by one,
 * as the difference of two 64-bit numbers may need 65 bits. */
static bool shift(const struct fitscodecs_batch *batch, int64_t value, int64_t *shifted)
{
    static const int64_t lowest[] = {0, INT16_MIN, INT32_MIN, INT64_MIN};
    static const int64_t highest[] = {UINT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX};
    int64_t low = lowest[batch->image_type], high = highest[batch->image_type];
    uint64_t difference = (uint64_t)value - (uint64_t)batch->offset; /* modulo 2^64 */
    bool is_negative = value < batch->offset;
    uint64_t distance = is_negative ? 0 - difference : difference; /* exact */

    if (is_negative && distance > 0 - (uint64_t)low) {
        *shifted = low;
        return false;
    }
    if (!is_negative && distance > (uint64_t)high) {
        *shifted = high;
        return false;
    }
    *shifted = (int64_t)difference;
    return true;
}

/* The integers in the image's type, and which of them it cannot hold. */
static void wanted_integers(const struct test *t, size_t i, uint8_t *out, bool *is_bad)
{
    for (size_t k = 0; k < t->npixels; k++) {
        int64_t value = load_integer(t->tiles[i].data, t->batch.tile_type, k);
        is_bad[k] = !shift(&t->batch, value, &value) && !t->batch.clip;
        store_pixel(out, itemsizes[t->batch.image_type], k, (uint64_t)value);
    }
}

static void wanted_floats(const struct test *t, size_t i, uint8_t *out)
{
    for (size_t k = 0; k < t->npixels; k++) {
        float f32;
        double f64;
        if (t->batch.tile_type == FITSCODECS_F32) {
            memcpy(&f32, t->tiles[i].data + 4 * k, 4);
            f64 = f32;
        } else {
            memcpy(&f64, t->tiles[i].data + 8 * k, 8);
            f32 = (float)f64;
        }
        if (t->batch.image_type == FITSCODECS_F32) {
            memcpy(out + 4 * k, &f32, 4);
        } else {
            memcpy(out + 8 * k, &f64, 8);
        }
    }
}

/* The tile in the image's type. */
static enum fitscodecs_status wanted_tile(const struct test *t, size_t i, uint8_t *out,
                                          bool *is_bad)
{
    const struct fitscodecs_job *job = &t->jobs[i];
    struct fitscodecs_result result = stale_result();

    if (t->batch.quantized && is_float(t->batch.image_type)) {
        return fitscodecs_dequantize(t->batch.dither, t->batch.seed, job->row, t->tiles[i].data,
                                     t->batch.tile_type, t->npixels, job->scale, job->zero,
                                     job->has_blank, job->blank, out,
                                     t->batch.image_type == FITSCODECS_F64, &result);
    }
    if (t->batch.quantized || is_float(t->batch.tile_type) != is_float(t->batch.image_type)) {
        return FITSCODECS_BAD_PARAMETER;
    }
    if (t->batch.tile_type == t->batch.image_type &&
        (is_float(t->batch.tile_type) || t->batch.offset == 0)) {
        memcpy(out, t->tiles[i].data, t->tiles[i].nbytes);
    } else if (is_float(t->batch.tile_type)) {
        wanted_floats(t, i, out);
    } else {
        wanted_integers(t, i, out, is_bad);
    }
    return FITSCODECS_OK;
}

/* Where pixel 'index' of the part, counted in C order, is in the tile and in the image. */
static void locate(const struct test *t, size_t index, size_t *in_tile, ptrdiff_t *in_image)
{
    size_t distance = 1;

    *in_tile = 0;
    *in_image = 0;
    for (size_t k = t->batch.ndim; k-- > 0;) {
        int64_t i = (int64_t)(index % (size_t)t->count[k]);
        index /= (size_t)t->count[k];
        *in_tile += (size_t)(t->start[k] + i * t->step[k]) * distance;
        *in_image += (ptrdiff_t)i * t->strides[k];
        distance *= (size_t)t->shape[k];
    }
}

static enum fitscodecs_status place_wanted(struct test *t, size_t i)
{
    size_t itemsize = itemsizes[t->batch.image_type], n = 1;
    struct buffer tile = buffer_new(t->npixels * itemsize, ALIGNMENT);
    struct buffer bad = buffer_new(t->npixels * sizeof(bool), 1);
    enum fitscodecs_status status;
    uint8_t *to = t->wanted.data + i * t->region_nbytes + t->first;

    memset(bad.data, 0, bad.nbytes);
    status = wanted_tile(t, i, tile.data, (bool *)bad.data);
    for (size_t k = 0; k < t->batch.ndim; k++) {
        n *= (size_t)t->count[k];
    }
    for (size_t index = 0; status == FITSCODECS_OK && index < n; index++) {
        size_t in_tile;
        ptrdiff_t in_image;
        locate(t, index, &in_tile, &in_image);
        status = ((bool *)bad.data)[in_tile] ? FITSCODECS_VALUE_RANGE : FITSCODECS_OK;
        memcpy(to + in_image, tile.data + in_tile * itemsize, itemsize);
        if (t->batch.flip) { /* the highest byte */
            to[in_image + (is_little_endian() ? (ptrdiff_t)itemsize - 1 : 0)] ^= 0x80;
        }
    }
    buffer_free(&bad);
    buffer_free(&tile);
    return status;
}

/* ------------------------------------------------------------------------------- checks */

static enum fitscodecs_status run(struct test *t, size_t scratch_nbytes, size_t *ndone)
{
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status = fitscodecs_decode_tiles(
        &t->batch, t->jobs, t->njobs, t->scratch.data, scratch_nbytes, ndone, &result);

    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    CHECK((status == FITSCODECS_OK) == (*ndone == t->njobs));
    return status;
}

/* The tiles before the first fault are in the image, and without one no other byte has changed. */
static void check_image(struct test *t)
{
    enum fitscodecs_status wanted = FITSCODECS_OK, found;
    size_t ngood = 0, ndone;

    while (ngood < t->njobs && (wanted = place_wanted(t, ngood)) == FITSCODECS_OK) {
        ngood++;
    }
    found = run(t, t->scratch.nbytes, &ndone);
    CHECK(found == wanted);
    CHECK(ndone == ngood);
    CHECK(memcmp(t->image.data, t->wanted.data, ngood * t->region_nbytes) == 0);
    for (size_t i = 0; i < ngood; i++) {
        CHECK(t->jobs[i].used_nbytes <= t->streams[i].nbytes);
        CHECK(t->jobs[i].used_nbytes == t->streams[i].nbytes || t->batch.codec->decodes_front);
    }
}

/* Each refusal leaves the image as it was. */
static void check_refusals(struct test *t)
{
    struct fitscodecs_batch batch = t->batch;
    struct buffer before = buffer_copy(t->image.data, t->image.nbytes, 1);
    size_t ndone;

    CHECK(run(t, t->scratch.nbytes - 1, &ndone) == FITSCODECS_SHORT_OUTPUT);
    CHECK(run(t, 0, &ndone) == FITSCODECS_SHORT_OUTPUT);
    t->batch.ndim = 0;
    CHECK(run(t, t->scratch.nbytes, &ndone) == FITSCODECS_BAD_PARAMETER);
    t->batch.ndim = FITSCODECS_MAX_DIMENSIONS + 1;
    CHECK(run(t, t->scratch.nbytes, &ndone) == FITSCODECS_BAD_PARAMETER);
    t->batch.ndim = batch.ndim;
    t->batch.tile_type =
        itemsizes[batch.tile_type] == 8 ? FITSCODECS_I16 : FITSCODECS_I64; /* another size */
    CHECK(run(t, t->scratch.nbytes, &ndone) == FITSCODECS_BAD_PARAMETER);
    t->batch = batch;
    t->shape[0] = -t->shape[0];
    CHECK(run(t, t->scratch.nbytes, &ndone) != FITSCODECS_OK);
    t->shape[0] = 0;
    CHECK(run(t, t->scratch.nbytes, &ndone) == FITSCODECS_BAD_PARAMETER);
    t->shape[0] = INT64_MAX;
    CHECK(run(t, t->scratch.nbytes, &ndone) != FITSCODECS_OK);
    CHECK(memcmp(t->image.data, before.data, before.nbytes) == 0);
    buffer_free(&before);
}

/* A stream that ends before the last byte that is needed, after good ones: as many tiles as there
 * are before it. */
static void check_bad_stream(struct test *t)
{
    size_t bad = random_below(t->njobs), ndone;

    if (run(t, t->scratch.nbytes, &ndone) == FITSCODECS_OK) {
        t->jobs[bad].in_nbytes = random_below(t->jobs[bad].used_nbytes);
        CHECK(run(t, t->scratch.nbytes, &ndone) != FITSCODECS_OK);
        CHECK(ndone == bad);
    }
}

int main(int argc, char **argv)
{
    test_init(argc, argv);
    for (size_t i = 0; i < NCASES; i++) {
        struct test t;
        test_new(&t);
        if (i % 4 == 0) {
            size_t length = (size_t)t.shape[0];
            check_refusals(&t);
            t.shape[0] = (int64_t)length;
        } else {
            check_image(&t);
        }
        check_bad_stream(&t);
        test_free(&t);
    }
    return test_done("decode_tiles", NCASES);
}
