/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of noise.c, quantize.c and dequantize.c; part of checkkernels.c.
 *
 * The medians of rows are also compared with plain_medians(), which is how the field's software is
 * told to work: one value after the other.
 */
#include <float.h>
#include <math.h>

#include "dequantize.h"
#include "noise.h"
#include "quantize.h"

#define NFLOAT_CASES 600

enum float_kind {
    FLOAT_NOISE,
    FLOAT_COUNTS,   /* integers, so that places are flat and values are equal */
    FLOAT_FEW,      /* mostly flat */
    FLOAT_STEPS,    /* runs of the same value */
    FLOAT_OUTLIERS, /* for which samples and guesses are wrong */
    FLOAT_RAMP,     /* sorted */
    FLOAT_ENORMOUS, /* differences overflow */
    FLOAT_SUBNORMAL,
    FLOAT_BITS, /* random bits, of a number that is not an infinity */
    FLOAT_FLAT,
    NFLOAT_KINDS
};

static double float_unit(void)
{
    return (double)(random_u64() >> 11) / 9007199254740992.0; /* 2^53 */
}

static double float_bits(bool is_f64)
{
    uint64_t u64 = random_u64();
    uint32_t u32 = (uint32_t)u64;
    double f64;
    float f32;

    memcpy(&f64, &u64, 8);
    memcpy(&f32, &u32, 4);
    f64 = is_f64 ? f64 : (double)f32;
    return isinf(f64) ? 1 : f64;
}

static double next_float(enum float_kind kind, bool is_f64, size_t i, double last)
{
    double noise = float_unit() + float_unit() + float_unit() + float_unit() - 2;

    switch (kind) {
    case FLOAT_NOISE:
        return 100 + 7 * noise;
    case FLOAT_COUNTS:
        return rint(100 + 4 * noise);
    case FLOAT_FEW:
        return (double)random_once_in(6);
    case FLOAT_STEPS:
        return random_once_in(4) ? rint(10 * noise) : last;
    case FLOAT_OUTLIERS:
        return random_once_in(3) ? ldexp(noise, (int)random_below(60)) : noise;
    case FLOAT_RAMP:
        return (double)i * (double)i;
    case FLOAT_ENORMOUS:
        return random_once_in(4) ? last : (is_f64 ? DBL_MAX : (double)FLT_MAX) * (noise / 2);
    case FLOAT_SUBNORMAL:
        return (is_f64 ? 4.9406564584124654e-324 : 1.4012984643248171e-45) *
               (double)random_below(9);
    case FLOAT_BITS:
        return float_bits(is_f64);
    default:
        return 42;
    }
}

static double load_float(const uint8_t *pixels, bool is_f64, size_t i)
{
    float f32;
    double f64;

    if (is_f64) {
        memcpy(&f64, pixels + 8 * i, 8);
        return f64;
    }
    memcpy(&f32, pixels + 4 * i, 4);
    return (double)f32;
}

/* Pixels of a kind, some of them NaN or of either zero. */
static struct buffer random_floats(size_t n, bool is_f64, enum float_kind kind, bool has_nan)
{
    size_t itemsize = is_f64 ? 8 : 4;
    struct buffer buffer = buffer_new(n * itemsize, itemsize);
    double value = 0;

    for (size_t i = 0; i < n; i++) {
        value = next_float(kind, is_f64, i, value);
        if (has_nan ? random_once_in(9) : value != value) {
            value = has_nan ? (double)NAN : 1;
        }
        if (random_once_in(50)) {
            value = random_once_in(2) ? 0.0 : -0.0;
        }
        if (is_f64) {
            memcpy(buffer.data + 8 * i, &value, 8);
        } else {
            float f32 = (float)value;
            memcpy(buffer.data + 4 * i, &f32, 4);
        }
    }
    return buffer;
}

/* ----------------------------------------------------------------------- plain medians */

static void plain_order(double *a, size_t i, size_t j)
{
    if (a[i] > a[j]) {
        double t = a[i];
        a[i] = a[j];
        a[j] = t;
    }
}

static void plain_swap(double *a, size_t i, size_t j)
{
    double t = a[i];
    a[i] = a[j];
    a[j] = t;
}

/* The lower median, and the order that it leaves. */
static double plain_select(double *a, size_t n)
{
    size_t lo = 0, hi = n - 1, k = (n - 1) / 2;

    while (hi > lo + 1) {
        size_t mid = (lo + hi) / 2, up = lo + 1, down = hi;
        plain_order(a, mid, hi);
        plain_order(a, lo, hi);
        plain_order(a, mid, lo);
        plain_swap(a, mid, lo + 1);
        for (;;) {
            do {
                up++;
            } while (a[up] < a[lo]);
            do {
                down--;
            } while (a[down] > a[lo]);
            if (down < up) {
                break;
            }
            plain_swap(a, up, down);
        }
        plain_swap(a, lo, down);
        lo = down <= k ? up : lo;
        hi = down >= k ? down - 1 : hi;
    }
    if (hi == lo + 1) {
        plain_order(a, lo, hi);
    }
    return a[k];
}

/* A result of the arithmetic of the pixel type, which double arithmetic is precise enough for. */
static double rounded(double value, bool is_f64)
{
    return is_f64 ? value : (double)(float)value;
}

static double plain_fifth(const double *x, bool is_f64)
{
    double sum = rounded(6 * x[4], is_f64);

    sum = rounded(sum - rounded(4 * x[2], is_f64), is_f64);
    sum = rounded(sum - rounded(4 * x[6], is_f64), is_f64);
    sum = rounded(rounded(sum + x[0], is_f64) + x[8], is_f64);
    return sum == sum ? fabs(sum) : INFINITY;
}

static double plain_third(const double *x, bool is_f64)
{
    double sum = rounded(2 * x[4], is_f64);
    return fabs(rounded(rounded(sum - x[2], is_f64) - x[6], is_f64));
}

struct plain_rows {
    double *good, *d2, *d3, *d5; /* d2 lives for the whole tile */
};

static void plain_row(const uint8_t *pixels, bool is_f64, size_t nx, const struct plain_rows *rows,
                      struct fitscodecs_noise_medians *medians)
{
    size_t n = 0, n2 = 0, n3 = 0;

    for (size_t i = 0; i < nx; i++) {
        double value = load_float(pixels, is_f64, i);
        if (value == value) {
            rows->good[n++] = value;
        }
    }
    for (size_t i = 0; i + NOISE_MIN_GOOD <= n; i++) {
        const double *x = rows->good + i;
        bool is_flat = x[4] == x[5] && x[5] == x[6];
        if (!is_flat) {
            rows->d2[n2++] = fabs(rounded(x[4] - x[6], is_f64));
        }
        if (!(is_flat && x[2] == x[3] && x[3] == x[4])) {
            rows->d3[n3] = plain_third(x, is_f64);
            rows->d5[n3++] = plain_fifth(x, is_f64);
        }
    }
    if (n3 == 0) {
        return;
    }
    if (n2 > 1 || n2 == n3) {
        medians->second[medians->nsecond++] = plain_select(rows->d2, n3);
    }
    medians->third[medians->nthird] = plain_select(rows->d3, n3);
    medians->fifth[medians->nthird++] = plain_select(rows->d5, n3);
}

static void plain_medians(const uint8_t *pixels, bool is_f64, size_t nx, size_t ny,
                          struct fitscodecs_noise_medians *medians)
{
    double *rows = calloc(4 * nx, sizeof(double));
    struct plain_rows shared = {rows, rows + nx, rows + 2 * nx, rows + 3 * nx};

    CHECK(rows != NULL);
    for (size_t y = 0; y < ny; y++) {
        plain_row(pixels + y * nx * (is_f64 ? 8 : 4), is_f64, nx, &shared, medians);
    }
    free(rows);
}

/* -------------------------------------------------------------------------------- noise */

struct median_lists {
    struct buffer second, third, fifth;
    struct fitscodecs_noise_medians medians;
};

static struct median_lists lists_new(size_t ny)
{
    struct median_lists lists = {buffer_new(8 * ny, 8), buffer_new(8 * ny, 8),
                                 buffer_new(8 * ny, 8), .medians = {0}};
    lists.medians.second = (double *)(void *)lists.second.data;
    lists.medians.third = (double *)(void *)lists.third.data;
    lists.medians.fifth = (double *)(void *)lists.fifth.data;
    return lists;
}

static void lists_free(struct median_lists *lists)
{
    buffer_free(&lists->fifth);
    buffer_free(&lists->third);
    buffer_free(&lists->second);
}

static void compare_medians(const struct fitscodecs_noise_kernels *kernels,
                            const struct buffer *pixels, bool is_f64, size_t nx, size_t ny,
                            bool has_nan)
{
    size_t itemsize = is_f64 ? 8 : 4;
    struct median_lists wanted = lists_new(ny), found = lists_new(ny);
    struct buffer work = buffer_new(NOISE_WORK_ROWS * nx * itemsize, itemsize);
    struct buffer kept = buffer_copy(pixels->data, pixels->nbytes, itemsize);

    random_bytes(work.data, work.nbytes);
    plain_medians(pixels->data, is_f64, nx, ny, &wanted.medians);
    kernels->find_medians[is_f64](pixels->data, nx, ny, has_nan, work.data, &found.medians);
    CHECK(memcmp(pixels->data, kept.data, kept.nbytes) == 0);
    CHECK(wanted.medians.nsecond == found.medians.nsecond);
    CHECK(wanted.medians.nthird == found.medians.nthird);
    CHECK(memcmp(wanted.second.data, found.second.data, 8 * found.medians.nsecond) == 0);
    CHECK(memcmp(wanted.third.data, found.third.data, 8 * found.medians.nthird) == 0);
    CHECK(memcmp(wanted.fifth.data, found.fifth.data, 8 * found.medians.nthird) == 0);
    buffer_free(&kept);
    buffer_free(&work);
    lists_free(&found);
    lists_free(&wanted);
}

static void compare_surveys(const struct fitscodecs_noise_kernels *kernels,
                            const struct buffer *pixels, bool is_f64, size_t n)
{
    double largest = is_f64 ? DBL_MAX : (double)FLT_MAX;
    double minimum = largest, maximum = -largest;
    struct fitscodecs_noise noise;
    size_t ngood = 0;

    for (size_t i = 0; i < n; i++) {
        double value = load_float(pixels->data, is_f64, i);
        ngood += value == value;
        minimum = value < minimum ? value : minimum;
        maximum = value > maximum ? value : maximum;
    }
    kernels->survey[is_f64](pixels->data, n, &noise);
    CHECK(noise.ngood == ngood);
    CHECK(noise.minimum == minimum && noise.maximum == maximum);
    CHECK((noise.minimum != 0 || !signbit(noise.minimum)));
    CHECK((noise.maximum != 0 || !signbit(noise.maximum)));
}

static int compare_doubles(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, 8);
    memcpy(&y, b, 8);
    return (x > y) - (x < y);
}

static void check_select(const struct fitscodecs_noise_kernels *kernels, enum float_kind kind)
{
    size_t n = random_once_in(2) ? 1 + random_below(100) : 1 + random_below(3000);
    size_t k = random_once_in(3) ? random_below(n) : (n - 1) / 2;
    struct buffer values = random_floats(n, true, kind, false), spare = buffer_new(8 * n, 8);
    double *v = (double *)(void *)values.data, *sorted = malloc(8 * n), found;

    CHECK(sorted != NULL);
    for (size_t i = 0; i < n; i++) {
        v[i] = random_once_in(30) && kind == FLOAT_BITS ? INFINITY : fabs(v[i]);
    }
    memcpy(sorted, v, 8 * n);
    qsort(sorted, n, 8, compare_doubles);
    found = kernels->select(v, n, k, (double *)(void *)spare.data);
    CHECK(found == sorted[k]);
    free(sorted);
    buffer_free(&spare);
    buffer_free(&values);
}

/* Shapes with rows around the nine pixels of a window, the vectors and blocks of the loops, the
 * values that are sampled, and tiles as they are in files. */
static void random_shape(size_t *nx, size_t *ny)
{
    static const size_t widths[] = {9,   10,  15,  16,  17,  24,  25,  33,   40,   41,
                                    71,  72,  73,  74,  80,  104, 128, 136,  137,  200,
                                    256, 300, 511, 512, 520, 600, 800, 1000, 3000, 5000};

    *nx = random_once_in(3) ? 9 + random_below(300) : widths[random_below(LENGTH(widths))];
    *ny = random_once_in(3) ? 1 : 1 + random_below(*nx > 300 ? 5 : 30);
}

static void check_noise_kernels(const struct fitscodecs_noise_kernels *kernels, size_t i)
{
    bool is_f64 = random_once_in(2), has_nan = random_once_in(3);
    enum float_kind kind = (enum float_kind)(i % NFLOAT_KINDS);
    size_t nx, ny;
    struct buffer pixels;

    random_shape(&nx, &ny);
    set_case("noise kernels, %zu rows of %zu pixels, f64 %d, kind %d, NaN %d", ny, nx, is_f64,
             (int)kind, has_nan);
    pixels = random_floats(nx * ny, is_f64, kind, has_nan);
    compare_surveys(kernels, &pixels, is_f64, nx * ny);
    compare_medians(kernels, &pixels, is_f64, nx, ny, has_nan);
    buffer_free(&pixels);
    check_select(kernels, kind);
}

/* ----------------------------------------------------------------------------- quantize */

typedef void quantize_kernel(const void *in, const float *table, size_t n, double scale,
                             double zero, int32_t *out);
typedef void mark_kernel(const void *in, size_t n, int32_t *out);

static void compare_quantize(quantize_kernel *portable, quantize_kernel *fast,
                             const struct buffer *pixels, size_t n, bool is_dithered, double scale,
                             double zero)
{
    const float *table = fitscodecs_dither_table + random_below(FITSCODECS_DITHER_LENGTH - n);
    struct buffer wanted = buffer_new(4 * n, 4), found = buffer_new(4 * n, 4);

    portable(pixels->data, is_dithered ? table : NULL, n, scale, zero,
             (int32_t *)(void *)wanted.data);
    fast(pixels->data, is_dithered ? table : NULL, n, scale, zero, (int32_t *)(void *)found.data);
    CHECK(memcmp(wanted.data, found.data, 4 * n) == 0);
    buffer_free(&found);
    buffer_free(&wanted);
}

static void compare_marks(mark_kernel *portable, mark_kernel *fast, const struct buffer *pixels,
                          size_t n)
{
    struct buffer wanted = buffer_new(4 * n, 4), found;

    random_bytes(wanted.data, 4 * n);
    found = buffer_copy(wanted.data, 4 * n, 4);
    portable(pixels->data, n, (int32_t *)(void *)wanted.data);
    fast(pixels->data, n, (int32_t *)(void *)found.data);
    CHECK(memcmp(wanted.data, found.data, 4 * n) == 0);
    buffer_free(&found);
    buffer_free(&wanted);
}

/* A scale of any bits in its significand, or of one bit or all of them but the last ones. */
static double random_scale(void)
{
    uint64_t bits = random_u64() >> 12, last = random_below(4);
    int exponent = (int)random_between(-30, 30);

    bits = random_once_in(4) ? last : random_once_in(3) ? (UINT64_MAX >> 12) - last : bits;
    return ldexp(1 + ldexp((double)bits, -52), exponent);
}

/* Pixels that are a whole number and a half of steps, and their neighbours: each integer depends on
 * the last bit of a quotient. */
static void check_halves(const struct fitscodecs_quantize_kernels *portable,
                         const struct fitscodecs_quantize_kernels *fast)
{
    double scale = random_scale(), zero = random_once_in(2) ? 0 : 8 * scale;
    size_t n = 1 + random_below(80);
    struct buffer pixels = buffer_new(8 * n, 8);

    set_case("quantize kernels, %zu halves, scale %a, zero %a", n, scale, zero);
    for (size_t i = 0; i < n; i++) {
        double steps = (double)random_between(-(1 << 20), 1 << 20) + 0.5;
        double value = steps * scale + zero;
        if (random_once_in(3)) {
            value = nextafter(value, random_once_in(2) ? -DBL_MAX : DBL_MAX);
        }
        memcpy(pixels.data + 8 * i, &value, 8);
    }
    for (int is_dithered = 0; is_dithered < 2; is_dithered++) {
        compare_quantize(portable->quantize[1], fast->quantize[1], &pixels, n, is_dithered, scale,
                         zero);
    }
    buffer_free(&pixels);
}

/* Scales with which integers fit, do not fit, and are halfway between two. */
static void check_quantize_kernels(const struct fitscodecs_quantize_kernels *portable,
                                   const struct fitscodecs_quantize_kernels *fast, size_t i)
{
    /* The last ones are around 2^-500 and 2^500, up to where kernels may multiply instead. */
    static const double scales[] = {1,  0.5,   2,        1.3,      1e-9,     1e-300,
                                    -3, 1e300, 0x1p-500, 0x1p-501, -0x1p500, 0x1.8p500};
    bool is_f64 = random_once_in(2), is_dithered = random_once_in(2);
    enum float_kind kind = (enum float_kind)(i % NFLOAT_KINDS);
    double scale = random_once_in(9) ? float_bits(true) : scales[random_below(LENGTH(scales))];
    double zero = random_once_in(9) ? float_bits(true) : (double)random_below(200) / 2;
    size_t n = 1 + random_below(80);
    struct buffer pixels = random_floats(n, is_f64, kind, random_once_in(2));

    set_case("quantize kernels, %zu pixels, f64 %d, kind %d, scale %g, zero %g", n, is_f64,
             (int)kind, scale, zero);
    compare_quantize(portable->quantize[is_f64], fast->quantize[is_f64], &pixels, n, is_dithered,
                     scale, zero);
    compare_quantize(portable->quantize_saturating[is_f64], fast->quantize_saturating[is_f64],
                     &pixels, n, is_dithered, scale, zero);
    compare_marks(portable->mark_nan[is_f64], fast->mark_nan[is_f64], &pixels, n);
    compare_marks(portable->mark_zero[is_f64], fast->mark_zero[is_f64], &pixels, n);
    buffer_free(&pixels);
}

/* --------------------------------------------------------------------------- dequantize */

/* The same numbers, where any NaN is as good as another. */
static void compare_floats(const struct buffer *wanted, const struct buffer *found, bool is_f64,
                           size_t n)
{
    size_t itemsize = is_f64 ? 8 : 4;

    for (size_t i = 0; i < n; i++) {
        double w = load_float(wanted->data, is_f64, i), f = load_float(found->data, is_f64, i);
        CHECK((w != w && f != f) ||
              memcmp(wanted->data + itemsize * i, found->data + itemsize * i, itemsize) == 0);
    }
}

static void check_loops(const struct fitscodecs_dequantize_loops *portable,
                        const struct fitscodecs_dequantize_loops *fast, bool is_f64,
                        size_t itemsize)
{
    size_t n = random_below(80), itemsize_out = is_f64 ? 8 : 4;
    const float *table = fitscodecs_dither_table + random_below(FITSCODECS_DITHER_LENGTH - n);
    double scale = random_once_in(4) ? float_bits(true) : 0.3, zero = random_once_in(4) ? 1e9 : 7;
    struct buffer in = buffer_new(n * itemsize, itemsize);
    struct buffer wanted = buffer_new(n * itemsize_out, itemsize_out);
    struct buffer found = buffer_new(n * itemsize_out, itemsize_out);
    int64_t special = (int64_t)random_below(3);

    fill_pixels(in.data, itemsize, n, (enum pattern)random_below(NPATTERNS));
    CHECK(fast->integer_nbytes == itemsize && fast->pixel_nbytes == itemsize_out);
    portable->plain(in.data, n, scale, zero, wanted.data);
    fast->plain(in.data, n, scale, zero, found.data);
    compare_floats(&wanted, &found, is_f64, n);
    portable->dithered(in.data, table, n, scale, zero, wanted.data);
    fast->dithered(in.data, table, n, scale, zero, found.data);
    compare_floats(&wanted, &found, is_f64, n);
    CHECK(portable->contains(in.data, n, special) == fast->contains(in.data, n, special));
    portable->replace(in.data, n, special, (double)NAN, wanted.data);
    fast->replace(in.data, n, special, (double)NAN, found.data);
    compare_floats(&wanted, &found, is_f64, n);
    buffer_free(&found);
    buffer_free(&wanted);
    buffer_free(&in);
}

static void check_dequantize_kernels(const struct fitscodecs_dequantize_kernels *portable,
                                     const struct fitscodecs_dequantize_kernels *fast)
{
    for (size_t is_f64 = 0; is_f64 < 2; is_f64++) {
        set_case("dequantize kernels, f64 %zu", is_f64);
        check_loops(&portable->u8[is_f64], &fast->u8[is_f64], is_f64, 1);
        check_loops(&portable->i16[is_f64], &fast->i16[is_f64], is_f64, 2);
        check_loops(&portable->i32[is_f64], &fast->i32[is_f64], is_f64, 4);
        check_loops(&portable->i64[is_f64], &fast->i64[is_f64], is_f64, 8);
    }
}

/* ------------------------------------------------------------------------- a long tile */

#define LONG_TILE 25000 /* pixels, so that the dither table comes to its end twice */

/* The dither value of each pixel, one after the other. */
static void plain_dither(int64_t row, int64_t seed, float *values)
{
    size_t start = (size_t)((row + seed - 1) % FITSCODECS_DITHER_LENGTH);
    size_t position = (size_t)(fitscodecs_dither_table[start] * 500);

    for (size_t i = 0; i < LONG_TILE; i++) {
        values[i] = fitscodecs_dither_table[position++];
        if (position == FITSCODECS_DITHER_LENGTH) {
            start = (start + 1) % FITSCODECS_DITHER_LENGTH;
            position = (size_t)(fitscodecs_dither_table[start] * 500);
        }
    }
}

static int32_t plain_quantize(double value, int dither, float r, double scale, double zero)
{
    double steps = (value - zero) / scale;

    if (value != value) {
        return FITSCODECS_NULL_INTEGER;
    }
    if (dither == FITSCODECS_SUBTRACTIVE_DITHER_2 && value == 0) {
        return FITSCODECS_ZERO_INTEGER;
    }
    if (dither != FITSCODECS_NO_DITHER) {
        steps = steps + (double)r - 0.5;
    }
    return (int32_t)(steps >= 0 ? steps + 0.5 : steps - 0.5);
}

static double plain_dequantize(int32_t integer, int dither, float r, double scale, double zero)
{
    if (integer == FITSCODECS_NULL_INTEGER) {
        return (double)NAN;
    }
    if (dither == FITSCODECS_SUBTRACTIVE_DITHER_2 && integer == FITSCODECS_ZERO_INTEGER) {
        return 0;
    }
    if (dither != FITSCODECS_NO_DITHER) {
        return ((double)integer - (double)r + 0.5) * scale + zero;
    }
    return (double)integer * scale + zero;
}

/* Dequantize pieces of any length, and some of them out of order. */
static void dequantize_pieces(struct fitscodecs_dequantizer *dequantizer, const int32_t *integers,
                              struct buffer *out, size_t itemsize)
{
    size_t n, half = LONG_TILE / 2;

    fitscodecs_dequantizer_seek(dequantizer, half);
    for (size_t i = half; i < LONG_TILE; i += n) {
        n = 1 + random_below(LONG_TILE - i < 3000 ? LONG_TILE - i : 3000);
        fitscodecs_dequantizer_run(dequantizer, integers + i, n, out->data + i * itemsize);
    }
    fitscodecs_dequantizer_seek(dequantizer, 0);
    fitscodecs_dequantizer_run(dequantizer, integers, half, out->data);
}

static void check_long_tile(int dither, bool is_f64)
{
    static float values[LONG_TILE];
    static int32_t integers[LONG_TILE];
    const double scale = 0.7, zero = 90;
    int64_t row = random_between(0, 30000), seed = random_between(1, 10000);
    struct fitscodecs_quantizer quantizer = {1, (enum fitscodecs_dither)dither, seed};
    struct buffer pixels = random_floats(LONG_TILE, is_f64, FLOAT_NOISE, true);
    struct buffer back = buffer_new(pixels.nbytes, is_f64 ? 8 : 4);
    struct fitscodecs_dequantizer dequantizer;
    struct fitscodecs_result result;

    set_case("a long tile, dither %d, f64 %d", dither, is_f64);
    plain_dither(row, seed, values);
    CHECK(fitscodecs_quantize_with(&quantizer, pixels.data, is_f64, LONG_TILE, row, integers, scale,
                                   zero, &result) == FITSCODECS_OK);
    CHECK(fitscodecs_dequantizer_start(&dequantizer, quantizer.dither, seed, row, FITSCODECS_I32,
                                       scale, zero, true, FITSCODECS_NULL_INTEGER, is_f64,
                                       &result) == FITSCODECS_OK);
    dequantize_pieces(&dequantizer, integers, &back, is_f64 ? 8 : 4);
    for (size_t i = 0; i < LONG_TILE; i++) {
        double value = load_float(pixels.data, is_f64, i), found = load_float(back.data, is_f64, i);
        double wanted = plain_dequantize(integers[i], dither, values[i], scale, zero);
        CHECK(integers[i] == plain_quantize(value, dither, values[i], scale, zero));
        CHECK(found == rounded(wanted, is_f64) || (found != found && wanted != wanted));
    }
    buffer_free(&back);
    buffer_free(&pixels);
}

static void check_long_tiles(const struct fitscodecs_kernels *kernels)
{
    struct fitscodecs_kernels others = fitscodecs_kernels;

    fitscodecs_kernels = *kernels;
    for (int dither = 0; dither < 3; dither++) {
        check_long_tile(dither, false);
        check_long_tile(dither, true);
    }
    fitscodecs_kernels = others;
}

static uint64_t check_float_kernels(const struct fitscodecs_kernels *portable,
                                    const struct fitscodecs_kernels *fast)
{
    for (size_t i = 0; i < NFLOAT_CASES; i++) {
        check_noise_kernels(fast->noise, i);
        check_quantize_kernels(portable->quantize, fast->quantize, i);
        check_halves(portable->quantize, fast->quantize);
        check_dequantize_kernels(portable->dequantize, fast->dequantize);
    }
    check_long_tiles(fast);
    return 4 * NFLOAT_CASES + 6;
}
