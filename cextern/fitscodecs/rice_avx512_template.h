/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of rice_avx512.h that depends on the width of a pixel; included by
 * rice_kernels_template.h, whose macros it uses.
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
static ALWAYS_INLINE void RICE(rice_read_group)(struct rice_columns *c, const size_t n,
                                                struct rice_unpacking *u, __m512i *packed, size_t i)
{
    __m512i symbols[8];

    NAME(rice_column_group)(c, symbols, n);
    NAME(rice_move_columns)(c);
    if (i + n < RICE_ROWS) {
        NAME(rice_load_columns)(c);
    }
    RICE(rice_unpack_rows)(symbols, n, u, packed, i);
}

/* A block in groups of 'most' symbols; a shorter first one has the bits behind the code. */
static ALWAYS_INLINE void RICE(rice_read_rows)(struct rice_columns *c, const size_t most,
                                               struct rice_unpacking *u, __m512i *packed)
{
    size_t i = RICE_ROWS % most;

    if (i > 0) {
        RICE(rice_read_group)(c, RICE_ROWS % most, u, packed, 0);
    }
    for (; i < RICE_ROWS; i += most) {
        RICE(rice_read_group)(c, most, u, packed, i);
    }
}

/* The pixels of each stream; the first one last, see above. */
static ALWAYS_INLINE void RICE(rice_store_columns)(__m512i *packed, PIXEL *const *pixels,
                                                   size_t done)
{
    for (size_t first = 0; first < PACKED_ROWS; first += 16) {
        __m512i *r = packed + first;
        NAME(rice_transpose)(r);
        RICE_UNROLL
        for (size_t k = RICE_COLUMNS; k-- > 0;) {
#if WIDTH == 8
            _mm256_storeu_si256((__m256i *)(pixels[k] + done), _mm512_cvtepi16_epi8(r[k]));
#else
            _mm512_storeu_si512(pixels[k] + done + first, r[k]);
#endif
        }
    }
}

/* The block of each good lane, in groups as the highest level asks for. */
RICE_APART void RICE(rice_read_columns)(struct rice_columns *c, __m512i level,
                                        struct rice_unpacking *u, PIXEL *const *pixels, size_t done)
{
    __m512i packed[PACKED_ROWS];

    if (_mm512_mask_cmpgt_epi32_mask(c->good, level, _mm512_set1_epi32(3)) == 0) {
        RICE(rice_read_rows)(c, 8, u, packed);
    } else if (_mm512_mask_cmpgt_epi32_mask(c->good, level, _mm512_set1_epi32(5)) == 0) {
        RICE(rice_read_rows)(c, 6, u, packed);
    } else {
        RICE(rice_read_rows)(c, 4, u, packed);
    }
    RICE(rice_store_columns)(packed, pixels, done);
}

/* Start a block: read its code; lanes stay good whose level is one of the usual ones. */
static ALWAYS_INLINE __m512i RICE(rice_start_columns)(struct rice_columns *c)
{
    __m512i code[2], level;

    NAME(rice_load_columns)(c);
    RICE_UNROLL
    for (size_t h = 0; h < 2; h++) {
        code[h] = _mm512_srli_epi64(c->window[h], 64 - WIDE(RICE_IDBITS));
        c->window[h] = _mm512_slli_epi64(c->window[h], WIDE(RICE_IDBITS));
    }
    level = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(code[0])),
                               _mm512_cvtepi64_epi32(code[1]), 1);
    level = _mm512_sub_epi32(level, _mm512_set1_epi32(1));
    c->good = _mm512_mask_cmple_epu32_mask(c->good, level, _mm512_set1_epi32(FAST_LEVEL));
    level = _mm512_maskz_mov_epi32(c->good, level);
    c->shift[0] = _mm512_maskz_mov_epi64(NAME(rice_half)(c->good, 0), code[0]);
    c->shift[1] = _mm512_maskz_mov_epi64(NAME(rice_half)(c->good, 1), code[1]);
    return level;
}

/* A block of each stream that is in use.  Returns the lanes that have it. */
static ALWAYS_INLINE __mmask16 RICE(rice_read_crowd)(struct RICE(rice_crowd) * crowd, size_t done)
{
    struct rice_columns *c = &crowd->columns;
    const __m512i next[2] = {c->next[0], c->next[1]}, offset[2] = {c->offset[0], c->offset[1]};
    const __m512i width = _mm512_set1_epi32((int)(PIXEL)~(PIXEL)0);
    __m512i level;
    struct rice_unpacking u;

    c->good = crowd->in_use;
    level = RICE(rice_start_columns)(c);
    u = NAME(rice_unpacking)(level, crowd->previous);
    RICE(rice_read_columns)(c, level, &u, crowd->pixels, done);
    /* a symbol of 32 bits, and a folded difference of as many as a pixel has */
    c->good = _mm512_mask_cmple_epu32_mask(c->good, u.highest, u.above);
    c->good = _mm512_mask_cmple_epu32_mask(c->good, u.highest, _mm512_srlv_epi32(width, level));
    for (size_t h = 0; h < 2; h++) {
        __mmask8 has_more = _mm512_test_epi64_mask(c->offset[h], c->offset[h]);
        __m512i behind =
            _mm512_mask_add_epi64(c->next[h], has_more, c->next[h], _mm512_set1_epi64(1));
        __mmask8 good = NAME(rice_half)(c->good, h);
        good = _mm512_mask_cmple_epu64_mask(good, behind, crowd->end[h]);
        c->good &= h == 0 ? (__mmask16)(0xFF00 | good) : (__mmask16)(0x00FF | good << 8);
        c->next[h] = _mm512_mask_mov_epi64(next[h], good, c->next[h]);
        c->offset[h] = _mm512_mask_mov_epi64(offset[h], good, c->offset[h]);
    }
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
    for (bool go_on = true; go_on && nblocks > 0; nblocks--, done += RICE_ROWS) {
        __mmask16 good = RICE(rice_read_crowd)(&crowd, done);
        if (RICE_UNLIKELY(good != crowd.in_use)) {
            RICE(rice_read_alone)(&crowd, (__mmask16)(crowd.in_use & ~good), done);
        }
        go_on = crowd.failed == 0 && RICE(rice_is_before_limit)(&crowd);
    }
    RICE(rice_close_crowd)(&crowd, streams, n, done);
}
