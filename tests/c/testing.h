/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the test programs share: random numbers, failing, guarded buffers, pixels and parameters.
 *
 * To be included before anything else, because MAP_ANONYMOUS needs _DEFAULT_SOURCE.
 */
#ifndef FITSCODECS_TESTING_H
#define FITSCODECS_TESTING_H

#define _DEFAULT_SOURCE 1

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fitscodecs.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif

/* The address sanitizer sees overruns at both ends of a malloc() to the byte. */
#if !HAS_ASAN && (defined(__unix__) || defined(__APPLE__))
#define HAS_GUARDS 1
#include <sys/mman.h>
#include <unistd.h>
#else
#define HAS_GUARDS 0
#endif

#if HAS_ASAN
void __sanitizer_set_death_callback(void (*callback)(void));

/* Freed memory is kept from use for a while, by default so much of it that it takes time. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}
#endif

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ------------------------------------------------------------------------------ failing */

static uint64_t test_seed = 1;
static char test_case[512] = "(before the first case)";

static inline void print_case(void)
{
    fprintf(stderr, "case: %s\nseed: %" PRIu64 " (give it as the argument to repeat)\n", test_case,
            test_seed);
}

/* Say what is tested now, for the message if it fails or crashes. */
static inline void set_case(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(test_case, sizeof test_case, format, arguments);
    va_end(arguments);
}

static inline void fail_test(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
    print_case();
    exit(1);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_test(__FILE__, __LINE__, #condition);                                             \
        }                                                                                          \
    } while (0)

static inline void crashed(int signal_number)
{
    fprintf(stderr, "signal %d\n", signal_number); /* not safe in general, but all is lost */
    print_case();
    _Exit(1);
}

/* Start a program: the seed is its argument, FITSCODECS_CPU=portable switches the kernels off. */
static inline void test_init(int argc, char **argv)
{
    const char *limit = getenv("FITSCODECS_CPU");
    bool is_portable = limit != NULL && strcmp(limit, "portable") == 0;

    test_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : test_seed;
#if HAS_ASAN
    __sanitizer_set_death_callback(print_case);
#else
    signal(SIGSEGV, crashed);
#ifdef SIGBUS
    signal(SIGBUS, crashed);
#endif
#endif
    fitscodecs_init(is_portable ? 0 : fitscodecs_cpu_features());
}

static inline int test_done(const char *name, uint64_t ncases)
{
    char digits[32];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, ncases);

    printf("%s: ", name);
    for (int i = 0; i < n; i++) {
        printf("%s%c", i > 0 && (n - i) % 3 == 0 ? "," : "", digits[i]);
    }
    printf(" cases\n");
    return 0;
}

/* ----------------------------------------------------------------------- random numbers */

/* splitmix64: any state is a good one, so a seed needs no preparation. */
static inline uint64_t random_u64(void)
{
    static uint64_t state;
    static bool has_state;
    uint64_t z;

    if (!has_state) {
        state = test_seed;
        has_state = true;
    }
    z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline size_t random_below(size_t n)
{
    return (size_t)(random_u64() % n);
}

static inline int64_t random_between(int64_t low, int64_t high)
{
    return low + (int64_t)random_below((size_t)(high - low) + 1);
}

static inline bool random_once_in(size_t n)
{
    return random_below(n) == 0;
}

static inline void random_bytes(void *out, size_t n)
{
    uint8_t *p = out;
    while (n > 0) {
        uint64_t bits = random_u64();
        size_t m = n < 8 ? n : 8;
        memcpy(p, &bits, m);
        p += m;
        n -= m;
    }
}

/* ---------------------------------------------------------------------- guarded buffers */

/*
 * Memory in which a step over the end is noticed.  With guard pages it lies against the one before
 * or the one behind, at random; on the other side the rest of the page has a pattern that
 * buffer_free() looks at.
 */
struct buffer {
    uint8_t *data;
    size_t nbytes;
    uint8_t *map; /* what was allocated */
    size_t map_nbytes;
};

#define ALIGNMENT 8 /* of any pixel and of scratch */

#if HAS_GUARDS
#define PATTERN 0xA5

static inline size_t page_nbytes(void)
{
    static size_t nbytes;
    if (nbytes == 0) {
        nbytes = (size_t)sysconf(_SC_PAGESIZE);
    }
    return nbytes;
}

/* The last mapping that was freed, since a new one takes long and is often of the same size. */
static struct {
    uint8_t *map;
    size_t nbytes;
} spare_map;

/* Readable memory of whole pages between two guard pages. */
static inline uint8_t *map_guarded(size_t inner_nbytes)
{
    size_t page = page_nbytes(), nbytes = inner_nbytes + 2 * page;
    uint8_t *map = spare_map.map;

    if (map != NULL && spare_map.nbytes == nbytes) {
        spare_map.map = NULL;
        return map;
    }
    map = mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    CHECK(mprotect(map + page, inner_nbytes, PROT_READ | PROT_WRITE) == 0);
    return map;
}

static inline void unmap_guarded(uint8_t *map, size_t nbytes)
{
    if (spare_map.map != NULL) {
        munmap(spare_map.map, spare_map.nbytes);
    }
    spare_map.map = map;
    spare_map.nbytes = nbytes;
}

static inline bool is_pattern(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == PATTERN && memcmp(p, p + 1, n - 1) == 0);
}

/* 'alignment' 1 lets the end of the data touch the guard page whatever the length is. */
static inline struct buffer buffer_new(size_t nbytes, size_t alignment)
{
    size_t page = page_nbytes();
    size_t aligned_nbytes = (nbytes + alignment - 1) / alignment * alignment;
    size_t inner_nbytes = (aligned_nbytes / page + 1) * page;
    size_t offset = random_once_in(2) ? inner_nbytes - aligned_nbytes : 0;
    struct buffer buffer = {.nbytes = nbytes, .map_nbytes = inner_nbytes + 2 * page};

    buffer.map = map_guarded(inner_nbytes);
    buffer.data = buffer.map + page + offset;
    memset(buffer.map + page, PATTERN, offset);
    memset(buffer.data + nbytes, PATTERN, inner_nbytes - offset - nbytes);
    return buffer;
}

static inline void buffer_free(struct buffer *buffer)
{
    uint8_t *start = buffer->map + page_nbytes();
    uint8_t *end = buffer->map + buffer->map_nbytes - page_nbytes();

    CHECK(is_pattern(start, (size_t)(buffer->data - start)));
    CHECK(is_pattern(buffer->data + buffer->nbytes, (size_t)(end - buffer->data) - buffer->nbytes));
    unmap_guarded(buffer->map, buffer->map_nbytes);
}
#else
static inline struct buffer buffer_new(size_t nbytes, size_t alignment)
{
    uint8_t *data = malloc(nbytes); /* aligned for everything */
    (void)alignment;
    CHECK(data != NULL || nbytes == 0);
    return (struct buffer){data, nbytes, data, nbytes};
}

static inline void buffer_free(struct buffer *buffer)
{
    free(buffer->map);
}
#endif

static inline struct buffer buffer_copy(const void *data, size_t nbytes, size_t alignment)
{
    struct buffer buffer = buffer_new(nbytes, alignment);
    if (nbytes > 0) {
        memcpy(buffer.data, data, nbytes);
    }
    return buffer;
}

/* A result as a caller may hand it over: with what another call left in it. */
static inline struct fitscodecs_result stale_result(void)
{
    return (struct fitscodecs_result){SIZE_MAX, "stale", -1, -1};
}

/* ------------------------------------------------------------------------------- pixels */

static inline void store_pixel(void *pixels, size_t itemsize, size_t i, uint64_t value)
{
    uint8_t u8 = (uint8_t)value;
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;
    uint8_t *p = (uint8_t *)pixels + i * itemsize;

    switch (itemsize) {
    case 1:
        memcpy(p, &u8, 1);
        break;
    case 2:
        memcpy(p, &u16, 2);
        break;
    case 4:
        memcpy(p, &u32, 4);
        break;
    default:
        memcpy(p, &value, 8);
    }
}

static inline uint64_t load_pixel(const void *pixels, size_t itemsize, size_t i)
{
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    const uint8_t *p = (const uint8_t *)pixels + i * itemsize;

    switch (itemsize) {
    case 1:
        memcpy(&u8, p, 1);
        return u8;
    case 2:
        memcpy(&u16, p, 2);
        return u16;
    case 4:
        memcpy(&u32, p, 4);
        return u32;
    default:
        memcpy(&u64, p, 8);
        return u64;
    }
}

/* Kinds of tiles, each of which some codec has a special case for. */
enum pattern {
    ZEROS,
    CONSTANT,
    ALL_BITS,   /* random over the whole range */
    EXTREMES,   /* lowest and highest value, in turn */
    SIGNS,      /* 0 and -1 at random */
    RAMP,       /* small steps up, which wrap */
    NOISE,      /* a few bits around a level */
    SPIKES,     /* mostly 0, a few large values */
    RUNS,       /* runs of random length and value */
    STEP_WIDTH, /* differences of a random number of bits each */
    NPATTERNS
};

static inline uint64_t next_pixel(enum pattern pattern, size_t i, unsigned nbits, uint64_t last)
{
    uint64_t lowest = (uint64_t)1 << (nbits - 1);

    switch (pattern) {
    case ZEROS:
        return 0;
    case CONSTANT:
        return i == 0 ? random_u64() : last;
    case ALL_BITS:
        return random_u64();
    case EXTREMES:
        return i % 2 == 0 ? lowest : lowest - 1;
    case SIGNS:
        return 0 - (random_u64() & 1);
    case RAMP:
        return last + 3;
    case NOISE:
        return 100 + random_below(16);
    case SPIKES:
        return random_once_in(20) ? random_u64() : 0;
    case RUNS:
        return random_once_in(50) ? random_u64() >> random_below(64) : last;
    default:
        return last + (random_u64() >> random_below(64));
    }
}

static inline void fill_pixels(void *pixels, size_t itemsize, size_t npixels, enum pattern pattern)
{
    uint64_t value = 0;
    for (size_t i = 0; i < npixels; i++) {
        value = next_pixel(pattern, i, (unsigned)(8 * itemsize), value);
        store_pixel(pixels, itemsize, i, value);
    }
}

/* --------------------------------------------------------------------------- parameters */

/* Values worth a try, by the name of the parameter; the first 'nlossless' keep every bit. */
static const struct parameter_values {
    const char *name;
    size_t nlossless, nvalues;
    int64_t values[6];
} parameter_table[] = {
    {"BLOCKSIZE", 6, 6, {32, 16, 1, 2, 33, INT32_MAX}},
    {"BYTEPIX", 3, 3, {1, 2, 4}},
    {"SCALE", 2, 6, {0, 1, 2, 17, 1000, INT32_MAX}},
    {"SMOOTH", 2, 2, {0, 1}},
    {"ITEMSIZE", 4, 4, {1, 2, 4, 8}},
    {"SHUFFLED", 2, 2, {0, 1}},
};

static inline const struct parameter_values *find_values(const char *name)
{
    for (size_t i = 0; i < LENGTH(parameter_table); i++) {
        if (strcmp(parameter_table[i].name, name) == 0) {
            return &parameter_table[i];
        }
    }
    fprintf(stderr, "parameter_table in testing.h has no values for %s\n", name);
    exit(1);
}

/* The combinations of these values are numbered: how many there are, and which one is 'index'. */
static inline size_t count_settings(const struct fitscodecs_codec *codec, bool lossless)
{
    size_t n = 1;
    for (size_t i = 0; codec->parameters[i] != NULL; i++) {
        const struct parameter_values *v = find_values(codec->parameters[i]);
        n *= lossless ? v->nlossless : v->nvalues;
    }
    return n;
}

static inline void set_parameters(const struct fitscodecs_codec *codec, bool lossless, size_t index,
                                  int64_t parameters[FITSCODECS_MAX_PARAMETERS])
{
    memset(parameters, 0, FITSCODECS_MAX_PARAMETERS * sizeof parameters[0]);
    for (size_t i = 0; codec->parameters[i] != NULL; i++) {
        const struct parameter_values *v = find_values(codec->parameters[i]);
        size_t n = lossless ? v->nlossless : v->nvalues;
        parameters[i] = v->values[index % n];
        index /= n;
    }
}

static inline void set_tile_case(const struct fitscodecs_codec *codec,
                                 const struct fitscodecs_tile *tile, const char *what)
{
    const int64_t *p = tile->parameters;
    set_case("%s, parameters %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
             ", %zu rows of %zu pixels, %s",
             codec->name, p[0], p[1], p[2], p[3], tile->ny, tile->nx, what);
}

/* ------------------------------------------------------------------------------ streams */

/*
 * Encode pixels, which become narrower until the codec takes them, and return the stream at its
 * exact length.  'scratch' is what the codec wants for the tile.
 */
static inline struct buffer encode_pixels(const struct fitscodecs_codec *codec,
                                          const struct fitscodecs_tile *tile, void *pixels,
                                          void *scratch)
{
    size_t npixels = tile->nx * tile->ny, itemsize = codec->pixel_nbytes(tile);
    size_t bound = codec->encode_bound(tile);
    struct buffer out = buffer_new(bound, 1), stream;
    struct fitscodecs_result result = stale_result();
    enum fitscodecs_status status = codec->encode(tile, pixels, out.data, bound, scratch, &result);

    for (unsigned bits = 64; status == FITSCODECS_VALUE_RANGE && bits > 0; bits--) {
        CHECK(result.detail != NULL);
        for (size_t i = 0; i < npixels; i++) {
            uint64_t value = load_pixel(pixels, itemsize, i);
            store_pixel(pixels, itemsize, i, value & (((uint64_t)1 << (bits - 1)) - 1));
        }
        status = codec->encode(tile, pixels, out.data, bound, scratch, &result);
    }
    CHECK(status == FITSCODECS_OK);
    CHECK(result.detail == NULL);
    CHECK(result.nbytes <= bound);
    stream = buffer_copy(out.data, result.nbytes, 1);
    buffer_free(&out);
    return stream;
}

#endif
