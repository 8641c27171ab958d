/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoders and damaged streams: a stream that is cut short is refused; one that is changed, or
 * never was a stream, may give anything but a step outside the buffers.
 */
#include "testing.h"

static const size_t shapes[][2] = {{1, 1}, {2, 2}, {7, 5}, {33, 17}, {90, 1}, {1, 41}};
static const enum pattern patterns[] = {ZEROS, NOISE, SPIKES, ALL_BITS, RUNS};

#define NMUTATIONS 60 /* of each stream */
#define NGARBAGE 400  /* of each setting */
#define GARBAGE_NBYTES 600

struct damage {
    const struct fitscodecs_codec *codec;
    struct fitscodecs_tile tile;
    struct buffer pixels, scratch;
};

static struct damage damage_new(const struct fitscodecs_codec *codec,
                                const struct fitscodecs_tile *tile)
{
    struct damage d = {.codec = codec, .tile = *tile};
    d.pixels = buffer_new(tile->nx * tile->ny * codec->pixel_nbytes(tile), ALIGNMENT);
    d.scratch = buffer_new(codec->scratch_nbytes(tile), ALIGNMENT);
    random_bytes(d.scratch.data, d.scratch.nbytes);
    return d;
}

static void damage_free(struct damage *d)
{
    buffer_free(&d->scratch);
    buffer_free(&d->pixels);
}

static enum fitscodecs_status decode(const struct damage *d, const uint8_t *stream, size_t nbytes)
{
    struct buffer in = buffer_copy(stream, nbytes, 1);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status =
        d->codec->decode(&d->tile, in.data, nbytes, d->pixels.data, d->scratch.data, &result);

    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    CHECK(status == FITSCODECS_OK || status == FITSCODECS_SHORT_INPUT ||
          status == FITSCODECS_BAD_DATA || status == FITSCODECS_VALUE_RANGE);
    if (status == FITSCODECS_OK) {
        CHECK(result.nbytes <= nbytes);
    }
    buffer_free(&in);
    return status;
}

static uint64_t check_truncations(const struct damage *d, const struct buffer *stream)
{
    for (size_t nbytes = 0; nbytes < stream->nbytes; nbytes++) {
        CHECK(decode(d, stream->data, nbytes) != FITSCODECS_OK);
    }
    return stream->nbytes;
}

/* Change some bits or bytes, move a part, or cut out or put in some bytes. */
static size_t mutate(uint8_t *stream, size_t nbytes, size_t capacity)
{
    static const uint8_t interesting[] = {0, 1, 0x7F, 0x80, 0xFF, 0xF0, 0x0F};
    size_t at = random_below(nbytes), n = 1 + random_below(8);
    n = n < nbytes - at ? n : nbytes - at;

    switch (random_below(6)) {
    case 0:
        stream[at] ^= (uint8_t)(1 << random_below(8));
        return nbytes;
    case 1:
        stream[at] = interesting[random_below(LENGTH(interesting))];
        return nbytes;
    case 2:
        random_bytes(stream + at, n);
        return nbytes;
    case 3:
        memmove(stream + random_below(nbytes - n + 1), stream + at, n);
        return nbytes;
    case 4:
        memmove(stream + at, stream + at + n, nbytes - at - n);
        return nbytes - n;
    default:
        n = n < capacity - nbytes ? n : capacity - nbytes;
        memmove(stream + at + n, stream + at, nbytes - at);
        return nbytes + n;
    }
}

static uint64_t check_mutations(const struct damage *d, const struct buffer *stream)
{
    size_t capacity = stream->nbytes + 64;
    uint8_t *mutant = malloc(capacity);

    CHECK(mutant != NULL);
    for (size_t i = 0; i < NMUTATIONS; i++) {
        size_t nbytes = stream->nbytes;
        memset(mutant, 0, capacity);
        memcpy(mutant, stream->data, nbytes);
        for (size_t n = 1 + random_below(4); n > 0 && nbytes > 0; n--) {
            nbytes = mutate(mutant, nbytes, capacity);
        }
        decode(d, mutant, nbytes);
    }
    free(mutant);
    return NMUTATIONS;
}

/* Decode the stream of one tile as that of another one. */
static void check_other_tile(const struct damage *d, const struct buffer *stream)
{
    const struct fitscodecs_codec *codec = d->codec;
    struct fitscodecs_tile tile = {1 + random_below(60), 1 + random_below(60), {0}};
    struct damage other;

    set_parameters(codec, false, random_below(count_settings(codec, false)), tile.parameters);
    other = damage_new(codec, &tile);
    decode(&other, stream->data, stream->nbytes);
    damage_free(&other);
}

static uint64_t check_stream(struct damage *d, enum pattern pattern)
{
    size_t npixels = d->tile.nx * d->tile.ny;
    struct buffer stream;
    uint64_t n;

    set_tile_case(d->codec, &d->tile, "damage of a stream");
    fill_pixels(d->pixels.data, d->codec->pixel_nbytes(&d->tile), npixels, pattern);
    stream = encode_pixels(d->codec, &d->tile, d->pixels.data, d->scratch.data);
    CHECK(decode(d, stream.data, stream.nbytes) == FITSCODECS_OK);
    n = check_truncations(d, &stream) + check_mutations(d, &stream);
    check_other_tile(d, &stream);
    buffer_free(&stream);
    return n;
}

/* Random bytes, most of them alike, and behind the start of a stream: what follows a good head. */
static uint64_t check_garbage(struct damage *d)
{
    uint8_t garbage[GARBAGE_NBYTES];
    struct buffer stream;
    size_t npixels = d->tile.nx * d->tile.ny;

    fill_pixels(d->pixels.data, d->codec->pixel_nbytes(&d->tile), npixels, NOISE);
    stream = encode_pixels(d->codec, &d->tile, d->pixels.data, d->scratch.data);
    set_tile_case(d->codec, &d->tile, "garbage");
    for (size_t i = 0; i < NGARBAGE; i++) {
        size_t nbytes = random_below(GARBAGE_NBYTES + 1);
        size_t nkept = random_below(40);
        uint8_t mask = i % 2 == 0 ? 0xFF : (uint8_t)random_u64();
        random_bytes(garbage, nbytes);
        for (size_t k = 0; k < nbytes; k++) {
            garbage[k] &= mask;
        }
        nkept = nkept < stream.nbytes ? nkept : stream.nbytes;
        if (i % 4 < 2) {
            memcpy(garbage, stream.data, nkept < nbytes ? nkept : nbytes);
        }
        decode(d, garbage, nbytes);
    }
    buffer_free(&stream);
    return NGARBAGE;
}

static uint64_t check_setting(const struct fitscodecs_codec *codec, size_t setting)
{
    struct fitscodecs_tile tile;
    uint64_t n = 0;

    set_parameters(codec, false, setting, tile.parameters);
    for (size_t i = 0; i < LENGTH(shapes); i++) {
        tile.nx = shapes[i][0];
        tile.ny = shapes[i][1];
        struct damage d = damage_new(codec, &tile);
        for (size_t k = 0; k < LENGTH(patterns); k++) {
            n += check_stream(&d, patterns[k]);
        }
        n += check_garbage(&d);
        damage_free(&d);
    }
    return n;
}

int main(int argc, char **argv)
{
    uint64_t n = 0;

    test_init(argc, argv);
    for (size_t i = 0; fitscodecs_codecs[i] != NULL; i++) {
        for (size_t k = 0; k < count_settings(fitscodecs_codecs[i], false); k++) {
            n += check_setting(fitscodecs_codecs[i], k);
        }
    }
    return test_done("damage", n);
}
