/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NOCOMPRESS (FITS Standard 4.0, section 10.4): pixels as big-endian bytes, and the same bytes
 * shuffled, which is what GZIP_1 and GZIP_2 deflate.
 *
 * Shuffled, the most significant bytes of all pixels come first, then all next bytes, and so on:
 * byte k of pixel i of n is at k * n + i.
 *
 * ITEMSIZE and SHUFFLED are no keywords of the standard: whoever holds the bytes says what they
 * are.
 */
#include "common.h"
#include "kernels.h"

enum { ITEMSIZE, SHUFFLED }; /* index in fitscodecs_tile.parameters */

static enum fitscodecs_status check(const struct fitscodecs_tile *tile,
                                    struct fitscodecs_result *result)
{
    int64_t itemsize = tile->parameters[ITEMSIZE];
    if (itemsize != 1 && itemsize != 2 && itemsize != 4 && itemsize != 8) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "pixels of {found} bytes, wanted 1, 2, 4 or {wanted}", itemsize, 8);
    }
    return fitscodecs_check_npixels(tile, result);
}

static size_t pixel_nbytes(const struct fitscodecs_tile *tile)
{
    return (size_t)tile->parameters[ITEMSIZE];
}

static size_t encode_bound(const struct fitscodecs_tile *tile)
{
    return saturating_mul(tile->nx * tile->ny, pixel_nbytes(tile));
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
    size_t nbytes = encode_bound(tile);

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    if (out_nbytes < nbytes) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of output, wanted {wanted}", (int64_t)out_nbytes,
                               (int64_t)nbytes);
    }
    if (tile->parameters[SHUFFLED]) {
        fitscodecs_kernels.bytes->shuffle(pixels, out, tile->nx * tile->ny, pixel_nbytes(tile));
    } else {
        fitscodecs_kernels.bytes->swap(pixels, out, tile->nx * tile->ny, pixel_nbytes(tile));
    }
    result->nbytes = nbytes;
    return FITSCODECS_OK;
}

static enum fitscodecs_status decode(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result)
{
    size_t nbytes = encode_bound(tile);

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    if (in_nbytes < nbytes) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                               "data ends after {found} of {wanted} bytes", (int64_t)in_nbytes,
                               (int64_t)nbytes);
    }
    if (tile->parameters[SHUFFLED]) {
        fitscodecs_kernels.bytes->unshuffle(in, pixels, tile->nx * tile->ny, pixel_nbytes(tile));
    } else {
        fitscodecs_kernels.bytes->swap(in, pixels, tile->nx * tile->ny, pixel_nbytes(tile));
    }
    result->nbytes = nbytes;
    return FITSCODECS_OK;
}

const struct fitscodecs_codec fitscodecs_nocompress = {
    .name = "NOCOMPRESS",
    .parameters = {"ITEMSIZE", "SHUFFLED", NULL},
    .check = check,
    .pixel_nbytes = pixel_nbytes,
    .encode_bound = encode_bound,
    .scratch_nbytes = scratch_nbytes,
    .encode = encode,
    .decode = decode,
};
