/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The noise of a float tile from the median absolute differences of pixels along its rows, after
 * Stoehr et al. 2008 (ADASS XVII, ASP Conf. Ser. 394, 505), with every detail as the field's
 * software does it: the step of quantization, and with it each integer, depends on the last bit.
 */
#include "noise.h"

#include <float.h>
#include <math.h>

#define MIN_GOOD 9 /* pixels that a difference of order 5 spans */
#define LANES 8    /* pixels that survey() works on at a time */

/* How lower_median() takes samples; measured, and uncritical. */
#define NSAMPLES 31
#define SAMPLE_MARGIN 4                     /* 1.4 sigma of the rank of a median of 31 samples */
#define FEW 100                             /* values for which it does not pay */
#define SAMPLE_STRIDE ((size_t)2654435769u) /* 2^32 times the golden ratio's fraction */
#define COUNT_BLOCK ((size_t)1 << 20)       /* values that uint32_t can count, and more */

/* Medians of the rows that have one, as doubles whatever the pixel type. */
struct medians {
    double *second, *third, *fifth;
    size_t nsecond;
    size_t nthird; /* third and fifth differences exist for the same rows */
};

#define PIXEL float
#define SUFFIX _f32
#define LARGEST FLT_MAX
#define ABSOLUTE fabsf
#define COUNTER uint32_t
#include "noise_template.h"

#define PIXEL double
#define SUFFIX _f64
#define LARGEST DBL_MAX
#define ABSOLUTE fabs
#define COUNTER uint64_t
#include "noise_template.h"

/* A normal distribution's sigma is 1.4826 times its median absolute deviation; the differences
 * have sqrt(2), sqrt(6) and sqrt(70) times the sigma of a pixel. */
#define SIGMA_SECOND 1.0483579
#define SIGMA_THIRD 0.6052697
#define SIGMA_FIFTH 0.1772048

/* Rows shorter than a window are taken as one row of all pixels. */
static void join_short_rows(size_t *nx, size_t *ny)
{
    if (*nx < MIN_GOOD) {
        *nx = saturating_mul(*nx, *ny);
        *ny = 1;
    }
}

/* Layout: three lists of ny row medians, then five rows of pixels. */
size_t fitscodecs_noise_scratch_nbytes(size_t nx, size_t ny, bool is_f64)
{
    size_t medians_nbytes, rows_nbytes;

    join_short_rows(&nx, &ny);
    medians_nbytes = saturating_mul(ny, 3 * sizeof(double));
    rows_nbytes = saturating_mul(nx, 5 * (is_f64 ? sizeof(double) : sizeof(float)));
    return saturating_add(medians_nbytes, rows_nbytes);
}

void fitscodecs_survey(const void *pixels, bool is_f64, size_t npixels,
                       struct fitscodecs_noise *noise)
{
    if (is_f64) {
        survey_f64(pixels, npixels, noise);
    } else {
        survey_f32(pixels, npixels, noise);
    }
}

bool fitscodecs_has_infinity(const struct fitscodecs_noise *noise)
{
    return noise->minimum < -DBL_MAX || noise->maximum > DBL_MAX;
}

/* Median of the row medians: the mean of the two in the middle, or the one, or 0 of none. */
static double middle(double *medians, size_t n)
{
    double lower, upper;

    if (n == 0) {
        return 0.0;
    }
    lower = select_in_order_f64(medians, n, (n - 1) / 2);
    if (n == 1) {
        return lower; /* twice it could overflow */
    }
    upper = medians[n / 2];
    for (size_t i = n / 2; i < n; i++) { /* all that sort behind the lower one */
        upper = medians[i] < upper ? medians[i] : upper;
    }
    return (lower + upper) / 2.0;
}

/*
 * Noises are 0 in a tile with fewer than nine pixels, one that is flat, and one with an infinity,
 * whose differences have no order.  With finite pixels near the largest number they may be
 * infinite, never NaN.
 */
void fitscodecs_noise(const void *pixels, bool is_f64, size_t nx, size_t ny, void *scratch,
                      struct fitscodecs_noise *noise)
{
    struct medians medians = {0};
    bool has_nan;

    fitscodecs_survey(pixels, is_f64, nx * ny, noise);
    has_nan = noise->ngood != nx * ny;
    join_short_rows(&nx, &ny);
    if (nx < MIN_GOOD || fitscodecs_has_infinity(noise)) {
        return;
    }
    medians.second = scratch;
    medians.third = medians.second + ny;
    medians.fifth = medians.third + ny;
    if (is_f64) {
        find_medians_f64(pixels, nx, ny, has_nan, medians.fifth + ny, &medians);
    } else {
        find_medians_f32(pixels, nx, ny, has_nan, (float *)(medians.fifth + ny), &medians);
    }
    noise->noise2 = SIGMA_SECOND * middle(medians.second, medians.nsecond);
    noise->noise3 = SIGMA_THIRD * middle(medians.third, medians.nthird);
    noise->noise5 = SIGMA_FIFTH * middle(medians.fifth, medians.nthird);
}
