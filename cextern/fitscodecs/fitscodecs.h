/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fitscodecs: the algorithms of FITS tiled-image compression (FITS Standard 4.0, section 10).
 *
 * The whole public interface.  Rules that hold for every function:
 *
 *  - Each input comes with its length and each output with its capacity; a size found inside a
 *    stream is checked against what the caller said, never used instead of it.
 *  - Nothing is printed, nothing aborts, nothing is allocated: scratch memory is the caller's.  The
 *    one exception is fitscodecs_gzip_new(), which is there to be called outside of all others.
 *  - No function keeps state between calls; all may run at once in any number of threads.  The one
 *    thing that is written once is the table of kernels and dither values, by fitscodecs_init().
 *  - Pixels are in native byte order, the fast axis (FITS axis 1) contiguous.
 *  - An output is undefined unless FITSCODECS_OK is returned.
 */
#ifndef FITSCODECS_H
#define FITSCODECS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FITSCODECS_MAX_PARAMETERS 4
#define FITSCODECS_MAX_DIMENSIONS 32

enum fitscodecs_status {
    FITSCODECS_OK = 0,
    FITSCODECS_SHORT_INPUT,     /* the stream ends before the last pixel */
    FITSCODECS_BAD_DATA,        /* the stream holds something its format does not allow */
    FITSCODECS_BAD_PARAMETER,   /* a parameter or the tile's shape is not one the codec has */
    FITSCODECS_SHORT_OUTPUT,    /* the output or scratch capacity is too small */
    FITSCODECS_VALUE_RANGE,     /* a pixel is outside what the codec or the image's type can hold */
    FITSCODECS_NOT_QUANTIZABLE, /* the tile must be stored without quantization */
};

/*
 * What a call found.  'detail' is a static text that may contain {found} and {wanted}, to be
 * replaced by the two numbers: "block code {found}, wanted at most {wanted}".  It is NULL when the
 * status is FITSCODECS_OK.
 */
struct fitscodecs_result {
    size_t nbytes; /* encode: bytes written; decode: bytes of the stream that were used */
    const char *detail;
    int64_t found;
    int64_t wanted;
};

/* One tile as a codec sees it: its shape and the parameters of its codec. */
struct fitscodecs_tile {
    size_t nx; /* pixels along the fast axis */
    size_t ny; /* product of the other axes; the slow axis of a two-dimensional codec */
    int64_t parameters[FITSCODECS_MAX_PARAMETERS]; /* in the order of fitscodecs_codec.parameters */
};

/*
 * One compression algorithm.  Everything that loops over codecs (the Python wrapper, the damage
 * tests, the fuzzer) uses this table and knows no codec by name.
 */
/* Where the pixels of a tile go: ny rows of nx pixels. */
struct fitscodecs_rows {
    void *pixels;         /* aligned for a pixel, as is */
    ptrdiff_t row_nbytes; /* the distance of rows; 0 if all have the same memory */
    bool flip;            /* with the highest bit flipped: only if the codec flips */

    /* Called for each row when it is there, in their order; NULL if nobody waits for that.  Of a
     * damaged stream some rows may come twice. */
    void (*done)(void *context, size_t y);
    void *context;
};

struct fitscodecs_codec {
    const char *name; /* value of ZCMPTYPE */

    /* ZNAMEs in the order of fitscodecs_tile.parameters, ended by NULL. */
    const char *parameters[FITSCODECS_MAX_PARAMETERS + 1];

    /* Check shape and parameters.  The other functions may be called only after this said OK. */
    enum fitscodecs_status (*check)(const struct fitscodecs_tile *tile,
                                    struct fitscodecs_result *result);

    /* Bytes of one pixel in the pixel buffers: 1 (unsigned), 2, 4 or 8 (signed). */
    size_t (*pixel_nbytes)(const struct fitscodecs_tile *tile);

    /* Largest number of bytes that encode can write for this tile; SIZE_MAX if that overflows. */
    size_t (*encode_bound)(const struct fitscodecs_tile *tile);

    /* Scratch that encode and decode need, in bytes, to be aligned for int64_t; SIZE_MAX if that
     * overflows. */
    size_t (*scratch_nbytes)(const struct fitscodecs_tile *tile);

    /* Encode nx * ny pixels; result->nbytes is the length of the stream. */
    enum fitscodecs_status (*encode)(const struct fitscodecs_tile *tile, const void *pixels,
                                     uint8_t *out, size_t out_nbytes, void *scratch,
                                     struct fitscodecs_result *result);

    /* Decode exactly nx * ny pixels.  Surplus bytes at the end of 'in' are ignored:
     * result->nbytes says how many were used. */
    enum fitscodecs_status (*decode)(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result);

    /*
     * Decode to pixels of fewer bytes: 1 (unsigned) or 2 (signed).  FITSCODECS_VALUE_RANGE if there
     * may be one that these do not hold; decode() tells then what there is.  NULL if the codec
     * gains nothing, or needs scratch.
     */
    enum fitscodecs_status (*decode_narrow)(const struct fitscodecs_tile *tile, const uint8_t *in,
                                            size_t in_nbytes, void *pixels, size_t nbytes,
                                            struct fitscodecs_result *result);

    /*
     * Decode n independent tiles, of any shapes and parameters, which is quicker than one after the
     * other; NULL if the codec gains nothing.  Each gets the status and the result of decode().
     * 'scratch' is what the tile needs that needs most, and most_at_once() how many tiles are worth
     * to be given in one call on this CPU: more of them do not help further.
     */
    void (*decode_several)(size_t n, const struct fitscodecs_tile *tiles, const uint8_t *const *in,
                           const size_t *in_nbytes, const struct fitscodecs_rows *out,
                           void *scratch, enum fitscodecs_status *statuses,
                           struct fitscodecs_result *results);
    size_t (*most_at_once)(void);

    /* Whether decode_several() can leave room between the rows of this tile and tell when each is
     * done; NULL: of no tile. */
    bool (*has_free_rows)(const struct fitscodecs_tile *tile);

    /* Whether decode_several() can flip the highest bit of all pixels on the way. */
    bool flips;

    /*
     * Whether decode() of fewer pixels than a stream has, in one row, gives the first of them.
     * Then what is behind the last pixel that is wanted is not decoded, and no fault is found
     * there.
     */
    bool decodes_front;
};

/* The list of codecs, ended by NULL, and a search in it by ZCMPTYPE (NULL if there is none). */
extern const struct fitscodecs_codec *const fitscodecs_codecs[];
const struct fitscodecs_codec *fitscodecs_find_codec(const char *name);

/*
 * Fill the dither table and the kernel table.  Call once before anything else; calling it again
 * is harmless while no other function runs.  'cpu_features' limits the kernels to an instruction
 * set, a combination of the bits below that fitscodecs_cpu_features() reported.
 */
void fitscodecs_init(unsigned cpu_features);

#define FITSCODECS_CPU_SSE41 1u
#define FITSCODECS_CPU_AVX2 2u
#define FITSCODECS_CPU_AVX512 4u
#define FITSCODECS_CPU_NEON 8u
#define FITSCODECS_CPU_SLOW_PDEP 16u /* AVX2 is there, but its pdep takes as long as a loop */
unsigned fitscodecs_cpu_features(void);

/* Type of a pixel in an image or a tile. */
enum fitscodecs_pixel {
    FITSCODECS_U8,
    FITSCODECS_I16,
    FITSCODECS_I32,
    FITSCODECS_I64,
    FITSCODECS_F32,
    FITSCODECS_F64,
};

/* ---------------------------------------------------------------- quantization (section 10.2) */

enum fitscodecs_dither {
    FITSCODECS_NO_DITHER = 0,
    FITSCODECS_SUBTRACTIVE_DITHER_1 = 1,
    FITSCODECS_SUBTRACTIVE_DITHER_2 = 2,
};

#define FITSCODECS_NULL_INTEGER (-2147483647) /* stands for NaN in a quantized tile */
#define FITSCODECS_ZERO_INTEGER (-2147483646) /* stands for 0.0 with SUBTRACTIVE_DITHER_2 */

#define FITSCODECS_DITHER_LENGTH 10000
extern float fitscodecs_dither_table[FITSCODECS_DITHER_LENGTH]; /* 0 < value < 1; Appendix I */
extern int64_t fitscodecs_dither_last_seed; /* 1043618065 when the table is right */

/* How the tiles of one image are quantized. */
struct fitscodecs_quantizer {
    double level; /* > 0: step = noise / level; < 0: step = -level; 0 is not allowed */
    enum fitscodecs_dither dither;
    int64_t seed; /* ZDITHER0, 1 .. 10000 */
};

struct fitscodecs_noise {
    size_t ngood;                  /* pixels that are not NaN */
    double minimum, maximum;       /* of the good pixels; +max, -max of the type if there is none */
    double noise2, noise3, noise5; /* from differences of order 2, 3 and 5; 0 if not measurable */
};

/*
 * Noise of a float tile of ny rows of nx pixels from the median absolute 2nd, 3rd and 5th order
 * differences along rows, exactly as the field's software computes it.  'is_f64' tells double
 * from float pixels; NaN pixels are left out.  'scratch' has fitscodecs_noise_scratch_nbytes().
 */
size_t fitscodecs_noise_scratch_nbytes(size_t nx, size_t ny, bool is_f64);
void fitscodecs_noise(const void *pixels, bool is_f64, size_t nx, size_t ny, void *scratch,
                      struct fitscodecs_noise *noise);

/*
 * Quantize a float tile: 'out' gets nx * ny integers, 'scale' and 'zero' what maps them back.
 * 'row' is the 0-based table row, which with the seed selects the dither values.  NaN becomes
 * FITSCODECS_NULL_INTEGER.  Returns FITSCODECS_NOT_QUANTIZABLE for a tile that has to be stored
 * losslessly (one pixel, no noise, an infinity, a range too wide for 32 bits) and
 * FITSCODECS_BAD_PARAMETER for level 0 or NaN, or a seed outside 1 .. 10000.
 * 'scratch' has fitscodecs_noise_scratch_nbytes().
 */
enum fitscodecs_status fitscodecs_quantize(const struct fitscodecs_quantizer *quantizer,
                                           const void *pixels, bool is_f64, size_t nx, size_t ny,
                                           int64_t row, int32_t *out, double *scale, double *zero,
                                           void *scratch, struct fitscodecs_result *result);

/* Quantize with a scale and zero point that are given; never refuses, saturates at the ends of
 * the 32-bit range that is not reserved.  scale must not be 0 or NaN. */
enum fitscodecs_status fitscodecs_quantize_with(const struct fitscodecs_quantizer *quantizer,
                                                const void *pixels, bool is_f64, size_t npixels,
                                                int64_t row, int32_t *out, double scale,
                                                double zero, struct fitscodecs_result *result);

/*
 * Back from integers to floats, bit for bit as the field's software does it: double arithmetic in
 * two roundings, then one conversion to float32.  'type' is an integer type.  A pixel equal to
 * 'blank' (if 'has_blank') becomes a quiet NaN; with SUBTRACTIVE_DITHER_2
 * FITSCODECS_ZERO_INTEGER becomes +0.0.  Returns FITSCODECS_BAD_PARAMETER for a type that is not
 * an integer or, with dither, a negative row or a seed outside 1 .. 10000.
 */
enum fitscodecs_status fitscodecs_dequantize(enum fitscodecs_dither dither, int64_t seed,
                                             int64_t row, const void *integers,
                                             enum fitscodecs_pixel type, size_t npixels,
                                             double scale, double zero, bool has_blank,
                                             int64_t blank, void *out, bool is_f64,
                                             struct fitscodecs_result *result);

/* ---------------------------------------------------------------- gzip (section 10.4.2) */

/*
 * What deflates and inflates: libdeflate, if the library was built with it, and the memory that it
 * works in.  At most one call may use an engine at a time.  'level' 0 makes one that inflates, 1 to
 * 12 one that deflates, the higher the smaller and slower.  NULL if there is no memory, or if
 * fitscodecs_has_gzip() is false; then nothing else of this section does anything.
 */
#define FITSCODECS_GZIP_LEAST 64 /* fewer bytes are stored by quick levels, not deflated */
struct fitscodecs_gzip;
bool fitscodecs_has_gzip(void);
struct fitscodecs_gzip *fitscodecs_gzip_new(int level);
void fitscodecs_gzip_free(struct fitscodecs_gzip *gzip); /* NULL is allowed */

/* One gzip member without a time in its header, and the most bytes that it can have; SIZE_MAX if
 * that overflows.  Gives its length, or 0 if 'out' is too small for it. */
size_t fitscodecs_gzip_bound(size_t nbytes);
size_t fitscodecs_gzip_deflate(struct fitscodecs_gzip *gzip, const void *in, size_t in_nbytes,
                               uint8_t *out, size_t out_nbytes);

/*
 * Inflate one or more gzip members; bytes behind them that do not start like a member are ignored.
 * 'used_nbytes' gets the length of the members, 'found_nbytes' that of their contents.  False for
 * whatever is not beyond doubt: any fault, contents longer than 'out', a header with a CRC of its
 * own.  CRC and length of what is accepted are right.  zlib accepts it as well and inflates it to
 * the same, unless it has Huffman codes that RFC 1951 reserves: libdeflate takes some for others.
 */
bool fitscodecs_gzip_inflate(struct fitscodecs_gzip *gzip, const uint8_t *in, size_t in_nbytes,
                             uint8_t *out, size_t out_nbytes, size_t *used_nbytes,
                             size_t *found_nbytes);

/* ------------------------------------------------------------------- many tiles in one call */

/* What is the same for all tiles of one call, of decoding or of encoding. */
struct fitscodecs_batch {
    const struct fitscodecs_codec *codec;
    int64_t parameters[FITSCODECS_MAX_PARAMETERS];
    struct fitscodecs_gzip *gzip;     /* the streams of the codec are in gzip members; or NULL */
    enum fitscodecs_pixel tile_type;  /* of a tile; its size is codec->pixel_nbytes() */
    enum fitscodecs_pixel image_type; /* of the image */
    int64_t offset;  /* tile minus image: of integers, before any range check (PLIO_1, 10.4.3) */
    bool clip;       /* integers outside the image's type: clip (lossy HCOMPRESS), else refuse */
    bool flip;       /* flip the highest bit of the image's integers (BZERO of unsigned ones) */
    bool quantized;  /* tiles are integers, which scale and zero map to the floats of the image */
    double level;    /* of quantization, when encoding; see fitscodecs_quantizer */
    bool is_flat;    /* noise is measured in the tile as one row, when encoding */
    bool leaves_nan; /* tiles with NaN are left to the caller, when encoding */
    bool is_big_endian; /* the image's pixels are big-endian, when encoding */
    enum fitscodecs_dither dither;
    int64_t seed;
    size_t ndim;
    const ptrdiff_t *strides; /* of the image, in bytes, slow axis first; ndim of them */
};

/* One tile, and the part of it that is wanted.  Axes are in C order, slow axis first. */
struct fitscodecs_job {
    const uint8_t *in;
    size_t in_nbytes;
    int64_t row;          /* 0-based table row */
    const int64_t *shape; /* of the tile */
    const int64_t *start; /* first pixel that is wanted, per axis */
    const int64_t *step;  /* distance of pixels that are wanted; may be negative */
    const int64_t *count; /* number of pixels that are wanted */
    uint8_t *out;         /* where the first of them goes */
    double scale, zero;
    bool has_blank;
    int64_t blank;

    /* Set: */
    size_t used_nbytes; /* bytes of the stream that were used; see codec->decodes_front */
    bool is_left;       /* nothing was decoded: the caller has to inflate the stream */
};

/* Scratch for tiles of at most 'npixels' pixels, whose codec scratch is 'codec_nbytes'. */
size_t fitscodecs_batch_scratch_nbytes(const struct fitscodecs_batch *batch, size_t npixels,
                                       size_t codec_nbytes);

/*
 * Decode the jobs into the destination image.  Stops at the first fault, with 'ndone' the number of
 * tiles before it; what the tile at fault and those behind it have in the image is undefined then.
 * A value that the image's type cannot hold is a fault where it is wanted.
 *
 * With gzip, a tile is left where fitscodecs_gzip_inflate() says no or gives anything but as many
 * bytes as the tile's pixels have, which is what streams of NOCOMPRESS are.
 *
 * The caller has checked that start, step, count and shape agree and that 'out' and the strides
 * stay inside the image; everything that comes from a stream is checked here.
 */
enum fitscodecs_status fitscodecs_decode_tiles(const struct fitscodecs_batch *batch,
                                               struct fitscodecs_job *jobs, size_t njobs,
                                               void *scratch, size_t scratch_nbytes, size_t *ndone,
                                               struct fitscodecs_result *result);

/* One tile to be encoded. */
struct fitscodecs_encode_job {
    const uint8_t *in;    /* its first pixel in the image */
    const int64_t *shape; /* slow axis first */
    int64_t row;          /* 0-based table row */

    /* Set: */
    size_t nbytes; /* of the stream */
    double scale, zero;
    bool has_nan;
    bool is_left; /* there is no stream: the tile cannot be quantized, has a NaN, or is to be a
                   * gzip member of less than FITSCODECS_GZIP_LEAST bytes */
};

size_t fitscodecs_encode_scratch_nbytes(const struct fitscodecs_batch *batch,
                                        const struct fitscodecs_tile *tile);

/* Largest number of bytes of the stream of this tile: that of the codec, or of gzip for it. */
size_t fitscodecs_stream_bound(const struct fitscodecs_batch *batch,
                               const struct fitscodecs_tile *tile);

/*
 * Encode the jobs; their streams lie one after the other in 'out', result->nbytes in all.  Stops at
 * the first fault, or with FITSCODECS_OK where the rest of 'out' is shorter than the bound of the
 * next stream; 'ndone' is the number of tiles before it.  Integers may only become wider.
 *
 * The caller has checked that the tiles are inside the image.
 */
enum fitscodecs_status fitscodecs_encode_tiles(const struct fitscodecs_batch *batch,
                                               struct fitscodecs_encode_job *jobs, size_t njobs,
                                               uint8_t *out, size_t out_nbytes, void *scratch,
                                               size_t scratch_nbytes, size_t *ndone,
                                               struct fitscodecs_result *result);

/* ------------------------------------------------------------------------------- checksums */

/* Sum of big-endian 32-bit words in ones' complement, and of what there is already. */
uint32_t fitscodecs_ones_sum(const uint8_t *data, size_t nwords, uint32_t start);

#endif
