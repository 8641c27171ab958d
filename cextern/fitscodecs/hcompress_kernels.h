/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bit planes and transform of HCOMPRESS_1 with coefficients of 32 bits.  Included once for each
 * instruction set, see kernels.h; hcompress_words.h says how codes are kept.
 */
#include "hcompress_words.h"

/* ---------------------------------------------------------------- bits of a word of codes */

/*
 * Bits of some places of a word, moved together at the low end in their order, and back: the pixels
 * of the upper (2) or lower (0) row, as 'place' says; the lowest bit of each code; and whole codes,
 * those at the ones of 'ones'.
 */
#if WITH_AVX2
static inline uint32_t NAME(take_row)(uint64_t word, unsigned place)
{
    return (uint32_t)_pext_u64(word, UPPER_BITS >> 2 << place);
}

static inline uint64_t NAME(put_row)(uint64_t bits, unsigned place)
{
    return _pdep_u64(bits, UPPER_BITS >> 2 << place);
}

static inline uint32_t NAME(take_flags)(uint64_t ones)
{
    return (uint32_t)_pext_u64(ones, ONES);
}

static inline uint64_t NAME(put_flags)(uint64_t bits)
{
    return _pdep_u64(bits, ONES);
}

static inline uint64_t NAME(take_set_codes)(uint64_t word, uint64_t ones)
{
    return _pext_u64(word, 15 * ones);
}

static inline uint64_t NAME(put_set_codes)(uint64_t codes, uint64_t ones)
{
    return _pdep_u64(codes, 15 * ones);
}

static inline unsigned NAME(count_ones)(uint64_t word)
{
    return (unsigned)_mm_popcnt_u64(word);
}
#else
/* Pairs of bits, then fours and so on, move together to make groups of twice the size. */
static inline uint32_t NAME(take_row)(uint64_t word, unsigned place)
{
    uint64_t bits = word >> place & 0x3333333333333333u;
    bits = (bits | bits >> 2) & 0x0F0F0F0F0F0F0F0Fu;
    bits = (bits | bits >> 4) & 0x00FF00FF00FF00FFu;
    bits = (bits | bits >> 8) & 0x0000FFFF0000FFFFu;
    return (uint32_t)(bits | bits >> 16);
}

static inline uint64_t NAME(put_row)(uint64_t bits, unsigned place)
{
    bits = (bits | bits << 16) & 0x0000FFFF0000FFFFu;
    bits = (bits | bits << 8) & 0x00FF00FF00FF00FFu;
    bits = (bits | bits << 4) & 0x0F0F0F0F0F0F0F0Fu;
    bits = (bits | bits << 2) & 0x3333333333333333u;
    return bits << place;
}

static inline uint32_t NAME(take_flags)(uint64_t ones)
{
    uint64_t bits = (ones | ones >> 3) & 0x0303030303030303u;
    bits = (bits | bits >> 6) & 0x000F000F000F000Fu;
    bits = (bits | bits >> 12) & 0x000000FF000000FFu;
    return (uint32_t)(bits | bits >> 24) & 0xFFFF;
}

static inline uint64_t NAME(put_flags)(uint64_t bits)
{
    bits = (bits | bits << 24) & 0x000000FF000000FFu;
    bits = (bits | bits << 12) & 0x000F000F000F000Fu;
    bits = (bits | bits << 6) & 0x0303030303030303u;
    return (bits | bits << 3) & ONES;
}

static inline uint64_t NAME(take_set_codes)(uint64_t word, uint64_t ones)
{
    uint64_t codes = 0;
    unsigned nbits = 0;
    for (; ones != 0 && nbits < 64; ones >>= 4, word >>= 4) {
        codes |= (word & 15 * (ones & 1)) << nbits;
        nbits += 4 * (unsigned)(ones & 1);
    }
    return codes;
}

static inline uint64_t NAME(put_set_codes)(uint64_t codes, uint64_t ones)
{
    uint64_t word = 0;
    for (; ones != 0; ones &= ones - 1) {
        word |= (codes & 15) * (ones & (0 - ones));
        codes >>= 4;
    }
    return word;
}

static inline unsigned NAME(count_ones)(uint64_t word)
{
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    word = (word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (unsigned)(word * 0x0101010101010101u >> 56);
}
#endif

/* The 8 x 8 bits of a word, whose bytes are rows, turned over at the diagonal: squares of 1, 2 and
 * 4 bits above it change places with those below. */
static inline uint64_t NAME(transpose_bits)(uint64_t v)
{
    uint64_t t = (v ^ v >> 7) & 0x00AA00AA00AA00AAu;
    v ^= t ^ t << 7;
    t = (v ^ v >> 14) & 0x0000CCCC0000CCCCu;
    v ^= t ^ t << 14;
    t = (v ^ v >> 28) & 0x00000000F0F0F0F0u;
    return v ^ t ^ t << 28;
}

/* A one for each code that is not 0 */
static inline uint64_t NAME(nonzero_codes)(uint64_t word)
{
    word |= word >> 2;
    return (word | word >> 1) & ONES;
}

/* ----------------------------------------------------------------------- decoding codes */

/* One after the other, where there are too few left for the loop of take_codes(), or too little
 * of the stream. */
static bool NAME(take_last_codes)(struct bitreader *br, size_t ncodes, struct list_end *end)
{
    while (ncodes > 0) {
        bits_refill(br);
        uint32_t entry = fitscodecs_hcompress_lookup[bits_peek(br, LOOKUP_NBITS)];
        unsigned nbits = lookup_nbits(entry), ncode_bits = lookup_ncode_bits(entry);
        uint64_t codes = lookup_codes(entry);
        if (ncode_bits > 4 * ncodes || nbits > br->nbits) { /* only the first one */
            codes &= 15;
            ncode_bits = 4;
            nbits = huffman_codes[codes].nbits;
        }
        if (nbits > br->nbits) {
            return false;
        }
        bits_drop(br, nbits);
        list_append(end, codes, ncode_bits);
        ncodes -= ncode_bits / 4;
    }
    return true;
}

static bool NAME(take_codes)(struct bitreader *br, size_t ncodes, uint64_t *list)
{
    struct list_end end = list_create(list);
    struct bitreader local = *br; /* a copy that can live in registers */

    /* A refill from 8 bytes or more gives 56 bits, enough for five lookups. */
    while (ncodes >= 15 && local.end - local.next >= 8) {
        uint64_t codes = 0;
        unsigned ncode_bits = 0;
        bits_refill(&local);
        for (int i = 0; i < 5; i++) {
            uint32_t entry = fitscodecs_hcompress_lookup[bits_peek(&local, LOOKUP_NBITS)];
            local.window <<= lookup_nbits(entry);
            local.nbits -= lookup_nbits(entry);
            codes |= (uint64_t)lookup_codes(entry) << ncode_bits;
            ncode_bits += lookup_ncode_bits(entry);
        }
        list_append(&end, codes, ncode_bits);
        ncodes -= ncode_bits / 4;
    }
    if (!NAME(take_last_codes)(&local, ncodes, &end)) {
        return false;
    }
    list_close(&end);
    *br = local;
    return true;
}

static size_t NAME(spread_codes)(const struct fitscodecs_hcompress_grid *above,
                                 const uint64_t *list, const struct fitscodecs_hcompress_grid *grid)
{
    const size_t nwords = words_per_row(grid->ncols);
    size_t place = 0, nflags = 0; /* place: next code of the list */

    for (size_t i = grid->nrows; i-- > 0;) {
        const uint64_t *above_words = above->words + i / 2 * above->stride;
        uint64_t *words = grid->words + i * grid->stride;
        const unsigned row = i % 2 == 0 ? 2 : 0;
        const uint64_t mask = row_mask(grid, i);
        uint64_t word_mask = mask & last_word_mask(grid);
        for (size_t w = nwords; w-- > 0;) {
            uint32_t flags = NAME(take_row)(above_words[w / 2], row);
            uint64_t ones = NAME(put_flags)(w % 2 == 0 ? flags >> 16 : flags & 0xFFFF);
            words[w] = NAME(put_set_codes)(list_get(list, place), ones) & word_mask;
            place += NAME(count_ones)(ones);
            nflags += NAME(count_ones)(words[w]);
            word_mask = mask;
        }
    }
    return nflags;
}

/* ------------------------------------------------------------------ decoding coefficients */

/* Signs of the pixels in 'flags', of which the highest bit is the first pixel, at the same places.
 * False if the stream ends. */
static inline bool NAME(take_signs)(struct bitreader *br, uint32_t flags, uint32_t *signs)
{
    unsigned n = NAME(count_ones)(flags);
    if (br->nbits < PIXELS_PER_WORD) {
        bits_refill(br);
        if (br->nbits < n) {
            return false;
        }
    }
    uint64_t bits = br->window >> 1 >> (63 - n); /* n may be 0 */
#if WITH_AVX2
    *signs = _pdep_u32((uint32_t)bits, flags);
#else
    uint32_t found = 0;
    for (uint32_t rest = flags; rest != 0; rest &= rest - 1) {
        found |= (rest & (0 - rest)) & (0 - (uint32_t)(bits & 1));
        bits >>= 1;
    }
    *signs = found;
#endif
    bits_drop(br, n);
    return true;
}

/* Number of the pixel in 'flags' whose sign is behind the last bit of the stream */
static size_t NAME(find_missing_sign)(const struct bitreader *br, uint32_t flags)
{
    size_t nsigns = 0, i = 0;
    for (;; i++) {
        nsigns += flags >> (PIXELS_PER_WORD - 1 - i) & 1;
        if (nsigns > br->nbits) {
            return i;
        }
    }
}

#if WITH_AVX2
/*
 * 32 magnitudes from the words of 'nplanes' planes, by bytes: bytes[i] has bits 8 * i to 8 * i + 7.
 * Lane 0 has pixels 0-3, 8-11, 16-19 and 24-27, lane 1 the others, so that unpacking makes vectors
 * of pixels in their order.
 *
 * Each byte of a word, which has four pixels of the row, goes to four bytes, each of which looks at
 * the bit of its pixel; from the highest plane on, sums double and add that bit.
 */
static inline void NAME(join_bytes)(const uint64_t *words, size_t stride, unsigned nplanes,
                                    unsigned place, __m256i bytes[4])
{
    const __m256i source = _mm256_setr_epi8(7, 7, 7, 7, 5, 5, 5, 5, 3, 3, 3, 3, 1, 1, 1, 1, 6, 6, 6,
                                            6, 4, 4, 4, 4, 2, 2, 2, 2, 0, 0, 0, 0);
    const __m256i bit = _mm256_set1_epi32(place == 0 ? 0x01021020 : 0x04084080);
    for (unsigned i = 0; i < 4; i++) {
        unsigned end = 8 * i + 8 < nplanes ? 8 * i + 8 : nplanes;
        __m256i sum = _mm256_setzero_si256();
        for (unsigned plane = end; plane-- > 8 * i;) {
            __m256i word = _mm256_set1_epi64x((long long)words[plane * stride]);
            __m256i found = _mm256_and_si256(_mm256_shuffle_epi8(word, source), bit);
            __m256i is_set = _mm256_cmpeq_epi8(found, bit); /* -1 */
            sum = _mm256_sub_epi8(_mm256_add_epi8(sum, sum), is_set);
        }
        bytes[i] = sum;
    }
}

/* Pixels 8 * i to 8 * i + 7, whose signs are the 8 bits from the top of 'signs' << (8 * i). */
static inline void NAME(store_pixels)(__m256i magnitudes, uint32_t signs, unsigned i, __m256i scale,
                                      int32_t *row)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i sign = _mm256_sllv_epi32(_mm256_set1_epi32((int)(signs << 8 * i)), lane);
    sign = _mm256_srai_epi32(sign, 31);
    __m256i values = _mm256_sub_epi32(_mm256_xor_si256(magnitudes, sign), sign);
    _mm256_storeu_si256((__m256i *)(row + 8 * i), _mm256_mullo_epi32(values, scale));
}

static inline void NAME(join_word)(const uint64_t *words, size_t stride, unsigned nplanes,
                                   unsigned place, uint32_t signs, int32_t scale, int32_t *row)
{
    __m256i bytes[4], factor = _mm256_set1_epi32(scale);
    NAME(join_bytes)(words, stride, nplanes, place, bytes);
    __m256i low0 = _mm256_unpacklo_epi8(bytes[0], bytes[1]);
    __m256i low1 = _mm256_unpackhi_epi8(bytes[0], bytes[1]);
    __m256i high0 = _mm256_unpacklo_epi8(bytes[2], bytes[3]);
    __m256i high1 = _mm256_unpackhi_epi8(bytes[2], bytes[3]);
    NAME(store_pixels)(_mm256_unpacklo_epi16(low0, high0), signs, 0, factor, row);
    NAME(store_pixels)(_mm256_unpackhi_epi16(low0, high0), signs, 1, factor, row);
    NAME(store_pixels)(_mm256_unpacklo_epi16(low1, high1), signs, 2, factor, row);
    NAME(store_pixels)(_mm256_unpackhi_epi16(low1, high1), signs, 3, factor, row);
}
#else
static inline void NAME(join_word)(const uint64_t *words, size_t stride, unsigned nplanes,
                                   unsigned place, uint32_t signs, int32_t scale, int32_t *row)
{
    uint32_t magnitudes[PIXELS_PER_WORD] = {0};
    for (unsigned first = 0; first < nplanes; first += 8) { /* squares of 8 planes and 8 pixels */
        uint32_t planes[8] = {0};
        for (unsigned i = 0; i < 8 && first + i < nplanes; i++) {
            planes[i] = NAME(take_row)(words[(first + i) * stride], place);
        }
        for (unsigned i = 0; i < PIXELS_PER_WORD; i += 8) {
            uint64_t bytes = 0;
            for (unsigned j = 8; j-- > 0;) {
                bytes = bytes << 8 | (planes[j] >> (24 - i) & 0xFF);
            }
            bytes = NAME(transpose_bits)(bytes);
            for (unsigned j = 0; j < 8; j++) {
                magnitudes[i + j] |= (uint32_t)(bytes >> (56 - 8 * j) & 0xFF) << first;
            }
        }
    }
    for (unsigned i = 0; i < PIXELS_PER_WORD; i++) {
        uint32_t sign = 0 - (signs >> (PIXELS_PER_WORD - 1 - i) & 1);
        row[i] = (int32_t)(((magnitudes[i] ^ sign) - sign) * (uint32_t)scale);
    }
}
#endif

static size_t NAME(join_row)(struct bitreader *br, const uint64_t *words, size_t stride,
                             unsigned nplanes, unsigned place, int32_t scale, int32_t *row,
                             size_t npixels)
{
    struct bitreader local = *br;
    for (size_t i = 0; i < npixels; i += PIXELS_PER_WORD, words++) {
        uint64_t all = 0;
        uint32_t signs = 0;
        for (unsigned plane = 0; plane < nplanes; plane++) {
            all |= words[plane * stride];
        }
        uint32_t flags = NAME(take_row)(all, place);
        if (!NAME(take_signs)(&local, flags, &signs)) {
            return i + NAME(find_missing_sign)(&local, flags);
        }
        if (npixels - i >= PIXELS_PER_WORD) {
            NAME(join_word)(words, stride, nplanes, place, signs, scale, row + i);
        } else {
            int32_t last[PIXELS_PER_WORD];
            NAME(join_word)(words, stride, nplanes, place, signs, scale, last);
            memcpy(row + i, last, (npixels - i) * sizeof(int32_t));
        }
    }
    *br = local;
    return npixels;
}

/* ------------------------------------------------------------------------ the transform */

/* -1 for a negative value, else 0 */
static inline int32_t NAME(sign)(int32_t v)
{
    return v >> 31;
}

/* v if sign is 0, -v if it is -1 */
static inline int32_t NAME(negate_if)(int32_t v, int32_t sign)
{
    return (v ^ sign) - sign;
}

/* Nearest multiple of 2 * half, a power of two; exact halves go away from zero. */
static inline int32_t NAME(round)(int32_t v, int32_t half)
{
    return (v + half + NAME(sign)(v)) & (0 - 2 * half);
}

/* See inverse_cells() of hcompress_transform.h. */
static void NAME(inverse_cells)(unsigned k, size_t ncells, const int32_t *restrict h0_row,
                                const int32_t *restrict hx_row, const int32_t *restrict hy_row,
                                const int32_t *restrict hc_row, int32_t *restrict top,
                                int32_t *restrict bottom)
{
    const int32_t bit0 = (int32_t)1 << k, bit1 = (int32_t)2 << k, half = bit0 >> 1;
    const int32_t has_half = 0 - (k > 0); /* hc of level 0 is not rounded */
    const unsigned shift = k == 0 ? 2 : 1;
    for (size_t j = 0; j < ncells; j++) {
        int32_t hc = (hc_row[j] + half + (NAME(sign)(hc_row[j]) & has_half)) & (0 - bit0);
        int32_t low0 = hc & bit0;
        int32_t hx = NAME(round)(hx_row[j], bit0), hy = NAME(round)(hy_row[j], bit0);
        hx -= NAME(negate_if)(low0, NAME(sign)(hx));
        hy -= NAME(negate_if)(low0, NAME(sign)(hy));
        int32_t low1 = (hc ^ hx ^ hy) & bit1;
        int32_t h0 = h0_row[j];
        int32_t is_sum = NAME(sign)(h0) & NAME(sign)(low0 - 1);
        h0 += low0 + NAME(negate_if)(low1, ~is_sum);
        int32_t upper = h0 - hx, lower = h0 + hx, sum = hy + hc, difference = hy - hc;
        top[2 * j] = (upper - difference) >> shift;
        top[2 * j + 1] = (upper + difference) >> shift;
        bottom[2 * j] = (lower - sum) >> shift;
        bottom[2 * j + 1] = (lower + sum) >> shift;
    }
}

static inline int32_t NAME(min)(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t NAME(max)(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline int32_t NAME(clamp)(int32_t v, int32_t low, int32_t high)
{
    return NAME(max)(NAME(min)(v, high), low);
}

/* See correction() of hcompress_transform.h.  The difference is divided in two parts, so that
 * 'stored' need not be multiplied: rounded down, and one more if that is not toward zero. */
static inline int32_t NAME(correction)(int32_t wanted, int32_t stored, unsigned n, int32_t limit)
{
    const int32_t rest = wanted & (((int32_t)1 << n) - 1);
    int32_t step = (wanted >> n) - stored;
    step += rest != 0 && step < 0 ? 1 : 0;
    return NAME(clamp)(step, -limit, limit);
}

/* See smooth_slope() of hcompress_transform.h. */
static void NAME(smooth_slopes)(size_t n, const int32_t *restrict before,
                                const int32_t *restrict here, const int32_t *restrict after,
                                int32_t limit, int32_t *restrict slopes)
{
    for (size_t j = 0; j < n; j++) {
        int32_t rise = after[j] - here[j], fall = here[j] - before[j];
        int32_t high = 4 * NAME(max)(NAME(min)(rise, fall), 0);
        int32_t low = 4 * NAME(min)(NAME(max)(rise, fall), 0);
        int32_t wanted = NAME(clamp)(rise + fall, low, high);
        int32_t change = NAME(correction)(wanted, slopes[j], 3, limit);
        slopes[j] += low < high ? change : 0;
    }
}

/*
 * See smooth_curvature() of hcompress_transform.h.  Limits of what is wanted that are too large for
 * 32 bits when multiplied are cut: what is between them is not that large, and limits of one sign
 * still are so far from any hc that the correction is the largest that is allowed.
 */
static void NAME(smooth_curvatures)(size_t n, const int32_t *restrict above,
                                    const int32_t *restrict here, const int32_t *restrict below,
                                    const int32_t *restrict hx, const int32_t *restrict hy,
                                    int32_t limit, int32_t *restrict hc)
{
    const int32_t most = INT32_MAX / 16;
    for (size_t j = 1; j <= n; j++) {
        int32_t h0 = here[j], mm = above[j - 1], mp = above[j + 1];
        int32_t pm = below[j - 1], pp = below[j + 1];
        int32_t sum = 2 * (hx[j] + hy[j]), difference = 2 * (hx[j] - hy[j]);
        int32_t to_pp = pp - h0, to_pm = h0 - pm, to_mp = h0 - mp, to_mm = mm - h0;
        int32_t high =
            NAME(min)(NAME(min)(NAME(max)(to_pp, 0) - sum, NAME(max)(to_pm, 0) + difference),
                      NAME(min)(NAME(max)(to_mp, 0) - difference, NAME(max)(to_mm, 0) + sum));
        int32_t low =
            NAME(max)(NAME(max)(NAME(min)(to_pp, 0) - sum, NAME(min)(to_pm, 0) + difference),
                      NAME(max)(NAME(min)(to_mp, 0) - difference, NAME(min)(to_mm, 0) + sum));
        int32_t wanted = NAME(clamp)(pp + mm - mp - pm, 16 * NAME(clamp)(low, -most, most),
                                     16 * NAME(clamp)(high, -most, most));
        int32_t change = NAME(correction)(wanted, hc[j], 6, limit);
        hc[j] += low < high ? change : 0;
    }
}

/* See forward_cell() of hcompress_transform.h. */
static void NAME(forward_cells)(unsigned k, size_t ncells, const int32_t *restrict top,
                                const int32_t *restrict bottom, int32_t *restrict h0,
                                int32_t *restrict hx, int32_t *restrict hy, int32_t *restrict hc)
{
    const int32_t half0 = (int32_t)2 << k, half1 = (int32_t)1 << k;
    const unsigned shift = k == 0 ? 0 : 1;
    for (size_t j = 0; j < ncells; j++) {
        int32_t p = top[2 * j], q = top[2 * j + 1], s = bottom[2 * j], u = bottom[2 * j + 1];
        int32_t upper = p + q, lower = s + u, upper_step = q - p, lower_step = u - s;
        h0[j] = NAME(round)((upper + lower) >> shift, half0);
        hx[j] = NAME(round)((lower - upper) >> shift, half1);
        hy[j] = NAME(round)((upper_step + lower_step) >> shift, half1);
        hc[j] = (lower_step - upper_step) >> shift;
    }
}

static inline uint32_t NAME(magnitude)(int32_t v)
{
    return v < 0 ? 0 - (uint32_t)v : (uint32_t)v;
}

static uint32_t NAME(join_magnitudes)(const int32_t *values, size_t n)
{
    uint32_t all = 0;
    for (size_t i = 0; i < n; i++) {
        all |= NAME(magnitude)(values[i]);
    }
    return all;
}

/*
 * In double arithmetic, which is exact here: a quotient of numbers below 2^32 that is not whole is
 * away from the next whole number by 2^-32 of itself or more, so that rounding to 53 bits does not
 * reach it.
 */
static void NAME(digitize)(int32_t *values, size_t n, int32_t scale)
{
    const double divisor = scale, bias = (scale - 1) / 2; /* = (scale + 1) / 2 - 1 */
    for (size_t i = 0; i < n; i++) {
        int32_t sign = NAME(sign)(values[i]);
        int32_t magnitude = NAME(negate_if)(values[i], sign);
        values[i] = NAME(negate_if)((int32_t)((magnitude + bias) / divisor), sign);
    }
}

/* ------------------------------------------------------------------ encoding coefficients */

#if WITH_AVX2
static inline void NAME(load_vectors)(const int32_t *values, __m256i vectors[4])
{
    for (unsigned i = 0; i < 4; i++) {
        vectors[i] = _mm256_loadu_si256((const __m256i *)(values + 8 * i));
    }
}

/* 32 values of which n exist; the others are 0. */
static inline void NAME(load_values)(const int32_t *values, size_t n, __m256i vectors[4])
{
    if (n >= PIXELS_PER_WORD) {
        NAME(load_vectors)(values, vectors);
    } else {
        int32_t last[PIXELS_PER_WORD] = {0};
        memcpy(last, values, n * sizeof(int32_t));
        NAME(load_vectors)(last, vectors);
    }
}

/* Groups of 4 bytes from the order 0, 2, 4, 6, 1, 3, 5, 7, which packing makes, to 7, 6, ..., 0: so
 * that the first pixel is the highest byte, if each group is turned round as well. */
static inline __m256i NAME(last_group_first)(__m256i v)
{
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(7, 3, 6, 2, 5, 1, 4, 0));
}

/* bytes[i] gets byte i of the 32 magnitudes, that of the first one highest. */
static inline void NAME(split_bytes)(const int32_t *row, size_t n, __m256i bytes[4])
{
    /* the lowest bytes of 4 values together, last one first, then those above them */
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3));
    __m256i v[4];
    NAME(load_values)(row, n, v);
    for (unsigned i = 0; i < 4; i++) {
        v[i] = _mm256_shuffle_epi8(_mm256_abs_epi32(v[i]), order);
    }
    __m256i low0 = _mm256_unpacklo_epi32(v[0], v[1]), high0 = _mm256_unpackhi_epi32(v[0], v[1]);
    __m256i low1 = _mm256_unpacklo_epi32(v[2], v[3]), high1 = _mm256_unpackhi_epi32(v[2], v[3]);
    bytes[0] = NAME(last_group_first)(_mm256_unpacklo_epi64(low0, low1));
    bytes[1] = NAME(last_group_first)(_mm256_unpackhi_epi64(low0, low1));
    bytes[2] = NAME(last_group_first)(_mm256_unpacklo_epi64(high0, high1));
    bytes[3] = NAME(last_group_first)(_mm256_unpackhi_epi64(high0, high1));
}

/* A word of each plane from up to 32 pixels of two rows, or of one and none. */
static inline void NAME(split_word)(const int32_t *top, size_t ntop, const int32_t *bottom,
                                    size_t nbottom, unsigned nplanes, uint64_t *words,
                                    size_t stride)
{
    __m256i upper[4], lower[4];
    NAME(split_bytes)(top, ntop, upper);
    NAME(split_bytes)(bottom, nbottom, lower);
    for (unsigned i = 0; 8 * i < nplanes; i++) {
        unsigned end = 8 * i + 8 < nplanes ? 8 * i + 8 : nplanes;
        /* the wanted bit to the top of each byte; what comes from the next byte stays below the
         * last one that is wanted */
        __m128i shift = _mm_cvtsi32_si128((int)(8 * i + 8 - end));
        __m256i u = _mm256_sll_epi16(upper[i], shift), l = _mm256_sll_epi16(lower[i], shift);
        for (unsigned plane = end; plane-- > 8 * i;) {
            words[plane * stride] = NAME(put_row)((uint32_t)_mm256_movemask_epi8(u), 2) |
                                    NAME(put_row)((uint32_t)_mm256_movemask_epi8(l), 0);
            u = _mm256_add_epi8(u, u);
            l = _mm256_add_epi8(l, l);
        }
    }
}
#else
/* Bits of up to 32 magnitudes for each plane, the first pixel highest. */
static inline void NAME(split_bits)(const int32_t *row, size_t n, unsigned nplanes,
                                    uint32_t planes[32])
{
    uint32_t v[PIXELS_PER_WORD] = {0};
    for (size_t i = 0; i < n; i++) {
        v[i] = NAME(magnitude)(row[i]);
    }
    memset(planes, 0, 32 * sizeof(uint32_t));
    for (unsigned first = 0; first < nplanes; first += 8) {
        for (unsigned i = 0; i < PIXELS_PER_WORD; i += 8) {
            uint64_t bytes = 0;
            for (unsigned j = 0; j < 8; j++) {
                bytes = bytes << 8 | (v[i + j] >> first & 0xFF);
            }
            bytes = NAME(transpose_bits)(bytes);
            for (unsigned j = 0; j < 8; j++) {
                planes[first + j] |= (uint32_t)(bytes >> 8 * j & 0xFF) << (24 - i);
            }
        }
    }
}

static inline void NAME(split_word)(const int32_t *top, size_t ntop, const int32_t *bottom,
                                    size_t nbottom, unsigned nplanes, uint64_t *words,
                                    size_t stride)
{
    uint32_t upper[32], lower[32];
    NAME(split_bits)(top, ntop, nplanes, upper);
    NAME(split_bits)(bottom, nbottom, nplanes, lower);
    for (unsigned plane = 0; plane < nplanes; plane++) {
        words[plane * stride] = NAME(put_row)(upper[plane], 2) | NAME(put_row)(lower[plane], 0);
    }
}
#endif

static void NAME(split_rows)(const int32_t *top, const int32_t *bottom, size_t npixels,
                             unsigned nplanes, uint64_t *words, size_t stride)
{
    const int32_t *lower = bottom == NULL ? top : bottom;
    for (size_t i = 0; i < npixels; i += PIXELS_PER_WORD, words++) {
        size_t n = npixels - i < PIXELS_PER_WORD ? npixels - i : PIXELS_PER_WORD;
        size_t nlower = bottom == NULL ? 0 : n;
        NAME(split_word)(top + i, n, lower + i, nlower, nplanes, words, stride);
    }
}

/* Signs of up to 32 values that are not 0, that of the first one highest, and their number */
static inline uint64_t NAME(join_signs)(const int32_t *values, size_t n, unsigned *nsigns)
{
#if WITH_AVX2
    const __m256i reverse = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    __m256i v[4];
    NAME(load_values)(values, n, v);
    /* saturating keeps both the sign and what is 0 */
    __m256i low = _mm256_packs_epi32(v[0], v[1]), high = _mm256_packs_epi32(v[2], v[3]);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_packs_epi16(low, high), reverse);
    bytes = NAME(last_group_first)(bytes);
    __m256i is_zero = _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256());
    uint32_t flags = ~(uint32_t)_mm256_movemask_epi8(is_zero);
    *nsigns = NAME(count_ones)(flags);
    return _pext_u32((uint32_t)_mm256_movemask_epi8(bytes), flags);
#else
    uint64_t bits = 0;
    *nsigns = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned has_sign = values[i] != 0;
        bits = bits << has_sign | (values[i] < 0);
        *nsigns += has_sign;
    }
    return bits;
#endif
}

static void NAME(put_signs)(struct bitwriter *bw, const int32_t *values, size_t nvalues)
{
    struct bitwriter local = *bw;
    for (size_t i = 0; i < nvalues; i += PIXELS_PER_WORD) {
        size_t n = nvalues - i < PIXELS_PER_WORD ? nvalues - i : PIXELS_PER_WORD;
        unsigned nsigns;
        uint64_t signs = NAME(join_signs)(values + i, n, &nsigns);
        if (has_room(&local)) {
            put_with_room(&local, signs, nsigns);
        } else {
            bits_put(&local, signs, nsigns);
        }
    }
    *bw = local;
}

/* ----------------------------------------------------------------------- encoding codes */

/* Flags of 32 codes from two words of a row, of which the second may be behind its end. */
static inline uint32_t NAME(gather_flags)(const uint64_t *words, bool has_second)
{
    uint32_t flags = NAME(take_flags)(NAME(nonzero_codes)(words[0])) << 16;
    return has_second ? flags | NAME(take_flags)(NAME(nonzero_codes)(words[1])) : flags;
}

static void NAME(gather_codes)(const struct fitscodecs_hcompress_grid *below,
                               const struct fitscodecs_hcompress_grid *grid)
{
    const size_t nbelow = words_per_row(below->ncols), nwords = words_per_row(grid->ncols);
    for (size_t i = 0; i < grid->nrows; i++) {
        const uint64_t *upper = below->words + 2 * i * below->stride;
        const uint64_t *lower = 2 * i + 1 < below->nrows ? upper + below->stride : NULL;
        uint64_t *words = grid->words + i * grid->stride;
        for (size_t w = 0; w < nwords; w++) {
            bool has_second = 2 * w + 1 < nbelow;
            words[w] = NAME(put_row)(NAME(gather_flags)(upper + 2 * w, has_second), 2);
            if (lower != NULL) {
                words[w] |= NAME(put_row)(NAME(gather_flags)(lower + 2 * w, has_second), 0);
            }
        }
    }
}

#if WITH_AVX2
/* Up to 4 words, and 0 for those that are missing. */
static inline __m256i NAME(load_words)(const uint64_t *words, size_t n)
{
    const __m256i number = _mm256_setr_epi64x(0, 1, 2, 3);
    if (n >= 4) {
        return _mm256_loadu_si256((const __m256i *)words);
    }
    __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)n), number);
    return _mm256_maskload_epi64((const long long *)words, mask);
}

static uint64_t NAME(count_nbits)(const struct fitscodecs_hcompress_grid *grid)
{
    const __m256i nbits =
        _mm256_broadcastsi128_si256(/* of huffman_codes, but 0 for 0 */
                                    _mm_setr_epi8(0, 3, 3, 4, 3, 4, 5, 5, 3, 5, 4, 5, 4, 5, 6, 4));
    const __m256i low = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    const size_t nwords = words_per_row(grid->ncols);
    __m256i sums = zero;
    for (size_t i = 0; i < grid->nrows; i++) {
        const uint64_t *words = grid->words + i * grid->stride;
        for (size_t w = 0; w < nwords; w += 4) {
            __m256i v = NAME(load_words)(words + w, nwords - w);
            __m256i even = _mm256_shuffle_epi8(nbits, _mm256_and_si256(v, low));
            v = _mm256_srli_epi16(v, 4);
            __m256i odd = _mm256_shuffle_epi8(nbits, _mm256_and_si256(v, low));
            sums = _mm256_add_epi64(sums, _mm256_sad_epu8(_mm256_add_epi8(even, odd), zero));
        }
    }
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return (uint64_t)_mm_cvtsi128_si64(sum) + (uint64_t)_mm_extract_epi64(sum, 1);
}
#else
static uint64_t NAME(count_nbits)(const struct fitscodecs_hcompress_grid *grid)
{
    const size_t nwords = words_per_row(grid->ncols);
    uint64_t nbits = 0;
    for (size_t i = 0; i < grid->nrows; i++) {
        const uint64_t *words = grid->words + i * grid->stride;
        for (size_t w = 0; w < nwords; w++) {
            for (unsigned shift = 0; shift < 64; shift += 8) {
                nbits += fitscodecs_hcompress_pair_nbits[words[w] >> shift & 0xFF];
            }
        }
    }
    return nbits;
}
#endif

static size_t NAME(list_codes)(const struct fitscodecs_hcompress_grid *grid, uint64_t *list,
                               size_t ncodes)
{
    const size_t nwords = words_per_row(grid->ncols);
    struct list_end end = list_create(list + ncodes / CODES_PER_WORD);
    end.nbits = 4 * (unsigned)(ncodes % CODES_PER_WORD);
    end.word = end.nbits == 0 ? 0 : *end.next;
    for (size_t i = grid->nrows; i-- > 0;) {
        const uint64_t *words = grid->words + i * grid->stride;
        for (size_t w = nwords; w-- > 0;) {
            uint64_t ones = NAME(nonzero_codes)(words[w]);
            list_append(&end, NAME(take_set_codes)(words[w], ones), 4 * NAME(count_ones)(ones));
        }
    }
    list_close(&end);
    return (size_t)(end.next - list) * CODES_PER_WORD + end.nbits / 4;
}

/* Four bytes of a list, 8 codes, to at most 48 bits. */
static inline uint64_t NAME(join_pairs)(uint32_t codes, unsigned *nbits)
{
    const uint16_t *pairs = fitscodecs_hcompress_pairs;
    unsigned p0 = pairs[codes & 0xFF], p1 = pairs[codes >> 8 & 0xFF];
    unsigned p2 = pairs[codes >> 16 & 0xFF], p3 = pairs[codes >> 24];
    uint64_t first = (uint64_t)(p0 >> 4) << (p1 & 15) | p1 >> 4;
    uint64_t second = (uint64_t)(p2 >> 4) << (p3 & 15) | p3 >> 4;
    unsigned second_nbits = (p2 & 15) + (p3 & 15);
    *nbits = (p0 & 15) + (p1 & 15) + second_nbits;
    return first << second_nbits | second;
}

static void NAME(put_codes)(struct bitwriter *bw, const uint64_t *list, size_t ncodes)
{
    struct bitwriter local = *bw;
    size_t i = 0;
    for (; i + 8 <= ncodes && has_room(&local); i += 8) {
        unsigned nbits;
        uint32_t codes = (uint32_t)(list[i / CODES_PER_WORD] >> i % CODES_PER_WORD * 4);
        uint64_t bits = NAME(join_pairs)(codes, &nbits);
        put_with_room(&local, bits, nbits);
    }
    for (; i < ncodes; i++) {
        unsigned code = (unsigned)(list[i / CODES_PER_WORD] >> i % CODES_PER_WORD * 4) & 15;
        bits_put(&local, huffman_codes[code].bits, huffman_codes[code].nbits);
    }
    *bw = local;
}

static const struct fitscodecs_hcompress_kernels NAME(hcompress) = {
    .take_codes = NAME(take_codes),
    .spread_codes = NAME(spread_codes),
    .join_row = NAME(join_row),
    .inverse_cells = NAME(inverse_cells),
    .smooth_slopes = NAME(smooth_slopes),
    .smooth_curvatures = NAME(smooth_curvatures),
    .forward_cells = NAME(forward_cells),
    .join_magnitudes = NAME(join_magnitudes),
    .digitize = NAME(digitize),
    .split_rows = NAME(split_rows),
    .gather_codes = NAME(gather_codes),
    .count_nbits = NAME(count_nbits),
    .list_codes = NAME(list_codes),
    .put_codes = NAME(put_codes),
    .put_signs = NAME(put_signs),
};
