/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Float tiles to 32-bit integers (FITS Standard 4.0, section 10.2): the step from the noise, the
 * zero point from the range, and dither that is subtracted again when the tile is read.
 *
 * The standard leaves step and zero point to the writer.  Both are chosen here as the field's
 * software does, to the last bit, so that the same image gives the same file.
 */
#include "quantize.h"
#include "dither.h"
#include "kernels.h"
#include "noise.h"

#include <float.h>
#include <math.h>

#define LARGEST_RANGE (2.0 * QUANTIZE_LARGEST - QUANTIZE_NRESERVED)
#define LARGEST_RANGE_FROM_ZERO (1.0 * QUANTIZE_LARGEST - QUANTIZE_NRESERVED)

#define CHUNK 1024 /* pixels that go through all loops before the next ones: small for the cache */

/* What maps the pixels of a tile, of either type, to integers. */
struct mapping {
    double scale, zero;
    bool saturates; /* to the nearest integer that is not reserved; else INT32_MIN */
    bool has_nan;   /* a pixel may be NaN */
};

/* Fraction cut off; 'otherwise' if the type does not hold that. */
static int64_t to_i64(double value, int64_t otherwise)
{
    const double end = 9223372036854775808.0; /* 2^63 */
    return value >= -end && value < end ? (int64_t)value : otherwise;
}

static bool is_finite(double value)
{
    return value >= -DBL_MAX && value <= DBL_MAX;
}

/* Quantize pixels, with the dither values of the next n; each pixel takes one, whatever becomes of
 * it. */
static void map_run(struct dither *dither, const struct mapping *mapping, const char *pixels,
                    bool is_f64, size_t n, int32_t *out)
{
    const struct fitscodecs_quantize_kernels *kernels = fitscodecs_kernels.quantize;

    while (n > 0) {
        const float *table = NULL;
        size_t length = n;
        if (dither != NULL) {
            table = dither_run(dither, n, &length);
        }
        if (mapping->saturates) {
            kernels->quantize_saturating[is_f64](pixels, table, length, mapping->scale,
                                                 mapping->zero, out);
        } else {
            kernels->quantize[is_f64](pixels, table, length, mapping->scale, mapping->zero, out);
        }
        pixels += length * (is_f64 ? sizeof(double) : sizeof(float));
        out += length;
        n -= length;
    }
}

/* Quantize all pixels, and put in the integers that stand for something else than a number of
 * steps. */
static void map_pixels(const struct fitscodecs_quantizer *quantizer, int64_t row,
                       const struct mapping *mapping, const void *pixels, bool is_f64,
                       size_t npixels, int32_t *out)
{
    const struct fitscodecs_quantize_kernels *kernels = fitscodecs_kernels.quantize;
    bool is_dithered = quantizer->dither != FITSCODECS_NO_DITHER;
    const char *in = pixels;
    struct dither dither;

    if (is_dithered) {
        dither_start(&dither, row, quantizer->seed);
    }
    while (npixels > 0) {
        size_t n = npixels < CHUNK ? npixels : CHUNK;
        map_run(is_dithered ? &dither : NULL, mapping, in, is_f64, n, out);
        if (quantizer->dither == FITSCODECS_SUBTRACTIVE_DITHER_2) {
            kernels->mark_zero[is_f64](in, n, out);
        }
        if (mapping->has_nan) {
            kernels->mark_nan[is_f64](in, n, out);
        }
        in += n * (is_f64 ? sizeof(double) : sizeof(float));
        out += n;
        npixels -= n;
    }
}

/* Level as the single precision number that the field's software takes; 0 if that has no use. */
static double usable_level(double level)
{
    return level >= -FLT_MAX && level <= FLT_MAX ? (double)(float)level : 0.0;
}

/* (max - min) and (min + max), rounded to the pixel type, where they may become infinite. */
static double find_difference(double maximum, double minimum, bool is_f64)
{
    return is_f64 ? maximum - minimum : (double)((float)maximum - (float)minimum);
}

static double find_sum(double minimum, double maximum, bool is_f64)
{
    return is_f64 ? minimum + maximum : (double)((float)minimum + (float)maximum);
}

/* The smallest noise that could be measured. */
static double best_noise(const struct fitscodecs_noise *noise)
{
    double best = noise->noise3;

    if (noise->noise2 != 0 && noise->noise2 < best) {
        best = noise->noise2;
    }
    if (noise->noise5 != 0 && noise->noise5 < best) {
        best = noise->noise5;
    }
    return best;
}

/* The step of a tile; fills in its noise or, where the noise has no influence, its range only.  A
 * step that came from the noise may be 0 or infinite. */
static double choose_step(double level, const void *pixels, bool is_f64, size_t nx, size_t ny,
                          void *scratch, struct fitscodecs_noise *noise)
{
    if (level < 0) {
        fitscodecs_survey(pixels, is_f64, nx * ny, noise);
        return -level;
    }
    fitscodecs_noise(pixels, is_f64, nx, ny, scratch, noise);
    if (noise->ngood == 0) {
        noise->minimum = 0;
        noise->maximum = 1;
        return 1 / level;
    }
    return best_noise(noise) / level;
}

/*
 * The zero point, of a tile whose range is 'range' steps:
 *
 *  - with integers that have a meaning of their own, what brings the minimum right above the
 *    reserved ones;
 *  - where there is room for it, a multiple of the step, so that quantizing again what was read
 *    from a quantized tile gives the same integers;
 *  - otherwise the middle of the range.
 */
static double choose_zero(const struct fitscodecs_noise *noise, bool is_f64, bool has_marks,
                          double step, double range)
{
    if (has_marks) {
        return noise->minimum - step * QUANTIZE_LOWEST;
    }
    if (range < LARGEST_RANGE_FROM_ZERO) {
        /*
         * A whole number of steps from 0, counted in 64 bits.  Beyond them software of the field
         * writes integers that have nothing to do with the pixels: NaN refuses such a tile.
         */
        double nsteps = noise->minimum / step + 0.5;
        return fabs(nsteps) < 9223372036854775808.0 ? (double)(int64_t)nsteps * step : NAN;
    }
    return find_sum(noise->minimum, noise->maximum, is_f64) / 2.0;
}

/* Choose scale and zero, or say why the tile has to be stored without quantization. */
static enum fitscodecs_status choose_mapping(const struct fitscodecs_quantizer *quantizer,
                                             double level, const void *pixels, bool is_f64,
                                             size_t nx, size_t ny, void *scratch,
                                             struct mapping *mapping,
                                             struct fitscodecs_result *result)
{
    struct fitscodecs_noise noise;
    double step = choose_step(level, pixels, is_f64, nx, ny, scratch, &noise);
    double range;

    if (fitscodecs_has_infinity(&noise)) {
        return fitscodecs_fail(result, FITSCODECS_NOT_QUANTIZABLE, "tile holds an infinity", 0, 0);
    }
    if (step == 0) {
        return fitscodecs_fail(result, FITSCODECS_NOT_QUANTIZABLE, "tile has no measurable noise",
                               0, 0);
    }
    range = find_difference(noise.maximum, noise.minimum, is_f64) / step;
    if (range > LARGEST_RANGE) {
        return fitscodecs_fail(result, FITSCODECS_NOT_QUANTIZABLE,
                               "range of {found} steps, wanted at most {wanted}",
                               to_i64(range, INT64_MAX), (int64_t)LARGEST_RANGE);
    }
    mapping->has_nan = noise.ngood != nx * ny;
    mapping->saturates = false;
    mapping->scale = step;
    mapping->zero = choose_zero(
        &noise, is_f64, mapping->has_nan || quantizer->dither == FITSCODECS_SUBTRACTIVE_DITHER_2,
        step, range);
    if (!is_finite(step) || !is_finite(mapping->zero)) {
        return fitscodecs_fail(result, FITSCODECS_NOT_QUANTIZABLE,
                               "tile has values too large to quantize", 0, 0);
    }
    return FITSCODECS_OK;
}

/*
 * With a level below 0 the field's software takes rows of fewer than five good pixels as having
 * none, in the count that tells whether there are NaNs.  That changes nothing: such a row has a
 * NaN or is the whole tile, so the count falls short exactly when there are NaNs.
 */
enum fitscodecs_status fitscodecs_quantize(const struct fitscodecs_quantizer *quantizer,
                                           const void *pixels, bool is_f64, size_t nx, size_t ny,
                                           int64_t row, int32_t *out, double *scale, double *zero,
                                           void *scratch, struct fitscodecs_result *result)
{
    double level = usable_level(quantizer->level);
    size_t npixels = nx * ny;
    enum fitscodecs_status status;
    struct mapping mapping;

    *result = (struct fitscodecs_result){0};
    if (level == 0 || level != level) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "quantization level is 0, NaN or too large", 0, 0);
    }
    status = fitscodecs_dither_check(quantizer->dither, row, quantizer->seed, result);
    if (status != FITSCODECS_OK) {
        return status;
    }
    if (npixels <= 1) {
        return fitscodecs_fail(result, FITSCODECS_NOT_QUANTIZABLE,
                               "tile of {found} pixels, wanted at least {wanted}", (int64_t)npixels,
                               2);
    }
    status = choose_mapping(quantizer, level, pixels, is_f64, nx, ny, scratch, &mapping, result);
    if (status != FITSCODECS_OK) {
        return status;
    }
    map_pixels(quantizer, row, &mapping, pixels, is_f64, npixels, out);
    *scale = mapping.scale;
    *zero = mapping.zero;
    return FITSCODECS_OK;
}

enum fitscodecs_status fitscodecs_quantize_with(const struct fitscodecs_quantizer *quantizer,
                                                const void *pixels, bool is_f64, size_t npixels,
                                                int64_t row, int32_t *out, double scale,
                                                double zero, struct fitscodecs_result *result)
{
    struct mapping mapping = {.scale = scale, .zero = zero, .saturates = true, .has_nan = true};
    enum fitscodecs_status status;

    *result = (struct fitscodecs_result){0};
    if (scale == 0 || scale != scale) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER, "scale is 0 or NaN", 0, 0);
    }
    status = fitscodecs_dither_check(quantizer->dither, row, quantizer->seed, result);
    if (status == FITSCODECS_OK) {
        map_pixels(quantizer, row, &mapping, pixels, is_f64, npixels, out);
    }
    return status;
}
