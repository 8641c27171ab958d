/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All tiles of an image through one codec, timed: this library's routine, CFITSIO's, or memcpy.
 * bench_codecs.py compiles this file together with the library and calls it by ctypes.
 *
 * Each function returns seconds, or minus the status of the first tile that failed.
 */
#define _POSIX_C_SOURCE 199309L

#include <fitsio2.h>
#include <time.h>

#include "common.h"

/* The tiles lie one after the other in all arrays. */
struct job {
    const char *codec;
    int64_t parameters[FITSCODECS_MAX_PARAMETERS];
    int64_t nx, ny, ntiles;
    int64_t pixel_nbytes; /* in 'pixels' and 'decoded' */
    int64_t image_nbytes; /* of a pixel in the image: 8-byte routines are for 4-byte images */
    int64_t room;         /* bytes from one stream to the next */
    int64_t same_input;   /* use the first tile again and again, which stays in the cache */
    int64_t same_output;  /* decode to the first tile again and again */
    const uint8_t *pixels;
    uint8_t *streams;
    int64_t *stream_nbytes;
    uint8_t *decoded;
    void *scratch; /* one tile of int64_t, or what the codec wants if that is more */
    double *scales, *zeros;
};

/* Of this thread's time on a CPU: what others take away does not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t npixels(const struct job *job)
{
    return (size_t)(job->nx * job->ny);
}

static size_t input(const struct job *job, int64_t i)
{
    return job->same_input ? 0 : (size_t)i;
}

static const uint8_t *pixels_of(const struct job *job, int64_t i)
{
    return job->pixels + input(job, i) * npixels(job) * (size_t)job->pixel_nbytes;
}

static uint8_t *decoded_of(const struct job *job, int64_t i)
{
    size_t place = job->same_output ? 0 : (size_t)i;
    return job->decoded + place * npixels(job) * (size_t)job->pixel_nbytes;
}

static uint8_t *stream_of(const struct job *job, int64_t i)
{
    return job->streams + input(job, i) * (size_t)job->room;
}

static struct fitscodecs_tile tile_of(const struct job *job)
{
    struct fitscodecs_tile tile = {(size_t)job->nx, (size_t)job->ny, {0}};
    memcpy(tile.parameters, job->parameters, sizeof tile.parameters);
    return tile;
}

void bench_init(unsigned features);
void bench_init(unsigned features)
{
    fitscodecs_init(features);
    fits_init_randoms();
}

/* ------------------------------------------------------------------------ this library */

void bench_sizes(const struct job *job, int64_t *bound, int64_t *scratch);
void bench_sizes(const struct job *job, int64_t *bound, int64_t *scratch)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec(job->codec);
    struct fitscodecs_tile tile = tile_of(job);
    *bound = (int64_t)codec->encode_bound(&tile);
    *scratch = (int64_t)codec->scratch_nbytes(&tile);
}

double bench_encode(struct job *job);
double bench_encode(struct job *job)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec(job->codec);
    struct fitscodecs_tile tile = tile_of(job);
    struct fitscodecs_result result;
    double began = now();

    for (int64_t i = 0; i < job->ntiles; i++) {
        enum fitscodecs_status status = codec->encode(&tile, pixels_of(job, i), stream_of(job, i),
                                                      (size_t)job->room, job->scratch, &result);
        if (status != FITSCODECS_OK) {
            return -(double)status;
        }
        job->stream_nbytes[input(job, i)] = (int64_t)result.nbytes;
    }
    return now() - began;
}

#define AT_ONCE 16 /* as many as decode_tiles.c takes */

/* The one place that knows how tiles are handed to the decoder. */
static enum fitscodecs_status decode_all(const struct fitscodecs_codec *codec, struct job *job)
{
    struct fitscodecs_tile tiles[AT_ONCE];
    const uint8_t *in[AT_ONCE];
    size_t in_nbytes[AT_ONCE], most = codec->decode_several == NULL ? 1 : AT_ONCE;
    struct fitscodecs_rows out[AT_ONCE];
    enum fitscodecs_status statuses[AT_ONCE], status = FITSCODECS_OK;
    struct fitscodecs_result results[AT_ONCE];

    for (int64_t i = 0; i < job->ntiles && status == FITSCODECS_OK;) {
        size_t n = 0;
        for (; n < most && i < job->ntiles; n++, i++) {
            tiles[n] = tile_of(job);
            in[n] = stream_of(job, i);
            in_nbytes[n] = (size_t)job->stream_nbytes[input(job, i)];
            out[n] = (struct fitscodecs_rows){
                .pixels = decoded_of(job, i),
                .row_nbytes = (ptrdiff_t)(job->nx * job->pixel_nbytes),
            };
        }
        if (n == 1) {
            status = codec->decode(&tiles[0], in[0], in_nbytes[0], out[0].pixels, job->scratch,
                                   &results[0]);
            continue;
        }
        codec->decode_several(n, tiles, in, in_nbytes, out, job->scratch, statuses, results);
        for (size_t k = 0; k < n && status == FITSCODECS_OK; k++) {
            status = statuses[k];
        }
    }
    return status;
}

double bench_decode(struct job *job);
double bench_decode(struct job *job)
{
    double began = now();
    enum fitscodecs_status status = decode_all(fitscodecs_find_codec(job->codec), job);
    return status == FITSCODECS_OK ? now() - began : -(double)status;
}

double bench_quantize(struct job *job);
double bench_quantize(struct job *job)
{
    const struct fitscodecs_quantizer quantizer = {4, FITSCODECS_SUBTRACTIVE_DITHER_1, 1};
    struct fitscodecs_result result;
    double began = now();

    for (int64_t i = 0; i < job->ntiles; i++) {
        enum fitscodecs_status status = fitscodecs_quantize(
            &quantizer, pixels_of(job, i), false, (size_t)job->nx, (size_t)job->ny, i,
            (int32_t *)decoded_of(job, i), &job->scales[i], &job->zeros[i], job->scratch, &result);
        if (status != FITSCODECS_OK) {
            return -(double)status;
        }
    }
    return now() - began;
}

/* From int32 to float32, with dither. */
double bench_dequantize(struct job *job);
double bench_dequantize(struct job *job)
{
    struct fitscodecs_result result;
    double began = now();

    for (int64_t i = 0; i < job->ntiles; i++) {
        enum fitscodecs_status status =
            fitscodecs_dequantize(FITSCODECS_SUBTRACTIVE_DITHER_1, 1, i, pixels_of(job, i),
                                  FITSCODECS_I32, npixels(job), job->scales[i], job->zeros[i], true,
                                  FITSCODECS_NULL_INTEGER, decoded_of(job, i), false, &result);
        if (status != FITSCODECS_OK) {
            return -(double)status;
        }
    }
    return now() - began;
}

double bench_copy(struct job *job);
double bench_copy(struct job *job)
{
    double began = now();
    for (int64_t i = 0; i < job->ntiles; i++) {
        memcpy(decoded_of(job, i), pixels_of(job, i), npixels(job) * (size_t)job->pixel_nbytes);
    }
    return now() - began;
}

size_t bench_noise_scratch(const struct job *job);
size_t bench_noise_scratch(const struct job *job)
{
    return fitscodecs_noise_scratch_nbytes((size_t)job->nx, (size_t)job->ny, false);
}

/* ----------------------------------------------------------------------------- CFITSIO */

static int cfitsio_rice(struct job *job, void *pixels, uint8_t *stream)
{
    int n = (int)npixels(job), room = (int)job->room, blocksize = (int)job->parameters[0];

    switch (job->pixel_nbytes) {
    case 1:
        return fits_rcomp_byte(pixels, n, stream, room, blocksize);
    case 2:
        return fits_rcomp_short(pixels, n, stream, room, blocksize);
    default:
        return fits_rcomp(pixels, n, stream, room, blocksize);
    }
}

static int cfitsio_unrice(struct job *job, uint8_t *stream, int nbytes, void *pixels)
{
    int n = (int)npixels(job), blocksize = (int)job->parameters[0];

    switch (job->pixel_nbytes) {
    case 1:
        return fits_rdecomp_byte(stream, nbytes, pixels, n, blocksize);
    case 2:
        return fits_rdecomp_short(stream, nbytes, pixels, n, blocksize);
    default:
        return fits_rdecomp(stream, nbytes, pixels, n, blocksize);
    }
}

double bench_cfitsio_rice(struct job *job);
double bench_cfitsio_rice(struct job *job)
{
    double began = now();
    for (int64_t i = 0; i < job->ntiles; i++) {
        job->stream_nbytes[i] = cfitsio_rice(job, (void *)pixels_of(job, i), stream_of(job, i));
    }
    return now() - began;
}

double bench_cfitsio_unrice(struct job *job);
double bench_cfitsio_unrice(struct job *job)
{
    double began = now();
    for (int64_t i = 0; i < job->ntiles; i++) {
        int status =
            cfitsio_unrice(job, stream_of(job, i), (int)job->stream_nbytes[i], decoded_of(job, i));
        if (status != 0) {
            return -1;
        }
    }
    return now() - began;
}

/* Whether CFITSIO has 8-byte coefficients for such an image. */
static bool is_wide(const struct job *job)
{
    return job->image_nbytes == 4;
}

/* The routine takes the fast axis first, and destroys its pixels, so it gets copies, which are not
 * timed. */
double bench_cfitsio_hcompress(struct job *job);
double bench_cfitsio_hcompress(struct job *job)
{
    int rows = (int)job->ny, columns = (int)job->nx, scale = (int)job->parameters[0];
    double spent = 0;

    for (int64_t i = 0; i < job->ntiles; i++) {
        const int32_t *pixels = (const int32_t *)pixels_of(job, i);
        char *stream = (char *)stream_of(job, i);
        long nbytes = job->room;
        int status = 0;
        for (size_t k = 0; k < npixels(job); k++) {
            if (is_wide(job)) {
                ((LONGLONG *)job->scratch)[k] = pixels[k];
            } else {
                ((int *)job->scratch)[k] = pixels[k];
            }
        }
        double began = now();
        if (is_wide(job)) {
            fits_hcompress64(job->scratch, columns, rows, scale, stream, &nbytes, &status);
        } else {
            fits_hcompress(job->scratch, columns, rows, scale, stream, &nbytes, &status);
        }
        spent += now() - began;
        if (status != 0) {
            return -(double)status;
        }
        job->stream_nbytes[i] = nbytes;
    }
    return spent;
}

/* The copy to the image, which a caller might save, is not timed. */
double bench_cfitsio_unhcompress(struct job *job);
double bench_cfitsio_unhcompress(struct job *job)
{
    int smooth = (int)job->parameters[1];
    double spent = 0;

    for (int64_t i = 0; i < job->ntiles; i++) {
        int rows, columns, scale, status = 0;
        double began = now();
        if (is_wide(job)) {
            fits_hdecompress64(stream_of(job, i), smooth, job->scratch, &rows, &columns, &scale,
                               &status);
        } else {
            fits_hdecompress(stream_of(job, i), smooth, job->scratch, &rows, &columns, &scale,
                             &status);
        }
        spent += now() - began;
        if (status != 0) {
            return -(double)status;
        }
        memcpy(decoded_of(job, i), job->scratch, npixels(job) * sizeof(int32_t));
    }
    return spent;
}

double bench_cfitsio_plio(struct job *job);
double bench_cfitsio_plio(struct job *job)
{
    double began = now();
    for (int64_t i = 0; i < job->ntiles; i++) {
        int nwords =
            pl_p2li((int *)pixels_of(job, i), 1, (short *)stream_of(job, i), (int)npixels(job));
        job->stream_nbytes[i] = 2 * nwords;
    }
    return now() - began;
}

double bench_cfitsio_unplio(struct job *job);
double bench_cfitsio_unplio(struct job *job)
{
    double began = now();
    for (int64_t i = 0; i < job->ntiles; i++) {
        pl_l2pi((short *)stream_of(job, i), 1, (int *)decoded_of(job, i), (int)npixels(job));
    }
    return now() - began;
}

double bench_cfitsio_quantize(struct job *job);
double bench_cfitsio_quantize(struct job *job)
{
    double began = now();
    for (int64_t i = 0; i < job->ntiles; i++) {
        int lowest, highest;
        int done = fits_quantize_float(i + 1, (float *)pixels_of(job, i), job->nx, job->ny, 0, 0, 4,
                                       1, (int *)decoded_of(job, i), &job->scales[i],
                                       &job->zeros[i], &lowest, &highest);
        if (done != 1) {
            return -1;
        }
    }
    return now() - began;
}
