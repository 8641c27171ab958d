/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gzip members: what is deflated comes back, whatever is doubtful is refused, and tiles in them are
 * those without.  Without libdeflate only that nothing works then, and nothing crashes.
 */
#include "testing.h"

#define NCASES 1500
#define NMUTATIONS 30
#define MAX_NBYTES 5000
#define MAX_MEMBERS 4
#define MAX_JOBS 4
#define HEADER_NBYTES 10

static struct fitscodecs_gzip *deflater, *inflater;

/* ----------------------------------------------------------------------------- members */

/* The members of some contents, cut at random; empty ones are allowed. */
struct members {
    struct buffer contents, stream;
    size_t begin[MAX_MEMBERS], n;
};

static struct buffer deflate(const uint8_t *data, size_t nbytes)
{
    size_t bound = fitscodecs_gzip_bound(nbytes);
    struct buffer out = buffer_new(bound, 1), stream;
    size_t found = fitscodecs_gzip_deflate(deflater, data, nbytes, out.data, bound);

    CHECK(found > 0 && found <= bound);
    for (size_t i = 4; i < 8; i++) {
        CHECK(out.data[i] == 0); /* no time */
    }
    stream = buffer_copy(out.data, found, 1);
    buffer_free(&out);
    return stream;
}

static void check_capacity(const struct buffer *contents, const struct buffer *stream)
{
    size_t room = random_once_in(2) ? stream->nbytes - 1 : random_below(stream->nbytes);
    struct buffer out = buffer_new(room, 1);

    CHECK(fitscodecs_gzip_deflate(deflater, contents->data, contents->nbytes, out.data, room) == 0);
    buffer_free(&out);
}

static struct members members_new(size_t nbytes)
{
    struct members m = {.contents = buffer_new(nbytes, ALIGNMENT), .n = 1 + random_below(4)};
    struct buffer all = buffer_new(MAX_MEMBERS * fitscodecs_gzip_bound(nbytes), 1);
    size_t done = 0, used = 0;

    fill_pixels(m.contents.data, 1, nbytes, (enum pattern)random_below(NPATTERNS));
    for (size_t i = 0; i < m.n; i++) {
        size_t part = i + 1 == m.n ? nbytes - done : random_below(nbytes - done + 1);
        struct buffer data = buffer_copy(m.contents.data + done, part, 1);
        struct buffer stream = deflate(data.data, part);
        check_capacity(&data, &stream);
        m.begin[i] = used;
        memcpy(all.data + used, stream.data, stream.nbytes);
        used += stream.nbytes;
        done += part;
        buffer_free(&stream);
        buffer_free(&data);
    }
    m.stream = buffer_copy(all.data, used, 1);
    buffer_free(&all);
    return m;
}

static void members_free(struct members *m)
{
    buffer_free(&m->stream);
    buffer_free(&m->contents);
}

/* Inflate into that much room; true if the contents came out. */
static bool inflate(const struct members *m, const uint8_t *stream, size_t nbytes, size_t room,
                    size_t *used)
{
    struct buffer in = buffer_copy(stream, nbytes, 1), out = buffer_new(room, 1);
    size_t found;
    bool done = fitscodecs_gzip_inflate(inflater, in.data, nbytes, out.data, room, used, &found);

    CHECK(!done || (*used <= nbytes && found <= room));
    done = done && found == m->contents.nbytes &&
           memcmp(out.data, m->contents.data, m->contents.nbytes) == 0;
    buffer_free(&out);
    buffer_free(&in);
    return done;
}

/* ------------------------------------------------------------------------------ checks */

static void check_sound(const struct members *m)
{
    size_t nbytes = m->stream.nbytes, nsurplus = random_below(30), used;
    struct buffer longer = buffer_new(nbytes + nsurplus, 1);

    CHECK(inflate(m, m->stream.data, nbytes, m->contents.nbytes, &used));
    CHECK(used == nbytes);
    CHECK(inflate(m, m->stream.data, nbytes, m->contents.nbytes + 1 + random_below(99), &used));
    CHECK(used == nbytes);
    memcpy(longer.data, m->stream.data, nbytes);
    random_bytes(longer.data + nbytes, nsurplus);
    if (nsurplus > 0) {
        longer.data[nbytes] = 0; /* not another member */
    }
    CHECK(inflate(m, longer.data, longer.nbytes, m->contents.nbytes, &used));
    CHECK(used == nbytes);
    buffer_free(&longer);
}

/* A name and an extra field in the header of the first member are skipped. */
static void check_header_fields(const struct members *m)
{
    static const uint8_t name[] = "a name", extra[] = {3, 0, 'a', 'b', 'c'};
    bool has_name = random_once_in(2);
    const uint8_t *field = has_name ? name : extra;
    size_t n = has_name ? sizeof name : sizeof extra, used;
    struct buffer longer = buffer_new(m->stream.nbytes + n, 1);

    memcpy(longer.data, m->stream.data, HEADER_NBYTES);
    longer.data[3] = has_name ? 8 : 4;
    memcpy(longer.data + HEADER_NBYTES, field, n);
    memcpy(longer.data + HEADER_NBYTES + n, m->stream.data + HEADER_NBYTES,
           m->stream.nbytes - HEADER_NBYTES);
    CHECK(inflate(m, longer.data, longer.nbytes, m->contents.nbytes, &used));
    CHECK(used == longer.nbytes);
    longer.data[3] |= 2; /* a CRC of the header */
    CHECK(!inflate(m, longer.data, longer.nbytes, m->contents.nbytes, &used));
    buffer_free(&longer);
}

static void check_damage(const struct members *m)
{
    size_t nbytes = m->stream.nbytes, used;
    struct buffer mutant = buffer_copy(m->stream.data, nbytes, 1);

    if (m->contents.nbytes > 0) {
        size_t room = random_below(m->contents.nbytes);
        CHECK(!inflate(m, m->stream.data, nbytes, room, &used));
    }
    for (size_t n = m->n > 1 ? m->begin[m->n - 1] + 2 : 0; n < nbytes; n += 1 + random_below(9)) {
        CHECK(!inflate(m, m->stream.data, n, m->contents.nbytes, &used)); /* cut off */
    }
    for (size_t i = 0; i < NMUTATIONS; i++) {
        size_t at = random_below(nbytes), n = 1 + random_below(4);
        random_bytes(mutant.data + at, n < nbytes - at ? n : nbytes - at);
        inflate(m, mutant.data, nbytes, random_below(2 * m->contents.nbytes + 2), &used);
    }
    memcpy(mutant.data, m->stream.data, nbytes);
    mutant.data[nbytes - 8 + random_below(8)] ^= (uint8_t)(1 << random_below(8));
    CHECK(!inflate(m, mutant.data, nbytes, m->contents.nbytes + 8, &used)); /* CRC or length */
    buffer_free(&mutant);
}

static void check_engines(void)
{
    struct buffer data = buffer_new(100, 1), stream = deflate(data.data, 100);
    size_t used, found;

    CHECK(fitscodecs_gzip_new(13) == NULL);
    CHECK(fitscodecs_gzip_bound(SIZE_MAX) == SIZE_MAX);
    CHECK(fitscodecs_gzip_deflate(inflater, data.data, 100, stream.data, stream.nbytes) == 0);
    CHECK(!fitscodecs_gzip_inflate(deflater, stream.data, stream.nbytes, data.data, 100, &used,
                                   &found));
    buffer_free(&stream);
    buffer_free(&data);
}

/* ------------------------------------------------------------------------------- tiles */

struct image {
    struct fitscodecs_batch batch;
    int64_t shape[2], start[2], step[2];
    ptrdiff_t strides[2];
    struct fitscodecs_tile tile;
    size_t njobs, npixels, itemsize, tile_nbytes;
    struct buffer pixels, out;
    struct fitscodecs_encode_job encode_jobs[MAX_JOBS];
};

/* Tiles of random height, one below the other, of an image that may have gaps in its rows. */
static void image_new(struct image *image)
{
    static const enum fitscodecs_pixel types[] = {FITSCODECS_U8,  FITSCODECS_I16, FITSCODECS_I32,
                                                  FITSCODECS_I64, FITSCODECS_F32, FITSCODECS_F64};
    static const size_t itemsizes[] = {1, 2, 4, 8, 4, 8};
    size_t type = random_below(LENGTH(types)), gap = random_below(3);

    memset(image, 0, sizeof *image);
    image->itemsize = itemsizes[type];
    image->shape[0] = random_between(1, 20);
    image->shape[1] = random_between(1, 20);
    image->step[0] = image->step[1] = 1;
    image->strides[1] = (ptrdiff_t)image->itemsize;
    image->strides[0] = (image->shape[1] + (ptrdiff_t)gap) * image->strides[1];
    image->npixels = (size_t)(image->shape[0] * image->shape[1]);
    image->tile_nbytes = (size_t)(image->shape[0] * image->strides[0]);
    image->njobs = 1 + random_below(MAX_JOBS);
    image->pixels = buffer_new(image->njobs * image->tile_nbytes, ALIGNMENT);
    image->out = buffer_new(image->pixels.nbytes, ALIGNMENT);
    fill_pixels(image->pixels.data, 1, image->pixels.nbytes, (enum pattern)random_below(NPATTERNS));
    memcpy(image->out.data, image->pixels.data, image->pixels.nbytes); /* for the gaps */
    image->batch.codec = fitscodecs_find_codec("NOCOMPRESS");
    image->batch.tile_type = image->batch.image_type = types[type];
    image->batch.parameters[0] = (int64_t)image->itemsize;
    image->batch.parameters[1] = (int64_t)random_below(2);
    image->batch.ndim = 2;
    image->batch.strides = image->strides;
    image->tile = (struct fitscodecs_tile){(size_t)image->shape[1], (size_t)image->shape[0], {0}};
    if (image->shape[1] == 1) {
        image->tile = (struct fitscodecs_tile){(size_t)image->shape[0], 1, {0}};
    }
    memcpy(image->tile.parameters, image->batch.parameters, sizeof image->tile.parameters);
}

/* Whether the tiles are left to the caller. */
static bool is_short(const struct image *image)
{
    return image->npixels * image->itemsize < FITSCODECS_GZIP_LEAST;
}

static struct buffer encode_image(struct image *image)
{
    size_t bound = fitscodecs_stream_bound(&image->batch, &image->tile), ndone;
    struct buffer scratch =
        buffer_new(fitscodecs_encode_scratch_nbytes(&image->batch, &image->tile), ALIGNMENT);
    struct buffer out = buffer_new(image->njobs * bound, 1), streams;
    struct fitscodecs_result result = stale_result();

    for (size_t i = 0; i < image->njobs; i++) {
        image->encode_jobs[i] = (struct fitscodecs_encode_job){
            .in = image->pixels.data + i * image->tile_nbytes, .shape = image->shape};
    }
    CHECK(fitscodecs_encode_tiles(&image->batch, image->encode_jobs, image->njobs, out.data,
                                  out.nbytes, scratch.data, scratch.nbytes, &ndone,
                                  &result) == FITSCODECS_OK);
    CHECK(ndone == image->njobs);
    for (size_t i = 0; i < image->njobs; i++) {
        CHECK(image->encode_jobs[i].is_left == is_short(image));
        CHECK((image->encode_jobs[i].nbytes == 0) == is_short(image));
    }
    streams = buffer_copy(out.data, result.nbytes, 1);
    buffer_free(&out);
    buffer_free(&scratch);
    return streams;
}

/* Decode, with tile 'bad' damaged; each tile but that one comes back. */
static void decode_image(struct image *image, struct buffer *streams, size_t bad)
{
    struct fitscodecs_job jobs[MAX_JOBS];
    struct fitscodecs_result result = stale_result();
    size_t nbytes = fitscodecs_batch_scratch_nbytes(&image->batch, image->npixels, 0), ndone;
    struct buffer scratch = buffer_new(nbytes, ALIGNMENT);
    uint8_t *stream = streams->data;

    for (size_t i = 0; i < image->njobs; i++) {
        size_t n = image->encode_jobs[i].nbytes;
        jobs[i] = (struct fitscodecs_job){.in = stream,
                                          .in_nbytes = n,
                                          .shape = image->shape,
                                          .start = image->start,
                                          .step = image->step,
                                          .count = image->shape,
                                          .out = image->out.data + i * image->tile_nbytes};
        if (i == bad) {
            stream[n - 1 - random_below(8)] ^= 1;
        }
        stream += n;
    }
    CHECK(fitscodecs_decode_tiles(&image->batch, jobs, image->njobs, scratch.data, nbytes - 1,
                                  &ndone, &result) == FITSCODECS_SHORT_OUTPUT);
    CHECK(fitscodecs_decode_tiles(&image->batch, jobs, image->njobs, scratch.data, nbytes, &ndone,
                                  &result) == FITSCODECS_OK);
    CHECK(ndone == image->njobs && result.detail == NULL);
    for (size_t i = 0; i < image->njobs; i++) {
        size_t begin = i * image->tile_nbytes;
        CHECK(jobs[i].is_left == (i == bad));
        CHECK(i == bad || jobs[i].used_nbytes == jobs[i].in_nbytes);
        CHECK(i == bad ||
              memcmp(image->out.data + begin, image->pixels.data + begin, image->tile_nbytes) == 0);
    }
    buffer_free(&scratch);
}

static void check_tiles(void)
{
    struct image image;
    struct buffer streams;

    image_new(&image);
    image.batch.gzip = deflater;
    streams = encode_image(&image);
    image.batch.gzip = inflater;
    if (!is_short(&image)) {
        decode_image(&image, &streams, random_below(image.njobs + 1));
    }
    buffer_free(&streams);
    buffer_free(&image.out);
    buffer_free(&image.pixels);
}

/* ------------------------------------------------------------------------------- main */

static uint64_t check_nothing_works(void)
{
    uint8_t byte = 0;
    size_t used, found;

    CHECK(fitscodecs_gzip_new(0) == NULL && fitscodecs_gzip_new(1) == NULL);
    CHECK(fitscodecs_gzip_deflate(NULL, &byte, 1, &byte, 1) == 0);
    CHECK(!fitscodecs_gzip_inflate(NULL, &byte, 1, &byte, 1, &used, &found));
    return 0;
}

static uint64_t check_all(void)
{
    inflater = fitscodecs_gzip_new(0);
    CHECK(inflater != NULL);
    for (size_t i = 0; i < NCASES; i++) {
        deflater = fitscodecs_gzip_new(1 + (int)random_below(12));
        CHECK(deflater != NULL);
        struct members m = members_new(random_once_in(20) ? 0 : random_below(MAX_NBYTES));
        set_case("%zu members of %zu bytes", m.n, m.contents.nbytes);
        check_sound(&m);
        check_header_fields(&m);
        check_damage(&m);
        members_free(&m);
        set_case("tiles, case %zu", i);
        check_tiles();
        if (i == 0) {
            check_engines();
        }
        fitscodecs_gzip_free(deflater);
    }
    fitscodecs_gzip_free(inflater);
    return NCASES;
}

int main(int argc, char **argv)
{
    test_init(argc, argv);
    fitscodecs_gzip_free(NULL);
    return test_done("gzip", fitscodecs_has_gzip() ? check_all() : check_nothing_works());
}
