/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All decoders under libFuzzer.
 *
 * An input is a stream and, behind it, TRAILER_NBYTES of settings (little-endian, in the order of
 * read_settings()), so that mutations of the one leave the other in place.  tests/c/make_corpus.py
 * writes inputs of this form.
 *
 * With -DFUZZ_MAIN the program is a test without libFuzzer, of the files and folders that are its
 * arguments.
 */
#include "testing.h"

#define TRAILER_NBYTES 62
#define MAX_PIXELS ((size_t)1 << 16)
#define NAXES 3 /* axes that may be longer than 1; any others come before them */
#define MAX_JOBS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

struct settings {
    const struct fitscodecs_codec *codec;
    struct fitscodecs_batch batch;
    ptrdiff_t strides[FITSCODECS_MAX_DIMENSIONS];
    int64_t shape[FITSCODECS_MAX_DIMENSIONS], start[FITSCODECS_MAX_DIMENSIONS],
        step[FITSCODECS_MAX_DIMENSIONS], count[FITSCODECS_MAX_DIMENSIONS];
    struct fitscodecs_tile tile;
    struct fitscodecs_job job; /* without the stream and the place */
    bool is_backward, is_float;
    size_t njobs;
};

/* ---------------------------------------------------------------------------- settings */

static uint64_t take(const uint8_t **next, size_t nbytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < nbytes; i++) {
        value |= (uint64_t)(*next)[i] << (8 * i);
    }
    *next += nbytes;
    return value;
}

static double take_double(const uint8_t **next)
{
    uint64_t bits = take(next, 8);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* A byte chooses a value of the table, or one that is hardly valid for anything. */
static int64_t parameter_of(const char *name, uint64_t byte)
{
    static const int64_t odd[16] = {-1,    0,          3,         5,         7,  8,
                                    9,     256,        INT32_MIN, INT32_MAX, 64, 255,
                                    65536, 4294967296, INT64_MIN, INT64_MAX};
    const struct parameter_values *v = find_values(name);
    return byte >= 240 ? odd[byte - 240] : v->values[byte % v->nvalues];
}

static void read_codec(struct settings *s, const uint8_t **next)
{
    size_t ncodecs = 0, chosen = take(next, 1);

    while (fitscodecs_codecs[ncodecs] != NULL) {
        ncodecs++;
    }
    s->codec = s->batch.codec = fitscodecs_codecs[chosen % ncodecs];
    for (size_t i = 0, end = 0; i < FITSCODECS_MAX_PARAMETERS; i++) {
        uint64_t byte = take(next, 1);
        end |= s->codec->parameters[i] == NULL;
        s->batch.parameters[i] = end ? 0 : parameter_of(s->codec->parameters[i], byte);
    }
}

/* Lengths, fast axis first, each cut down to what the axes before leave of MAX_PIXELS. */
static void read_shape(struct settings *s, const uint8_t **next)
{
    size_t room = MAX_PIXELS, ndim = take(next, 1) % (FITSCODECS_MAX_DIMENSIONS + 2);

    s->batch.ndim = ndim;
    for (size_t k = 0; k < FITSCODECS_MAX_DIMENSIONS; k++) {
        s->shape[k] = s->step[k] = s->count[k] = 1;
    }
    for (size_t i = 0; i < NAXES; i++) {
        size_t length = 1 + take(next, 2) % room;
        if (i < ndim && ndim <= FITSCODECS_MAX_DIMENSIONS) {
            s->shape[ndim - 1 - i] = (int64_t)length;
            room /= length;
        }
    }
}

/* A part of each axis that is inside the tile. */
static void read_part(struct settings *s, const uint8_t **next)
{
    for (size_t i = 0; i < NAXES; i++) {
        int64_t start = (int64_t)take(next, 1), step = (int8_t)take(next, 1);
        int64_t count = (int64_t)take(next, 1);
        if (i < s->batch.ndim && s->batch.ndim <= FITSCODECS_MAX_DIMENSIONS) {
            size_t k = s->batch.ndim - 1 - i;
            s->start[k] = start % s->shape[k];
            s->step[k] = step == 0 ? 1 : step;
            int64_t last = s->step[k] > 0 ? s->shape[k] - 1 - s->start[k] : s->start[k];
            int64_t most = last / (s->step[k] > 0 ? s->step[k] : -s->step[k]) + 1;
            s->count[k] = count == 255 ? most : count % (most + 1); /* 0 pixels are allowed */
        }
    }
}

static void read_settings(struct settings *s, const uint8_t *next)
{
    memset(s, 0, sizeof *s);
    read_codec(s, &next);
    read_shape(s, &next);
    read_part(s, &next);
    s->batch.image_type = (enum fitscodecs_pixel)(take(&next, 1) % 6);
    unsigned flags = (unsigned)take(&next, 1);
    s->batch.clip = flags & 1;
    s->batch.flip = (flags >> 7 & 1) != 0 && s->batch.image_type < FITSCODECS_F32;
    s->batch.quantized = flags >> 1 & 1;
    s->job.has_blank = flags >> 2 & 1;
    s->is_float = flags >> 3 & 1;
    s->is_backward = flags >> 4 & 1;
    s->batch.dither = (enum fitscodecs_dither)(flags >> 5 & 3);
    s->batch.seed = (int64_t)take(&next, 2);
    s->job.row = (int32_t)take(&next, 4);
    s->job.scale = take_double(&next);
    s->job.zero = take_double(&next);
    s->job.blank = (int64_t)take(&next, 8);
    s->batch.offset = (int64_t)take(&next, 8);
    s->njobs = 1 + take(&next, 1) % MAX_JOBS;
}

/* The tile as its codec sees it; see fitscodecs_decode_tiles(). */
static void make_tile(struct settings *s)
{
    size_t k = s->batch.ndim <= FITSCODECS_MAX_DIMENSIONS ? s->batch.ndim : 0;

    s->tile.nx = s->tile.ny = 1;
    while (k > 0 && s->tile.nx == 1) {
        s->tile.nx = (size_t)s->shape[--k];
    }
    while (k > 0) {
        s->tile.ny *= (size_t)s->shape[--k];
    }
    memcpy(s->tile.parameters, s->batch.parameters, sizeof s->tile.parameters);
}

static enum fitscodecs_pixel type_of_tile(size_t itemsize, bool is_float)
{
    switch (itemsize) {
    case 1:
        return FITSCODECS_U8;
    case 2:
        return FITSCODECS_I16;
    case 4:
        return is_float ? FITSCODECS_F32 : FITSCODECS_I32;
    default:
        return is_float ? FITSCODECS_F64 : FITSCODECS_I64;
    }
}

/* ------------------------------------------------------------------------------ targets */

/* What was decoded can be encoded (a lossy codec may refuse), and the stream decoded again. */
static void encode_again(const struct settings *s, void *pixels, void *scratch)
{
    size_t bound = s->codec->encode_bound(&s->tile);
    struct buffer stream = buffer_new(bound, 1);
    struct fitscodecs_result result = {0};

    if (s->codec->encode(&s->tile, pixels, stream.data, bound, scratch, &result) == FITSCODECS_OK) {
        size_t nbytes = result.nbytes;
        CHECK(nbytes <= bound);
        CHECK(s->codec->decode(&s->tile, stream.data, nbytes, pixels, scratch, &result) ==
              FITSCODECS_OK);
        CHECK(result.nbytes == nbytes);
    }
    buffer_free(&stream);
}

static enum fitscodecs_status decode_alone(const struct settings *s, const struct buffer *stream)
{
    struct buffer pixels =
        buffer_new(s->codec->pixel_nbytes(&s->tile) * s->tile.nx * s->tile.ny, ALIGNMENT);
    struct buffer scratch = buffer_new(s->codec->scratch_nbytes(&s->tile), ALIGNMENT);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status = s->codec->decode(&s->tile, stream->data, stream->nbytes,
                                                     pixels.data, scratch.data, &result);

    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    if (status == FITSCODECS_OK) {
        CHECK(result.nbytes <= stream->nbytes);
        encode_again(s, pixels.data, scratch.data);
    }
    buffer_free(&scratch);
    buffer_free(&pixels);
    return status;
}

/* C order, with the axes running backward if the settings say so; returns the offset of the first
 * pixel and sets the length. */
static size_t set_strides(struct settings *s, size_t itemsize, size_t *nbytes)
{
    size_t first = 0;

    *nbytes = itemsize;
    for (size_t k = s->batch.ndim; k-- > 0;) {
        ptrdiff_t stride = (ptrdiff_t)*nbytes;
        s->strides[k] = s->is_backward ? -stride : stride;
        if (s->is_backward && s->count[k] > 0) {
            first += (size_t)(s->count[k] - 1) * (size_t)stride;
        }
        *nbytes *= (size_t)s->count[k];
    }
    if (*nbytes == 0) {
        first = 0;
    }
    return first;
}

static enum fitscodecs_status decode_in_batch(struct settings *s, const struct buffer *stream,
                                              size_t codec_nbytes)
{
    static const size_t itemsizes[] = {1, 2, 4, 8, 4, 8};
    struct fitscodecs_job jobs[MAX_JOBS];
    struct fitscodecs_result result = stale_result();
    size_t ndone, image_nbytes = 1, first = 0;
    size_t scratch_nbytes =
        fitscodecs_batch_scratch_nbytes(&s->batch, s->tile.nx * s->tile.ny, codec_nbytes);
    struct buffer scratch = buffer_new(scratch_nbytes, ALIGNMENT), image;
    enum fitscodecs_status status;

    if (s->batch.ndim <= FITSCODECS_MAX_DIMENSIONS) {
        first = set_strides(s, itemsizes[s->batch.image_type], &image_nbytes);
    }
    image = buffer_new(image_nbytes, 1);
    s->batch.strides = s->strides;
    for (size_t i = 0; i < s->njobs; i++) {
        jobs[i] = s->job;
        jobs[i].in = stream->data;
        jobs[i].in_nbytes = stream->nbytes >= i ? stream->nbytes - i : 0;
        jobs[i].shape = s->shape;
        jobs[i].start = s->start;
        jobs[i].step = s->step;
        jobs[i].count = s->count;
        jobs[i].out = image.data + first;
    }
    status = fitscodecs_decode_tiles(&s->batch, jobs, s->njobs, scratch.data, scratch_nbytes,
                                     &ndone, &result);
    CHECK((status == FITSCODECS_OK) == (ndone == s->njobs));
    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    buffer_free(&image);
    buffer_free(&scratch);
    return status;
}

/* Whether a fault of the stream may be behind all that is wanted; see decodes_front. */
static bool may_end_early(const struct settings *s)
{
    size_t last = 0, distance = 1;

    for (size_t k = s->batch.ndim; k-- > 0; distance *= (size_t)s->shape[k]) {
        int64_t end = s->start[k] + (s->step[k] > 0 ? (s->count[k] - 1) * s->step[k] : 0);
        last += (size_t)end * distance;
    }
    return s->codec->decodes_front && last + 1 < s->tile.nx * s->tile.ny;
}

/* The bytes of the stream as integers of the tile's type. */
static void dequantize(const struct settings *s, const struct buffer *stream, bool is_f64)
{
    static const size_t itemsizes[] = {1, 2, 4, 8, 4, 8};
    size_t npixels = stream->nbytes / itemsizes[s->batch.tile_type];
    struct buffer out = buffer_new(npixels * (is_f64 ? 8 : 4), ALIGNMENT);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status = fitscodecs_dequantize(
        s->batch.dither, s->batch.seed, s->job.row, stream->data, s->batch.tile_type, npixels,
        s->job.scale, s->job.zero, s->job.has_blank, s->job.blank, out.data, is_f64, &result);

    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    buffer_free(&out);
}

/* The stream as gzip members, with room for the tile. */
static void inflate(const struct settings *s, const struct buffer *stream)
{
    static struct fitscodecs_gzip *gzip;
    size_t room = s->tile.nx * s->tile.ny, used, found;
    struct buffer out = buffer_new(room, 1);

    gzip = gzip == NULL ? fitscodecs_gzip_new(0) : gzip;
    if (gzip != NULL && fitscodecs_gzip_inflate(gzip, stream->data, stream->nbytes, out.data, room,
                                                &used, &found)) {
        CHECK(used <= stream->nbytes);
        CHECK(found <= room);
    }
    buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static bool is_ready;
    struct fitscodecs_result result = stale_result();
    struct settings s;
    enum fitscodecs_status alone;

    if (!is_ready) {
        fitscodecs_init(fitscodecs_cpu_features());
        is_ready = true;
    }
    if (nbytes < TRAILER_NBYTES) {
        return 0;
    }
    nbytes -= TRAILER_NBYTES;
    read_settings(&s, data + nbytes);
    make_tile(&s);

    /* a copy of its own, so that a step over the end of the stream is seen */
    struct buffer stream = buffer_copy(data, nbytes, ALIGNMENT);
    size_t codec_nbytes = 0;
    alone = s.codec->check(&s.tile, &result);
    if (alone == FITSCODECS_OK) {
        codec_nbytes = s.codec->scratch_nbytes(&s.tile);
        s.batch.tile_type = type_of_tile(s.codec->pixel_nbytes(&s.tile), s.is_float);
        alone = decode_alone(&s, &stream);
    }
    if (decode_in_batch(&s, &stream, codec_nbytes) == FITSCODECS_OK) {
        CHECK(alone == FITSCODECS_OK || may_end_early(&s));
    }
    dequantize(&s, &stream, s.is_backward);
    inflate(&s, &stream);
    buffer_free(&stream);
    return 0;
}

/* ------------------------------------------------------------- the test without libFuzzer */

#ifdef FUZZ_MAIN
#include <dirent.h>

static uint64_t run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t nbytes = 0, capacity = 1 << 20;
    uint8_t *data = malloc(capacity);

    CHECK(file != NULL && data != NULL);
    nbytes = fread(data, 1, capacity, file);
    CHECK(feof(file));
    fclose(file);
    set_case("%s", path);
    LLVMFuzzerTestOneInput(data, nbytes);
    free(data);
    return 1;
}

static uint64_t run_folder(DIR *folder, const char *path)
{
    uint64_t n = 0;
    char name[4096];

    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
            n += run_file(name);
        }
    }
    closedir(folder);
    return n;
}

int main(int argc, char **argv)
{
    uint64_t n = 0;

    test_init(1, argv);
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        n += folder != NULL ? run_folder(folder, argv[i]) : run_file(argv[i]);
    }
    return test_done("fuzz", n);
}
#endif
