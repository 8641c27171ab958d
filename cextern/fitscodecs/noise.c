/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The noise of a float tile from the median absolute differences of pixels along its rows, after
 * Stoehr et al. 2008 (ADASS XVII, ASP Conf. Ser. 394, 505), with every detail as the field's
 * software does it: the step of quantization, and with it each integer, depends on the last bit.
 *
 * What is done to each pixel is in noise_kernels.h.
 */
#include "noise.h"
#include "kernels.h"

#include <float.h>
#include <math.h>

/* A normal distribution's sigma is 1.4826 times its median absolute deviation; the differences
 * have sqrt(2), sqrt(6) and sqrt(70) times the sigma of a pixel. */
#define SIGMA_SECOND 1.0483579
#define SIGMA_THIRD 0.6052697
#define SIGMA_FIFTH 0.1772048

/* Rows shorter than a window are taken as one row of all pixels. */
static void join_short_rows(size_t *nx, size_t *ny)
{
    if (*nx < NOISE_MIN_GOOD) {
        *nx = saturating_mul(*nx, *ny);
        *ny = 1;
    }
}

/* Layout: three lists of ny row medians and two to work with, then the kernel's rows of pixels. */
size_t fitscodecs_noise_scratch_nbytes(size_t nx, size_t ny, bool is_f64)
{
    size_t medians_nbytes, rows_nbytes;

    join_short_rows(&nx, &ny);
    medians_nbytes = saturating_mul(ny, 5 * sizeof(double));
    rows_nbytes = saturating_mul(nx, NOISE_WORK_ROWS * (is_f64 ? sizeof(double) : sizeof(float)));
    return saturating_add(medians_nbytes, rows_nbytes);
}

void fitscodecs_survey(const void *pixels, bool is_f64, size_t npixels,
                       struct fitscodecs_noise *noise)
{
    fitscodecs_kernels.noise->survey[is_f64](pixels, npixels, noise);
}

bool fitscodecs_has_infinity(const struct fitscodecs_noise *noise)
{
    return noise->minimum < -DBL_MAX || noise->maximum > DBL_MAX;
}

/* Median of n row medians: the mean of the two in the middle, or the one, or 0 of none.  'work'
 * has room for twice as many. */
static double middle(const double *medians, size_t n, double *work)
{
    double lower, upper = INFINITY;
    size_t nupto = 0;

    if (n == 0) {
        return 0.0;
    }
    memcpy(work, medians, n * sizeof medians[0]);
    lower = fitscodecs_kernels.noise->select(work, n, (n - 1) / 2, work + n);
    for (size_t i = 0; i < n; i++) {
        nupto += medians[i] <= lower;
        upper = ((medians[i] > lower) & (medians[i] < upper)) ? medians[i] : upper;
    }
    if (n == 1) {
        return lower; /* twice it could overflow */
    }
    return (lower + (nupto > n / 2 ? lower : upper)) / 2.0;
}

/*
 * Noises are 0 in a tile with fewer than nine pixels, one that is flat, and one with an infinity,
 * whose differences have no order.  With finite pixels near the largest number they may be
 * infinite, never NaN.
 */
void fitscodecs_noise(const void *pixels, bool is_f64, size_t nx, size_t ny, void *scratch,
                      struct fitscodecs_noise *noise)
{
    struct fitscodecs_noise_medians medians = {0};
    double *work;
    bool has_nan;

    fitscodecs_survey(pixels, is_f64, nx * ny, noise);
    has_nan = noise->ngood != nx * ny;
    join_short_rows(&nx, &ny);
    if (nx < NOISE_MIN_GOOD || fitscodecs_has_infinity(noise)) {
        return;
    }
    medians.second = scratch;
    medians.third = medians.second + ny;
    medians.fifth = medians.third + ny;
    work = medians.fifth + ny;
    fitscodecs_kernels.noise->find_medians[is_f64](pixels, nx, ny, has_nan, work + 2 * ny,
                                                   &medians);
    noise->noise2 = SIGMA_SECOND * middle(medians.second, medians.nsecond, work);
    noise->noise3 = SIGMA_THIRD * middle(medians.third, medians.nthird, work);
    noise->noise5 = SIGMA_FIFTH * middle(medians.fifth, medians.nthird, work);
}
