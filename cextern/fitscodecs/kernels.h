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

/*
 * Bit planes and transform of HCOMPRESS_1, for coefficients of 32 bits.  hcompress_words.h says what
 * grids and lists are, hcompress.c what the names of the coefficients mean.
 */
struct bitreader;
struct bitwriter;
struct fitscodecs_hcompress_grid;

struct fitscodecs_hcompress_kernels {
    /* Huffman codes of a stream to a list of 'ncodes'; false if the stream ends. */
    bool (*take_codes)(struct bitreader *br, size_t ncodes, uint64_t *list);

    /* Codes of the list to the cells that the level above flags, the others are 0; cells outside of
     * the plane are cut off.  Returns how many cells of the level below are flagged. */
    size_t (*spread_codes)(const struct fitscodecs_hcompress_grid *above, const uint64_t *list,
                           const struct fitscodecs_hcompress_grid *grid);

    /*
     * One row of coefficients from 'nplanes' <= 31 planes of a quadrant, whose words for this row
     * are 'stride' words apart, plane 0 first.  The row is the upper (2) or lower (0) one of the
     * codes, as 'place' says.  Signs are taken from the stream, and the values multiplied by 'scale'.
     * Returns the number of pixels, less than 'npixels' if the stream ends: that of the one whose
     * sign is missing.
     */
    size_t (*join_row)(struct bitreader *br, const uint64_t *words, size_t stride, unsigned nplanes,
                       unsigned place, int32_t scale, int32_t *row, size_t npixels);

    /* A row of whole cells to two rows of 2 * ncells values, on level k of the transform.  The
     * caller knows that 32 bits hold all sums, here and in the opposite direction. */
    void (*inverse_cells)(unsigned k, size_t ncells, const int32_t *h0, const int32_t *hx,
                          const int32_t *hy, const int32_t *hc, int32_t *top, int32_t *bottom);

    /* Two rows to whole cells. */
    void (*forward_cells)(unsigned k, size_t ncells, const int32_t *top, const int32_t *bottom,
                          int32_t *h0, int32_t *hx, int32_t *hy, int32_t *hc);

    /* All magnitudes by OR; that of INT32_MIN is 2^31. */
    uint32_t (*join_magnitudes)(const int32_t *values, size_t n);

    /* Divide by scale > 1, rounding to nearest with halves toward zero; no value is INT32_MIN. */
    void (*digitize)(int32_t *values, size_t n, int32_t scale);

    /* Planes of the magnitudes of two rows, 'bottom' being NULL if there is none: the words of
     * 'nplanes' <= 31 planes, 'stride' words apart, plane 0 first. */
    void (*split_rows)(const int32_t *top, const int32_t *bottom, size_t npixels, unsigned nplanes,
                       uint64_t *words, size_t stride);

    /* Codes of a level from those of the level below it. */
    void (*gather_codes)(const struct fitscodecs_hcompress_grid *below,
                         const struct fitscodecs_hcompress_grid *grid);

    /* Huffman bits of all codes that are not 0. */
    uint64_t (*count_nbits)(const struct fitscodecs_hcompress_grid *grid);

    /* Append the codes that are not 0, last one first, to the list that has 'ncodes'; returns how
     * many it has then. */
    size_t (*list_codes)(const struct fitscodecs_hcompress_grid *grid, uint64_t *list,
                         size_t ncodes);

    /* Huffman codes of a list to a stream. */
    void (*put_codes)(struct bitwriter *bw, const uint64_t *list, size_t ncodes);

    /* A bit for each value that is not 0, 1 if it is negative. */
    void (*put_signs)(struct bitwriter *bw, const int32_t *values, size_t n);
};

struct fitscodecs_kernels {
    const struct fitscodecs_bytes_kernels *bytes;
    const struct fitscodecs_hcompress_kernels *hcompress;
};

extern struct fitscodecs_kernels fitscodecs_kernels;

void fitscodecs_kernels_init(struct fitscodecs_kernels *kernels, unsigned cpu_features);

/* Put the kernels of one instruction set into the tables; the CPU must have it. */
void fitscodecs_kernels_sse41(struct fitscodecs_kernels *kernels);
void fitscodecs_kernels_avx2(struct fitscodecs_kernels *kernels);
void fitscodecs_kernels_avx512(struct fitscodecs_kernels *kernels);
void fitscodecs_kernels_neon(struct fitscodecs_kernels *kernels);

#endif
