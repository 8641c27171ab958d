/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codes of HCOMPRESS_1, of 4 bits each, as the kernels keep them: 16 in a word of 64 bits.
 *
 * A grid has rows of codes as they lie in the plane.  Each row starts with a word of its own, whose
 * highest 4 bits are the first code; what is behind the last code of a row is 0.  So the bits 8 and
 * 4 of the codes of a row, read from the top, are the pixels of the plane's row above, and the bits
 * 2 and 1 those of the row below: 32 pixels of each in a word.
 *
 * A list has the codes of a stream as they follow each other, without gaps, the first one in the
 * lowest 4 bits.  A stream goes from the last code of a level to the first, so that what is lowest
 * in a word of a grid is lowest in a list.
 */
#ifndef FITSCODECS_HCOMPRESS_WORDS_H
#define FITSCODECS_HCOMPRESS_WORDS_H

#include "bitreader.h"
#include "bitwriter.h"
#include "hcompress_code.h"

#define CODES_PER_WORD 16
#define PIXELS_PER_WORD 32 /* in each of two rows */

/* Bits of the upper row, of the left column, and the lowest bit, of all codes of a word */
#define UPPER_BITS 0xCCCCCCCCCCCCCCCCu
#define LEFT_BITS 0xAAAAAAAAAAAAAAAAu
#define ONES 0x1111111111111111u

/* The codes of one level of the quadtree of one plane. */
struct fitscodecs_hcompress_grid {
    uint64_t *words;
    size_t nrows, ncols; /* of codes */
    size_t stride;       /* words from a row to the next */

    /* The last row or column of codes has only the upper or left half of its 2 x 2 cells. */
    bool lacks_lower, lacks_right;
};

static inline size_t words_per_row(size_t ncodes)
{
    return ceil_div(ncodes, CODES_PER_WORD);
}

/* Bits of the words of row i that belong to the plane; and those of the last word of any row */
static inline uint64_t row_mask(const struct fitscodecs_hcompress_grid *grid, size_t i)
{
    return grid->lacks_lower && i + 1 == grid->nrows ? UPPER_BITS : ~(uint64_t)0;
}

static inline uint64_t last_word_mask(const struct fitscodecs_hcompress_grid *grid)
{
    unsigned place = 4 * (unsigned)((0 - grid->ncols) % CODES_PER_WORD); /* of the last code */
    uint64_t last = (uint64_t)15 << place, before = ~(uint64_t)0 << place ^ last;
    return before | (grid->lacks_right ? last & LEFT_BITS : last);
}

/* --------------------------------------------------------------------------------- lists */

/* Where a list ends: 'word' holds the last codes, 'nbits' < 64 bits, which are not a word yet. */
struct list_end {
    uint64_t *next;
    uint64_t word;
    unsigned nbits;
};

static inline struct list_end list_create(uint64_t *words)
{
    struct list_end end = {words, 0, 0};
    return end;
}

/* Append codes of at most 64 bits; the bits above them must be 0.  A word is stored each time,
 * which is cheaper than to find out whether it is finished. */
static inline void list_append(struct list_end *end, uint64_t codes, unsigned nbits)
{
    unsigned total = end->nbits + nbits;
    uint64_t word = end->word | codes << end->nbits;
    uint64_t rest = codes >> 4 >> (60 - end->nbits); /* nbits is a multiple of 4 */
    *end->next = word;
    end->next += total >> 6;
    end->word = total >= 64 ? rest : word;
    end->nbits = total & 63;
}

static inline void list_close(const struct list_end *end)
{
    *end->next = end->word;
}

/* 16 codes of the list, from number 'place' on; they may be beyond its end by up to two words. */
static inline uint64_t list_get(const uint64_t *words, size_t place)
{
    const uint64_t *word = words + place / CODES_PER_WORD;
    unsigned nbits = 4 * (unsigned)(place % CODES_PER_WORD);
    return word[0] >> nbits | word[1] << 4 << (60 - nbits);
}

/* Words for a list of n codes: list_append() stores one, list_get() looks at two beyond its end. */
static inline size_t list_nwords(size_t ncodes)
{
    return saturating_add(ncodes / CODES_PER_WORD, 3);
}

/* ------------------------------------------------------------------------------- streams */

/* Whether what waits and 8 bytes more can be written. */
static inline bool has_room(const struct bitwriter *bw)
{
    return bw->end - bw->next >= 8;
}

/* bits_put() for n <= 56 bits where there is room: a store of 8 bytes, of which those that are not
 * complete are stored again later. */
static inline void put_with_room(struct bitwriter *bw, uint64_t bits, unsigned n)
{
    bw->window = bw->window << n | bits;
    bw->nbits += n;
    store_be64(bw->next, bw->window << 1 << (63 - bw->nbits)); /* nbits may be 0 */
    bw->next += bw->nbits / 8;
    bw->nbits %= 8;
    bw->window &= ((uint64_t)1 << bw->nbits) - 1;
}

/* 64 bits where there is room */
static inline void put_word_with_room(struct bitwriter *bw, uint64_t word)
{
    store_be64(bw->next, bw->window << 1 << (63 - bw->nbits) | word >> bw->nbits);
    bw->next += 8;
    bw->window = word & (((uint64_t)1 << bw->nbits) - 1);
}

/* Bits of the stream that were taken, and that are left */
static inline size_t bits_position(const struct bitreader *br)
{
    return 8 * (size_t)(br->next - br->start) - br->nbits;
}

static inline size_t bits_left(const struct bitreader *br)
{
    return 8 * (size_t)(br->end - br->next) + br->nbits;
}

/* Go on at a position that is not beyond the end. */
static inline void bits_seek(struct bitreader *br, size_t position)
{
    br->next = br->start + position / 8;
    br->window = 0;
    br->nbits = 0;
    bits_refill(br);
    bits_drop(br, position % 8);
}

/* 64 bits from a position that is not beyond the end on; behind it they are 0. */
static inline uint64_t word_at(const struct bitreader *br, size_t position)
{
    const uint8_t *next = br->start + position / 8;
    const unsigned shift = position % 8;
    uint8_t last[9] = {0};
    if (br->end - next < 9) {
        memcpy(last, next, (size_t)(br->end - next));
        next = last;
    }
    return load_be64(next) << shift | next[8] >> (8 - shift);
}

#endif
