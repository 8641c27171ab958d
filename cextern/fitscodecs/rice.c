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
 *
 * The functions here and in rice_template.h are the reference: they do any block, bit by bit, and
 * find what is wrong with a stream.  The kernels in rice_kernels.h do nearly all blocks of 16 or 32
 * pixels of a stream that is right, and leave the others to the reference.
 */
#include "bitreader.h"
#include "bitwriter.h"
#include "kernels.h"
#include "rice.h"

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

#define PIXEL uint8_t
#define NAME(function) function##_u8
#define WIDTH 8
#include "rice_template.h"

#define PIXEL uint16_t
#define NAME(function) function##_u16
#define WIDTH 16
#include "rice_template.h"

#define PIXEL uint32_t
#define NAME(function) function##_u32
#define WIDTH 32
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

/* By index_of_width(). */
static void (*const put_first[3])(struct bitwriter *, const void *) = {
    put_first_u8,
    put_first_u16,
    put_first_u32,
};
static void (*const encode_from[3])(struct bitwriter *, const void *, size_t, size_t, size_t) = {
    encode_from_u8,
    encode_from_u16,
    encode_from_u32,
};
static enum fitscodecs_status (*const decode_block[3])(struct bitreader *, void *, size_t,
                                                       uint32_t *, size_t *,
                                                       struct fitscodecs_result *) = {
    decode_block_u8,
    decode_block_u16,
    decode_block_u32,
};

static size_t pixel_nbytes(const struct fitscodecs_tile *tile)
{
    return (size_t)tile->parameters[BYTEPIX];
}

/*
 * W bits for the first pixel; at most 5 bits of code a block; and at most W + 1 bits a pixel:
 *
 *  - a raw block has W bits a pixel;
 *  - in a block of m pixels at level f, rice_level() says that the mean it used is below
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

/* Index in the arrays of kernels. */
static size_t index_of_width(const struct fitscodecs_tile *tile)
{
    return tile->parameters[BYTEPIX] == 4 ? 2 : (size_t)tile->parameters[BYTEPIX] - 1;
}

static bool kernels_have(const struct fitscodecs_tile *tile)
{
    return tile->parameters[BLOCKSIZE] == 16 || tile->parameters[BLOCKSIZE] == 32;
}

/* ------------------------------------------------------------------- encoding */

static enum fitscodecs_status encode(const struct fitscodecs_tile *tile, const void *pixels,
                                     uint8_t *out, size_t out_nbytes, void *scratch,
                                     struct fitscodecs_result *result)
{
    struct bitwriter bw;
    size_t npixels = tile->nx * tile->ny;
    size_t blocksize = (size_t)tile->parameters[BLOCKSIZE];
    size_t width = index_of_width(tile), done = 0;

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    bits_create(&bw, out, out_nbytes);
    put_first[width](&bw, pixels);
    if (kernels_have(tile)) {
        done = fitscodecs_kernels.rice->encode[width](&bw, pixels, npixels, blocksize);
    }
    encode_from[width](&bw, pixels, npixels, blocksize, done);
    bits_put_padding(&bw);
    if (bw.overflow) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of output, wanted {wanted}", (int64_t)out_nbytes,
                               (int64_t)encode_bound(tile));
    }
    result->nbytes = bits_written_nbytes(&bw);
    return FITSCODECS_OK;
}

/* ------------------------------------------------------------------- decoding */

/* How many streams are decoded at once at most; the kernels take up to 4. */
#define MOST_AT_ONCE 4

/* The end of a stream from a block on, if it is not longer, is copied and zeros put behind it, so
 * that the kernels can read on: most blocks are much shorter. */
#define TAIL_NBYTES 184

/* One of the streams that are decoded at once. */
struct decoding {
    struct fitscodecs_rice_stream stream;
    const struct fitscodecs_tile *tile;
    const uint8_t *in; /* the whole stream */
    size_t in_nbytes;
    size_t npixels;
    size_t nskipped; /* bytes before those that stream.in has */
    enum fitscodecs_status *status;
    struct fitscodecs_result *result;
    uint8_t tail[TAIL_NBYTES + RICE_MARGIN];
};

/* A reader that is 'position' bits behind the start of a stream that has them. */
static void open_at(struct bitreader *br, const uint8_t *in, size_t in_nbytes, uint64_t position)
{
    size_t nbytes = (size_t)(position / 8);

    bits_open(br, in + nbytes, in_nbytes - nbytes);
    if (position % 8 != 0) {
        bits_refill(br);
        bits_drop(br, (unsigned)(position % 8));
    }
}

static uint64_t position_of(const struct decoding *d)
{
    return 8 * (uint64_t)d->nskipped + d->stream.position;
}

/* Note the end of a decoding, 'position' bits behind the start of its stream. */
static void finish(struct decoding *d, enum fitscodecs_status status, uint64_t position)
{
    *d->status = status;
    d->result->nbytes = (size_t)((position + 7) / 8);
}

/* Read the first pixel; false if that is not there. */
static bool start(struct decoding *d)
{
    struct bitreader br;
    unsigned width = 8 * (unsigned)pixel_nbytes(d->tile);
    uint64_t first;

    *d->result = (struct fitscodecs_result){0};
    bits_open(&br, d->in, d->in_nbytes);
    if (!bits_take(&br, width, &first)) {
        finish(
            d,
            fitscodecs_fail(d->result, FITSCODECS_SHORT_INPUT, ends_early, 0, (int64_t)d->npixels),
            0);
        return false;
    }
    d->stream.in = d->in;
    d->stream.in_nbytes = d->stream.readable_nbytes = d->in_nbytes;
    d->stream.position = width;
    d->stream.npixels = d->npixels;
    d->stream.previous = (uint32_t)first;
    d->stream.stopped = true;
    d->nskipped = 0;
    return true;
}

/* Go over to the tail, if the next block is where it begins. */
static bool enter_tail(struct decoding *d)
{
    struct fitscodecs_rice_stream *s = &d->stream;
    size_t nbytes = (size_t)(s->position / 8), nleft = s->in_nbytes - nbytes;

    if (s->in == d->tail || nleft > TAIL_NBYTES) {
        return false;
    }
    memcpy(d->tail, s->in + nbytes, nleft);
    memset(d->tail + nleft, 0, RICE_MARGIN);
    d->nskipped = nbytes;
    s->in = d->tail;
    s->in_nbytes = nleft;
    s->readable_nbytes = nleft + RICE_MARGIN;
    s->position %= 8;
    return true;
}

/* Decode a block with the reference; false if that finishes the decoding with a fault. */
static bool decode_one_block(struct decoding *d)
{
    struct fitscodecs_rice_stream *s = &d->stream;
    struct bitreader br;
    size_t blocksize = (size_t)d->tile->parameters[BLOCKSIZE];
    size_t m = s->npixels < blocksize ? s->npixels : blocksize, done;
    uint64_t position = position_of(d);
    size_t nbytes = (size_t)(position / 8);

    open_at(&br, d->in, d->in_nbytes, position);
    enum fitscodecs_status status =
        decode_block[index_of_width(d->tile)](&br, s->pixels, m, &s->previous, &done, d->result);
    position = 8 * ((uint64_t)nbytes + (uint64_t)(br.next - br.start)) - br.nbits;
    if (status == FITSCODECS_SHORT_INPUT) {
        fitscodecs_fail(d->result, status, ends_early, (int64_t)(d->npixels - s->npixels + done),
                        (int64_t)d->npixels);
    }
    if (status != FITSCODECS_OK) {
        finish(d, status, position);
        return false;
    }
    s->position = position - 8 * (uint64_t)d->nskipped;
    s->pixels = (uint8_t *)s->pixels + m * pixel_nbytes(d->tile);
    s->npixels -= m;
    return true;
}

/* Do what the kernel did not; false if the decoding is finished. */
static bool go_on(struct decoding *d)
{
    bool is_whole = d->stream.npixels >= (size_t)d->tile->parameters[BLOCKSIZE];

    if (d->stream.npixels > 0 && d->stream.stopped && !(is_whole && enter_tail(d)) &&
        !decode_one_block(d)) {
        return false;
    }
    if (d->stream.npixels == 0) {
        finish(d, FITSCODECS_OK, position_of(d));
        return false;
    }
    return true;
}

/* Streams of one width and block size, as many at once as the kernels take. */
static void decode_alike(size_t n, const struct fitscodecs_tile *tiles, const uint8_t *const *in,
                         const size_t *in_nbytes, void *const *pixels,
                         enum fitscodecs_status *statuses, struct fitscodecs_result *results)
{
    const struct fitscodecs_rice_kernels *kernels = fitscodecs_kernels.rice;
    struct decoding decodings[MOST_AT_ONCE], *free_ones[MOST_AT_ONCE];
    struct fitscodecs_rice_stream *streams[MOST_AT_ONCE]; /* those in work */
    struct decoding *in_work[MOST_AT_ONCE];
    size_t most = kernels->nstreams < MOST_AT_ONCE ? kernels->nstreams : MOST_AT_ONCE;
    size_t nfree = 0, nin_work = 0, nstarted = 0;

    while (nfree < most) {
        free_ones[nfree] = &decodings[nfree];
        nfree++;
    }
    for (;;) {
        for (; nfree > 0 && nstarted < n; nstarted++) {
            struct decoding *d = free_ones[nfree - 1];
            d->tile = &tiles[nstarted];
            d->in = in[nstarted];
            d->in_nbytes = in_nbytes[nstarted];
            d->npixels = d->tile->nx * d->tile->ny;
            d->status = &statuses[nstarted];
            d->result = &results[nstarted];
            d->stream.pixels = pixels[nstarted];
            if (start(d)) {
                in_work[nin_work++] = d;
                nfree--;
            }
        }
        if (nin_work == 0) {
            return;
        }
        if (kernels_have(&tiles[0])) {
            for (size_t k = 0; k < nin_work; k++) {
                streams[k] = &in_work[k]->stream;
            }
            kernels->decode[index_of_width(&tiles[0])](streams, nin_work,
                                                       (size_t)tiles[0].parameters[BLOCKSIZE]);
        }
        size_t nkept = 0;
        for (size_t k = 0; k < nin_work; k++) {
            if (go_on(in_work[k])) {
                in_work[nkept++] = in_work[k];
            } else {
                free_ones[nfree++] = in_work[k];
            }
        }
        nin_work = nkept;
    }
}

static void decode_several(size_t n, const struct fitscodecs_tile *tiles, const uint8_t *const *in,
                           const size_t *in_nbytes, void *const *pixels, void *scratch,
                           enum fitscodecs_status *statuses, struct fitscodecs_result *results)
{
    (void)scratch;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n; end++) {
            if (tiles[end].parameters[BLOCKSIZE] != tiles[i].parameters[BLOCKSIZE] ||
                tiles[end].parameters[BYTEPIX] != tiles[i].parameters[BYTEPIX]) {
                break;
            }
        }
        decode_alike(end - i, tiles + i, in + i, in_nbytes + i, pixels + i, statuses + i,
                     results + i);
    }
}

static enum fitscodecs_status decode(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result)
{
    enum fitscodecs_status status;

    (void)scratch;
    decode_alike(1, tile, &in, &in_nbytes, &pixels, &status, result);
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
    .most_at_once = MOST_AT_ONCE,
    .decode_several = decode_several,
};
