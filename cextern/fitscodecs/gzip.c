/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gzip members (RFC 1952), packed and unpacked by libdeflate if FITSCODECS_LIBDEFLATE is defined.
 *
 * The library's caller has another way to unpack, which says what is wrong with a stream.  So here
 * everything that is not plainly sound is refused, without a reason.
 */
#include "common.h"

#ifdef FITSCODECS_LIBDEFLATE
#include <libdeflate.h>
#include <stdlib.h>

#define FLAGS 3 /* offset in a member's header */
#define FLAG_HEADER_CRC 2u

struct fitscodecs_gzip {
    struct libdeflate_compressor *compressor; /* one of the two is NULL */
    struct libdeflate_decompressor *decompressor;
};

bool fitscodecs_has_gzip(void)
{
    return true;
}

struct fitscodecs_gzip *fitscodecs_gzip_new(int level)
{
    struct fitscodecs_gzip *gzip = calloc(1, sizeof *gzip);

    if (gzip == NULL) {
        return NULL;
    }
    if (level == 0) {
        gzip->decompressor = libdeflate_alloc_decompressor();
    } else {
        gzip->compressor = libdeflate_alloc_compressor(level);
    }
    if (gzip->compressor == NULL && gzip->decompressor == NULL) {
        free(gzip);
        return NULL;
    }
    return gzip;
}

void fitscodecs_gzip_free(struct fitscodecs_gzip *gzip)
{
    if (gzip != NULL) {
        libdeflate_free_compressor(gzip->compressor);
        libdeflate_free_decompressor(gzip->decompressor);
        free(gzip);
    }
}

size_t fitscodecs_gzip_bound(size_t nbytes)
{
    return nbytes > SIZE_MAX / 2 ? SIZE_MAX : libdeflate_gzip_compress_bound(NULL, nbytes);
}

size_t fitscodecs_gzip_deflate(struct fitscodecs_gzip *gzip, const void *in, size_t in_nbytes,
                               uint8_t *out, size_t out_nbytes)
{
    if (gzip->compressor == NULL) {
        return 0;
    }
    return libdeflate_gzip_compress(gzip->compressor, in, in_nbytes, out, out_nbytes);
}

static bool is_member(const uint8_t *in, size_t nbytes)
{
    return nbytes >= 2 && in[0] == 0x1F && in[1] == 0x8B;
}

bool fitscodecs_gzip_inflate(struct fitscodecs_gzip *gzip, const uint8_t *in, size_t in_nbytes,
                             uint8_t *out, size_t out_nbytes, size_t *used_nbytes,
                             size_t *found_nbytes)
{
    *used_nbytes = *found_nbytes = 0;
    if (gzip->decompressor == NULL) {
        return false;
    }
    do {
        const uint8_t *member = in + *used_nbytes;
        size_t rest = in_nbytes - *used_nbytes, used, found;
        /* libdeflate does not check the CRC of a header */
        if (rest <= FLAGS || (member[FLAGS] & FLAG_HEADER_CRC) != 0) {
            return false;
        }
        if (libdeflate_gzip_decompress_ex(gzip->decompressor, member, rest, out + *found_nbytes,
                                          out_nbytes - *found_nbytes, &used,
                                          &found) != LIBDEFLATE_SUCCESS) {
            return false;
        }
        *used_nbytes += used;
        *found_nbytes += found;
    } while (is_member(in + *used_nbytes, in_nbytes - *used_nbytes));
    return true;
}

#else /* the same, for a build that cannot do it */

bool fitscodecs_has_gzip(void)
{
    return false;
}

struct fitscodecs_gzip *fitscodecs_gzip_new(int level)
{
    (void)level;
    return NULL;
}

void fitscodecs_gzip_free(struct fitscodecs_gzip *gzip)
{
    (void)gzip;
}

size_t fitscodecs_gzip_bound(size_t nbytes)
{
    return nbytes;
}

size_t fitscodecs_gzip_deflate(struct fitscodecs_gzip *gzip, const void *in, size_t in_nbytes,
                               uint8_t *out, size_t out_nbytes)
{
    (void)gzip, (void)in, (void)in_nbytes, (void)out, (void)out_nbytes;
    return 0;
}

bool fitscodecs_gzip_inflate(struct fitscodecs_gzip *gzip, const uint8_t *in, size_t in_nbytes,
                             uint8_t *out, size_t out_nbytes, size_t *used_nbytes,
                             size_t *found_nbytes)
{
    (void)gzip, (void)in, (void)in_nbytes, (void)out, (void)out_nbytes;
    *used_nbytes = *found_nbytes = 0;
    return false;
}

#endif
