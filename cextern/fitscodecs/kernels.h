/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of hot loops, one for each family of them.
 *
 * A family is a file FAMILY_kernels.h that is included once for each instruction set: by kernels.c
 * for any machine, and by kernels_sse41.c, kernels_avx2.c and so on, where the compiler is told to
 * use that set.  NAME(function) gives each copy its name; WITH_SSE41, WITH_AVX2, WITH_AVX512 and
 * WITH_NEON tell what code that is written for one of them may use.  What is not worth writing for an
 * instruction set keeps the kernels of the set below it.
 *
 * The tables start with the portable kernels, so that forgetting to call fitscodecs_init() costs
 * speed and never correctness; fitscodecs_kernels_init() goes upward by what the CPU has.  It is a
 * pure function of the features, so that a test can fill tables of its own and compare them.
 */
#ifndef FITSCODECS_KERNELS_H
#define FITSCODECS_KERNELS_H

#include "common.h"

/* Compilers that can build a function for another instruction set than that of the file. */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define FITSCODECS_HAS_X86 1
#elif (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__) && defined(__ARM_NEON) &&  \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FITSCODECS_HAS_NEON 1
#endif

/* Bytes of pixels in another order. */
struct fitscodecs_bytes_kernels {
    /* Reverse the bytes of n items of 1, 2, 4 or 8 bytes if this machine is little-endian: from
     * big-endian to native order and back. */
    void (*swap)(const void *in, void *out, size_t n, size_t itemsize);

    /* Native items to shuffled big-endian bytes, and back. */
    void (*shuffle)(const void *in, void *out, size_t n, size_t itemsize);
    void (*unshuffle)(const void *in, void *out, size_t n, size_t itemsize);
};

/* Differences and medians of noise.c; in the arrays the functions for float and double pixels. */
struct fitscodecs_noise_medians;

struct fitscodecs_noise_kernels {
    /* See fitscodecs_survey(). */
    void (*survey[2])(const void *pixels, size_t n, struct fitscodecs_noise *noise);

    /* The row medians of ny rows of nx >= NOISE_MIN_GOOD pixels without an infinity.  The lists of
     * 'medians' have room for ny, 'work' for NOISE_WORK_ROWS rows of pixels. */
    void (*find_medians[2])(const void *pixels, size_t nx, size_t ny, bool has_nan, void *work,
                            struct fitscodecs_noise_medians *medians);

    /* The value that sorting would bring to index k of n > k values, none of them negative or NaN;
     * the values are lost, 'spare' has room for n. */
    double (*select)(double *values, size_t n, size_t k, double *spare);
};

/* Pixels of quantize.c to integers; in the arrays the functions for float and double pixels. */
struct fitscodecs_quantize_kernels {
    /* With the dither values of 'table', or without dither if it is NULL.  A NaN or what 32 bits
     * do not hold becomes INT32_MIN or, saturating, the nearest integer that is not reserved. */
    void (*quantize[2])(const void *in, const float *table, size_t n, double scale, double zero,
                        int32_t *out);
    void (*quantize_saturating[2])(const void *in, const float *table, size_t n, double scale,
                                   double zero, int32_t *out);

    /* Put in the integer that stands for a NaN, or for a zero. */
    void (*mark_nan[2])(const void *in, size_t n, int32_t *out);
    void (*mark_zero[2])(const void *in, size_t n, int32_t *out);
};

/* Integers of one type back to pixels of one type, for dequantize.c. */
struct fitscodecs_dequantize_loops {
    void (*plain)(const void *in, size_t n, double scale, double zero, void *out);
    void (*dithered)(const void *in, const float *table, size_t n, double scale, double zero,
                     void *out);

    /* Whether there is a special integer, and set the pixels that have it.  The type holds it. */
    bool (*contains)(const void *in, size_t n, int64_t special);
    void (*replace)(const void *in, size_t n, int64_t special, double value, void *out);

    size_t integer_nbytes, pixel_nbytes;
};

struct fitscodecs_dequantize_kernels {
    struct fitscodecs_dequantize_loops u8[2], i16[2], i32[2], i64[2]; /* to float, to double */
};

struct fitscodecs_kernels {
    const struct fitscodecs_bytes_kernels *bytes;
    const struct fitscodecs_noise_kernels *noise;
    const struct fitscodecs_quantize_kernels *quantize;
    const struct fitscodecs_dequantize_kernels *dequantize;
};

extern struct fitscodecs_kernels fitscodecs_kernels;

void fitscodecs_kernels_init(struct fitscodecs_kernels *kernels, unsigned cpu_features);

/* Put the kernels of one instruction set into the tables; the CPU must have it. */
void fitscodecs_kernels_sse41(struct fitscodecs_kernels *kernels);
void fitscodecs_kernels_avx2(struct fitscodecs_kernels *kernels);
void fitscodecs_kernels_avx512(struct fitscodecs_kernels *kernels);
void fitscodecs_kernels_neon(struct fitscodecs_kernels *kernels);

#endif
