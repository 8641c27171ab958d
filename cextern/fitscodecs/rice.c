/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RICE_1 (FITS Standard 4.0, section 10.4.1).
 *
 * A stream is the first pixel as it is (W = 8 * BYTEPIX bits), then blocks of BLOCKSIZE pixels, the
 * last one shorter if need be, then zero bits up to a byte.  A block is a code of 'idbits' bits:
 *
 *     0               every pixel equals its predecessor
 *     1 .. rawlevel   level f = code - 1: u >> f in unary (that many zeros, then a one), then the
 *                     low f bits of u, for each pixel
 *     rawlevel + 1    u in W plain bits for each pixel
 *
 * where u is the difference to the pixel before, reduced to W bits, with the sign folded into the
 * lowest bit: 0, -1, 1, -2, 2 ... become 0, 1, 2, 3, 4 ...  The first pixel of the tile is coded
 * again in its block, as a difference of 0.
 *
 * The arithmetic is modulo 2^W, so pixels are handled as unsigned here whatever the image says.
 */
#include "bitreader.h"
#include "bitwriter.h"

enum { BLOCKSIZE, BYTEPIX }; /* index in fitscodecs_tile.parameters */

static const char ends_early[] = "data ends after {found} of {wanted} pixels";
static const char bad_code[] = "block code {found}, wanted at most {wanted}";
static const char bad_run[] = "a run of {found} zero bits, wanted at most {wanted}";

/*
 * The number of zero bits before the next one bit, which is dropped as well.  FITSCODECS_BAD_DATA
 * if there are more than 'most', FITSCODECS_SHORT_INPUT if the stream ends first; then 'n' is the
 * number seen.
 */
static inline enum fitscodecs_status take_unary(struct bitreader *br, uint64_t most, uint64_t *n)
{
    *n = 0;
    for (;;) {
        bits_refill(br);
        if (br->window != 0) {
            unsigned zeros = leading_zeros64(br->window);
            *n += zeros;
            bits_drop(br, zeros + 1);
            return *n <= most ? FITSCODECS_OK : FITSCODECS_BAD_DATA;
        }
        if (br->nbits == 0) {
            return FITSCODECS_SHORT_INPUT;
        }
        *n += br->nbits;
        bits_drop(br, br->nbits);
        if (*n > most) {
            return FITSCODECS_BAD_DATA;
        }
    }
}

/*
 * Level for a block of m pixels whose folded differences sum to 'sum': the number of bits in half
 * of their mean, the mean rounded down after taking off half a pixel's worth.
 */
static inline unsigned choose_level(uint64_t sum, size_t m)
{
    uint64_t cut = m / 2 + 1;
    uint64_t mean = sum < cut ? 0 : (sum - cut) / m;
    return bit_length(mean >> 1);
}

#define PIXEL uint8_t
#define NAME(function) function##_u8
#define WIDTH 8
#define IDBITS 3
#define RAWLEVEL 6
#include "rice_template.h"

#define PIXEL uint16_t
#define NAME(function) function##_u16
#define WIDTH 16
#define IDBITS 4
#define RAWLEVEL 14
#include "rice_template.h"

#define PIXEL uint32_t
#define NAME(function) function##_u32
#define WIDTH 32
#define IDBITS 5
#define RAWLEVEL 25
#include "rice_template.h"

static enum fitscodecs_status check(const struct fitscodecs_tile *tile,
                                    struct fitscodecs_result *result)
{
    int64_t blocksize = tile->parameters[BLOCKSIZE], bytepix = tile->parameters[BYTEPIX];
    if (blocksize < 1 || blocksize > INT32_MAX) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "BLOCKSIZE {found}, wanted 1 to {wanted}", blocksize, INT32_MAX);
    }
    if (bytepix != 1 && bytepix != 2 && bytepix != 4) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "BYTEPIX {found}, wanted 1, 2 or {wanted}", bytepix, 4);
    }
    return fitscodecs_check_npixels(tile, result);
}

static size_t pixel_nbytes(const struct fitscodecs_tile *tile)
{
    return (size_t)tile->parameters[BYTEPIX];
}

/*
 * W bits for the first pixel; at most 5 bits of code a block; and at most W + 1 bits a pixel:
 *
 *  - a raw block has W bits a pixel;
 *  - in a block of m pixels at level f, choose_level() says that the mean it used is below
 *    2^(f+1), so sum <= m * 2^(f+1) + m / 2, and the unary parts have at most
 *    sum / 2^f <= 2.5 m zeros.  With the ones and the low bits: m * (f + 3.5) bits, and
 *    f <= rawlevel - 1 makes that 8.5, 16.5 and 27.5 bits a pixel for W = 8, 16 and 32.
 */
static size_t encode_bound(const struct fitscodecs_tile *tile)
{
    size_t npixels = tile->nx * tile->ny;
    size_t width = 8 * pixel_nbytes(tile);
    size_t nblocks = ceil_div(npixels, (size_t)tile->parameters[BLOCKSIZE]);
    size_t nbits = saturating_add(saturating_mul(npixels, width + 1), width);
    nbits = saturating_add(nbits, saturating_mul(nblocks, 5));
    return nbits == SIZE_MAX ? SIZE_MAX : ceil_div(nbits, 8);
}

static size_t scratch_nbytes(const struct fitscodecs_tile *tile)
{
    (void)tile;
    return 0;
}

static enum fitscodecs_status encode(const struct fitscodecs_tile *tile, const void *pixels,
                                     uint8_t *out, size_t out_nbytes, void *scratch,
                                     struct fitscodecs_result *result)
{
    struct bitwriter bw;
    size_t npixels = tile->nx * tile->ny;
    size_t blocksize = (size_t)tile->parameters[BLOCKSIZE];

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    bits_create(&bw, out, out_nbytes);
    switch (tile->parameters[BYTEPIX]) {
    case 1:
        encode_u8(&bw, pixels, npixels, blocksize);
        break;
    case 2:
        encode_u16(&bw, pixels, npixels, blocksize);
        break;
    default:
        encode_u32(&bw, pixels, npixels, blocksize);
    }
    bits_put_padding(&bw);
    if (bw.overflow) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of output, wanted {wanted}", (int64_t)out_nbytes,
                               (int64_t)encode_bound(tile));
    }
    result->nbytes = bits_written_nbytes(&bw);
    return FITSCODECS_OK;
}

static enum fitscodecs_status decode(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result)
{
    struct bitreader br;
    size_t npixels = tile->nx * tile->ny;
    size_t blocksize = (size_t)tile->parameters[BLOCKSIZE];
    enum fitscodecs_status status;

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    bits_open(&br, in, in_nbytes);
    switch (tile->parameters[BYTEPIX]) {
    case 1:
        status = decode_u8(&br, pixels, npixels, blocksize, result);
        break;
    case 2:
        status = decode_u16(&br, pixels, npixels, blocksize, result);
        break;
    default:
        status = decode_u32(&br, pixels, npixels, blocksize, result);
    }
    result->nbytes = bits_used_nbytes(&br);
    return status;
}

const struct fitscodecs_codec fitscodecs_rice_1 = {
    .name = "RICE_1",
    .parameters = {"BLOCKSIZE", "BYTEPIX", NULL},
    .check = check,
    .pixel_nbytes = pixel_nbytes,
    .encode_bound = encode_bound,
    .scratch_nbytes = scratch_nbytes,
    .encode = encode,
    .decode = decode,
};
