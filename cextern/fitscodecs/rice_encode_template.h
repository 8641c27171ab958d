/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of rice_encode_kernels.h that depends on the width of a pixel; included by it once for
 * each.
 *
 * Expects PIXEL (an unsigned type of WIDTH bits), WIDE(function) and WIDTH, and undefines them.
 */
#define RICE(function) RICE_NAME(WIDE(function))
#define RICE_NAME(function) NAME(function) /* after WIDE() has been put in */

/* Folded differences of n pixels to those before them, and their sum; pixels[-1] is there. */
#if WITH_AVX2 && WIDTH == 8
static ALWAYS_INLINE uint64_t RICE(rice_differences)(const PIXEL *pixels, size_t n, PIXEL *u)
{
    __m128i sums = _mm_setzero_si128();

    for (size_t i = 0; i < n; i += 16) {
        __m128i v = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(pixels + i)),
                                 _mm_loadu_si128((const __m128i *)(pixels + i - 1)));
        v = _mm_xor_si128(_mm_add_epi8(v, v), _mm_cmpgt_epi8(_mm_setzero_si128(), v));
        _mm_storeu_si128((__m128i *)(u + i), v);
        sums = _mm_add_epi64(sums, _mm_sad_epu8(v, _mm_setzero_si128()));
    }
    return (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
}
#elif WITH_AVX2 && WIDTH == 16
static ALWAYS_INLINE uint64_t RICE(rice_differences)(const PIXEL *pixels, size_t n, PIXEL *u)
{
    const __m256i low = _mm256_set1_epi32(0xFFFF);
    __m256i sums = _mm256_setzero_si256();

    for (size_t i = 0; i < n; i += 16) {
        __m256i v = _mm256_sub_epi16(_mm256_loadu_si256((const __m256i *)(pixels + i)),
                                     _mm256_loadu_si256((const __m256i *)(pixels + i - 1)));
        v = _mm256_xor_si256(_mm256_add_epi16(v, v), _mm256_srai_epi16(v, 15));
        _mm256_storeu_si256((__m256i *)(u + i), v);
        sums = _mm256_add_epi32(
            sums, _mm256_add_epi32(_mm256_and_si256(v, low), _mm256_srli_epi32(v, 16)));
    }
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    sum = _mm_add_epi32(sum, _mm_unpackhi_epi64(sum, sum));
    return (uint32_t)_mm_cvtsi128_si32(sum) + (uint64_t)(uint32_t)_mm_extract_epi32(sum, 1);
}
#elif WITH_AVX2 && WIDTH == 32
static ALWAYS_INLINE uint64_t RICE(rice_differences)(const PIXEL *pixels, size_t n, PIXEL *u)
{
    const __m256i low = _mm256_set1_epi64x(0xFFFFFFFF);
    __m256i sums = _mm256_setzero_si256();

    for (size_t i = 0; i < n; i += 8) {
        __m256i v = _mm256_sub_epi32(_mm256_loadu_si256((const __m256i *)(pixels + i)),
                                     _mm256_loadu_si256((const __m256i *)(pixels + i - 1)));
        v = _mm256_xor_si256(_mm256_add_epi32(v, v), _mm256_srai_epi32(v, 31));
        _mm256_storeu_si256((__m256i *)(u + i), v);
        sums = _mm256_add_epi64(
            sums, _mm256_add_epi64(_mm256_and_si256(v, low), _mm256_srli_epi64(v, 32)));
    }
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return (uint64_t)_mm_cvtsi128_si64(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum)));
}
#else
static ALWAYS_INLINE uint64_t RICE(rice_differences)(const PIXEL *pixels, size_t n, PIXEL *u)
{
    const PIXEL *previous = pixels - 1;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        u[i] = WIDE(rice_fold)((PIXEL)(pixels[i] - previous[i]));
        sum += u[i];
    }
    return sum;
}
#endif

/* The symbols of a block, two at once if they are as short as they should be. */
static ALWAYS_INLINE void RICE(rice_put_pairs)(struct rice_bits *bits, const PIXEL *u, size_t n,
                                               unsigned level)
{
    uint32_t one = (uint32_t)1 << level;

    for (size_t i = 0; i < n; i += 2) {
        uint32_t length = (u[i] >> level) + 1 + level;
        uint32_t next_length = (u[i + 1] >> level) + 1 + level;
        if (RICE_UNLIKELY((length | next_length) > 31 || length + next_length > 56)) {
            NAME(rice_put_symbol)(bits, u[i], level);
            NAME(rice_put_symbol)(bits, u[i + 1], level);
        } else {
            uint64_t code = one | (u[i] & (one - 1)), next_code = one | (u[i + 1] & (one - 1));
            NAME(rice_put)(bits, code << next_length | next_code, length + next_length);
        }
    }
}

#if WITH_AVX2
#if WIDTH == 8
/* Folded differences in 16 bits; false if one does not fit. */
static ALWAYS_INLINE bool RICE(rice_to_16_bits)(const PIXEL *u, size_t n, uint16_t *narrow)
{
    for (size_t i = 0; i < n; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(u + i));
        _mm256_storeu_si256((__m256i *)(narrow + i), _mm256_cvtepu8_epi16(bytes));
    }
    return true;
}
#elif WIDTH == 32
static ALWAYS_INLINE bool RICE(rice_to_16_bits)(const PIXEL *u, size_t n, uint16_t *narrow)
{
    __m256i all = _mm256_setzero_si256();

    for (size_t i = 0; i < n; i += 16) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(u + i));
        __m256i b = _mm256_loadu_si256((const __m256i *)(u + i + 8));
        all = _mm256_or_si256(all, _mm256_or_si256(a, b));
        a = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8); /* it packs by halves */
        _mm256_storeu_si256((__m256i *)(narrow + i), a);
    }
    return _mm256_testz_si256(all, _mm256_set1_epi32((int)0xFFFF0000));
}
#endif

/* The symbols of a block: in 16 bits if that can be. */
static ALWAYS_INLINE void RICE(rice_put_symbols)(struct rice_bits *bits, const PIXEL *u, size_t n,
                                                 unsigned level)
{
#if WIDTH == 16
    NAME(rice_put_quads)(bits, u, n, level);
#else
    uint16_t narrow[32];
    if (RICE(rice_to_16_bits)(u, n, narrow) && level <= 13) {
        NAME(rice_put_quads)(bits, narrow, n, level);
    } else {
        RICE(rice_put_pairs)(bits, u, n, level);
    }
#endif
}
#else
static ALWAYS_INLINE void RICE(rice_put_symbols)(struct rice_bits *bits, const PIXEL *u, size_t n,
                                                 unsigned level)
{
    RICE(rice_put_pairs)(bits, u, n, level);
}
#endif

/* A block; pixels[-1] is there. */
static ALWAYS_INLINE void RICE(rice_encode_block)(struct rice_bits *bits, const PIXEL *pixels,
                                                  size_t n)
{
    PIXEL u[32];
    uint64_t sum = RICE(rice_differences)(pixels, n, u);
    unsigned level = rice_level(sum, n);

    if (level >= WIDE(RICE_RAWLEVEL)) {
        NAME(rice_put)(bits, WIDE(RICE_RAWLEVEL) + 1, WIDE(RICE_IDBITS));
        for (size_t i = 0; i < n; i++) {
            NAME(rice_put)(bits, u[i], WIDTH);
        }
    } else if (sum == 0) {
        NAME(rice_put)(bits, 0, WIDE(RICE_IDBITS));
    } else {
        NAME(rice_put)(bits, level + 1, WIDE(RICE_IDBITS));
        RICE(rice_put_symbols)(bits, u, n, level);
    }
}

/* Bytes of the longest block, see encode_bound() in rice.c, and 8 for the last bits. */
#define BLOCK_NBYTES(n) (((n) * (WIDTH + 1) + WIDE(RICE_IDBITS)) / 8 + 1 + 8)

static ALWAYS_INLINE size_t RICE(rice_encode_blocks)(struct bitwriter *bw, const PIXEL *pixels,
                                                     size_t npixels, const size_t blocksize)
{
    struct rice_bits bits = {bw->next, bw->nbits == 0 ? 0 : bw->window << (64 - bw->nbits),
                             bw->nbits};
    PIXEL first[33];
    size_t done = 0;

    for (; npixels - done >= blocksize; done += blocksize) {
        if ((size_t)(bw->end - bits.next) < BLOCK_NBYTES(blocksize)) {
            break;
        }
        if (done == 0) { /* before the first pixel of a tile is itself */
            first[0] = pixels[0];
            memcpy(first + 1, pixels, blocksize * sizeof(PIXEL));
            RICE(rice_encode_block)(&bits, first + 1, blocksize);
        } else {
            RICE(rice_encode_block)(&bits, pixels + done, blocksize);
        }
    }
    bw->next = bits.next;
    bw->nbits = bits.nbits;
    bw->window = bits.nbits == 0 ? 0 : bits.window >> (64 - bits.nbits);
    return done;
}

static size_t RICE(rice_encode)(struct bitwriter *bw, const void *pixels, size_t npixels,
                                size_t blocksize)
{
    if (blocksize == 16) {
        return RICE(rice_encode_blocks)(bw, pixels, npixels, 16);
    }
    return RICE(rice_encode_blocks)(bw, pixels, npixels, 32);
}

#undef BLOCK_NBYTES
#undef RICE
#undef RICE_NAME
#undef PIXEL
#undef WIDE
#undef WIDTH
