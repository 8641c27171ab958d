/* SPDX-License-Identifier: BSD-3-Clause */
/* Dequantization of a tile piece by piece, for callers that do not have its pixels in one place. */
#ifndef FITSCODECS_DEQUANTIZE_H
#define FITSCODECS_DEQUANTIZE_H

#include "dither.h"

struct fitscodecs_dequantize_loops;

struct fitscodecs_dequantizer {
    const struct fitscodecs_dequantize_loops *loops;
    double scale, zero;
    bool is_dithered, has_zero, has_blank;
    int64_t blank, row, seed;
    size_t position; /* of the next pixel in the tile */
    struct dither dither;
};

/* Start with the first pixel of a tile.  For arguments and status see fitscodecs_dequantize(). */
enum fitscodecs_status fitscodecs_dequantizer_start(struct fitscodecs_dequantizer *dequantizer,
                                                    enum fitscodecs_dither dither, int64_t seed,
                                                    int64_t row, enum fitscodecs_pixel type,
                                                    double scale, double zero, bool has_blank,
                                                    int64_t blank, bool is_f64,
                                                    struct fitscodecs_result *result);

/* Go to any pixel of the tile. */
void fitscodecs_dequantizer_seek(struct fitscodecs_dequantizer *dequantizer, size_t position);

/* Dequantize the next n pixels. */
void fitscodecs_dequantizer_run(struct fitscodecs_dequantizer *dequantizer, const void *integers,
                                size_t n, void *out);

#endif
