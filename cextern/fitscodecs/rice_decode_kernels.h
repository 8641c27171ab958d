/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding of RICE_1, many blocks at a time.  Included once for each instruction set, see
 * kernels.h.
 *
 * Decoding a symbol (a run of zeros, a one, 'level' low bits) gives the place of the next one, so
 * one stream alone waits for three instructions per pixel.  Therefore:
 *
 *  - Up to RICE_LANES streams are read in step, a block of each at a time.
 *  - What is done with a symbol is little: its run length and its bits are put aside, and made
 *    into pixels for 16 symbols at once.
 *  - A window of 64 bits serves a group of symbols.  Below its bits is a one as a marker, which
 *    tells where they end without counting: after the group the window is 0 if it was too short.
 *    That is seen once for a group, which is then read again symbol by symbol.
 *  - Nothing is read past the stream because a block is only begun RICE_MARGIN bytes before its
 *    end, or before that of the zeros that the caller puts behind the last bytes.
 *
 * Blocks of 16 or 32 pixels only.
 */
#include "kernels.h"
#include "rice.h"

#define RICE_LANES 4

#if defined(__GNUC__) || defined(__clang__)
#define RICE_APART static __attribute__((noinline))
#else
#define RICE_APART static
#endif

/* Loops over lanes and symbols have to be unrolled for the windows to stay in registers. */
#if defined(FITSCODECS_SMALL)
#define RICE_UNROLL
#elif defined(__clang__)
#define RICE_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define RICE_UNROLL _Pragma("GCC unroll 16")
#else
#define RICE_UNROLL
#endif

/* A stream as long as the kernel has it. */
struct rice_lane {
    const uint8_t *next;  /* at a block or a group: where it starts, 'offset' bits into this byte */
    const uint8_t *limit; /* the last byte with RICE_MARGIN bytes that may be read from there */
    uint64_t window;      /* the bits to come, the marker, zeros */
    unsigned offset;
    unsigned level;
    uint32_t most;      /* zeros of a run, for it to fit a pixel and 'zeros' */
    bool failed;        /* a symbol was not one that the fast way can do */
    const uint8_t *end; /* of the stream */
#if WITH_AVX2
    uint64_t symbols[32]; /* each with the bits behind it, at the top; see rice_slot() */
#else
    uint8_t zeros[32]; /* of each symbol: the length of its run, */
    uint64_t rest[32]; /* and the bits behind, from the one on, at the top */
#endif
};

/* ------------------------------------------------------------------- reading symbols */

#if !WITH_AVX2 && !WITH_NEON
/*
 * Zeros before the first one of a byte, 8 - bit_length(i).  BSR, which compilers make of counting
 * zeros for x86-64 without LZCNT, is slower than this on many CPUs; longer runs are rare.
 */
static const uint8_t rice_runs[256] = {
    8, 7, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,
    2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};
#endif

/* Zeros before the first one; any number for 0, but below 64 unless the CPU counts them itself. */
static ALWAYS_INLINE unsigned NAME(rice_run)(uint64_t window)
{
#if WITH_AVX2
    return (unsigned)_lzcnt_u64(window);
#elif WITH_NEON
    return leading_zeros64(window | 1);
#else
    unsigned run = rice_runs[window >> 56];
    return RICE_UNLIKELY(run > 7) ? leading_zeros64(window | 1) : run;
#endif
}

/* Zeros behind the last one of a window that is not 0: its marker is there. */
static ALWAYS_INLINE unsigned NAME(rice_marker)(uint64_t window)
{
#if defined(__GNUC__) || defined(__clang__)
    return (unsigned)__builtin_ctzll(window);
#else
    return 63 - leading_zeros64(window & (0 - window));
#endif
}

static ALWAYS_INLINE uint64_t NAME(rice_window)(const uint8_t *next, unsigned offset)
{
    return (load_be64(next) | 1) << offset;
}

#if WITH_AVX2
/*
 * Where symbol i of 16 is.  The order is the one in which the high halves of 4 x 64 bits, taken out
 * two by two, come out as a vector of those with an even number and one of those with an odd one.
 */
static ALWAYS_INLINE size_t NAME(rice_slot)(size_t i)
{
    return (i & 1) << 3 | (i & 2) >> 1 | (i & 4) | (i & 8) >> 2;
}
#endif

/*
 * Put symbol i of the 16 from 'first' on aside: 'window' starts with it, and with its one after a
 * shift by 'run'.
 */
static ALWAYS_INLINE void NAME(rice_keep)(struct rice_lane *lane, size_t first, const size_t i,
                                          uint64_t window, unsigned run)
{
#if WITH_AVX2
    (void)run;
    lane->symbols[first + NAME(rice_slot)(i)] = window;
#else
    lane->zeros[first + i] = (uint8_t)run;
    lane->rest[first + i] = window << (run & 63);
#endif
}

/*
 * One symbol, read with care: its run and the bits from the one on.  False if there are more than
 * 'most' zeros or if less than RICE_MARGIN bytes may be read where it ends.
 */
static ALWAYS_INLINE bool NAME(rice_symbol)(struct rice_lane *lane, uint64_t most, uint64_t *zeros,
                                            uint64_t *rest)
{
    uint64_t window = load_be64(lane->next) << lane->offset; /* 57 bits or more */
    unsigned run = NAME(rice_run)(window);

    for (*zeros = 0; RICE_UNLIKELY(run > 31); run = NAME(rice_run)(window)) {
        *zeros += 32;
        lane->next += 4;
        if (*zeros > most || lane->next > lane->limit) {
            return false;
        }
        window = load_be64(lane->next) << lane->offset;
    }
    *zeros += run;
    window <<= run;
    *rest = window;
    lane->offset += run + 1 + lane->level; /* at most 31 + 1 + 24 */
    lane->next += lane->offset >> 3;
    lane->offset &= 7;
    return *zeros <= most && lane->next <= lane->limit;
}

/* A group again that did not fit a window; lane->next is where it starts. */
RICE_APART void NAME(rice_long_group)(struct rice_lane *lane, size_t first, size_t start, size_t n)
{
    const uint8_t *next = lane->next;
    uint64_t zeros, rest;

    for (size_t i = start; i < start + n; i++) {
        if (!NAME(rice_symbol)(lane, lane->most, &zeros, &rest)) {
            lane->failed = true;
            lane->next = next; /* where it is safe to go on, to no purpose */
            lane->offset = 0;
            break;
        }
        NAME(rice_keep)(lane, first, i, rest >> zeros, (unsigned)zeros);
    }
    lane->window = NAME(rice_window)(lane->next, lane->offset);
}

/* A group of n symbols of each lane, from first + start on.  The arrays are in registers. */
static ALWAYS_INLINE void NAME(rice_group)(struct rice_lane *lanes, const size_t nlanes,
                                           const uint8_t **next, uint64_t *window,
                                           const unsigned *shift, size_t first, const size_t start,
                                           const size_t n)
{
    RICE_UNROLL
    for (size_t k = 0; k < nlanes; k++) {
        unsigned used = NAME(rice_marker)(window[k]);
        next[k] += used >> 3;
        lanes[k].offset = used & 7;
        window[k] = NAME(rice_window)(next[k], used & 7);
    }
    RICE_UNROLL
    for (size_t i = 0; i < n; i++) {
        RICE_UNROLL
        for (size_t k = 0; k < nlanes; k++) {
            unsigned run = NAME(rice_run)(window[k]);
            NAME(rice_keep)(&lanes[k], first, start + i, window[k], run);
            window[k] = window[k] << (run & 63) << shift[k];
        }
    }
    RICE_UNROLL
    for (size_t k = 0; k < nlanes; k++) {
        if (RICE_UNLIKELY(window[k] == 0)) {
            lanes[k].next = next[k];
            NAME(rice_long_group)(&lanes[k], first, start, n);
            next[k] = lanes[k].next;
            window[k] = lanes[k].window;
        }
    }
}

/* Read a block: 'nsymbols' of each lane, 16 or 32.  'groups' is how many each 16 are read in. */
static ALWAYS_INLINE void NAME(rice_symbols)(struct rice_lane *lanes, const size_t nlanes,
                                             size_t nsymbols, const size_t groups)
{
    const uint8_t *next[RICE_LANES];
    uint64_t window[RICE_LANES];
    unsigned shift[RICE_LANES];

    RICE_UNROLL
    for (size_t k = 0; k < nlanes; k++) {
        next[k] = lanes[k].next;
        window[k] = lanes[k].window;
        shift[k] = lanes[k].level + 1;
    }
    for (size_t i = 0; i < nsymbols; i += 16) {
        if (groups == 2) {
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 0, 8);
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 8, 8);
        } else if (groups == 3) {
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 0, 6);
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 6, 5);
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 11, 5);
        } else {
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 0, 4);
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 4, 4);
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 8, 4);
            NAME(rice_group)(lanes, nlanes, next, window, shift, i, 12, 4);
        }
    }
    RICE_UNROLL
    for (size_t k = 0; k < nlanes; k++) {
        unsigned used = NAME(rice_marker)(window[k]);
        lanes[k].next = next[k] + (used >> 3);
        lanes[k].offset = used & 7;
    }
}

/*
 * The same for the highest level of the lanes.  A window has 56 bits or more, and of noise that
 * chose its level a symbol has about level + 2: 8, 5 or 4 of them fill three quarters of it, so
 * that few groups are too long.
 */
#define RICE_FAST_LEVEL 10

RICE_APART void NAME(rice_symbols_1)(struct rice_lane *lanes, size_t nsymbols, unsigned level)
{
    if (level <= 4) {
        NAME(rice_symbols)(lanes, 1, nsymbols, 2);
    } else if (level <= 6) {
        NAME(rice_symbols)(lanes, 1, nsymbols, 3);
    } else {
        NAME(rice_symbols)(lanes, 1, nsymbols, 4);
    }
}

RICE_APART void NAME(rice_symbols_2)(struct rice_lane *lanes, size_t nsymbols, unsigned level)
{
    if (level <= 4) {
        NAME(rice_symbols)(lanes, 2, nsymbols, 2);
    } else if (level <= 6) {
        NAME(rice_symbols)(lanes, 2, nsymbols, 3);
    } else {
        NAME(rice_symbols)(lanes, 2, nsymbols, 4);
    }
}

RICE_APART void NAME(rice_symbols_4)(struct rice_lane *lanes, size_t nsymbols, unsigned level)
{
    if (level <= 4) {
        NAME(rice_symbols)(lanes, 4, nsymbols, 2);
    } else if (level <= 6) {
        NAME(rice_symbols)(lanes, 4, nsymbols, 3);
    } else {
        NAME(rice_symbols)(lanes, 4, nsymbols, 4);
    }
}

static ALWAYS_INLINE void NAME(rice_symbols_of)(struct rice_lane *lanes, const size_t nlanes,
                                                size_t nsymbols, unsigned level)
{
    if (nlanes == 4) {
        NAME(rice_symbols_4)(lanes, nsymbols, level);
    } else if (nlanes == 2) {
        NAME(rice_symbols_2)(lanes, nsymbols, level);
    } else {
        NAME(rice_symbols_1)(lanes, nsymbols, level);
    }
}

#if WITH_AVX2
/* ------------------------------------------------------------------- symbols to differences */

/* What a level asks for. */
struct rice_rebuild {
    __m128i shift;
    __m256i ones;
    __m256i limit; /* u has to be below this */
};

static ALWAYS_INLINE struct rice_rebuild NAME(rice_rebuild)(unsigned level, int32_t limit)
{
    int32_t most = (int32_t)(24 - level) << level;
    struct rice_rebuild r = {
        .shift = _mm_cvtsi32_si128((int)(23 - level)),
        .ones = _mm256_set1_epi32((int32_t)127 << level),
        .limit = _mm256_set1_epi32(most < limit ? most : limit),
    };
    return r;
}

/*
 * The folded differences of 8 symbols, or something not below the limit for one that does not fit
 * 24 bits.  A float has the bits behind the highest one of a 24-bit integer as its mantissa, and
 * their number as its exponent: all that a symbol says, and with a bias by which 127 - run or 127 ^
 * run is above its low bits.
 */
static ALWAYS_INLINE __m256i NAME(rice_folded)(const uint64_t *symbols,
                                               const struct rice_rebuild *r)
{
    __m256 a = _mm256_loadu_ps((const float *)symbols);
    __m256 b = _mm256_loadu_ps((const float *)(symbols + 4));
    __m256i high = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
    __m256i value = _mm256_castps_si256(_mm256_cvtepi32_ps(_mm256_srli_epi32(high, 8)));
    value = _mm256_sub_epi32(value, _mm256_set1_epi32(23 << 23));
    return _mm256_xor_si256(_mm256_srl_epi32(value, r->shift), r->ones);
}
#endif

/* ------------------------------------------------------------------- lanes */

static bool NAME(rice_lane_open)(struct rice_lane *lane,
                                 const struct fitscodecs_rice_stream *stream)
{
    uint64_t next = stream->position >> 3;

    if (next + RICE_MARGIN > stream->readable_nbytes) {
        return false;
    }
    lane->next = stream->in + next;
    lane->offset = (unsigned)(stream->position & 7);
    lane->limit = stream->in + stream->readable_nbytes - RICE_MARGIN;
    lane->end = stream->in + stream->in_nbytes;
    lane->failed = false;
    return true;
}

/* Did the lane use bits that are not of the stream? */
static ALWAYS_INLINE bool NAME(rice_is_past_end)(const struct rice_lane *lane)
{
    return lane->next + (lane->offset != 0) > lane->end;
}

#if WITH_AVX512
#include "rice_avx512.h"
#endif

/* ------------------------------------------------------------------- one copy per width */

#define PIXEL uint8_t
#define WIDE(function) function##_u8
#define WIDTH 8
#include "rice_decode_template.h"

#define PIXEL uint16_t
#define WIDE(function) function##_u16
#define WIDTH 16
#include "rice_decode_template.h"

#define PIXEL uint32_t
#define WIDE(function) function##_u32
#define WIDTH 32
#include "rice_decode_template.h"

static const struct fitscodecs_rice_decode_kernels NAME(rice_decode) = {
#if WITH_AVX512
    .nstreams = RICE_COLUMNS,
#else
    .nstreams = RICE_LANES,
#endif
    .decode = {NAME(rice_decode_u8), NAME(rice_decode_u16), NAME(rice_decode_u32)},
};
