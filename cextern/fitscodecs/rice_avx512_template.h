/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of rice_avx512.h that depends on the width of a pixel; included by
 * rice_decode_template.h, whose macros it uses.
 */

/* Streams as they are read in step. */
struct RICE(rice_crowd) {
    struct rice_columns columns;
    __m512i limit[2], end[2]; /* as in a struct rice_lane */
    __m512i previous;
    PIXEL *pixels[RICE_COLUMNS]; /* of a lane that is not in use: those of the first one */
    __mmask16 in_use, failed;
};

/* Rows of 32 bits that make a block of each stream: two pixels in one if they are narrow. */
#define PACKED_ROWS (WIDTH == 32 ? RICE_ROWS : RICE_ROWS / 2)

/* n rows of symbols, from row i on, to rows of pixels. */
static ALWAYS_INLINE void RICE(rice_unpack_rows)(const __m512i *symbols, const size_t n,
                                                 struct rice_unpacking *u, __m512i *packed,
                                                 size_t i)
{
    RICE_UNROLL
    for (size_t k = 0; k < n; k += 2) {
        __m512i even = _mm512_add_epi32(u->previous, NAME(rice_differences_of)(symbols[k], u));
        u->previous = _mm512_add_epi32(even, NAME(rice_differences_of)(symbols[k + 1], u));
#if WIDTH == 32
        packed[i + k] = even;
        packed[i + k + 1] = u->previous;
#else
        packed[(i + k) / 2] =
            _mm512_mask_blend_epi16(0xAAAAAAAA, even, _mm512_slli_epi32(u->previous, 16));
#endif
    }
}

/* A group of n symbols of each lane; while the windows of the next one come, they are unpacked. */
static ALWAYS_INLINE void RICE(rice_read_group)(struct rice_columns *c, const size_t nhalves,
                                                const size_t n, struct rice_unpacking *u,
                                                __m512i *packed, size_t i)
{
    __m512i symbols[8];

    NAME(rice_read_symbols)(c, nhalves, n, symbols);
    NAME(rice_move_columns)(c, nhalves);
    RICE(rice_unpack_rows)(symbols, n, u, packed, i);
}

/* A block in groups of n symbols, n even; the first one has less, as the code has some bits. */
static ALWAYS_INLINE void RICE(rice_read_groups)(struct rice_columns *c, const size_t nhalves,
                                                 const size_t first, const size_t n,
                                                 struct rice_unpacking *u, __m512i *packed)
{
    const size_t rest = (RICE_ROWS - first) % n;

    RICE(rice_read_group)(c, nhalves, first, u, packed, 0);
    for (size_t i = first; i + n <= RICE_ROWS; i += n) {
        RICE(rice_read_group)(c, nhalves, n, u, packed, i);
    }
    if (rest > 0) {
        RICE(rice_read_group)(c, nhalves, rest, u, packed, RICE_ROWS - rest);
    }
}

/* The pixels of each stream; the first one last, so that those of lanes not in use are gone. */
static ALWAYS_INLINE void RICE(rice_store_columns)(__m512i *packed, const size_t nhalves,
                                                   PIXEL *const *pixels, size_t done)
{
    for (size_t first = 0; first < PACKED_ROWS; first += 16) {
        __m512i *r = packed + first;
        NAME(rice_transpose)(r);
        RICE_UNROLL
        for (size_t k = 8 * nhalves; k-- > 0;) {
#if WIDTH == 8
            _mm256_storeu_si256((__m256i *)(pixels[k] + done), _mm512_cvtepi16_epi8(r[k]));
#else
            _mm512_storeu_si512(pixels[k] + done + first, r[k]);
#endif
        }
    }
}

/* The block of each good lane.  A window has 57 bits: of noise that chose its level, groups of 8, 6
 * or 4 symbols seldom have more. */
static ALWAYS_INLINE void RICE(rice_read_columns)(struct rice_columns *c, const size_t nhalves,
                                                  struct rice_unpacking *u, PIXEL *const *pixels,
                                                  size_t done)
{
    __m512i packed[PACKED_ROWS];

    if (_mm512_mask_cmpgt_epi32_mask(c->good, u->level, _mm512_set1_epi32(3)) == 0) {
        RICE(rice_read_groups)(c, nhalves, 6, 8, u, packed);
    } else if (_mm512_mask_cmpgt_epi32_mask(c->good, u->level, _mm512_set1_epi32(5)) == 0) {
        RICE(rice_read_groups)(c, nhalves, 2, 6, u, packed);
    } else {
        RICE(rice_read_groups)(c, nhalves, 4, 4, u, packed);
    }
    RICE(rice_store_columns)(packed, nhalves, pixels, done);
}

RICE_APART void RICE(rice_read_8_columns)(struct rice_columns *c, struct rice_unpacking *u,
                                          PIXEL *const *pixels, size_t done)
{
    RICE(rice_read_columns)(c, 1, u, pixels, done);
}

RICE_APART void RICE(rice_read_16_columns)(struct rice_columns *c, struct rice_unpacking *u,
                                           PIXEL *const *pixels, size_t done)
{
    RICE(rice_read_columns)(c, 2, u, pixels, done);
}

/* Start a block: read its code; lanes stay good whose level is one of the usual ones. */
static ALWAYS_INLINE __m512i RICE(rice_start_columns)(struct rice_columns *c)
{
    __m512i code[2], level;

    RICE_UNROLL
    for (size_t h = 0; h < 2; h++) {
        code[h] = _mm512_srli_epi64(c->window[h], 64 - WIDE(RICE_IDBITS));
        c->window[h] = _mm512_slli_epi64(c->window[h], WIDE(RICE_IDBITS));
    }
    level = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(code[0])),
                               _mm512_cvtepi64_epi32(code[1]), 1);
    level = _mm512_sub_epi32(level, _mm512_set1_epi32(1));
    c->good = _mm512_mask_cmple_epu32_mask(c->good, level, _mm512_set1_epi32(FAST_LEVEL));
    RICE_UNROLL
    for (size_t h = 0; h < 2; h++) {
        c->shift[h] = _mm512_maskz_mov_epi64(NAME(rice_half)(c->good, h), code[h]);
    }
    return _mm512_maskz_mov_epi32(c->good, level);
}

/* Lanes stay good that used no bits behind their stream; the others are where the block began. */
static ALWAYS_INLINE void RICE(rice_stay_inside)(struct RICE(rice_crowd) * crowd,
                                                 const struct rice_columns *before)
{
    struct rice_columns *c = &crowd->columns;

    for (size_t h = 0; h < 2; h++) {
        __mmask8 has_bits = _mm512_test_epi64_mask(c->offset[h], c->offset[h]);
        __m512i behind =
            _mm512_mask_add_epi64(c->next[h], has_bits, c->next[h], _mm512_set1_epi64(1));
        __mmask8 good = NAME(rice_half)(c->good, h);
        good = _mm512_mask_cmple_epu64_mask(good, behind, crowd->end[h]);
        NAME(rice_keep_good)(c, h, good);
        c->next[h] = _mm512_mask_mov_epi64(before->next[h], good, c->next[h]);
        c->offset[h] = _mm512_mask_mov_epi64(before->offset[h], good, c->offset[h]);
    }
}

/* A block of each stream that is in use.  Returns the lanes that have it. */
static ALWAYS_INLINE __mmask16 RICE(rice_read_crowd)(struct RICE(rice_crowd) * crowd, size_t done)
{
    struct rice_columns *c = &crowd->columns;
    const struct rice_columns before = *c;
    const __m512i widest = _mm512_set1_epi32((int)(PIXEL)~(PIXEL)0);
    struct rice_unpacking u;

    c->good = crowd->in_use;
    u = NAME(rice_unpacking)(RICE(rice_start_columns)(c), crowd->previous);
    if (crowd->in_use < 1 << 8) {
        RICE(rice_read_8_columns)(c, &u, crowd->pixels, done);
    } else {
        RICE(rice_read_16_columns)(c, &u, crowd->pixels, done);
    }
    /* a symbol has 32 bits at most, and a folded difference those of a pixel */
    c->good = _mm512_mask_cmple_epu32_mask(c->good, u.highest, u.above);
    c->good = _mm512_mask_cmple_epu32_mask(c->good, u.highest, _mm512_srlv_epi32(widest, u.level));
    RICE(rice_stay_inside)(crowd, &before);
    crowd->previous = _mm512_mask_mov_epi32(crowd->previous, c->good, u.previous);
    return c->good;
}

/* The blocks of some lanes, one after the other; those that take the reference have failed. */
RICE_APART void RICE(rice_read_alone)(struct RICE(rice_crowd) * crowd, __mmask16 lanes, size_t done)
{
    uint64_t next[RICE_COLUMNS], offset[RICE_COLUMNS], limit[RICE_COLUMNS], end[RICE_COLUMNS];
    uint32_t previous[RICE_COLUMNS];

    memcpy(next, crowd->columns.next, sizeof next);
    memcpy(offset, crowd->columns.offset, sizeof offset);
    memcpy(limit, crowd->limit, sizeof limit);
    memcpy(end, crowd->end, sizeof end);
    memcpy(previous, &crowd->previous, sizeof previous);
    for (size_t k = 0; k < RICE_COLUMNS; k++) {
        if ((lanes >> k & 1) == 0) {
            continue;
        }
        struct rice_lane lane = {
            .next = (const uint8_t *)(uintptr_t)next[k],
            .offset = (unsigned)offset[k],
            .limit = (const uint8_t *)(uintptr_t)limit[k],
            .end = (const uint8_t *)(uintptr_t)end[k],
        };
        PIXEL last = (PIXEL)previous[k];
        if (!RICE(rice_block)(&lane, crowd->pixels[k] + done, RICE_ROWS, &last)) {
            crowd->failed |= (__mmask16)(1u << k);
        }
        next[k] = (uintptr_t)lane.next;
        offset[k] = lane.offset;
        previous[k] = last;
    }
    memcpy(crowd->columns.next, next, sizeof next);
    memcpy(crowd->columns.offset, offset, sizeof offset);
    memcpy(&crowd->previous, previous, sizeof previous);
    crowd->columns.good = crowd->in_use;
    NAME(rice_load_columns)(&crowd->columns);
}

/* Whether all lanes may begin another block here. */
static ALWAYS_INLINE bool RICE(rice_is_before_limit)(const struct RICE(rice_crowd) * crowd)
{
    const struct rice_columns *c = &crowd->columns;
    unsigned beyond = 0;

    for (size_t h = 0; h < 2; h++) {
        beyond |= _mm512_mask_cmpgt_epu64_mask(NAME(rice_half)(crowd->in_use, h), c->next[h],
                                               crowd->limit[h]);
    }
    return beyond == 0;
}

/* Take n streams; false, with those marked as stopped, if some have no block for the kernel. */
static bool RICE(rice_open_crowd)(struct RICE(rice_crowd) * crowd,
                                  struct fitscodecs_rice_stream *const *streams, size_t n,
                                  size_t *nblocks)
{
    uint64_t next[RICE_COLUMNS] = {0}, offset[RICE_COLUMNS] = {0}, limit[RICE_COLUMNS] = {0};
    uint64_t end[RICE_COLUMNS] = {0};
    uint32_t previous[RICE_COLUMNS] = {0};
    bool is_good = true;

    *nblocks = SIZE_MAX;
    for (size_t k = 0; k < RICE_COLUMNS; k++) {
        struct rice_lane lane;
        if (k >= n) {
            crowd->pixels[k] = streams[0]->pixels;
            continue;
        }
        size_t m = streams[k]->npixels / RICE_ROWS;
        *nblocks = m < *nblocks ? m : *nblocks;
        streams[k]->stopped = m == 0 || !NAME(rice_lane_open)(&lane, streams[k]);
        if (streams[k]->stopped) {
            is_good = false;
            continue;
        }
        next[k] = (uintptr_t)lane.next;
        offset[k] = lane.offset;
        limit[k] = (uintptr_t)lane.limit;
        end[k] = (uintptr_t)lane.end;
        previous[k] = streams[k]->previous;
        crowd->pixels[k] = streams[k]->pixels;
    }
    memcpy(crowd->columns.next, next, sizeof next);
    memcpy(crowd->columns.offset, offset, sizeof offset);
    memcpy(crowd->limit, limit, sizeof limit);
    memcpy(crowd->end, end, sizeof end);
    memcpy(&crowd->previous, previous, sizeof previous);
    crowd->in_use = (__mmask16)((1u << n) - 1);
    crowd->failed = 0;
    return is_good;
}

/* Give the streams back; a lane that failed did not do the last block. */
static void RICE(rice_close_crowd)(const struct RICE(rice_crowd) * crowd,
                                   struct fitscodecs_rice_stream *const *streams, size_t n,
                                   size_t done)
{
    uint64_t next[RICE_COLUMNS], offset[RICE_COLUMNS], limit[RICE_COLUMNS];
    uint32_t previous[RICE_COLUMNS];

    memcpy(next, crowd->columns.next, sizeof next);
    memcpy(offset, crowd->columns.offset, sizeof offset);
    memcpy(limit, crowd->limit, sizeof limit);
    memcpy(previous, &crowd->previous, sizeof previous);
    for (size_t k = 0; k < n; k++) {
        bool failed = (crowd->failed >> k & 1) != 0;
        size_t npixels = failed ? done - RICE_ROWS : done;
        streams[k]->stopped = failed || next[k] > limit[k];
        streams[k]->position = (next[k] - (uintptr_t)streams[k]->in) * 8 + offset[k];
        streams[k]->npixels -= npixels;
        streams[k]->pixels = (PIXEL *)streams[k]->pixels + npixels;
        streams[k]->previous = previous[k];
    }
}

/* Blocks of 5 to 16 streams. */
static void RICE(rice_decode_crowd)(struct fitscodecs_rice_stream *const *streams, size_t n)
{
    struct RICE(rice_crowd) crowd;
    size_t nblocks, done = 0;

    if (!RICE(rice_open_crowd)(&crowd, streams, n, &nblocks)) {
        return;
    }
    crowd.columns.good = crowd.in_use;
    NAME(rice_load_columns)(&crowd.columns);
    for (bool go_on = true; go_on && nblocks > 0; nblocks--, done += RICE_ROWS) {
        __mmask16 good = RICE(rice_read_crowd)(&crowd, done);
        if (RICE_UNLIKELY(good != crowd.in_use)) {
            RICE(rice_read_alone)(&crowd, (__mmask16)(crowd.in_use & ~good), done);
        }
        go_on = crowd.failed == 0 && RICE(rice_is_before_limit)(&crowd);
    }
    RICE(rice_close_crowd)(&crowd, streams, n, done);
}
