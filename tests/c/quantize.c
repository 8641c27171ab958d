/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Noise, quantizing and dequantizing of tiles of all kinds, down to random bits: what the header
 * says about their results.
 */
#include "testing.h"

#include <float.h>
#include <math.h>

#define NCASES 5000
#define LOWEST_INTEGER (FITSCODECS_NULL_INTEGER + 10) /* the first one that is not reserved */

/* Around the 9 pixels that a noise needs, and the 512 and 1024 of the loops' chunks. */
static const size_t shapes[][2] = {{1, 1},  {2, 1},   {8, 1},   {9, 1},    {10, 1},  {1, 9},
                                   {4, 2},  {3, 7},   {8, 8},   {9, 2},    {17, 3},  {20, 12},
                                   {50, 6}, {511, 1}, {513, 1}, {1025, 1}, {140, 5}, {23, 40}};

enum kind {
    GAUSSIAN,   /* what an image is like */
    FEW_VALUES, /* rows with fewer second differences than others: their order matters */
    WITH_NAN,
    WITH_ZEROS,
    WITH_INFINITY,
    ENORMOUS, /* near the largest numbers, where differences overflow */
    SUBNORMAL,
    FAR,  /* small steps far from 0 */
    BITS, /* random bit patterns */
    FLAT,
    NKINDS
};

struct test {
    bool is_f64;
    size_t nx, ny, npixels;
    enum kind kind;
    struct buffer pixels, scratch, integers, floats;
    double scale, zero;
    struct fitscodecs_quantizer quantizer;
    int64_t row;
};

/* ------------------------------------------------------------------------------- pixels */

static double random_unit(void)
{
    return (double)(random_u64() >> 11) / 9007199254740992.0; /* 2^53 */
}

static double random_gaussian(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += random_unit();
    }
    return sum;
}

static double random_bits(bool is_f64)
{
    uint64_t u64 = random_u64();
    uint32_t u32 = (uint32_t)u64;
    double f64;
    float f32;

    memcpy(&f64, &u64, 8);
    memcpy(&f32, &u32, 4);
    return is_f64 ? f64 : (double)f32;
}

static double random_pixel(enum kind kind, bool is_f64)
{
    double largest = is_f64 ? DBL_MAX : (double)FLT_MAX;
    double smallest = is_f64 ? 4.9406564584124654e-324 : 1.4012984643248171e-45;
    double noise = 100 + 10 * random_gaussian();

    switch (kind) {
    case FEW_VALUES:
        return (double)random_below(2);
    case WITH_NAN:
        return random_once_in(5) ? (double)NAN : noise;
    case WITH_ZEROS:
        return random_once_in(5) ? (random_once_in(2) ? 0.0 : -0.0) : noise;
    case WITH_INFINITY:
        return random_once_in(100) ? (random_once_in(2) ? INFINITY : -INFINITY) : noise;
    case ENORMOUS:
        return largest * (1 - 2 * random_unit());
    case SUBNORMAL:
        return smallest * (double)random_below(100);
    case FAR:
        return ldexp(1, (int)random_below(60)) + noise;
    case BITS:
        return random_bits(is_f64);
    case FLAT:
        return 42;
    default:
        return noise;
    }
}

static double load(const struct buffer *pixels, bool is_f64, size_t i)
{
    float f32;
    double f64;

    if (is_f64) {
        memcpy(&f64, pixels->data + 8 * i, 8);
        return f64;
    }
    memcpy(&f32, pixels->data + 4 * i, 4);
    return f32;
}

static void fill(struct test *t)
{
    for (size_t i = 0; i < t->npixels; i++) {
        double f64 = random_pixel(t->kind, t->is_f64);
        if (t->is_f64) {
            memcpy(t->pixels.data + 8 * i, &f64, 8);
        } else {
            float f32 = fabs(f64) <= (double)FLT_MAX || f64 - f64 != 0 ? (float)f64 : 0;
            memcpy(t->pixels.data + 4 * i, &f32, 4);
        }
    }
}

static struct test test_new(size_t i)
{
    static const double levels[] = {4, 16, -1, -0.01, 1e-30, 1e30, -1e300, 1e38, -1e-40};
    size_t shape = i % LENGTH(shapes);
    struct test t = {
        .is_f64 = random_once_in(2),
        .nx = shapes[shape][0],
        .ny = shapes[shape][1],
        .npixels = shapes[shape][0] * shapes[shape][1],
        .kind = (enum kind)(i / LENGTH(shapes) % NKINDS),
        .quantizer = {.level = levels[random_once_in(2) ? 0 : random_below(LENGTH(levels))],
                      .dither = (enum fitscodecs_dither)random_below(3),
                      .seed = random_between(1, 10000)},
        .row = random_once_in(10) ? INT64_MAX : random_between(0, 30000),
    };
    size_t itemsize = t.is_f64 ? 8 : 4;

    set_case("%zu rows of %zu pixels of %zu bytes, kind %d, level %g, dither %d", t.ny, t.nx,
             itemsize, (int)t.kind, t.quantizer.level, (int)t.quantizer.dither);
    t.pixels = buffer_new(t.npixels * itemsize, itemsize);
    t.floats = buffer_new(t.npixels * itemsize, itemsize);
    t.integers = buffer_new(t.npixels * 4, 4);
    t.scratch = buffer_new(fitscodecs_noise_scratch_nbytes(t.nx, t.ny, t.is_f64), ALIGNMENT);
    random_bytes(t.scratch.data, t.scratch.nbytes);
    fill(&t);
    return t;
}

static void test_free(struct test *t)
{
    buffer_free(&t->scratch);
    buffer_free(&t->integers);
    buffer_free(&t->floats);
    buffer_free(&t->pixels);
}

static int32_t load_i32(const struct buffer *integers, size_t i)
{
    int32_t value;
    memcpy(&value, integers->data + 4 * i, 4);
    return value;
}

/* -------------------------------------------------------------------------------- noise */

/* A noise is a number, never a NaN, and does not depend on what the scratch held. */
static void check_noise(struct test *t)
{
    double largest = t->is_f64 ? DBL_MAX : (double)FLT_MAX;
    double minimum = largest, maximum = -largest;
    struct fitscodecs_noise noise, again;
    size_t ngood = 0;

    for (size_t i = 0; i < t->npixels; i++) {
        double value = load(&t->pixels, t->is_f64, i);
        ngood += value == value;
        minimum = value < minimum ? value : minimum;
        maximum = value > maximum ? value : maximum;
    }
    fitscodecs_noise(t->pixels.data, t->is_f64, t->nx, t->ny, t->scratch.data, &noise);
    CHECK(noise.ngood == ngood);
    CHECK(noise.minimum == minimum);
    CHECK(noise.maximum == maximum);
    CHECK(noise.noise2 >= 0 && noise.noise3 >= 0 && noise.noise5 >= 0);
    if (t->kind == FLAT || ngood < 9) {
        CHECK(noise.noise2 == 0 && noise.noise3 == 0 && noise.noise5 == 0);
    }
    if (t->kind == GAUSSIAN && t->nx >= 140) {
        CHECK(noise.noise3 > 5 && noise.noise3 < 20); /* of 10 */
    }
    random_bytes(t->scratch.data, t->scratch.nbytes);
    fitscodecs_noise(t->pixels.data, t->is_f64, t->nx, t->ny, t->scratch.data, &again);
    CHECK(noise.noise2 == again.noise2);
    CHECK(noise.noise3 == again.noise3);
    CHECK(noise.noise5 == again.noise5);
}

/*
 * The second row is flat in places: it has fewer second differences than third ones, and then the
 * median of the second ones is taken over what the row before left as well.
 */
static void check_order(void)
{
    static const float rows[2][16] = {
        {3, 9, 1, 7, 2, 8, 5, 11, 4, 13, 6, 12, 10, 15, 14, 16},
        {0, 1, 0, 0, 5, 5, 5, 5, 0, 2, 2, 2, 2, 9, 9, 9},
    };
    struct fitscodecs_noise noise, swapped;
    struct buffer pixels = buffer_copy(rows, sizeof rows, 4);
    struct buffer scratch = buffer_new(fitscodecs_noise_scratch_nbytes(16, 2, false), ALIGNMENT);

    set_case("rows whose order matters");
    fitscodecs_noise(pixels.data, false, 16, 2, scratch.data, &noise);
    memcpy(pixels.data, rows[1], sizeof rows[1]);
    memcpy(pixels.data + sizeof rows[1], rows[0], sizeof rows[0]);
    fitscodecs_noise(pixels.data, false, 16, 2, scratch.data, &swapped);
    CHECK(noise.noise2 != swapped.noise2);
    CHECK(noise.noise3 == swapped.noise3);
    CHECK(noise.noise5 == swapped.noise5);
    buffer_free(&scratch);
    buffer_free(&pixels);
}

/* ----------------------------------------------------------------------------- quantize */

/* Whether steps are coarse enough against the pixels that their rounding in double is harmless. */
static bool is_tame(const struct test *t, double value)
{
    return fabs(value / t->scale) < 1e12 && fabs(t->zero / t->scale) < 1e12 && t->scale > 1e-30 &&
           t->scale < 1e30 && fabs(value) > 1e-30 && fabs(value) < 1e30;
}

/* Quantized and back is less than a step away, and what stands for itself is exact. */
static void check_distance(const struct test *t, size_t i)
{
    double value = load(&t->pixels, t->is_f64, i), back = load(&t->floats, t->is_f64, i);

    if (value != value) {
        CHECK(back != back);
    } else if (value == 0 && t->quantizer.dither == FITSCODECS_SUBTRACTIVE_DITHER_2) {
        CHECK(back == 0 && !signbit(back));
    } else if (is_tame(t, value)) {
        double rounding = t->is_f64 ? 0 : (fabs(value) + t->scale) * (double)FLT_EPSILON;
        CHECK(fabs(back - value) <= 0.501 * t->scale + rounding);
    }
}

static void dequantize(struct test *t, bool has_blank)
{
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status =
        fitscodecs_dequantize(t->quantizer.dither, t->quantizer.seed, t->row, t->integers.data,
                              FITSCODECS_I32, t->npixels, t->scale, t->zero, has_blank,
                              FITSCODECS_NULL_INTEGER, t->floats.data, t->is_f64, &result);

    CHECK(status == FITSCODECS_OK);
    CHECK(result.detail == NULL);
}

static void check_quantize(struct test *t)
{
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status = fitscodecs_quantize(
        &t->quantizer, t->pixels.data, t->is_f64, t->nx, t->ny, t->row,
        (int32_t *)(void *)t->integers.data, &t->scale, &t->zero, t->scratch.data, &result);
    bool refuses = t->npixels == 1 || fabs(t->quantizer.level) > 1e38;

    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    if (fabs(t->quantizer.level) > (double)FLT_MAX) {
        CHECK(status == FITSCODECS_BAD_PARAMETER);
    }
    if (t->kind == FLAT && t->quantizer.level > 0) {
        CHECK(status == FITSCODECS_NOT_QUANTIZABLE || status == FITSCODECS_BAD_PARAMETER);
    }
    if (t->kind == GAUSSIAN && t->npixels >= 9 && t->quantizer.level == 4 && !refuses) {
        CHECK(status == FITSCODECS_OK);
    }
    if (status != FITSCODECS_OK) {
        CHECK(status == FITSCODECS_NOT_QUANTIZABLE || refuses);
        return;
    }
    CHECK(t->scale > 0 && t->scale <= DBL_MAX);
    CHECK(fabs(t->zero) <= DBL_MAX);
    dequantize(t, true);
    for (size_t i = 0; i < t->npixels; i++) {
        double value = load(&t->pixels, t->is_f64, i);
        if (value != value) {
            CHECK(load_i32(&t->integers, i) == FITSCODECS_NULL_INTEGER);
        }
        check_distance(t, i);
    }
}

/* With scale and zero given, integers that are reserved stand for NaN and zeros only. */
static void check_quantize_with(struct test *t)
{
    struct fitscodecs_result result = stale_result();
    bool marks_zero = t->quantizer.dither == FITSCODECS_SUBTRACTIVE_DITHER_2;
    enum fitscodecs_status status;

    t->scale = random_once_in(2) ? 0.25 : random_pixel(BITS, true);
    t->zero = random_once_in(2) ? 90 : random_pixel(BITS, true);
    status =
        fitscodecs_quantize_with(&t->quantizer, t->pixels.data, t->is_f64, t->npixels, t->row,
                                 (int32_t *)(void *)t->integers.data, t->scale, t->zero, &result);
    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    CHECK((status == FITSCODECS_OK) == (t->scale == t->scale && t->scale != 0));
    for (size_t i = 0; status == FITSCODECS_OK && i < t->npixels; i++) {
        double value = load(&t->pixels, t->is_f64, i);
        int32_t integer = load_i32(&t->integers, i);
        if (value != value) {
            CHECK(integer == FITSCODECS_NULL_INTEGER);
        } else if (marks_zero && value == 0) {
            CHECK(integer == FITSCODECS_ZERO_INTEGER);
        } else {
            CHECK(integer >= LOWEST_INTEGER);
        }
    }
    if (status == FITSCODECS_OK) {
        dequantize(t, random_once_in(2));
    }
}

/* --------------------------------------------------------------------------- dequantize */

/* Integers of any type and bits; those that are blank, and no others, become NaN when scale and
 * zero are tame. */
static void check_dequantize(void)
{
    static const enum fitscodecs_pixel types[] = {FITSCODECS_U8,  FITSCODECS_I16, FITSCODECS_I32,
                                                  FITSCODECS_I64, FITSCODECS_F32, FITSCODECS_F64};
    static const size_t itemsizes[] = {1, 2, 4, 8, 4, 8};
    size_t type = random_below(LENGTH(types)), npixels = random_below(3000);
    size_t itemsize = itemsizes[type];
    bool is_f64 = random_once_in(2), has_blank = random_once_in(2), is_tame = random_once_in(2);
    uint64_t blank = type == 0 ? random_below(256) : random_below(2) - 1; /* or 0 and -1 */
    struct buffer in = buffer_new(npixels * itemsize, itemsize);
    struct buffer out = buffer_new(npixels * (is_f64 ? 8 : 4), is_f64 ? 8 : 4);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status;

    set_case("dequantize %zu integers of type %zu", npixels, type);
    fill_pixels(in.data, itemsize, npixels, (enum pattern)random_below(NPATTERNS));
    status = fitscodecs_dequantize((enum fitscodecs_dither)random_below(3),
                                   random_between(1, 10000), random_between(0, 20000), in.data,
                                   types[type], npixels, is_tame ? 0.5 : random_pixel(BITS, true),
                                   is_tame ? 7 : random_pixel(BITS, true), has_blank,
                                   (int64_t)blank, out.data, is_f64, &result);
    CHECK((status == FITSCODECS_OK) == (type < 4));
    CHECK((status == FITSCODECS_OK) == (result.detail == NULL));
    for (size_t i = 0; status == FITSCODECS_OK && is_tame && i < npixels; i++) {
        double value = load(&out, is_f64, i);
        uint64_t mask = UINT64_MAX >> (64 - 8 * itemsize);
        bool is_blank = has_blank && load_pixel(in.data, itemsize, i) == (blank & mask);
        CHECK((value != value) == is_blank);
    }
    buffer_free(&out);
    buffer_free(&in);
}

/* Levels, scales, seeds, rows and methods that are no such thing. */
static void check_refusals(void)
{
    const double bad_levels[] = {0, -0.0, (double)NAN, 1e300, -1e300};
    const double bad_scales[] = {0, -0.0, (double)NAN};
    const struct {
        int dither;
        int64_t seed, row;
    } bad[] = {{1, 0, 0}, {2, 10001, 0}, {1, INT64_MIN, 0}, {2, 1, -1}, {3, 1, 0}};
    struct fitscodecs_quantizer quantizer = {.level = 4, .seed = 1};
    struct fitscodecs_result result;
    float pixels[16] = {1, 5, 2, 8, 3, 9, 4, 7, 0, 6};
    int32_t out[16];
    int64_t scratch[64];
    double scale, zero;

    set_case("refusals");
    for (size_t i = 0; i < LENGTH(bad_levels); i++) {
        quantizer.level = bad_levels[i];
        CHECK(fitscodecs_quantize(&quantizer, pixels, false, 16, 1, 0, out, &scale, &zero, scratch,
                                  &result) == FITSCODECS_BAD_PARAMETER);
    }
    quantizer.level = 4;
    for (size_t i = 0; i < LENGTH(bad_scales); i++) {
        CHECK(fitscodecs_quantize_with(&quantizer, pixels, false, 16, 0, out, bad_scales[i], 0,
                                       &result) == FITSCODECS_BAD_PARAMETER);
    }
    for (size_t i = 0; i < LENGTH(bad); i++) {
        quantizer.dither = (enum fitscodecs_dither)bad[i].dither;
        quantizer.seed = bad[i].seed;
        CHECK(fitscodecs_quantize(&quantizer, pixels, false, 16, 1, bad[i].row, out, &scale, &zero,
                                  scratch, &result) == FITSCODECS_BAD_PARAMETER);
        CHECK(fitscodecs_quantize_with(&quantizer, pixels, false, 16, bad[i].row, out, 1, 0,
                                       &result) == FITSCODECS_BAD_PARAMETER);
        CHECK(fitscodecs_dequantize(quantizer.dither, quantizer.seed, bad[i].row, out,
                                    FITSCODECS_I32, 16, 1, 0, false, 0, pixels, false,
                                    &result) == FITSCODECS_BAD_PARAMETER);
    }
}

int main(int argc, char **argv)
{
    test_init(argc, argv);
    CHECK(fitscodecs_dither_last_seed == 1043618065);
    for (size_t i = 0; i < FITSCODECS_DITHER_LENGTH; i++) {
        CHECK(fitscodecs_dither_table[i] > 0 && fitscodecs_dither_table[i] < 1);
    }
    check_refusals();
    check_order();
    for (size_t i = 0; i < NCASES; i++) {
        struct test t = test_new(i);
        check_noise(&t);
        check_quantize(&t);
        check_quantize_with(&t);
        test_free(&t);
        check_dequantize();
    }
    return test_done("quantize", NCASES);
}
