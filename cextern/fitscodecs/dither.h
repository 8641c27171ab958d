/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walk through the dither table (FITS Standard 4.0, section 10.2.1 and Appendix I).
 *
 * A tile starts at the table's row entry a = (tile + seed - 1) mod 10000, with the tiles counted
 * from 0, and there at position trunc(500 * table[a]).  Each pixel takes the value at the position
 * and moves it on by one.  At the end of the table a moves to the next entry (cyclically), which
 * gives the next position.  So the values come in contiguous runs of 9501 to 10000.
 */
#ifndef FITSCODECS_DITHER_H
#define FITSCODECS_DITHER_H

#include "common.h"

#define DITHER_FIRST_POSITIONS 500.0f /* a run starts at one of the first 500 values */

struct dither {
    size_t start;    /* a, the entry that gave the position of this run */
    size_t position; /* of the next pixel's value, always < FITSCODECS_DITHER_LENGTH */
};

/* Fill the table and fitscodecs_dither_last_seed. */
void fitscodecs_dither_init(void);

/* What keeps a tile from being dithered: an unknown method, or with dither a row or seed that
 * selects no values.  The result is set if the status is not FITSCODECS_OK. */
enum fitscodecs_status fitscodecs_dither_check(enum fitscodecs_dither method, int64_t row,
                                               int64_t seed, struct fitscodecs_result *result);

static inline void dither_begin_run(struct dither *dither)
{
    dither->position = (size_t)(fitscodecs_dither_table[dither->start] * DITHER_FIRST_POSITIONS);
}

/* Go to the first pixel of the tile of a 0-based table row; row >= 0 and seed in 1 .. 10000. */
static inline void dither_start(struct dither *dither, int64_t row, int64_t seed)
{
    int64_t start = row % FITSCODECS_DITHER_LENGTH + (seed - 1); /* row + seed could overflow */
    dither->start = (size_t)(start % FITSCODECS_DITHER_LENGTH);
    dither_begin_run(dither);
}

/* The values of the next '*length' pixels, 1 <= *length <= wanted (wanted >= 1), and move past
 * them.  Callers loop until they have all they want. */
static inline const float *dither_run(struct dither *dither, size_t wanted, size_t *length)
{
    const float *run = fitscodecs_dither_table + dither->position;
    size_t left = FITSCODECS_DITHER_LENGTH - dither->position;

    *length = wanted < left ? wanted : left;
    dither->position += *length;
    if (dither->position == FITSCODECS_DITHER_LENGTH) {
        dither->start = (dither->start + 1) % FITSCODECS_DITHER_LENGTH;
        dither_begin_run(dither);
    }
    return run;
}

/* Move past n pixels; a run is never short, so this takes few steps. */
static inline void dither_skip(struct dither *dither, size_t n)
{
    while (n > 0) {
        size_t length;
        (void)dither_run(dither, n, &length);
        n -= length;
    }
}

#endif
