/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is encoded without loss comes back; streams keep to their bound and say how long they are;
 * outputs that are too small are refused.
 */
#include "testing.h"

/* Around the 4095 pixels of one PLIO_1 word, the blocks of RICE_1 and powers of two. */
static const size_t shapes[][2] = {
    {1, 1},  {2, 1},    {1, 2},    {2, 2},    {3, 3},    {5, 4},    {31, 1},  {32, 1},  {33, 1},
    {1, 33}, {34, 2},   {7, 9},    {16, 16},  {17, 31},  {64, 3},   {3, 64},  {65, 33}, {200, 1},
    {1, 97}, {4094, 1}, {4095, 1}, {1, 4096}, {4097, 1}, {8191, 1}, {61, 43}, {513, 3},
};
#define NRANDOM_SHAPES 14
#define SIDE_MAX 48

/* Every capacity is tried of streams up to this length, else only those next to it. */
#define SHORT_NBYTES 48

struct roundtrip {
    const struct fitscodecs_codec *codec;
    struct fitscodecs_tile tile;
    size_t pixels_nbytes;
    struct buffer pixels, scratch, stream;
};

static void check_capacity(const struct roundtrip *t, size_t capacity)
{
    struct buffer out = buffer_new(capacity, 1);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status =
        t->codec->encode(&t->tile, t->pixels.data, out.data, capacity, t->scratch.data, &result);

    if (capacity < t->stream.nbytes) {
        CHECK(status == FITSCODECS_SHORT_OUTPUT);
        CHECK(result.detail != NULL);
    } else {
        CHECK(status == FITSCODECS_OK);
        CHECK(result.nbytes == t->stream.nbytes);
        CHECK(memcmp(out.data, t->stream.data, t->stream.nbytes) == 0);
    }
    buffer_free(&out);
}

static void check_capacities(const struct roundtrip *t)
{
    size_t nbytes = t->stream.nbytes;

    check_capacity(t, nbytes);
    check_capacity(t, nbytes - 1);
    check_capacity(t, random_below(nbytes));
    for (size_t n = 0; nbytes <= SHORT_NBYTES && n < nbytes; n++) {
        check_capacity(t, n);
    }
}

/* Decode the stream with 'nsurplus' bytes behind it, which are not to be looked at. */
static void check_decode(const struct roundtrip *t, size_t nsurplus)
{
    struct buffer in = buffer_new(t->stream.nbytes + nsurplus, 1);
    struct buffer out = buffer_new(t->pixels_nbytes, ALIGNMENT);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status;

    memcpy(in.data, t->stream.data, t->stream.nbytes);
    random_bytes(in.data + t->stream.nbytes, nsurplus);
    random_bytes(out.data, out.nbytes);
    status = t->codec->decode(&t->tile, in.data, in.nbytes, out.data, t->scratch.data, &result);
    CHECK(status == FITSCODECS_OK);
    CHECK(result.detail == NULL);
    CHECK(result.nbytes == t->stream.nbytes);
    CHECK(memcmp(out.data, t->pixels.data, t->pixels_nbytes) == 0);
    buffer_free(&out);
    buffer_free(&in);
}

static void check_tile(const struct fitscodecs_codec *codec, const struct fitscodecs_tile *tile,
                       enum pattern pattern)
{
    struct roundtrip t = {.codec = codec, .tile = *tile};
    struct fitscodecs_result result = stale_result();
    size_t npixels = tile->nx * tile->ny;

    set_tile_case(codec, tile, "round trip");
    CHECK(codec->check(tile, &result) == FITSCODECS_OK);
    CHECK(result.detail == NULL);
    t.pixels_nbytes = npixels * codec->pixel_nbytes(tile);
    t.pixels = buffer_new(t.pixels_nbytes, ALIGNMENT);
    t.scratch = buffer_new(codec->scratch_nbytes(tile), ALIGNMENT);
    random_bytes(t.scratch.data, t.scratch.nbytes);
    fill_pixels(t.pixels.data, codec->pixel_nbytes(tile), npixels, pattern);
    t.stream = encode_pixels(codec, tile, t.pixels.data, t.scratch.data);
    check_decode(&t, 0);
    check_decode(&t, 1 + random_below(20));
    check_capacities(&t);
    buffer_free(&t.stream);
    buffer_free(&t.scratch);
    buffer_free(&t.pixels);
}

/* All patterns for the fixed shapes, one at random for the others. */
static uint64_t check_settings(const struct fitscodecs_codec *codec, size_t setting)
{
    struct fitscodecs_tile tile;
    uint64_t n = 0;

    set_parameters(codec, true, setting, tile.parameters);
    for (size_t i = 0; i < LENGTH(shapes); i++) {
        tile.nx = shapes[i][0];
        tile.ny = shapes[i][1];
        for (int pattern = 0; pattern < NPATTERNS; pattern++, n++) {
            check_tile(codec, &tile, (enum pattern)pattern);
        }
    }
    for (size_t i = 0; i < NRANDOM_SHAPES; i++, n++) {
        tile.nx = 1 + random_below(SIDE_MAX);
        tile.ny = 1 + random_below(SIDE_MAX);
        check_tile(codec, &tile, (enum pattern)random_below(NPATTERNS));
    }
    return n;
}

/* Shapes and parameters that no codec takes, and sizes that do not fit size_t. */
static void check_refusals(const struct fitscodecs_codec *codec)
{
    struct fitscodecs_tile tile = {1, 1, {0}};
    struct fitscodecs_result result = stale_result();

    CHECK(fitscodecs_find_codec(codec->name) == codec);
    set_parameters(codec, true, 0, tile.parameters);
    for (size_t i = 0; i < 4; i++) {
        const size_t sides[4][2] = {{0, 1}, {1, 0}, {SIZE_MAX, 1}, {SIZE_MAX / 2, SIZE_MAX / 2}};
        tile.nx = sides[i][0];
        tile.ny = sides[i][1];
        set_tile_case(codec, &tile, "refusal of the shape");
        CHECK(codec->check(&tile, &result) == FITSCODECS_BAD_PARAMETER);
        CHECK(result.detail != NULL);
    }
    tile.nx = tile.ny = INT32_MAX; /* the largest tile that a codec may take */
    set_tile_case(codec, &tile, "sizes");
    if (codec->check(&tile, &result) == FITSCODECS_OK) {
        CHECK(codec->encode_bound(&tile) / tile.nx >= tile.ny / 16);
    }
    tile.nx = tile.ny = 1;
    for (size_t i = 0; codec->parameters[i] != NULL; i++) {
        int64_t value = tile.parameters[i];
        tile.parameters[i] = INT64_MIN;
        set_tile_case(codec, &tile, "no crash on the parameters");
        codec->check(&tile, &result);
        tile.parameters[i] = value;
    }
}

int main(int argc, char **argv)
{
    uint64_t n = 0;

    test_init(argc, argv);
    CHECK(fitscodecs_find_codec("") == NULL);
    for (size_t i = 0; fitscodecs_codecs[i] != NULL; i++) {
        const struct fitscodecs_codec *codec = fitscodecs_codecs[i];
        check_refusals(codec);
        for (size_t k = 0; k < count_settings(codec, true); k++) {
            n += check_settings(codec, k);
        }
    }
    return test_done("roundtrip", n);
}
