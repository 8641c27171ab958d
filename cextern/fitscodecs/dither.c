/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of dither values (FITS Standard 4.0, Appendix I). */
#include "dither.h"

/* Generator of Park and Miller: seed = MULTIPLIER * seed mod MODULUS, starting at 1. */
#define MULTIPLIER 16807
#define MODULUS 2147483647

float fitscodecs_dither_table[FITSCODECS_DITHER_LENGTH];
int64_t fitscodecs_dither_last_seed;

/* The values are rounded to single precision: that is how everyone stores them, and quantized
 * tiles depend on the last bit. */
void fitscodecs_dither_init(void)
{
    int64_t seed = 1;

    for (size_t i = 0; i < FITSCODECS_DITHER_LENGTH; i++) {
        seed = MULTIPLIER * seed % MODULUS; /* the product is below 2^46 */
        fitscodecs_dither_table[i] = (float)((double)seed / MODULUS);
    }
    fitscodecs_dither_last_seed = seed;
}

enum fitscodecs_status fitscodecs_dither_check(enum fitscodecs_dither method, int64_t row,
                                               int64_t seed, struct fitscodecs_result *result)
{
    switch (method) {
    case FITSCODECS_NO_DITHER:
        return FITSCODECS_OK;
    case FITSCODECS_SUBTRACTIVE_DITHER_1:
    case FITSCODECS_SUBTRACTIVE_DITHER_2:
        break;
    default:
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "dither method {found}, wanted at most {wanted}", (int64_t)method,
                               FITSCODECS_SUBTRACTIVE_DITHER_2);
    }
    if (seed < 1) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "dither seed {found}, wanted at least {wanted}", seed, 1);
    }
    if (seed > FITSCODECS_DITHER_LENGTH) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "dither seed {found}, wanted at most {wanted}", seed,
                               FITSCODECS_DITHER_LENGTH);
    }
    if (row < 0) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "table row {found}, wanted at least {wanted}", row, 0);
    }
    return FITSCODECS_OK;
}
