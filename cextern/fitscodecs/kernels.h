/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of hot loops.
 *
 * It starts with the portable bodies of kernels.c, so that forgetting to call fitscodecs_init()
 * costs speed and never correctness; fitscodecs_kernels_init() overwrites entries upward by what
 * the CPU has.  It is a pure function of the features, so that a test can build tables of its own
 * and compare them.
 */
#ifndef FITSCODECS_KERNELS_H
#define FITSCODECS_KERNELS_H

#include "common.h"

struct fitscodecs_kernels {
    /* Reverse the bytes of n items of 1, 2, 4 or 8 bytes if this machine is little-endian: from
     * big-endian to native order and back. */
    void (*swap)(const void *in, void *out, size_t n, size_t itemsize);

    /* Native items to shuffled big-endian bytes, and back. */
    void (*shuffle)(const void *in, void *out, size_t n, size_t itemsize);
    void (*unshuffle)(const void *in, void *out, size_t n, size_t itemsize);
};

extern struct fitscodecs_kernels fitscodecs_kernels;

void fitscodecs_kernels_init(struct fitscodecs_kernels *kernels, unsigned cpu_features);

#endif
