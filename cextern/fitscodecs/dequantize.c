/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Quantized tiles back to floats (FITS Standard 4.0, section 10.2):
 *
 *     pixel = (integer - R + 0.5) * scale + zero      with dither R
 *     pixel = integer * scale + zero                  without
 *
 * in double, with a rounding after each operation (compile with -ffp-contract=off), and then, for
 * float images, one more to single precision.  An integer equal to the blank value is NaN; that is
 * asked first.  With SUBTRACTIVE_DITHER_2 one integer is exactly 0.
 */
#include "dequantize.h"
#include "kernels.h"

#include <math.h>

/* Pixels that go through all loops before the next ones: small for the cache. */
#define CHUNK 1024

/* NULL for a type that is not an integer. */
static const struct fitscodecs_dequantize_loops *find_loops(enum fitscodecs_pixel type, bool is_f64)
{
    const struct fitscodecs_dequantize_kernels *kernels = fitscodecs_kernels.dequantize;

    switch (type) {
    case FITSCODECS_U8:
        return &kernels->u8[is_f64];
    case FITSCODECS_I16:
        return &kernels->i16[is_f64];
    case FITSCODECS_I32:
        return &kernels->i32[is_f64];
    case FITSCODECS_I64:
        return &kernels->i64[is_f64];
    default:
        return NULL;
    }
}

/* Whether the type can hold the value; if not, no pixel is equal to it. */
static bool holds(enum fitscodecs_pixel type, int64_t value)
{
    switch (type) {
    case FITSCODECS_U8:
        return value >= 0 && value <= UINT8_MAX;
    case FITSCODECS_I16:
        return value >= INT16_MIN && value <= INT16_MAX;
    case FITSCODECS_I32:
        return value >= INT32_MIN && value <= INT32_MAX;
    default:
        return true;
    }
}

enum fitscodecs_status fitscodecs_dequantizer_start(struct fitscodecs_dequantizer *dequantizer,
                                                    enum fitscodecs_dither method, int64_t seed,
                                                    int64_t row, enum fitscodecs_pixel type,
                                                    double scale, double zero, bool has_blank,
                                                    int64_t blank, bool is_f64,
                                                    struct fitscodecs_result *result)
{
    enum fitscodecs_status status;

    *dequantizer = (struct fitscodecs_dequantizer){
        .loops = find_loops(type, is_f64),
        .scale = scale,
        .zero = zero,
        .is_dithered = method != FITSCODECS_NO_DITHER,
        .has_zero =
            method == FITSCODECS_SUBTRACTIVE_DITHER_2 && holds(type, FITSCODECS_ZERO_INTEGER),
        .has_blank = has_blank && holds(type, blank),
        .blank = blank,
        .row = row,
        .seed = seed,
    };
    if (dequantizer->loops == NULL) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "quantized pixels of a type that is not an integer", 0, 0);
    }
    status = fitscodecs_dither_check(method, row, seed, result);
    if (status == FITSCODECS_OK && dequantizer->is_dithered) {
        dither_start(&dequantizer->dither, row, seed);
    }
    return status;
}

void fitscodecs_dequantizer_seek(struct fitscodecs_dequantizer *dequantizer, size_t position)
{
    if (dequantizer->is_dithered) {
        if (position < dequantizer->position) {
            dither_start(&dequantizer->dither, dequantizer->row, dequantizer->seed);
            dequantizer->position = 0;
        }
        dither_skip(&dequantizer->dither, position - dequantizer->position);
    }
    dequantizer->position = position;
}

/* Dequantize n pixels, which may lie on several runs of the dither table. */
static void subtract_dither(struct fitscodecs_dequantizer *dequantizer, const char *in, size_t n,
                            char *out)
{
    const struct fitscodecs_dequantize_loops *loops = dequantizer->loops;

    while (n > 0) {
        size_t length;
        const float *table = dither_run(&dequantizer->dither, n, &length);
        loops->dithered(in, table, length, dequantizer->scale, dequantizer->zero, out);
        in += length * loops->integer_nbytes;
        out += length * loops->pixel_nbytes;
        n -= length;
    }
}

void fitscodecs_dequantizer_run(struct fitscodecs_dequantizer *dequantizer, const void *integers,
                                size_t n, void *out)
{
    const struct fitscodecs_dequantize_loops *loops = dequantizer->loops;
    const char *in = integers;
    char *to = out;

    dequantizer->position += n;
    while (n > 0) {
        size_t m = n < CHUNK ? n : CHUNK;
        if (dequantizer->is_dithered) {
            subtract_dither(dequantizer, in, m, to);
        } else {
            loops->plain(in, m, dequantizer->scale, dequantizer->zero, to);
        }
        if (dequantizer->has_zero && loops->contains(in, m, FITSCODECS_ZERO_INTEGER)) {
            loops->replace(in, m, FITSCODECS_ZERO_INTEGER, 0.0, to);
        }
        /* Last, because it wins if both are the same integer. */
        if (dequantizer->has_blank && loops->contains(in, m, dequantizer->blank)) {
            loops->replace(in, m, dequantizer->blank, NAN, to);
        }
        in += m * loops->integer_nbytes;
        to += m * loops->pixel_nbytes;
        n -= m;
    }
}

enum fitscodecs_status fitscodecs_dequantize(enum fitscodecs_dither method, int64_t seed,
                                             int64_t row, const void *integers,
                                             enum fitscodecs_pixel type, size_t npixels,
                                             double scale, double zero, bool has_blank,
                                             int64_t blank, void *out, bool is_f64,
                                             struct fitscodecs_result *result)
{
    struct fitscodecs_dequantizer dequantizer;
    enum fitscodecs_status status;

    *result = (struct fitscodecs_result){0};
    status = fitscodecs_dequantizer_start(&dequantizer, method, seed, row, type, scale, zero,
                                          has_blank, blank, is_f64, result);
    if (status == FITSCODECS_OK) {
        fitscodecs_dequantizer_run(&dequantizer, integers, npixels, out);
    }
    return status;
}
