/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCOMPRESS_1; part of checkkernels.c.  Each kernel is compared with the portable one, and the
 * whole codec, as it is with these kernels, with the functions of hcompress.c that use none.
 */
extern const struct fitscodecs_codec reference_hcompress_1;
#define fitscodecs_hcompress_1 reference_hcompress_1
#define HCOMPRESS_USE_KERNELS 0
#include "hcompress.c"
#undef fitscodecs_hcompress_1
#undef HCOMPRESS_USE_KERNELS

typedef const struct fitscodecs_hcompress_kernels hcompress_kernels;

/* -------------------------------------------------------------------------------- tables */

/* Codes at the begin of the lowest 11 bits of 'bits' */
static uint32_t find_lookup_entry(unsigned bits)
{
    uint32_t codes = 0;
    unsigned ncode_bits = 0, nleft = LOOKUP_NBITS;
    for (unsigned value = 0; value < 16; value++) {
        unsigned nbits = huffman_codes[value].nbits;
        if (nbits <= nleft && bits >> (nleft - nbits) == huffman_codes[value].bits) {
            codes |= value << ncode_bits;
            ncode_bits += 4;
            nleft -= nbits;
            bits &= (1u << nleft) - 1;
            value = 0u - 1; /* once more from 0 */
        }
    }
    return codes << 16 | ncode_bits << 8 | (LOOKUP_NBITS - nleft);
}

static void check_hcompress_tables(void)
{
    for (unsigned i = 0; i < 1u << LOOKUP_NBITS; i++) {
        CHECK(fitscodecs_hcompress_lookup[i] == find_lookup_entry(i));
    }
    for (unsigned i = 0; i < 256; i++) {
        unsigned first = i & 15, second = i >> 4;
        unsigned nbits1 = huffman_codes[first].nbits, nbits2 = huffman_codes[second].nbits;
        unsigned bits = (unsigned)huffman_codes[first].bits << nbits2 | huffman_codes[second].bits;
        CHECK(fitscodecs_hcompress_pairs[i] == (bits << 4 | (nbits1 + nbits2)));
        CHECK(fitscodecs_hcompress_pair_nbits[i] ==
              (first == 0 ? 0 : nbits1) + (second == 0 ? 0 : nbits2));
    }
}

/* --------------------------------------------------------------------------------- values */

/* Values of up to 'nbits' bits and a sign, most or only few of them not 0. */
static struct buffer random_values(size_t n, unsigned nbits)
{
    struct buffer values = buffer_new(n * sizeof(int32_t), 4);
    size_t rare = 1 + random_below(20);
    for (size_t i = 0; i < n; i++) {
        int64_t magnitude = (int64_t)(random_u64() >> (64 - nbits));
        int64_t value = random_once_in(2) ? magnitude : -magnitude;
        store_pixel(values.data, 4, i, random_once_in(rare) ? (uint64_t)value : 0);
    }
    return values;
}

static int32_t *i32(const struct buffer *buffer)
{
    return (int32_t *)buffer->data;
}

static bool is_same(const struct buffer *a, const struct buffer *b)
{
    return a->nbytes == b->nbytes && (a->nbytes == 0 || memcmp(a->data, b->data, a->nbytes) == 0);
}

static void compare_forward(hcompress_kernels *portable, hcompress_kernels *fast, unsigned k,
                            size_t n)
{
    /* four values and their rounding make 31 bits */
    struct buffer top = random_values(2 * n, 28), bottom = random_values(2 * n, 28);
    struct buffer wanted[4], found[4];
    for (size_t i = 0; i < 4; i++) {
        wanted[i] = buffer_new(n * sizeof(int32_t), 4);
        found[i] = buffer_new(n * sizeof(int32_t), 4);
    }
    portable->forward_cells(k, n, i32(&top), i32(&bottom), i32(&wanted[0]), i32(&wanted[1]),
                            i32(&wanted[2]), i32(&wanted[3]));
    fast->forward_cells(k, n, i32(&top), i32(&bottom), i32(&found[0]), i32(&found[1]),
                        i32(&found[2]), i32(&found[3]));
    for (size_t i = 0; i < 4; i++) {
        CHECK(is_same(&wanted[i], &found[i]));
        buffer_free(&wanted[i]);
        buffer_free(&found[i]);
    }
    buffer_free(&top);
    buffer_free(&bottom);
}

static void compare_inverse(hcompress_kernels *portable, hcompress_kernels *fast, unsigned k,
                            size_t n)
{
    struct buffer in[4], wanted[2], found[2];
    for (size_t i = 0; i < 4; i++) {
        in[i] = random_values(n, 28);
    }
    for (size_t i = 0; i < 2; i++) {
        wanted[i] = buffer_new(2 * n * sizeof(int32_t), 4);
        found[i] = buffer_new(2 * n * sizeof(int32_t), 4);
    }
    portable->inverse_cells(k, n, i32(&in[0]), i32(&in[1]), i32(&in[2]), i32(&in[3]),
                            i32(&wanted[0]), i32(&wanted[1]));
    fast->inverse_cells(k, n, i32(&in[0]), i32(&in[1]), i32(&in[2]), i32(&in[3]), i32(&found[0]),
                        i32(&found[1]));
    for (size_t i = 0; i < 2; i++) {
        CHECK(is_same(&wanted[i], &found[i]));
        buffer_free(&wanted[i]);
        buffer_free(&found[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        buffer_free(&in[i]);
    }
}

/*
 * Slopes of n cells and the curvatures between them, with the functions that take 64 bits.  What 32
 * bits hold are means up to SMOOTH_MAX_MEAN, which is nearly 29 bits, and coefficients of 25 bits
 * with the limit.
 */
static void compare_smooth(hcompress_kernels *fast, size_t n)
{
    const unsigned nbits = 1 + (unsigned)random_below(24);
    const int32_t limit = 1 + (int32_t)random_below(((size_t)1 << nbits) - 1);
    const unsigned mean_nbits = random_once_in(2) ? nbits : 1 + (unsigned)random_below(29);
    struct buffer h0[3], hy = random_values(n, nbits), wanted[2], found[2];
    uint64_t wide[3][200];

    for (size_t i = 0; i < 3; i++) {
        h0[i] = random_values(n, mean_nbits);
        for (size_t j = 0; j < n; j++) {
            i32(&h0[i])[j] = (int32_t)clamp(i32(&h0[i])[j], -SMOOTH_MAX_MEAN, SMOOTH_MAX_MEAN);
            wide[i][j] = widen(i32(&h0[i])[j]);
        }
    }
    for (size_t i = 0; i < 2; i++) { /* hx and hc */
        found[i] = random_values(n, nbits);
        wanted[i] = buffer_copy(found[i].data, found[i].nbytes, 4);
    }
    int32_t *hx = i32(&wanted[0]), *hc = i32(&wanted[1]);
    for (size_t j = 0; j < n; j++) {
        hx[j] = (int32_t)smooth_slope(widen(hx[j]), wide[0][j], wide[1][j], wide[2][j], limit);
    }
    for (size_t j = 1; j + 1 < n; j++) {
        hc[j] = (int32_t)smooth_curvature(widen(hc[j]), widen(hx[j]), widen(i32(&hy)[j]),
                                          &wide[0][j], &wide[1][j], &wide[2][j], limit);
    }
    fast->smooth_slopes(n, i32(&h0[0]), i32(&h0[1]), i32(&h0[2]), limit, i32(&found[0]));
    fast->smooth_curvatures(n < 3 ? 0 : n - 2, i32(&h0[0]), i32(&h0[1]), i32(&h0[2]), hx, i32(&hy),
                            limit, i32(&found[1]));
    for (size_t i = 0; i < 2; i++) {
        CHECK(is_same(&wanted[i], &found[i]));
        buffer_free(&wanted[i]);
        buffer_free(&found[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        buffer_free(&h0[i]);
    }
    buffer_free(&hy);
}

static void compare_values(hcompress_kernels *portable, hcompress_kernels *fast, size_t n)
{
    const int64_t scales[] = {2, 3, 17, 1000, 65537, INT32_MAX - 1, INT32_MAX};
    struct buffer values = random_values(n, 1 + (unsigned)random_below(31));
    struct buffer wanted = buffer_copy(values.data, values.nbytes, 4);
    int64_t scale = scales[random_below(LENGTH(scales))];

    CHECK(portable->join_magnitudes(i32(&values), n) == fast->join_magnitudes(i32(&values), n));
    for (size_t i = 0; i < n; i++) { /* in 64 bits, as the standard has it */
        uint64_t value = (uint64_t)(int64_t)i32(&values)[i];
        digitize(&value, 1, scale);
        i32(&wanted)[i] = (int32_t)(int64_t)value;
    }
    fast->digitize(i32(&values), n, (int32_t)scale);
    CHECK(is_same(&wanted, &values));
    buffer_free(&wanted);
    buffer_free(&values);
}

/* --------------------------------------------------------------------------------- planes */

static void open_signs(struct bitreader *br, const struct buffer *stream)
{
    bits_open(br, stream->data, stream->nbytes);
    bits_refill(br); /* somewhere within a byte */
    bits_drop(br, br->nbits < 3 ? br->nbits : 3);
}

/* One row from planes, with a stream of signs that may be too short. */
static void compare_join(hcompress_kernels *portable, hcompress_kernels *fast,
                         const uint64_t *words, size_t stride, unsigned nplanes, unsigned place,
                         size_t n)
{
    struct buffer stream = buffer_new(random_below(n / 8 + 10), 1);
    struct buffer wanted = buffer_new(n * sizeof(int32_t), 4);
    struct buffer found = buffer_new(n * sizeof(int32_t), 4);
    struct bitreader br1, br2;
    size_t nwanted, nfound;

    random_bytes(stream.data, stream.nbytes);
    open_signs(&br1, &stream);
    open_signs(&br2, &stream);
    nwanted = portable->join_row(&br1, words, stride, nplanes, place, 3, i32(&wanted), n);
    nfound = fast->join_row(&br2, words, stride, nplanes, place, 3, i32(&found), n);
    CHECK(nwanted == nfound);
    CHECK(nwanted < n || is_same(&wanted, &found));
    CHECK(nwanted < n || bits_used_nbytes(&br1) == bits_used_nbytes(&br2));
    buffer_free(&found);
    buffer_free(&wanted);
    buffer_free(&stream);
}

/* Two rows to planes and back. */
static void compare_planes(hcompress_kernels *portable, hcompress_kernels *fast, size_t n)
{
    const unsigned nplanes = 1 + (unsigned)random_below(31);
    const size_t stride = ceil_div(n, PIXELS_PER_WORD);
    struct buffer top = random_values(n, nplanes), bottom = random_values(n, nplanes);
    struct buffer wanted = buffer_new(nplanes * stride * sizeof(uint64_t), 8);
    struct buffer found = buffer_new(nplanes * stride * sizeof(uint64_t), 8);
    const int32_t *lower = random_once_in(3) ? NULL : i32(&bottom);

    portable->split_rows(i32(&top), lower, n, nplanes, (uint64_t *)wanted.data, stride);
    fast->split_rows(i32(&top), lower, n, nplanes, (uint64_t *)found.data, stride);
    CHECK(is_same(&wanted, &found));
    compare_join(portable, fast, (uint64_t *)found.data, stride, nplanes, 2, n);
    compare_join(portable, fast, (uint64_t *)found.data, stride, nplanes, 0, n);
    buffer_free(&found);
    buffer_free(&wanted);
    buffer_free(&bottom);
    buffer_free(&top);
}

static void compare_signs(hcompress_kernels *portable, hcompress_kernels *fast, size_t n)
{
    struct buffer values = random_values(n, 31);
    struct buffer wanted = buffer_new(ceil_div(n, 8) + random_below(10), 1);
    struct buffer found = buffer_new(wanted.nbytes, 1);
    struct bitwriter bw1, bw2;

    bits_create(&bw1, wanted.data, wanted.nbytes);
    bits_create(&bw2, found.data, found.nbytes);
    portable->put_signs(&bw1, i32(&values), n);
    fast->put_signs(&bw2, i32(&values), n);
    bits_put_padding(&bw1);
    bits_put_padding(&bw2);
    CHECK(!bw1.overflow && !bw2.overflow);
    CHECK(bits_written_nbytes(&bw1) == bits_written_nbytes(&bw2));
    CHECK(memcmp(wanted.data, found.data, bits_written_nbytes(&bw1)) == 0);
    buffer_free(&found);
    buffer_free(&wanted);
    buffer_free(&values);
}

/* ---------------------------------------------------------------------------------- codes */

/* A level of random codes, and the one above it, with the words of the buffer. */
static void random_grids(size_t nrows, size_t ncols, struct buffer *words,
                         struct fitscodecs_hcompress_grid grids[2])
{
    size_t nwords[2], rare = 1 + random_below(30);
    for (size_t i = 0; i < 2; i++) {
        grids[i].lacks_lower = i == 0 ? random_once_in(2) : grids[0].nrows % 2 != 0;
        grids[i].lacks_right = i == 0 ? random_once_in(2) : grids[0].ncols % 2 != 0;
        grids[i].nrows = i == 0 ? nrows : ceil_div(nrows, 2);
        grids[i].ncols = i == 0 ? ncols : ceil_div(ncols, 2);
        grids[i].stride = words_per_row(grids[i].ncols) + (i == 0 ? random_below(3) : 0);
        nwords[i] = grids[i].nrows * grids[i].stride;
    }
    *words = buffer_new((nwords[0] + nwords[1]) * sizeof(uint64_t), 8);
    grids[0].words = (uint64_t *)words->data;
    grids[1].words = grids[0].words + nwords[0];
    for (size_t i = 0; i < nrows; i++) {
        uint64_t *row = grids[0].words + i * grids[0].stride;
        for (size_t w = 0; w < words_per_row(ncols); w++) {
            row[w] = random_once_in(rare) ? random_u64() & random_u64() : 0;
            row[w] &= row_mask(&grids[0], i);
            row[w] &= w + 1 == words_per_row(ncols) ? last_word_mask(&grids[0]) : ~(uint64_t)0;
        }
    }
}

/* Codes of a list to a stream, which is long enough or not, and back. */
static void compare_streams(hcompress_kernels *portable, hcompress_kernels *fast,
                            const uint64_t *codes, size_t ncodes)
{
    struct buffer out[2], list = buffer_new(list_nwords(ncodes) * sizeof(uint64_t), 8);
    size_t capacity = random_below(ncodes * HUFFMAN_MAX_NBITS / 8 + 10);
    struct bitwriter bw[2];
    struct bitreader br[2];
    bool complete[2];

    for (size_t i = 0; i < 2; i++) {
        out[i] = buffer_new(capacity, 1);
        memset(out[i].data, 0, capacity);
        bits_create(&bw[i], out[i].data, capacity);
        (i == 0 ? portable : fast)->put_codes(&bw[i], codes, ncodes);
        bits_put_padding(&bw[i]);
    }
    CHECK(bw[0].overflow == bw[1].overflow);
    CHECK(bits_written_nbytes(&bw[0]) == bits_written_nbytes(&bw[1]));
    CHECK(capacity == 0 || memcmp(out[0].data, out[1].data, bits_written_nbytes(&bw[0])) == 0);
    for (size_t i = 0; i < 2; i++) {
        bits_open(&br[i], out[i].data, capacity);
        complete[i] = (i == 0 ? portable : fast)->take_codes(&br[i], ncodes, (uint64_t *)list.data);
        for (size_t j = 0; complete[i] && !bw[0].overflow && j < ncodes; j++) {
            unsigned shift = 4 * (unsigned)(j % CODES_PER_WORD);
            uint64_t found = ((uint64_t *)list.data)[j / CODES_PER_WORD];
            CHECK((found >> shift & 15) == (codes[j / CODES_PER_WORD] >> shift & 15));
        }
    }
    CHECK(complete[0] == complete[1]);
    CHECK(complete[0] || bw[0].overflow);
    CHECK(!complete[0] || bits_used_nbytes(&br[0]) == bits_used_nbytes(&br[1]));
    buffer_free(&list);
    buffer_free(&out[1]);
    buffer_free(&out[0]);
}

/* A level above, a list and the level back from the two. */
static void compare_codes(hcompress_kernels *portable, hcompress_kernels *fast, size_t nrows,
                          size_t ncols)
{
    struct fitscodecs_hcompress_grid grids[2];
    struct buffer words, above, kept, list;
    size_t ncodes, nflags;

    random_grids(nrows, ncols, &words, grids);
    list = buffer_new(list_nwords(nrows * ncols + 2 * CODES_PER_WORD) * sizeof(uint64_t), 8);
    portable->gather_codes(&grids[0], &grids[1]);
    above = buffer_copy(words.data, words.nbytes, 8);
    fast->gather_codes(&grids[0], &grids[1]);
    CHECK(is_same(&words, &above));
    CHECK(portable->count_nbits(&grids[0]) == fast->count_nbits(&grids[0]));

    ncodes = fast->list_codes(&grids[0], (uint64_t *)list.data, 0);
    kept = buffer_copy(list.data, list.nbytes, 8);
    CHECK(portable->list_codes(&grids[0], (uint64_t *)list.data, 0) == ncodes);
    CHECK(memcmp(kept.data, list.data, ceil_div(ncodes, CODES_PER_WORD) * sizeof(uint64_t)) == 0);
    compare_streams(portable, fast, (uint64_t *)list.data, ncodes);

    nflags = portable->spread_codes(&grids[1], (uint64_t *)list.data, &grids[0]);
    CHECK(is_same(&words, &above));
    CHECK(fast->spread_codes(&grids[1], (uint64_t *)list.data, &grids[0]) == nflags);
    CHECK(is_same(&words, &above));
    buffer_free(&kept);
    buffer_free(&above);
    buffer_free(&list);
    buffer_free(&words);
}

/* ------------------------------------------------------------------------------ the codec */

struct hcompress_case {
    struct fitscodecs_tile tile;
    struct buffer scratch;           /* of the codec with kernels */
    struct buffer reference_scratch; /* of the other */
};

static void compare_results(enum fitscodecs_status wanted_status, enum fitscodecs_status status,
                            const struct fitscodecs_result *wanted,
                            const struct fitscodecs_result *found)
{
    CHECK(status == wanted_status);
    CHECK((wanted->detail == NULL) == (found->detail == NULL));
    if (wanted->detail == NULL) {
        CHECK(found->nbytes == wanted->nbytes);
    } else {
        CHECK(strcmp(found->detail, wanted->detail) == 0);
        CHECK(found->found == wanted->found && found->wanted == wanted->wanted);
    }
}

static void compare_decode(const struct hcompress_case *t, const uint8_t *stream, size_t nbytes)
{
    const size_t pixels_nbytes = t->tile.nx * t->tile.ny * sizeof(int32_t);
    struct buffer in = buffer_copy(stream, nbytes, 1);
    struct buffer wanted = buffer_new(pixels_nbytes, ALIGNMENT);
    struct buffer found = buffer_new(pixels_nbytes, ALIGNMENT);
    struct fitscodecs_result result1 = stale_result(), result2 = stale_result();
    enum fitscodecs_status status1, status2;

    status1 = reference_hcompress_1.decode(&t->tile, in.data, nbytes, wanted.data,
                                           t->reference_scratch.data, &result1);
    status2 = fitscodecs_find_codec("HCOMPRESS_1")
                  ->decode(&t->tile, in.data, nbytes, found.data, t->scratch.data, &result2);
    compare_results(status1, status2, &result1, &result2);
    CHECK(status1 != FITSCODECS_OK || is_same(&wanted, &found));
    buffer_free(&found);
    buffer_free(&wanted);
    buffer_free(&in);
}

/* The stream as it is, cut off, and with bytes that are wrong: some, all behind the header, or
 * those of the header that are numbers of any size. */
static void compare_damaged(const struct hcompress_case *t, struct buffer *stream)
{
    size_t nbytes = stream->nbytes;
    struct buffer damaged = buffer_copy(stream->data, nbytes, 1);

    compare_decode(t, stream->data, nbytes);
    compare_decode(t, stream->data, random_below(nbytes));
    for (size_t i = 0; i < 3; i++) {
        damaged.data[random_below(nbytes)] ^= (uint8_t)(1u << random_below(8));
        compare_decode(t, damaged.data, nbytes);
    }
    memcpy(damaged.data, stream->data, nbytes);
    damaged.data[22 + random_below(3)] = (uint8_t)random_below(64);
    compare_decode(t, damaged.data, nbytes);
    damaged.data[10 + random_below(12)] = (uint8_t)random_u64();
    compare_decode(t, damaged.data, nbytes);
    memcpy(damaged.data, stream->data, HEADER_NBYTES);
    random_bytes(damaged.data + HEADER_NBYTES, nbytes - HEADER_NBYTES);
    compare_decode(t, damaged.data, nbytes);
    buffer_free(&damaged);
}

static void compare_encode(const struct hcompress_case *t, struct buffer *pixels, size_t capacity,
                           struct buffer *stream)
{
    struct buffer found = buffer_new(capacity, 1), wanted = buffer_new(capacity, 1);
    struct fitscodecs_result result1 = stale_result(), result2 = stale_result();
    enum fitscodecs_status status1, status2;

    status1 = reference_hcompress_1.encode(&t->tile, pixels->data, wanted.data, capacity,
                                           t->reference_scratch.data, &result1);
    status2 = fitscodecs_find_codec("HCOMPRESS_1")
                  ->encode(&t->tile, pixels->data, found.data, capacity, t->scratch.data, &result2);
    compare_results(status1, status2, &result1, &result2);
    if (status1 == FITSCODECS_OK) {
        CHECK(memcmp(wanted.data, found.data, result1.nbytes) == 0);
        CHECK(stream != NULL); /* or else the capacity should have been too small */
        *stream = buffer_copy(found.data, result1.nbytes, 1);
    }
    buffer_free(&wanted);
    buffer_free(&found);
}

static void compare_tile(size_t nx, size_t ny, enum pattern pattern, size_t index)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec("HCOMPRESS_1");
    struct hcompress_case t = {.tile = {.nx = nx, .ny = ny}};
    struct buffer pixels = buffer_new(nx * ny * sizeof(int32_t), ALIGNMENT), stream;
    unsigned shift = random_once_in(2) ? 0 : (unsigned)random_below(32);

    set_parameters(codec, false, index, t.tile.parameters);
    set_tile_case(codec, &t.tile, "compared with the reference");
    t.scratch = buffer_new(codec->scratch_nbytes(&t.tile), ALIGNMENT);
    t.reference_scratch = buffer_new(codec->scratch_nbytes(&t.tile), ALIGNMENT);
    random_bytes(t.scratch.data, t.scratch.nbytes);
    fill_pixels(pixels.data, sizeof(int32_t), nx * ny, pattern);
    for (size_t i = 0; i < nx * ny; i++) { /* numbers of any size */
        i32(&pixels)[i] >>= shift;
    }
    compare_encode(&t, &pixels, codec->encode_bound(&t.tile), &stream);
    compare_damaged(&t, &stream);
    compare_encode(&t, &pixels, random_below(stream.nbytes), NULL);
    buffer_free(&stream);
    buffer_free(&pixels);
    buffer_free(&t.reference_scratch);
    buffer_free(&t.scratch);
}

/*
 * A stream whose coefficients are as large as its plane counts allow, with random signs, and a
 * total next to what 32 bits hold for them, or to the limits of both ways: what an encoder never
 * makes.
 */
static size_t make_extreme_stream(const struct hcompress_case *t, struct buffer *out)
{
    const unsigned nplanes = 14 + (unsigned)random_below(19);
    const int64_t near[] = {0, INT32_MAX >> nplanes % 8, INT32_MAX, (int64_t)1 << 62, INT64_MAX};
    const struct fitscodecs_tile *tile = &t->tile;
    struct header header = make_header(tile);
    struct quadrant quadrants[NQUADRANTS];
    struct bitwriter bw;

    header.scale = random_once_in(2) ? 0 : (int64_t)1 << random_below(31 - nplanes % 16);
    header.total = (uint64_t)near[random_below(LENGTH(near))] - random_below(1000);
    header.total = negate_if(header.total, random_below(2));
    for (size_t i = 0; i < 3; i++) {
        header.nplanes[i] = (uint8_t)(nplanes - (i == 0 ? 0 : random_below(3)));
    }
    store_header(&header, out->data);
    bits_create(&bw, out->data + HEADER_NBYTES, out->nbytes - HEADER_NBYTES);
    make_quadrants(tile, quadrants);
    set_planes(quadrants, header.nplanes);
    for (size_t i = 0; i < NQUADRANTS; i++) {
        size_t ncells = ceil_div(quadrants[i].nrows, 2) * ceil_div(quadrants[i].ncols, 2);
        for (unsigned plane = 0; plane < quadrants[i].nplanes; plane++) {
            bits_put(&bw, 0, 4);
            for (size_t cell = 0; cell < ncells; cell++) {
                bits_put(&bw, 15, 4);
            }
        }
    }
    bits_put(&bw, 0, 4);
    bits_put_padding(&bw);
    for (size_t i = 0; i < tile->nx * tile->ny; i++) {
        bits_put(&bw, random_below(2), 1);
    }
    bits_put_padding(&bw);
    CHECK(!bw.overflow);
    return HEADER_NBYTES + bits_written_nbytes(&bw);
}

static void compare_extremes(size_t nx, size_t ny, int64_t smooth)
{
    const struct fitscodecs_codec *codec = fitscodecs_find_codec("HCOMPRESS_1");
    struct hcompress_case t = {.tile = {.nx = nx, .ny = ny, .parameters = {0, smooth}}};
    struct buffer stream = buffer_new(codec->encode_bound(&t.tile), 1);

    set_tile_case(codec, &t.tile, "a stream of extremes");
    t.scratch = buffer_new(codec->scratch_nbytes(&t.tile), ALIGNMENT);
    t.reference_scratch = buffer_new(codec->scratch_nbytes(&t.tile), ALIGNMENT);
    compare_decode(&t, stream.data, make_extreme_stream(&t, &stream));
    buffer_free(&stream);
    buffer_free(&t.reference_scratch);
    buffer_free(&t.scratch);
}

/* Sides up to 70, which is a word, its neighbours and two of them in a quadrant; and strips. */
static uint64_t compare_tiles(void)
{
    const size_t strips[][2] = {{1000, 1}, {1, 300}, {2047, 2}, {33, 100}, {1030, 16}, {515, 7}};
    const size_t nsettings = count_settings(fitscodecs_find_codec("HCOMPRESS_1"), false);
    uint64_t ncases = 0;

    for (size_t i = 0; i < 500; i++, ncases++) {
        compare_tile(1 + random_below(70), 1 + random_below(70), (enum pattern)(i % NPATTERNS),
                     random_below(nsettings));
    }
    for (size_t i = 0; i < 300; i++, ncases++) {
        compare_extremes(NARROW_MIN_COLUMNS + random_below(70), 1 + random_below(40), i % 2);
    }
    for (size_t i = 0; i < LENGTH(strips); i++) {
        for (unsigned pattern = 0; pattern < NPATTERNS; pattern++, ncases++) {
            compare_tile(strips[i][0], strips[i][1], (enum pattern)pattern,
                         random_below(nsettings));
        }
    }
    return ncases;
}

static uint64_t check_hcompress_kernels(const struct fitscodecs_kernels *portable,
                                        const struct fitscodecs_kernels *fast)
{
    const struct fitscodecs_kernels kept = fitscodecs_kernels;
    uint64_t ncases = 0;

    check_hcompress_tables();
    for (size_t n = 0; n <= 140; n++, ncases++) {
        set_case("hcompress, %zu values", n);
        compare_forward(portable->hcompress, fast->hcompress, (unsigned)(n % 21), n);
        compare_inverse(portable->hcompress, fast->hcompress, (unsigned)(n % 21), n);
        compare_smooth(fast->hcompress, n);
        compare_values(portable->hcompress, fast->hcompress, n);
        compare_planes(portable->hcompress, fast->hcompress, n);
        compare_signs(portable->hcompress, fast->hcompress, n);
        set_case("hcompress, %zu columns of codes", n + 1);
        compare_codes(portable->hcompress, fast->hcompress, 1 + random_below(40), n + 1);
    }
    fitscodecs_kernels = *fast;
    ncases += compare_tiles();
    fitscodecs_kernels = kept;
    return ncases;
}
