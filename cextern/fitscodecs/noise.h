/* SPDX-License-Identifier: BSD-3-Clause */
/* What the quantizer and the kernels need of noise.c beside the public fitscodecs_noise(). */
#ifndef FITSCODECS_NOISE_H
#define FITSCODECS_NOISE_H

#include "common.h"

#define NOISE_MIN_GOOD 9 /* pixels that a difference of order 5 spans */
#define NOISE_WORK_ROWS 5

/* Medians of the rows that have one, as doubles whatever the pixel type. */
struct fitscodecs_noise_medians {
    double *second, *third, *fifth;
    size_t nsecond;
    size_t nthird; /* third and fifth differences exist for the same rows */
};

/* Count and range of the pixels that are not NaN; the noises are set to 0.  An infinity shows as
 * a range that fitscodecs_has_infinity() finds. */
void fitscodecs_survey(const void *pixels, bool is_f64, size_t npixels,
                       struct fitscodecs_noise *noise);

/* Whether a surveyed pixel is infinite: the range starts inside out at the largest finite
 * numbers, so only an infinity can push an end of it beyond them. */
bool fitscodecs_has_infinity(const struct fitscodecs_noise *noise);

#endif
