/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of rice_decode_kernels.h that depends on the width of a pixel; included by it once for
 * each.
 *
 * Expects PIXEL (an unsigned type of WIDTH bits), WIDE(function) and WIDTH, and undefines them.
 */
#define RICE(function) RICE_NAME(WIDE(function))
#define RICE_NAME(function) NAME(function) /* after WIDE() has been put in */

/* ------------------------------------------------------------------- symbols to pixels */

#if WITH_AVX2 && WIDTH < 32
/* Differences that were folded to the sums of each and all before it; 'sum' is that so far. */
static ALWAYS_INLINE __m256i RICE(rice_sums)(__m256i u, __m256i *sum)
{
    const __m256i last = _mm256_set1_epi16(0x0F0E); /* the last item of a half, everywhere in it */
    __m256i sign = _mm256_and_si256(u, _mm256_set1_epi16(1));
    __m256i v =
        _mm256_xor_si256(_mm256_srli_epi16(u, 1), _mm256_sub_epi16(_mm256_setzero_si256(), sign));

    v = _mm256_add_epi16(v, _mm256_slli_si256(v, 2));
    v = _mm256_add_epi16(v, _mm256_slli_si256(v, 4));
    v = _mm256_add_epi16(v, _mm256_slli_si256(v, 8));
    __m256i ends = _mm256_shuffle_epi8(v, last);
    v = _mm256_add_epi16(v, _mm256_permute2x128_si256(ends, ends, 0x08));
    __m256i total = _mm256_add_epi16(ends, _mm256_permute2x128_si256(ends, ends, 0x01));
    v = _mm256_add_epi16(v, *sum);
    *sum = _mm256_add_epi16(*sum, total);
    return v;
}
#endif

#if WITH_AVX2 && WIDTH < 32
/* 16 pixels, in as many bits as they have. */
static ALWAYS_INLINE void RICE(rice_store)(PIXEL *pixels, __m256i v)
{
#if WIDTH == 8
    v = _mm256_and_si256(v, _mm256_set1_epi16(0xFF));
    _mm_storeu_si128((__m128i *)pixels,
                     _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
#else
    _mm256_storeu_si256((__m256i *)pixels, v);
#endif
}

static ALWAYS_INLINE bool RICE(rice_pixels)(const struct rice_lane *lane, PIXEL *pixels, size_t n,
                                            PIXEL *previous)
{
    const struct rice_rebuild rebuild = NAME(rice_rebuild)(lane->level, (int32_t)1 << WIDTH);
    __m256i sum = _mm256_set1_epi16((short)*previous), highest = _mm256_setzero_si256();

    for (size_t i = 0; i < n; i += 16) {
        __m256i even = NAME(rice_folded)(lane->symbols + i, &rebuild);
        __m256i odd = NAME(rice_folded)(lane->symbols + i + 8, &rebuild);
        __m256i u = _mm256_or_si256(even, _mm256_slli_epi32(odd, 16));
        highest = _mm256_max_epi32(highest, _mm256_max_epi32(even, odd));
        RICE(rice_store)(pixels + i, RICE(rice_sums)(u, &sum));
    }
    *previous = (PIXEL)_mm256_extract_epi16(sum, 0);
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(rebuild.limit, highest)) == -1;
}
#elif WITH_AVX2
static ALWAYS_INLINE __m256i RICE(rice_unfold)(__m256i u)
{
    __m256i sign = _mm256_and_si256(u, _mm256_set1_epi32(1));
    return _mm256_xor_si256(_mm256_srli_epi32(u, 1),
                            _mm256_sub_epi32(_mm256_setzero_si256(), sign));
}

/* The sums of each and all before it; 'sum' is that so far. */
static ALWAYS_INLINE __m256i RICE(rice_sums)(__m256i v, __m256i *sum)
{
    v = _mm256_add_epi32(v, _mm256_slli_si256(v, 4));
    v = _mm256_add_epi32(v, _mm256_slli_si256(v, 8));
    __m256i ends = _mm256_shuffle_epi32(v, 0xFF);
    v = _mm256_add_epi32(v, _mm256_permute2x128_si256(ends, ends, 0x08));
    __m256i total = _mm256_permutevar8x32_epi32(v, _mm256_set1_epi32(7));
    v = _mm256_add_epi32(v, *sum);
    *sum = _mm256_add_epi32(*sum, total);
    return v;
}

static ALWAYS_INLINE bool RICE(rice_pixels)(const struct rice_lane *lane, PIXEL *pixels, size_t n,
                                            PIXEL *previous)
{
    const struct rice_rebuild rebuild = NAME(rice_rebuild)(lane->level, INT32_MAX);
    __m256i sum = _mm256_set1_epi32((int)*previous), highest = _mm256_setzero_si256();

    for (size_t i = 0; i < n; i += 16) {
        __m256i even = NAME(rice_folded)(lane->symbols + i, &rebuild);
        __m256i odd = NAME(rice_folded)(lane->symbols + i + 8, &rebuild);
        highest = _mm256_max_epi32(highest, _mm256_max_epi32(even, odd));
        odd = RICE(rice_unfold)(odd);
        /* Two by two, so that there are half as many to sum. */
        __m256i last = RICE(rice_sums)(_mm256_add_epi32(RICE(rice_unfold)(even), odd), &sum);
        __m256i first = _mm256_sub_epi32(last, odd);
        __m256i a = _mm256_unpacklo_epi32(first, last), b = _mm256_unpackhi_epi32(first, last);
        _mm256_storeu_si256((__m256i *)(pixels + i), _mm256_permute2x128_si256(a, b, 0x20));
        _mm256_storeu_si256((__m256i *)(pixels + i + 8), _mm256_permute2x128_si256(a, b, 0x31));
    }
    *previous = (PIXEL)_mm256_extract_epi32(sum, 0);
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(rebuild.limit, highest)) == -1;
}
#else
/* Pixels from the symbols of a lane; false if a folded difference is too large. */
static ALWAYS_INLINE bool RICE(rice_pixels)(const struct rice_lane *lane, PIXEL *pixels, size_t n,
                                            PIXEL *previous)
{
    uint32_t all = 0, last = *previous;

    for (size_t i = 0; i < n; i++) {
        uint32_t low = (uint32_t)(lane->rest[i] << 1 >> 32) >> (31 - lane->level);
        uint32_t u = (uint32_t)lane->zeros[i] << lane->level | low >> 1;
        all |= u;
        last += rice_unfold(u);
        pixels[i] = (PIXEL)last;
    }
    *previous = (PIXEL)last;
    return all <= (PIXEL)~(PIXEL)0;
}
#endif

/* ------------------------------------------------------------------- decoding */

/* A block symbol by symbol, of any code that there is; false if it needs the reference. */
RICE_APART bool RICE(rice_odd_block)(struct rice_lane *lane, unsigned code, PIXEL *pixels, size_t n,
                                     PIXEL *previous)
{
    uint64_t zeros = 0, rest, most;
    uint32_t last = *previous;

    lane->offset += WIDE(RICE_IDBITS);
    lane->next += lane->offset >> 3;
    lane->offset &= 7;
    if (code > WIDE(RICE_RAWLEVEL) + 1) {
        return false;
    }
    lane->level = code == 0 ? 0 : code - 1;
    most = (PIXEL)~(PIXEL)0 >> lane->level;
    for (size_t i = 0; i < n; i++) {
        if (code == WIDE(RICE_RAWLEVEL) + 1) {
            if (lane->next > lane->limit) {
                return false;
            }
            rest = load_be64(lane->next) << lane->offset;
            last += rice_unfold((uint32_t)(rest >> (64 - WIDTH)));
            lane->next += WIDTH / 8;
        } else if (code != 0) {
            if (!NAME(rice_symbol)(lane, most, &zeros, &rest)) {
                return false;
            }
            rest = (rest << 1 >> 1) >> (63 - lane->level);
            last += rice_unfold((uint32_t)(zeros << lane->level | rest));
        }
        pixels[i] = (PIXEL)last;
    }
    *previous = (PIXEL)last;
    return true;
}

/* Start a block: the window behind its code, which is returned. */
static ALWAYS_INLINE unsigned RICE(rice_start_block)(struct rice_lane *lane)
{
    uint64_t window = NAME(rice_window)(lane->next, lane->offset);
    unsigned code = (unsigned)(window >> (64 - WIDE(RICE_IDBITS)));
    uint32_t most = (PIXEL)~(PIXEL)0;

    lane->window = window << WIDE(RICE_IDBITS);
    lane->level = code - 1;
    lane->most = most >> (lane->level & 31);
    lane->most = lane->most < 31 ? lane->most : 31;
    return code;
}

/* The highest of the levels 0 to this can be read in groups. */
#define FAST_LEVEL                                                                                 \
    (WIDE(RICE_RAWLEVEL) - 1 < RICE_FAST_LEVEL ? WIDE(RICE_RAWLEVEL) - 1 : RICE_FAST_LEVEL)

/* A block of one lane.  False, with the lane where it was, if this takes the reference. */
RICE_APART bool RICE(rice_block)(struct rice_lane *lane, PIXEL *pixels, size_t n, PIXEL *previous)
{
    const uint8_t *next = lane->next;
    unsigned offset = lane->offset, code = RICE(rice_start_block)(lane);
    PIXEL last = *previous;

    if (lane->level <= FAST_LEVEL) {
        NAME(rice_symbols_1)(lane, n, lane->level);
        if (!lane->failed && RICE(rice_pixels)(lane, pixels, n, previous) &&
            !NAME(rice_is_past_end)(lane)) {
            return true;
        }
        lane->failed = false;
        lane->next = next;
        lane->offset = offset;
        *previous = last;
    }
    if (!RICE(rice_odd_block)(lane, code, pixels, n, previous) || NAME(rice_is_past_end)(lane)) {
        lane->next = next;
        lane->offset = offset;
        *previous = last;
        return false;
    }
    return true;
}

/* A block of each lane, read in step if all of them are of the usual kind.  False if one is where
 * it was. */
static ALWAYS_INLINE bool RICE(rice_blocks)(struct rice_lane *lanes, const size_t nlanes,
                                            PIXEL **pixels, size_t n, PIXEL *previous)
{
    const uint8_t *next[RICE_LANES];
    unsigned offset[RICE_LANES], highest = 0;
    bool is_good = true;

    for (size_t k = 0; k < nlanes; k++) {
        next[k] = lanes[k].next;
        offset[k] = lanes[k].offset;
        RICE(rice_start_block)(&lanes[k]);
        highest = lanes[k].level > highest ? lanes[k].level : highest;
    }
    bool in_step = highest <= FAST_LEVEL;
    if (in_step) {
        NAME(rice_symbols_of)(lanes, nlanes, n, highest);
    }
    for (size_t k = 0; k < nlanes; k++) {
        PIXEL last = previous[k];
        if (!in_step || lanes[k].failed ||
            !RICE(rice_pixels)(&lanes[k], pixels[k], n, &previous[k]) ||
            NAME(rice_is_past_end)(&lanes[k])) {
            lanes[k].failed = false;
            lanes[k].next = next[k];
            lanes[k].offset = offset[k];
            previous[k] = last;
            if (!RICE(rice_block)(&lanes[k], pixels[k], n, &previous[k])) {
                lanes[k].failed = true;
                is_good = false;
                continue;
            }
        }
        pixels[k] += n;
    }
    return is_good;
}

static ALWAYS_INLINE void RICE(rice_decode_in_step)(struct fitscodecs_rice_stream *const *streams,
                                                    const size_t nlanes, size_t blocksize)
{
    struct rice_lane lanes[RICE_LANES];
    PIXEL *pixels[RICE_LANES], previous[RICE_LANES];
    size_t nblocks = SIZE_MAX;
    bool is_good = true;

    for (size_t k = 0; k < nlanes; k++) {
        size_t n = streams[k]->npixels / blocksize;
        streams[k]->stopped = n == 0 || !NAME(rice_lane_open)(&lanes[k], streams[k]);
        is_good &= !streams[k]->stopped;
        nblocks = n < nblocks ? n : nblocks;
        pixels[k] = streams[k]->pixels;
        previous[k] = (PIXEL)streams[k]->previous;
    }
    if (!is_good) {
        return;
    }
    for (; is_good && nblocks > 0; nblocks--) {
        is_good = RICE(rice_blocks)(lanes, nlanes, pixels, blocksize, previous);
        for (size_t k = 0; k < nlanes; k++) {
            is_good &= lanes[k].next <= lanes[k].limit;
        }
    }
    for (size_t k = 0; k < nlanes; k++) {
        streams[k]->stopped = lanes[k].failed || lanes[k].next > lanes[k].limit;
        streams[k]->position = (uint64_t)(lanes[k].next - streams[k]->in) * 8 + lanes[k].offset;
        streams[k]->npixels -= (size_t)(pixels[k] - (PIXEL *)streams[k]->pixels);
        streams[k]->pixels = pixels[k];
        streams[k]->previous = previous[k];
    }
}

#if WITH_AVX512
#include "rice_avx512_template.h"
#endif

static void RICE(rice_decode)(struct fitscodecs_rice_stream *const *streams, size_t n,
                              size_t blocksize)
{
#if WITH_AVX512
    if (n >= RICE_LEAST_COLUMNS && blocksize == RICE_ROWS) {
        RICE(rice_decode_crowd)(streams, n < RICE_COLUMNS ? n : RICE_COLUMNS);
        return;
    }
#endif
    if (n >= 4) {
        RICE(rice_decode_in_step)(streams, 4, blocksize);
    } else if (n >= 2) {
        RICE(rice_decode_in_step)(streams, 2, blocksize);
    } else {
        RICE(rice_decode_in_step)(streams, 1, blocksize);
    }
}

#undef PACKED_ROWS
#undef FAST_LEVEL
#undef RICE
#undef RICE_NAME
#undef PIXEL
#undef WIDE
#undef WIDTH
