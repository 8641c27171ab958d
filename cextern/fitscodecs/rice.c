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
 * The functions in rice_template.h are the reference: they do any block, bit by bit, and find what
 * is wrong with a stream.  The kernels do nearly all blocks of 16 or 32 pixels of
 * a stream that is right, and leave the others to the reference.
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

/* The bit to flip in the first pixel, which flips it in all: it is the sum of what comes before it,
 * modulo 2^width. */
static uint32_t highest_bit(const struct fitscodecs_rows *out, unsigned width)
{
    return out->flip ? (uint32_t)1 << (width - 1) : 0;
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
static enum fitscodecs_status (*const decode_all[3])(struct bitreader *,
                                                     const struct fitscodecs_rows *, size_t, size_t,
                                                     size_t, struct fitscodecs_result *) = {
    decode_u8,
    decode_u16,
    decode_u32,
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
        done = fitscodecs_kernels.rice_encode->encode[width](&bw, pixels, npixels, blocksize);
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

/* How many pixels are decoded as if they were a row: all, if their rows follow each other in memory
 * and nobody waits for them. */
static size_t row_npixels(const struct fitscodecs_tile *tile, const struct fitscodecs_rows *out)
{
    bool is_together = out->row_nbytes == (ptrdiff_t)(tile->nx * pixel_nbytes(tile));
    return is_together && out->done == NULL ? tile->nx * tile->ny : tile->nx;
}

/* Blocks do not end where rows do, unless a row has whole blocks or is the only one. */
static bool has_free_rows(const struct fitscodecs_tile *tile)
{
    return tile->ny == 1 || tile->nx % (size_t)tile->parameters[BLOCKSIZE] == 0;
}

/* Decode with the reference alone. */
static enum fitscodecs_status decode_slowly(const struct fitscodecs_tile *tile, const uint8_t *in,
                                            size_t in_nbytes, const struct fitscodecs_rows *out,
                                            struct fitscodecs_result *result)
{
    struct bitreader br;
    enum fitscodecs_status status;

    *result = (struct fitscodecs_result){0};
    bits_open(&br, in, in_nbytes);
    status = decode_all[index_of_width(tile)](&br, out, row_npixels(tile, out), tile->nx * tile->ny,
                                              (size_t)tile->parameters[BLOCKSIZE], result);
    result->nbytes = bits_used_nbytes(&br);
    return status;
}

/* How many streams are decoded at once at most: as many as any kernel takes. */
#define MOST_AT_ONCE 16

/* The end of a stream from a block on, if it is not longer, is copied and zeros put behind it, so
 * that the kernels can read on: most blocks are much shorter. */
#define TAIL_NBYTES 184

/* One of the streams that are decoded at once. */
struct decoding {
    struct fitscodecs_rice_stream stream;
    const struct fitscodecs_tile *tile;
    const uint8_t *in; /* the whole stream */
    size_t in_nbytes;
    size_t nskipped;            /* bytes before those that stream.in has */
    struct fitscodecs_rows out; /* the whole tile */
    size_t nrows;               /* how many are not done, that of stream.pixels included */
    enum fitscodecs_status *status;
    struct fitscodecs_result *result;
    uint8_t tail[TAIL_NBYTES + RICE_MARGIN];
};

/* Bits before the next block, from the start of the whole stream. */
static uint64_t position_of(const struct decoding *d)
{
    return 8 * (uint64_t)d->nskipped + d->stream.position;
}

/* Something is wrong with the stream: leave it to the reference to find what. */
static void find_fault(struct decoding *d)
{
    *d->status = decode_slowly(d->tile, d->in, d->in_nbytes, &d->out, d->result);
}

/* Read the first pixel; false if that finishes the decoding. */
static bool start(struct decoding *d)
{
    struct fitscodecs_rice_stream *s = &d->stream;
    struct bitreader br;
    unsigned width = 8 * (unsigned)pixel_nbytes(d->tile);
    uint64_t first;

    bits_open(&br, d->in, d->in_nbytes);
    if (!bits_take(&br, width, &first)) {
        find_fault(d);
        return false;
    }
    s->in = d->in;
    s->in_nbytes = s->readable_nbytes = d->in_nbytes;
    s->position = width;
    s->pixels = d->out.pixels;
    s->npixels = row_npixels(d->tile, &d->out);
    d->nrows = d->tile->nx * d->tile->ny / s->npixels;
    s->previous = (uint32_t)first ^ highest_bit(&d->out, width);
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
    size_t nbytes = (size_t)(s->position / 8);

    bits_open(&br, s->in + nbytes, s->in_nbytes - nbytes);
    if (s->position % 8 != 0) {
        bits_refill(&br);
        bits_drop(&br, (unsigned)(s->position % 8));
    }
    if (decode_block[index_of_width(d->tile)](&br, s->pixels, m, &s->previous, &done, d->result) !=
        FITSCODECS_OK) {
        find_fault(d);
        return false;
    }
    s->position = 8 * (uint64_t)(br.next - s->in) - br.nbits;
    s->pixels = (uint8_t *)s->pixels + m * pixel_nbytes(d->tile);
    s->npixels -= m;
    return true;
}

/* Go to the next row if there is one: for the kernels, a row is all there is. */
static void finish_row(struct decoding *d)
{
    size_t y = d->tile->ny - d->nrows;

    if (d->out.done != NULL) {
        d->out.done(d->out.context, y);
    }
    if (--d->nrows > 0) {
        d->stream.pixels = (uint8_t *)d->out.pixels + (ptrdiff_t)(y + 1) * d->out.row_nbytes;
        d->stream.npixels = d->tile->nx;
    }
}

/* Do what the kernel did not; false if the decoding is finished. */
static bool go_on(struct decoding *d)
{
    struct fitscodecs_rice_stream *s = &d->stream;
    bool is_whole = s->npixels >= (size_t)d->tile->parameters[BLOCKSIZE];

    if (s->npixels > 0 && s->stopped && !(is_whole && enter_tail(d)) && !decode_one_block(d)) {
        return false;
    }
    if (s->npixels == 0) {
        finish_row(d);
    }
    if (s->npixels == 0) {
        *d->status = FITSCODECS_OK;
        *d->result = (struct fitscodecs_result){.nbytes = (size_t)((position_of(d) + 7) / 8)};
        return false;
    }
    return true;
}

/* What decode_several() is given. */
struct decoding_list {
    size_t n;
    const struct fitscodecs_tile *tiles;
    const uint8_t *const *in;
    const size_t *in_nbytes;
    const struct fitscodecs_rows *out;
    enum fitscodecs_status *statuses;
    struct fitscodecs_result *results;
};

/* Start the decoding of one of the list; false if it is finished at once. */
static bool start_from_list(struct decoding *d, const struct decoding_list *list, size_t i)
{
    d->tile = &list->tiles[i];
    d->in = list->in[i];
    d->in_nbytes = list->in_nbytes[i];
    d->out = list->out[i];
    d->status = &list->statuses[i];
    d->result = &list->results[i];
    return start(d);
}

/*
 * Decode streams of one width and block size, as many at once as the kernels take: when one is
 * finished, the next one gets its place.
 */
static void decode_alike(const struct decoding_list *list)
{
    const struct fitscodecs_rice_decode_kernels *kernels = fitscodecs_kernels.rice_decode;
    size_t width = index_of_width(&list->tiles[0]), nstarted = 0, nin_work = 0;
    size_t blocksize = (size_t)list->tiles[0].parameters[BLOCKSIZE];
    struct decoding decodings[MOST_AT_ONCE], *in_work[MOST_AT_ONCE];
    struct fitscodecs_rice_stream *streams[MOST_AT_ONCE];

    for (size_t k = 0; k < kernels->nstreams; k++) {
        in_work[k] = &decodings[k]; /* those from 'nin_work' on are free */
    }
    for (;;) {
        while (nin_work < kernels->nstreams && nstarted < list->n) {
            nin_work += start_from_list(in_work[nin_work], list, nstarted++);
        }
        if (nin_work == 0) {
            return;
        }
        for (size_t k = 0; k < nin_work; k++) {
            streams[k] = &in_work[k]->stream;
            streams[k]->stopped = false;
        }
        kernels->decode[width](streams, nin_work, blocksize);
        for (size_t k = nin_work; k-- > 0;) {
            if (!go_on(in_work[k])) {
                struct decoding *finished = in_work[k];
                in_work[k] = in_work[--nin_work];
                in_work[nin_work] = finished;
            }
        }
    }
}

/* Length of the first part of the list that has one width and block size. */
static size_t count_alike(const struct decoding_list *list)
{
    const int64_t *first = list->tiles[0].parameters;
    size_t n = 1;

    while (n < list->n && list->tiles[n].parameters[BLOCKSIZE] == first[BLOCKSIZE] &&
           list->tiles[n].parameters[BYTEPIX] == first[BYTEPIX]) {
        n++;
    }
    return n;
}

static void decode_several(size_t n, const struct fitscodecs_tile *tiles, const uint8_t *const *in,
                           const size_t *in_nbytes, const struct fitscodecs_rows *out,
                           void *scratch, enum fitscodecs_status *statuses,
                           struct fitscodecs_result *results)
{
    (void)scratch;
    for (size_t i = 0; i < n;) {
        struct decoding_list list = {n - i,   tiles + i,    in + i,     in_nbytes + i,
                                     out + i, statuses + i, results + i};
        list.n = count_alike(&list);
        if (kernels_have(&tiles[i])) {
            decode_alike(&list);
            i += list.n;
        } else {
            statuses[i] = decode_slowly(&tiles[i], in[i], in_nbytes[i], &out[i], &results[i]);
            i++;
        }
    }
}

static enum fitscodecs_status decode(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result)
{
    struct fitscodecs_rows out = {
        .pixels = pixels,
        .row_nbytes = (ptrdiff_t)(tile->nx * pixel_nbytes(tile)),
    };
    enum fitscodecs_status status;

    decode_several(1, tile, &in, &in_nbytes, &out, scratch, &status, result);
    return status;
}

/* As many as a kernel takes. */
static size_t most_at_once(void)
{
    return fitscodecs_kernels.rice_decode->nstreams;
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
    .decode_several = decode_several,
    .most_at_once = most_at_once,
    .has_free_rows = has_free_rows,
    .flips = true,
    .decodes_front = true,
};
