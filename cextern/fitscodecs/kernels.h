/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tables of hot loops, one for each family of them.
 *
 * A family is a file FAMILY_kernels.h that is included once for each instruction set: by kernels.c
 * for any machine, and by kernels_sse41.c, kernels_avx2.c and so on, where the compiler is told to
 * use that set.  NAME(function) gives each copy its name; WITH_SSE41, WITH_AVX2, WITH_AVX512 and
 * WITH_NEON tell what code that is written for one of them may use.  What gains nothing by an
 * instruction set is not in its file, and keeps the kernels of the set below it.
 *
 * The tables start with the portable kernels, so that forgetting to call fitscodecs_init() costs
 * speed and never correctness; fitscodecs_kernels_init() goes upward by what the CPU has.  It is a
 * pure function of the features, so that a test can fill tables of its own and compare them.
 */
#ifndef FITSCODECS_KERNELS_H
#define FITSCODECS_KERNELS_H

#include "plio.h"

/* Compilers that can build a function for another instruction set than that of the file. */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define FITSCODECS_HAS_X86 1
/* GCC for Windows may keep vectors in the stack where aligned access fails (GCC bug 54412). */
#if defined(__clang__) || !defined(_WIN32)
#define FITSCODECS_HAS_AVX512 1
#endif
#elif (defined(__GNUC__) || defined(__clang__)) && defined(__aarch64__) && defined(__ARM_NEON) &&  \
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FITSCODECS_HAS_NEON 1
#endif

/* For loops that are fast only where a size that they are given is a constant.  FITSCODECS_SMALL is
 * for builds that need not be fast: sanitizers make so much of each copy of a loop that compiling
 * takes minutes. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(FITSCODECS_SMALL)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

struct bitwriter;

/* Bytes of pixels in another order. */
struct fitscodecs_bytes_kernels {
    /* Reverse the bytes of n items of 1, 2, 4 or 8 bytes if this machine is little-endian: from
     * big-endian to native order and back.  'out' may be 'in'. */
    void (*swap)(const void *in, void *out, size_t n, size_t itemsize);

    /* Native items to shuffled big-endian bytes, and back. */
    void (*shuffle)(const void *in, void *out, size_t n, size_t itemsize);
    void (*unshuffle)(const void *in, void *out, size_t n, size_t itemsize);
};

/* Runs of pixels. */
struct fitscodecs_plio_kernels {
    /* The positions i, 1 <= i < n, with pixels[i] != pixels[i - 1], in order; returns how many.
     * n <= PLIO_CHUNK + 1, and 'steps' has PLIO_STEPS_LENGTH items, all of which may be written. */
    size_t (*find_steps)(const int32_t *pixels, size_t n, uint16_t *steps);

    /* Decode words as long as that is simple, and return how many: up to the end of the list, the
     * end of the tile, or something unusual that is left to the caller, like a level that no pixel
     * can have.  Pixels behind the cursor, but not behind its room, may be written.  For pixels of
     * 1, 2 and 4 bytes. */
    size_t (*paint[3])(const uint8_t *words, size_t nwords, struct plio_cursor *cursor);
};

/* Pixels of one type to another; in and out do not overlap. */
struct fitscodecs_convert_kernels {
    /* Smallest and largest of n >= 1 integers of a type. */
    void (*range[4])(const void *in, size_t n, int64_t *lowest, int64_t *highest);

    /* out[i] = in[i] - offset, from a type (first index) to another: what does not fit is reduced
     * to the width of the output. */
    void (*subtract[4][4])(const void *in, size_t n, int64_t offset, void *out);

    void (*f32_to_f64)(const float *in, size_t n, double *out);
    void (*f64_to_f32)(const double *in, size_t n, float *out);
};

/* A RICE_1 stream between two blocks. */
struct fitscodecs_rice_stream {
    const uint8_t *in;
    size_t in_nbytes;       /* of the stream */
    size_t readable_nbytes; /* and of any zeros behind it */
    uint64_t position;      /* bits before the next block */
    void *pixels;           /* where the next block goes, */
    size_t npixels;         /* how many are still to come, */
    uint32_t previous;      /* and the one before them */
    bool stopped;
};

/* Blocks of RICE_1 of 16 or 32 pixels; in the arrays the functions for 1, 2 and 4 bytes a pixel. */
struct fitscodecs_rice_decode_kernels {
    /*
     * Decode whole blocks of some of n >= 1 streams, of the first one at least and of 'nstreams' at
     * most, until one of these has none left or has one that the kernel cannot do: less than
     * RICE_MARGIN bytes can be read from there, or it is damaged or has a very long run.  Such a
     * stream is marked as stopped, where its block starts.
     */
    void (*decode[3])(struct fitscodecs_rice_stream *const *streams, size_t n, size_t blocksize);
    size_t nstreams;
};

struct fitscodecs_rice_encode_kernels {
    /*
     * Encode whole blocks from the first pixel of a tile, which is in the stream already, as long
     * as there is room for a block of any length; returns the number of pixels.
     */
    size_t (*encode[3])(struct bitwriter *bw, const void *pixels, size_t npixels, size_t blocksize);
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

/*
 * Bit planes and transform of HCOMPRESS_1, for coefficients of 32 bits.  hcompress_words.h says
 * what grids and lists are, hcompress.c what the names of the coefficients mean.
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
     * codes, as 'place' says.  Signs are taken from the stream, and the values multiplied by
     * 'scale'. Returns the number of pixels, less than 'npixels' if the stream ends: that of the
     * one whose sign is missing.
     */
    size_t (*join_row)(struct bitreader *br, const uint64_t *words, size_t stride, unsigned nplanes,
                       unsigned place, int32_t scale, int32_t *row, size_t npixels);

    /* A row of whole cells to two rows of 2 * ncells values, on level k of the transform.  The
     * caller knows that 32 bits hold all sums, here and in the opposite direction. */
    void (*inverse_cells)(unsigned k, size_t ncells, const int32_t *h0, const int32_t *hx,
                          const int32_t *hy, const int32_t *hc, int32_t *top, int32_t *bottom);

    /*
     * Smoothing of n slopes, hx or hy, from the means before, in and after their cells; and of hc
     * of the cells 1 to n of a row from the means of three rows, each of which has n + 2, and from
     * the slopes.  The caller knows that 32 bits hold everything, as above.
     */
    void (*smooth_slopes)(size_t n, const int32_t *before, const int32_t *here,
                          const int32_t *after, int32_t limit, int32_t *slopes);
    void (*smooth_curvatures)(size_t n, const int32_t *above, const int32_t *here,
                              const int32_t *below, const int32_t *hx, const int32_t *hy,
                              int32_t limit, int32_t *hc);

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
    const struct fitscodecs_plio_kernels *plio;
    const struct fitscodecs_convert_kernels *convert;
    const struct fitscodecs_rice_decode_kernels *rice_decode;
    const struct fitscodecs_rice_encode_kernels *rice_encode;
    const struct fitscodecs_noise_kernels *noise;
    const struct fitscodecs_quantize_kernels *quantize;
    const struct fitscodecs_dequantize_kernels *dequantize;
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
