/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of RICE_1, part of checkkernels.c: whatever the stream, the codec gives with them
 * what the reference in rice.c gives alone.
 */

static const size_t rice_npixels[] = {
    1,   2,   15, 16, 17,  31,  32,  33,  47,  48,  /* blocks of 16 and 32 */
    63,  64,  65, 96, 100, 128, 160, 256, 333, 512, /* and more than the end of a stream has */
    777, 1024};
static const int64_t rice_blocksizes[] = {32, 16, 7};
#define RICE_REPEATS 3
#define RICE_SHORT 40   /* streams of which every truncation is tried */
#define RICE_MUTANTS 25 /* of each stream */
#define RICE_MOST 37    /* streams that are decoded at once, more than a kernel takes */

/* Kernels that leave everything to the reference. */
static void decode_nothing(struct fitscodecs_rice_stream *const *streams, size_t n,
                           size_t blocksize)
{
    (void)blocksize;
    for (size_t i = 0; i < n; i++) {
        streams[i]->stopped = true;
    }
}

static size_t encode_nothing(struct bitwriter *bw, const void *pixels, size_t npixels,
                             size_t blocksize)
{
    (void)bw;
    (void)pixels;
    (void)npixels;
    (void)blocksize;
    return 0;
}

static const struct fitscodecs_rice_decode_kernels decode_reference = {
    .nstreams = 1,
    .decode = {decode_nothing, decode_nothing, decode_nothing},
};
static const struct fitscodecs_rice_encode_kernels encode_reference = {
    .encode = {encode_nothing, encode_nothing, encode_nothing},
};
static const struct fitscodecs_kernels rice_reference = {
    .rice_decode = &decode_reference,
    .rice_encode = &encode_reference,
};

static void set_rice_kernels(const struct fitscodecs_kernels *kernels)
{
    fitscodecs_kernels.rice_decode = kernels->rice_decode;
    fitscodecs_kernels.rice_encode = kernels->rice_encode;
}

/* What a call gave. */
struct rice_answer {
    enum fitscodecs_status status;
    struct fitscodecs_result result;
    struct buffer bytes; /* pixels or a stream */
};

static bool is_same_answer(const struct rice_answer *a, const struct rice_answer *b)
{
    return a->status == b->status && a->result.nbytes == b->result.nbytes &&
           a->result.detail == b->result.detail && a->result.found == b->result.found &&
           a->result.wanted == b->result.wanted &&
           (a->status != FITSCODECS_OK || a->bytes.nbytes == 0 ||
            memcmp(a->bytes.data, b->bytes.data, a->bytes.nbytes) == 0);
}

static size_t rice_nbytes(const struct fitscodecs_tile *tile)
{
    return tile->nx * tile->ny * (size_t)tile->parameters[1];
}

static struct rice_answer rice_decode(const struct fitscodecs_kernels *kernels,
                                      const struct fitscodecs_tile *tile, const struct buffer *in)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec("RICE_1");
    struct rice_answer answer = {.result = stale_result()};

    set_rice_kernels(kernels);
    answer.bytes = buffer_new(rice_nbytes(tile), (size_t)tile->parameters[1]);
    answer.status =
        codec->decode(tile, in->data, in->nbytes, answer.bytes.data, NULL, &answer.result);
    return answer;
}

static struct rice_answer rice_encode(const struct fitscodecs_kernels *kernels,
                                      const struct fitscodecs_tile *tile, const void *pixels,
                                      size_t capacity)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec("RICE_1");
    struct rice_answer answer = {.result = stale_result()};

    set_rice_kernels(kernels);
    answer.bytes = buffer_new(capacity, 1);
    memset(answer.bytes.data, 0, capacity); /* what is behind the stream is compared as well */
    answer.status = codec->encode(tile, pixels, answer.bytes.data, capacity, NULL, &answer.result);
    if (answer.status == FITSCODECS_OK) {
        memset(answer.bytes.data + answer.result.nbytes, 0, capacity - answer.result.nbytes);
    }
    return answer;
}

static void compare_rice_decode(const struct fitscodecs_kernels *fast,
                                const struct fitscodecs_tile *tile, const uint8_t *stream,
                                size_t nbytes)
{
    struct buffer in = buffer_copy(stream, nbytes, 1);
    struct rice_answer wanted = rice_decode(&rice_reference, tile, &in);
    struct rice_answer found = rice_decode(fast, tile, &in);

    CHECK(is_same_answer(&wanted, &found));
    buffer_free(&found.bytes);
    buffer_free(&wanted.bytes);
    buffer_free(&in);
}

static void compare_rice_encode(const struct fitscodecs_kernels *fast,
                                const struct fitscodecs_tile *tile, const struct buffer *pixels,
                                size_t capacity)
{
    struct rice_answer wanted = rice_encode(&rice_reference, tile, pixels->data, capacity);
    struct rice_answer found = rice_encode(fast, tile, pixels->data, capacity);

    CHECK(is_same_answer(&wanted, &found));
    buffer_free(&found.bytes);
    buffer_free(&wanted.bytes);
}

/* Noise of another width every now and then, with a few large steps: all levels, and long runs. */
static void fill_levels(void *pixels, size_t itemsize, size_t npixels)
{
    unsigned width = 0, shift = (unsigned)random_below(64);
    for (size_t i = 0; i < npixels; i++) {
        if (width == 0) {
            width = 1 + (unsigned)random_below(70);
            shift = 64 - (unsigned)random_below(8 * itemsize + 1);
        }
        width--;
        uint64_t value = shift > 63 ? 0 : random_u64() >> shift;
        value <<= random_once_in(60) ? random_below(10) : 0;
        store_pixel(pixels, itemsize, i, value);
    }
}

/* A tile of random pixels; 'pattern' may be one more than there are. */
static struct buffer random_tile(const struct fitscodecs_tile *tile, int pattern)
{
    size_t itemsize = (size_t)tile->parameters[1], npixels = tile->nx * tile->ny;
    struct buffer pixels = buffer_new(rice_nbytes(tile), itemsize);

    if (pattern < NPATTERNS) {
        fill_pixels(pixels.data, itemsize, npixels, (enum pattern)pattern);
    } else {
        fill_levels(pixels.data, itemsize, npixels);
    }
    return pixels;
}

/* Change a stream: some bits, some bytes, or a run of zeros. */
static void damage_stream(uint8_t *stream, size_t nbytes)
{
    for (size_t n = 1 + random_below(3); n > 0; n--) {
        size_t at = random_below(nbytes), length = 1 + random_below(40);
        length = length < nbytes - at ? length : nbytes - at;
        switch (random_below(4)) {
        case 0:
            stream[at] ^= (uint8_t)(1 << random_below(8));
            break;
        case 1:
            random_bytes(stream + at, length);
            break;
        case 2:
            memset(stream + at, 0, length);
            break;
        default:
            memset(stream + at, 0xFF, length);
        }
    }
}

static uint64_t compare_rice_streams(const struct fitscodecs_kernels *fast,
                                     const struct fitscodecs_tile *tile,
                                     const struct buffer *stream)
{
    uint64_t n = 0;

    compare_rice_decode(fast, tile, stream->data, stream->nbytes);
    if (stream->nbytes < RICE_SHORT) {
        for (; n < stream->nbytes; n++) {
            compare_rice_decode(fast, tile, stream->data, n);
        }
    }
    for (size_t i = 0; i < RICE_MUTANTS; i++, n++) {
        struct buffer mutant = buffer_copy(stream->data, stream->nbytes, 1);
        size_t nbytes = random_once_in(3) ? 1 + random_below(stream->nbytes) : stream->nbytes;
        if (!random_once_in(4)) {
            damage_stream(mutant.data, nbytes);
        }
        compare_rice_decode(fast, tile, mutant.data, nbytes);
        buffer_free(&mutant);
    }
    return n + 1;
}

static uint64_t compare_rice_tile(const struct fitscodecs_kernels *fast,
                                  const struct fitscodecs_tile *tile, int pattern)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec("RICE_1");
    size_t bound = codec->encode_bound(tile), shorter;
    struct buffer pixels = random_tile(tile, pattern), stream;
    struct rice_answer answer;
    uint64_t n;

    set_tile_case(codec, tile, "kernels");
    answer = rice_encode(&rice_reference, tile, pixels.data, bound);
    CHECK(answer.status == FITSCODECS_OK);
    compare_rice_encode(fast, tile, &pixels, bound);
    compare_rice_encode(fast, tile, &pixels, answer.result.nbytes);
    compare_rice_encode(fast, tile, &pixels, answer.result.nbytes - 1);
    shorter = random_below(answer.result.nbytes);
    compare_rice_encode(fast, tile, &pixels, shorter);
    stream = buffer_copy(answer.bytes.data, answer.result.nbytes, 1);
    n = 4 + compare_rice_streams(fast, tile, &stream);
    buffer_free(&stream);
    buffer_free(&answer.bytes);
    buffer_free(&pixels);
    return n;
}

/* A stream of a random tile, sometimes damaged or cut short. */
static struct buffer random_stream(const struct fitscodecs_tile *tile)
{
    size_t bound = fitscodecs_find_codec("RICE_1")->encode_bound(tile), nbytes;
    struct buffer pixels = random_tile(tile, (int)random_below(NPATTERNS + 1)), stream;
    struct rice_answer answer = rice_encode(&rice_reference, tile, pixels.data, bound);

    nbytes = answer.result.nbytes;
    if (random_once_in(6)) {
        damage_stream(answer.bytes.data, nbytes);
    }
    nbytes = random_once_in(8) ? random_below(nbytes + 1) : nbytes;
    stream = buffer_copy(answer.bytes.data, nbytes, 1);
    buffer_free(&answer.bytes);
    buffer_free(&pixels);
    return stream;
}

/* Bytes between the rows of a tile, in a buffer of its own: some if the codec can leave room. */
static size_t random_gap(const struct fitscodecs_tile *tile)
{
    bool is_free = fitscodecs_find_codec("RICE_1")->has_free_rows(tile) && random_once_in(2);
    return is_free ? random_below(40) * (size_t)tile->parameters[1] : 0;
}

/* One of the tiles that are decoded at once. */
struct rice_one {
    size_t row_nbytes, gap;
    bool flip, one_by_one;
    size_t ndone; /* rows that came, if they come one by one to the same memory */
    struct buffer stream, out, row;
};

/* Take a row that is done.  Rows may begin anew, as where the reference looks for a fault. */
static void collect_row(void *context, size_t y)
{
    struct rice_one *one = context;

    CHECK(y == one->ndone || y == 0);
    memcpy(one->out.data + y * one->row_nbytes, one->row.data, one->row_nbytes);
    one->ndone = y + 1;
}

static const uint8_t rice_gap_byte = 0xA5;

/* Compare one with what the reference gives, and see that its gaps are as they were. */
static void compare_rice_rows(const struct fitscodecs_tile *tile, const struct rice_one *one,
                              enum fitscodecs_status status, struct fitscodecs_result result)
{
    struct rice_answer wanted = rice_decode(&rice_reference, tile, &one->stream);
    struct rice_answer found = {.status = status, .result = result};
    size_t step = one->row_nbytes + one->gap;

    CHECK(!one->one_by_one || status != FITSCODECS_OK || one->ndone == tile->ny);
    found.bytes = buffer_new(rice_nbytes(tile), (size_t)tile->parameters[1]);
    for (size_t y = 0; y < tile->ny; y++) {
        const uint8_t *row = one->out.data + y * step;
        memcpy(found.bytes.data + y * one->row_nbytes, row, one->row_nbytes);
        for (size_t i = 0; y + 1 < tile->ny && i < one->gap; i++) {
            CHECK(row[one->row_nbytes + i] == rice_gap_byte);
        }
    }
    for (size_t i = 0; one->flip && i < tile->nx * tile->ny; i++) {
        size_t itemsize = (size_t)tile->parameters[1];
        uint64_t highest = (uint64_t)1 << (8 * itemsize - 1);
        store_pixel(found.bytes.data, itemsize, i,
                    load_pixel(found.bytes.data, itemsize, i) ^ highest);
    }
    CHECK(is_same_answer(&wanted, &found));
    buffer_free(&found.bytes);
    buffer_free(&wanted.bytes);
}

/* A tile like the one before it, mostly: a kernel takes those of one kind together. */
static void next_rice_tile(const struct fitscodecs_codec *codec, struct fitscodecs_tile *tiles,
                           size_t i)
{
    if (i == 0 || random_once_in(12)) {
        tiles[i].nx = random_once_in(2) ? 32 * (1 + random_below(9)) : 1 + random_below(300);
        tiles[i].ny = 1 + random_below(3);
        set_parameters(codec, true, random_below(count_settings(codec, true)), tiles[i].parameters);
        return;
    }
    tiles[i] = tiles[i - 1];
    if (random_once_in(4)) {
        tiles[i].nx = 1 + random_below(300);
    }
}

/* Some tiles at once. */
static void compare_rice_several(const struct fitscodecs_kernels *fast)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec("RICE_1");
    size_t n = random_below(RICE_MOST + 1), in_nbytes[RICE_MOST];
    struct fitscodecs_tile tiles[RICE_MOST];
    struct rice_one ones[RICE_MOST];
    const uint8_t *in[RICE_MOST];
    struct fitscodecs_rows out[RICE_MOST];
    enum fitscodecs_status statuses[RICE_MOST];
    struct fitscodecs_result results[RICE_MOST];

    for (size_t i = 0; i < n; i++) {
        struct rice_one *one = &ones[i];
        next_rice_tile(codec, tiles, i);
        set_tile_case(codec, &tiles[i], "several at once");
        one->row_nbytes = tiles[i].nx * (size_t)tiles[i].parameters[1];
        one->one_by_one = codec->has_free_rows(&tiles[i]) && random_once_in(3);
        one->gap = one->one_by_one ? 0 : random_gap(&tiles[i]);
        one->ndone = 0;
        one->stream = random_stream(&tiles[i]);
        one->out = buffer_new(tiles[i].ny * (one->row_nbytes + one->gap) - one->gap,
                              (size_t)tiles[i].parameters[1]);
        memset(one->out.data, rice_gap_byte, one->out.nbytes);
        in[i] = one->stream.data;
        in_nbytes[i] = one->stream.nbytes;
        one->row =
            buffer_new(one->one_by_one ? one->row_nbytes : 0, (size_t)tiles[i].parameters[1]);
        one->flip = random_once_in(2);
        out[i] = (struct fitscodecs_rows){
            .pixels = one->one_by_one ? one->row.data : one->out.data,
            .row_nbytes = one->one_by_one ? 0 : (ptrdiff_t)(one->row_nbytes + one->gap),
            .flip = one->flip,
            .done = one->one_by_one ? collect_row : NULL,
            .context = one,
        };
        results[i] = stale_result();
    }
    set_rice_kernels(fast);
    codec->decode_several(n, tiles, in, in_nbytes, out, NULL, statuses, results);
    for (size_t i = 0; i < n; i++) {
        set_tile_case(codec, &tiles[i], "one of several");
        compare_rice_rows(&tiles[i], &ones[i], statuses[i], results[i]);
        buffer_free(&ones[i].row);
        buffer_free(&ones[i].out);
        buffer_free(&ones[i].stream);
    }
}

/* Compare what the codec gives with these kernels and without. */
static uint64_t check_rice_kernels(const struct fitscodecs_kernels *fast)
{
    const struct fitscodecs_kernels before = fitscodecs_kernels;
    struct fitscodecs_tile tile = {1, 1, {0}};
    uint64_t ncases = 0;

    for (size_t i = 0; i < LENGTH(rice_npixels) * LENGTH(rice_blocksizes) * 3; i++) {
        tile.nx = rice_npixels[i / 9];
        tile.parameters[0] = rice_blocksizes[i % 9 / 3];
        tile.parameters[1] = (int64_t)1 << (i % 3);
        for (int pattern = 0; pattern < NPATTERNS; pattern++) {
            ncases += compare_rice_tile(fast, &tile, pattern);
        }
        for (size_t k = 0; k < RICE_REPEATS; k++) {
            ncases += compare_rice_tile(fast, &tile, NPATTERNS);
        }
        for (size_t k = 0; k < RICE_REPEATS; k++, ncases++) {
            compare_rice_several(fast);
        }
    }
    fitscodecs_kernels = before;
    return ncases;
}
