/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encoding of RICE_1, many pixels at a time.  Included once for each instruction set, see
 * kernels.h.
 *
 * The folded differences of a block and their sum come from vectors.  With AVX2, so do the codes
 * and lengths of its symbols, which are joined by twos and fours before they are put to the stream.
 *
 * Blocks of 16 or 32 pixels only.
 */
#include "bitwriter.h"
#include "kernels.h"
#include "rice.h"

/* ------------------------------------------------------------------- writing bits */

/* Bits that wait are at the top of the window; 8 bytes can always be written at 'next'. */
struct rice_bits {
    uint8_t *next;
    uint64_t window;
    unsigned nbits; /* below 8 */
};

/* The low n bits of value, 1 <= n <= 56; the bits above them must be 0. */
static ALWAYS_INLINE void NAME(rice_put)(struct rice_bits *bits, uint64_t value, unsigned n)
{
    bits->window |= value << (64 - n) >> bits->nbits;
    bits->nbits += n;
    store_be64(bits->next, bits->window);
    bits->next += bits->nbits >> 3;
    bits->window <<= bits->nbits & 56;
    bits->nbits &= 7;
}

/* A symbol whatever its length. */
static ALWAYS_INLINE void NAME(rice_put_symbol)(struct rice_bits *bits, uint32_t u, unsigned level)
{
    uint32_t zeros = u >> level, one = (uint32_t)1 << level;

    for (; zeros > 31; zeros -= 32) {
        NAME(rice_put)(bits, 0, 32);
    }
    NAME(rice_put)(bits, one | (u & (one - 1)), zeros + 1 + level); /* at most 31 + 1 + 24 */
}

#if WITH_AVX2
/* Codes and lengths of 16 symbols to those of 4 quads; one that is too long has a length > 56. */
static ALWAYS_INLINE void NAME(rice_quads)(__m256i u, __m128i level, __m256i one, uint64_t *codes,
                                           uint64_t *lengths)
{
    const __m256i low16 = _mm256_set1_epi32(0xFFFF), low32 = _mm256_set1_epi64x(0xFFFFFFFF);
    __m256i below = _mm256_sub_epi16(one, _mm256_set1_epi16(1));
    __m256i code = _mm256_or_si256(_mm256_and_si256(u, below), one);
    __m256i length = _mm256_add_epi16(_mm256_srl_epi16(u, level), _mm256_broadcastw_epi16(level));
    length = _mm256_add_epi16(length, _mm256_set1_epi16(1));

    /* The first of two has the low half of an item, and goes in front. */
    __m256i second = _mm256_srli_epi32(length, 16);
    __m256i pair = _mm256_sllv_epi32(_mm256_and_si256(code, low16), second);
    pair = _mm256_or_si256(pair, _mm256_srli_epi32(code, 16));
    __m256i pair_length = _mm256_add_epi32(_mm256_and_si256(length, low16), second);
    /* One that does not fit 32 bits makes its quad too long. */
    __m256i is_long = _mm256_cmpgt_epi32(pair_length, _mm256_set1_epi32(32));
    pair_length = _mm256_or_si256(pair_length, _mm256_and_si256(is_long, low16));

    second = _mm256_srli_epi64(pair_length, 32);
    __m256i quad = _mm256_sllv_epi64(_mm256_and_si256(pair, low32), second);
    quad = _mm256_or_si256(quad, _mm256_srli_epi64(pair, 32));
    _mm256_storeu_si256((__m256i *)codes, quad);
    _mm256_storeu_si256((__m256i *)lengths,
                        _mm256_add_epi64(_mm256_and_si256(pair_length, low32), second));
}

/* The symbols of n pixels, n a multiple of 16, level <= 13. */
static ALWAYS_INLINE void NAME(rice_put_quads)(struct rice_bits *bits, const uint16_t *u, size_t n,
                                               unsigned level)
{
    uint64_t codes[8], lengths[8];
    __m128i count = _mm_cvtsi32_si128((int)level);
    __m256i one = _mm256_sll_epi16(_mm256_set1_epi16(1), count);

    for (size_t i = 0; i < n; i += 16) {
        __m256i some = _mm256_loadu_si256((const __m256i *)(u + i));
        NAME(rice_quads)(some, count, one, codes + i / 4, lengths + i / 4);
    }
    for (size_t i = 0; i < n / 4; i++) {
        if (RICE_UNLIKELY(lengths[i] > 56)) {
            for (size_t k = 4 * i; k < 4 * i + 4; k++) {
                NAME(rice_put_symbol)(bits, u[k], level);
            }
        } else {
            NAME(rice_put)(bits, codes[i], (unsigned)lengths[i]);
        }
    }
}
#endif

/* ------------------------------------------------------------------- one copy per width */

#define PIXEL uint8_t
#define WIDE(function) function##_u8
#define WIDTH 8
#include "rice_encode_template.h"

#define PIXEL uint16_t
#define WIDE(function) function##_u16
#define WIDTH 16
#include "rice_encode_template.h"

#define PIXEL uint32_t
#define WIDE(function) function##_u32
#define WIDTH 32
#include "rice_encode_template.h"

static const struct fitscodecs_rice_encode_kernels NAME(rice_encode) = {
    .encode = {NAME(rice_encode_u8), NAME(rice_encode_u16), NAME(rice_encode_u32)},
};
