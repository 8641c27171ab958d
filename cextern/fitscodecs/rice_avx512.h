/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RICE_1 with AVX-512: the symbols of up to 16 streams, one in each lane of two vectors.
 *
 * Vectors count zeros and shift by another number in each lane, so that a step of a few
 * instructions reads a symbol of every stream.  What has been read stands in rows of 16, one for
 * each pixel of a block: differences are summed downward, and a transposition brings the pixels of
 * a stream together (rice_avx512_template.h).
 *
 * Windows are like those of rice_decode_kernels.h.  A lane whose block is not of the usual kind, or
 * has a group that does not fit its window, goes on with bits that mean nothing and reads no
 * memory, and its block is done by the function for one stream.
 */

#define RICE_COLUMNS 16
#define RICE_ROWS 32 /* pixels of a block, the only size that is done here */

/* Fewer streams than this are read faster by the loop for four. */
#define RICE_LEAST_COLUMNS 5

/* Bits of a window, and the marker below them. */
#define RICE_COLUMN_NBITS 57
#define RICE_COLUMN_MARKER (63 - RICE_COLUMN_NBITS)

/*
 * Streams that are read in step, as numbers of 64 bits: the first 8 and the others.  'nhalves', a
 * constant wherever it is given, is 1 if there are no others.
 *
 * Memory takes longer than a group of symbols to give the bits behind them.  So 128 bits are at
 * hand, of which the next window is made as soon as it is known where it begins; what it leaves is
 * filled up from memory while it is read.
 */
struct rice_columns {
    __m512i next[2];   /* addresses as in a struct rice_lane, */
    __m512i offset[2]; /* and bits */
    __m512i high[2];   /* the 8 bytes at 'next', */
    __m512i low[2];    /* and those behind them */
    __m512i window[2];
    __m512i shift[2]; /* level + 1 */
    __mmask16 good;   /* lanes that are read here */
};

static ALWAYS_INLINE __mmask8 NAME(rice_half)(__mmask16 mask, size_t half)
{
    return (__mmask8)(mask >> 8 * half);
}

/* Of one half of the lanes, those stay good that the mask has. */
static ALWAYS_INLINE void NAME(rice_keep_good)(struct rice_columns *c, size_t half, __mmask8 mask)
{
    unsigned others = half == 0 ? 0xFF00 : 0x00FF;
    c->good &= (__mmask16)(others | (unsigned)mask << 8 * half);
}

/* 8 bytes of each of 8 good lanes. */
static ALWAYS_INLINE __m512i NAME(rice_gather)(__m512i addresses, __mmask8 good)
{
    const __m512i swap =
        _mm512_broadcast_i32x4(_mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    __m512i bytes = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), good, addresses, NULL, 1);

    return _mm512_shuffle_epi8(bytes, swap);
}

/* 64 of 128 bits, from bit 'place' on, 0 to 64. */
static ALWAYS_INLINE __m512i NAME(rice_bits_from)(__m512i high, __m512i low, __m512i place)
{
    __m512i rest = _mm512_sub_epi64(_mm512_set1_epi64(64), place);
    return _mm512_or_si512(_mm512_sllv_epi64(high, place), _mm512_srlv_epi64(low, rest));
}

/* A window that begins so many bits behind 'next'. */
static ALWAYS_INLINE __m512i NAME(rice_column_window)(const struct rice_columns *c, size_t half,
                                                      __m512i place)
{
    const __m512i marker = _mm512_set1_epi64((int64_t)1 << RICE_COLUMN_MARKER);
    const __m512i below = _mm512_set1_epi64(((int64_t)2 << RICE_COLUMN_MARKER) - 1);
    __m512i bits = NAME(rice_bits_from)(c->high[half], c->low[half], place);

    return _mm512_ternarylogic_epi64(bits, below, marker, 0xBA); /* (bits & ~below) | marker */
}

/* Begin to read the good lanes where they are. */
static ALWAYS_INLINE void NAME(rice_load_columns)(struct rice_columns *c)
{
    for (size_t h = 0; h < 2; h++) {
        __mmask8 good = NAME(rice_half)(c->good, h);
        c->high[h] = NAME(rice_gather)(c->next[h], good);
        c->low[h] = NAME(rice_gather)(_mm512_add_epi64(c->next[h], _mm512_set1_epi64(8)), good);
        c->window[h] = NAME(rice_column_window)(c, h, c->offset[h]);
    }
}

/* Move on by the bits that have left the windows: they are above the last one, the marker. */
static ALWAYS_INLINE void NAME(rice_move_columns)(struct rice_columns *c, const size_t nhalves)
{
    const __m512i zero = _mm512_setzero_si512(), seven = _mm512_set1_epi64(7);

    RICE_UNROLL
    for (size_t h = 0; h < nhalves; h++) {
        __m512i marker = _mm512_and_si512(c->window[h], _mm512_sub_epi64(zero, c->window[h]));
        __m512i end = _mm512_add_epi64(c->offset[h], _mm512_set1_epi64(RICE_COLUMN_NBITS));
        __m512i place = _mm512_sub_epi64(end, _mm512_lzcnt_epi64(marker));
        c->window[h] = NAME(rice_column_window)(c, h, place);
        c->offset[h] = _mm512_and_si512(place, seven);
        c->next[h] = _mm512_add_epi64(c->next[h], _mm512_srli_epi64(place, 3));
        c->high[h] = NAME(rice_bits_from)(c->high[h], c->low[h], _mm512_andnot_si512(seven, place));
        c->low[h] = NAME(rice_gather)(_mm512_add_epi64(c->next[h], _mm512_set1_epi64(8)),
                                      NAME(rice_half)(c->good, h));
    }
}

/* The high 32 bits of the windows; if there are 8, nothing cares for what is behind them. */
static ALWAYS_INLINE __m512i NAME(rice_high_halves)(const __m512i *window, const size_t nhalves)
{
    const __m512i high =
        _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);

    return nhalves == 1 ? _mm512_permutexvar_epi32(high, window[0])
                        : _mm512_permutex2var_epi32(window[0], high, window[1]);
}

/* A group of n symbols of each lane: the 32 bits of the window from each on. */
static ALWAYS_INLINE void NAME(rice_read_symbols)(struct rice_columns *c, const size_t nhalves,
                                                  const size_t n, __m512i *symbols)
{
    __m512i window[2] = {c->window[0], c->window[1]};

    RICE_UNROLL
    for (size_t i = 0; i < n; i++) {
        symbols[i] = NAME(rice_high_halves)(window, nhalves);
        RICE_UNROLL
        for (size_t h = 0; h < nhalves; h++) {
            __m512i skip = _mm512_add_epi64(_mm512_lzcnt_epi64(window[h]), c->shift[h]);
            window[h] = _mm512_sllv_epi64(window[h], skip);
        }
    }
    RICE_UNROLL
    for (size_t h = 0; h < nhalves; h++) {
        c->window[h] = window[h];
        NAME(rice_keep_good)(c, h, _mm512_test_epi64_mask(window[h], window[h]));
    }
}

/* How symbols become pixels, in numbers of 32 bits. */
struct rice_unpacking {
    __m512i level;
    __m512i above;    /* 31 - level */
    __m512i one;      /* 1 << level */
    __m512i highest;  /* number of zeros so far */
    __m512i previous; /* pixels */
};

static ALWAYS_INLINE struct rice_unpacking NAME(rice_unpacking)(__m512i level, __m512i previous)
{
    struct rice_unpacking u = {
        .level = level,
        .above = _mm512_sub_epi32(_mm512_set1_epi32(31), level),
        .one = _mm512_sllv_epi32(_mm512_set1_epi32(1), level),
        .highest = _mm512_setzero_si512(),
        .previous = previous,
    };
    return u;
}

/* The differences that a row of symbols stands for.  Right if a symbol has no more than 32 bits. */
static ALWAYS_INLINE __m512i NAME(rice_differences_of)(__m512i symbols, struct rice_unpacking *u)
{
    __m512i zeros = _mm512_lzcnt_epi32(symbols);
    __m512i low = _mm512_srlv_epi32(_mm512_sllv_epi32(symbols, zeros), u->above); /* and a one */
    __m512i high = _mm512_sllv_epi32(zeros, u->level);
    __m512i folded = _mm512_ternarylogic_epi32(high, low, u->one, 0x96); /* all three by XOR */
    __m512i sign = _mm512_and_si512(folded, _mm512_set1_epi32(1));

    u->highest = _mm512_max_epu32(u->highest, zeros);
    return _mm512_xor_si512(_mm512_srli_epi32(folded, 1),
                            _mm512_sub_epi32(_mm512_setzero_si512(), sign));
}

/* 16 rows of 16 items of 32 bits to as many columns. */
static ALWAYS_INLINE void NAME(rice_transpose)(__m512i *r)
{
    __m512i t[16];

    RICE_UNROLL
    for (size_t i = 0; i < 16; i += 2) { /* the items of each quarter, of two rows in turn */
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    RICE_UNROLL
    for (size_t i = 0; i < 16; i += 4) { /* one item of each quarter, of four rows */
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    RICE_UNROLL
    for (size_t i = 0; i < 4; i++) { /* quarters 0 and 2, or 1 and 3, of eight rows */
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xDD);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xDD);
    }
    RICE_UNROLL
    for (size_t i = 0; i < 8; i++) { /* one quarter of all rows */
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xDD);
    }
}
