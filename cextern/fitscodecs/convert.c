/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pixels of one type to another.
 *
 * Integers are converted in pieces: the kernels find the range of a piece, and if all of it fits,
 * subtract modulo the width of the output, which is exact then.  Only a piece with a value that
 * does not fit is gone through pixel by pixel.
 */
#include "convert.h"
#include "kernels.h"

/* Pixels of a piece: at most 16 KiB, to be read a second time from the first level cache. */
#define PIECE 2048

/* In the order of enum fitscodecs_pixel; 0 is always one of the values. */
static const int64_t lowest_of[] = {0, INT16_MIN, INT32_MIN, INT64_MIN};
static const int64_t highest_of[] = {UINT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX};
static const size_t nbytes_of[] = {1, 2, 4, 8};

static int64_t load_integer(const void *pixels, enum fitscodecs_pixel type, size_t i)
{
    switch (type) {
    case FITSCODECS_U8:
        return ((const uint8_t *)pixels)[i];
    case FITSCODECS_I16:
        return ((const int16_t *)pixels)[i];
    case FITSCODECS_I32:
        return ((const int32_t *)pixels)[i];
    default:
        return ((const int64_t *)pixels)[i];
    }
}

static void store_integer(void *pixels, enum fitscodecs_pixel type, size_t i, int64_t value)
{
    switch (type) {
    case FITSCODECS_U8:
        ((uint8_t *)pixels)[i] = (uint8_t)value;
        break;
    case FITSCODECS_I16:
        ((int16_t *)pixels)[i] = (int16_t)value;
        break;
    case FITSCODECS_I32:
        ((int32_t *)pixels)[i] = (int32_t)value;
        break;
    default:
        ((int64_t *)pixels)[i] = value;
    }
}

/* fitscodecs_convert_integers() pixel by pixel. */
static enum fitscodecs_status convert_each(const void *in, enum fitscodecs_pixel in_type, size_t n,
                                           int64_t offset, bool clip, void *out,
                                           enum fitscodecs_pixel out_type,
                                           struct fitscodecs_result *result)
{
    int64_t low = lowest_of[out_type], high = highest_of[out_type];
    /* the values from which the offset can be subtracted in 64 bits */
    int64_t least = offset > 0 ? INT64_MIN + offset : INT64_MIN;
    int64_t most = offset < 0 ? INT64_MAX + offset : INT64_MAX;

    for (size_t i = 0; i < n; i++) {
        int64_t value = load_integer(in, in_type, i);
        bool below = value < least;
        bool above = value > most;
        if (!below && !above) {
            value -= offset;
            below = value < low;
            above = value > high;
        }
        if (below || above) {
            if (!clip) {
                return fitscodecs_fail(result, FITSCODECS_VALUE_RANGE,
                                       below ? "pixel value {found}, wanted at least {wanted}"
                                             : "pixel value {found}, wanted at most {wanted}",
                                       value, below ? low : high);
            }
            value = below ? low : high;
        }
        store_integer(out, out_type, i, value);
    }
    return FITSCODECS_OK;
}

/* a + b, or the end of the 64-bit range that it is beyond. */
static int64_t add_saturated(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) {
        return INT64_MAX;
    }
    if (b < 0 && a < INT64_MIN - b) {
        return INT64_MIN;
    }
    return a + b;
}

enum fitscodecs_status fitscodecs_convert_integers(const void *in, enum fitscodecs_pixel in_type,
                                                   size_t n, int64_t offset, bool clip, void *out,
                                                   enum fitscodecs_pixel out_type,
                                                   struct fitscodecs_result *result)
{
    const struct fitscodecs_convert_kernels *kernels = fitscodecs_kernels.convert;
    /* What fits: since the output has values on either side of the offset, an end that is beyond
     * 64 bits is one that no value reaches. */
    int64_t least = add_saturated(lowest_of[out_type], offset);
    int64_t most = add_saturated(highest_of[out_type], offset);
    int64_t lowest = lowest_of[in_type], highest = highest_of[in_type];
    bool always_fits = lowest >= least && highest <= most;
    enum fitscodecs_status status = FITSCODECS_OK;

    for (size_t i = 0; i < n && status == FITSCODECS_OK; i += PIECE) {
        size_t m = n - i < PIECE ? n - i : PIECE;
        const uint8_t *from = (const uint8_t *)in + i * nbytes_of[in_type];
        uint8_t *to = (uint8_t *)out + i * nbytes_of[out_type];
        if (!always_fits) {
            kernels->range[in_type](from, m, &lowest, &highest);
        }
        if (lowest >= least && highest <= most) {
            kernels->subtract[in_type][out_type](from, m, offset, to);
        } else {
            status = convert_each(from, in_type, m, offset, clip, to, out_type, result);
        }
    }
    return status;
}

void fitscodecs_convert_floats(const void *in, size_t n, void *out, enum fitscodecs_pixel out_type)
{
    if (out_type == FITSCODECS_F32) {
        fitscodecs_kernels.convert->f64_to_f32(in, n, out);
    } else {
        fitscodecs_kernels.convert->f32_to_f64(in, n, out);
    }
}
