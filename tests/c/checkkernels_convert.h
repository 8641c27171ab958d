/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that convert pixels, and the conversion of integers; part of checkkernels.c. */
#include "convert.h"

/* Around the widths of vectors, and the 2048 pixels of a piece. */
static const size_t convert_lengths[] = {1,  2,  3,  7,  8,   9,   15,  16,   17,   31,   32,
                                         33, 63, 64, 65, 127, 128, 300, 2047, 2048, 2049, 5000};
static const int64_t convert_offsets[] = {0,         1,         -1,        32768,         -32768,
                                          INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN + 1, 1000};
static const size_t integer_sizes[] = {1, 2, 4, 8};
static const int64_t integer_lowest[] = {0, INT16_MIN, INT32_MIN, INT64_MIN};
static const int64_t integer_highest[] = {UINT8_MAX, INT16_MAX, INT32_MAX, INT64_MAX};

static int64_t load_typed(const uint8_t *pixels, size_t type, size_t i)
{
    uint64_t bits = load_pixel(pixels, integer_sizes[type], i);
    return type == FITSCODECS_U8 ? (int64_t)bits
                                 : sign_extend(bits, (unsigned)(8 * integer_sizes[type]));
}

/* Numbers around the ends of all types, random ones of any width, or small ones. */
static void fill_integers(uint8_t *pixels, size_t type, size_t n)
{
    size_t kind = random_below(3);

    for (size_t i = 0; i < n; i++) {
        int64_t value = random_between(0, 100);
        if (kind == 0 || (kind == 1 && random_once_in(1000))) {
            size_t end = random_below(4);
            uint64_t edge =
                (uint64_t)(random_once_in(2) ? integer_lowest[end] : integer_highest[end]);
            value = (int64_t)(random_once_in(2) ? edge + random_below(3) - 1
                                                : random_u64() >> random_below(64));
        }
        store_pixel(pixels, integer_sizes[type], i, (uint64_t)value);
    }
}

static uint64_t compare_integers(const struct fitscodecs_convert_kernels *fast, size_t in,
                                 size_t out, size_t n, int64_t offset)
{
    struct buffer pixels = buffer_new(n * integer_sizes[in], integer_sizes[in]);
    struct buffer found = buffer_new(n * integer_sizes[out], integer_sizes[out]);
    int64_t lowest, highest, low = INT64_MAX, high = INT64_MIN;

    set_case("subtract, types %zu and %zu, %zu pixels, offset %" PRId64, in, out, n, offset);
    fill_integers(pixels.data, in, n);
    fast->subtract[in][out](pixels.data, n, offset, found.data);
    fast->range[in](pixels.data, n, &lowest, &highest);
    for (size_t i = 0; i < n; i++) {
        int64_t value = load_typed(pixels.data, in, i);
        uint64_t difference = (uint64_t)value - (uint64_t)offset;
        uint64_t mask = UINT64_MAX >> (64 - 8 * integer_sizes[out]);
        CHECK(load_pixel(found.data, integer_sizes[out], i) == (difference & mask));
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    CHECK(lowest == low && highest == high);
    buffer_free(&found);
    buffer_free(&pixels);
    return 1;
}

/* value - offset as it is stored, and whether it fits: exact, in the 65 bits of a sign and a
 * distance. */
static bool subtract_exactly(int64_t value, int64_t offset, size_t out, int64_t *stored)
{
    bool is_negative = value < offset;
    uint64_t distance =
        is_negative ? (uint64_t)offset - (uint64_t)value : (uint64_t)value - (uint64_t)offset;

    *stored = (int64_t)((uint64_t)value - (uint64_t)offset);
    if (is_negative && distance > 0 - (uint64_t)integer_lowest[out]) {
        *stored = integer_lowest[out];
        return false;
    }
    if (!is_negative && distance > (uint64_t)integer_highest[out]) {
        *stored = integer_highest[out];
        return false;
    }
    return true;
}

/* The first value that does not fit is the one that the result tells of. */
static uint64_t check_convert_integers(size_t in, size_t out, size_t n, int64_t offset, bool clip)
{
    struct buffer pixels = buffer_new(n * integer_sizes[in], integer_sizes[in]);
    struct buffer found = buffer_new(n * integer_sizes[out], integer_sizes[out]);
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status;
    bool fits = true;

    set_case("convert, types %zu and %zu, %zu pixels, offset %" PRId64, in, out, n, offset);
    fill_integers(pixels.data, in, n);
    status = fitscodecs_convert_integers(pixels.data, (enum fitscodecs_pixel)in, n, offset, clip,
                                         found.data, (enum fitscodecs_pixel)out, &result);
    for (size_t i = 0; i < n && (fits || clip); i++) {
        int64_t value = load_typed(pixels.data, in, i), stored;
        fits = subtract_exactly(value, offset, out, &stored) && fits;
        if (status == FITSCODECS_OK) {
            CHECK(load_typed(found.data, out, i) == stored);
        } else if (!fits) {
            /* the difference, or the value itself if that needs more than 64 bits */
            int64_t full;
            CHECK(result.found ==
                  (subtract_exactly(value, offset, FITSCODECS_I64, &full) ? full : value));
            CHECK(result.wanted == stored);
            CHECK(strstr(result.detail, value < offset ? "least" : "most") != NULL);
        }
    }
    CHECK(status == (fits || clip ? FITSCODECS_OK : FITSCODECS_VALUE_RANGE));
    buffer_free(&found);
    buffer_free(&pixels);
    return 1;
}

/* Random bits: numbers of all sizes, infinities, NaNs. */
static uint64_t compare_floats(const struct fitscodecs_convert_kernels *portable,
                               const struct fitscodecs_convert_kernels *fast, size_t n)
{
    struct buffer f32 = buffer_new(4 * n, 4), f64 = buffer_new(8 * n, 8);
    struct buffer other32 = buffer_new(4 * n, 4), other64 = buffer_new(8 * n, 8);

    set_case("floats, %zu pixels", n);
    random_bytes(f32.data, 4 * n);
    portable->f32_to_f64((const float *)f32.data, n, (double *)f64.data);
    fast->f32_to_f64((const float *)f32.data, n, (double *)other64.data);
    CHECK(memcmp(f64.data, other64.data, 8 * n) == 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = load_pixel(f64.data, 8, i); /* a float, and more bits behind it */
        store_pixel(f64.data, 8, i, bits ^ (random_u64() >> random_below(64)));
    }
    portable->f64_to_f32((const double *)f64.data, n, (float *)f32.data);
    fast->f64_to_f32((const double *)f64.data, n, (float *)other32.data);
    CHECK(memcmp(f32.data, other32.data, 4 * n) == 0);
    buffer_free(&other64);
    buffer_free(&other32);
    buffer_free(&f64);
    buffer_free(&f32);
    return 1;
}

static uint64_t check_convert_kernels(const struct fitscodecs_kernels *portable,
                                      const struct fitscodecs_kernels *fast)
{
    uint64_t ncases = 0;

    for (size_t k = 0; k < LENGTH(convert_lengths); k++) {
        size_t n = convert_lengths[k];
        for (size_t types = 0; types < 16; types++) {
            for (size_t i = 0; i < LENGTH(convert_offsets); i++) {
                int64_t offset = convert_offsets[i];
                ncases += compare_integers(fast->convert, types / 4, types % 4, n, offset);
                ncases += check_convert_integers(types / 4, types % 4, n, offset, i % 2 == k % 2);
            }
        }
        for (size_t repeat = 0; repeat < 20; repeat++) {
            ncases += compare_floats(portable->convert, fast->convert, n);
        }
    }
    return ncases;
}
