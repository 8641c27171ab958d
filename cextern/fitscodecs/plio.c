/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PLIO_1, the IRAF pixel list (FITS Standard 4.0, section 10.4.3): run lengths for masks.
 *
 * A stream is a list of 16-bit big-endian words.  The head has 7 words: 0, 7 (index of the first
 * code word), -100, the number of words (low 15 bits, then the bits above), 0, 0; or in an older
 * form 3 words, the third of which is the number of words and therefore positive.  A code word is
 * an operation in bits 12 to 15 and an argument A in bits 0 to 11, acting on a level V that starts
 * at 1 and on the position in the tile:
 *
 *     0  A zeros                          4  A pixels of V
 *     1  V = next word * 4096 + A         5  A - 1 zeros, then one V
 *     2  V += A                           6  V += A, then one V
 *     3  V -= A                           7  V -= A, then one V
 *
 * Rows of the tile simply follow each other.  Pixels that the list does not reach are 0.
 */
#include "common.h"

#define HEAD_NWORDS 7
#define OLD_HEAD_NWORDS 3
#define RUN_MAX 4095               /* largest argument of one word */
#define LEVEL_MAX 0xFFFFFF         /* pixels have 24 bits */
#define LIST_MAX_NWORDS 0x3FFFFFFF /* the head has 15 + 15 bits for the length */

enum { ZEROS, SET_LEVEL, RAISE, LOWER, RUN, ZEROS_THEN_ONE, RAISE_THEN_ONE, LOWER_THEN_ONE };

static enum fitscodecs_status check(const struct fitscodecs_tile *tile,
                                    struct fitscodecs_result *result)
{
    return fitscodecs_check_npixels(tile, result);
}

static size_t pixel_nbytes(const struct fitscodecs_tile *tile)
{
    (void)tile;
    return 4;
}

/*
 * A run of c pixels after a gap of g zeros takes at most 2 words to set the level, and g + c words
 * at one word a pixel; 2 + g + c <= 3 (g + c) since c >= 1.  A gap at the end takes at most g.
 */
static size_t encode_bound(const struct fitscodecs_tile *tile)
{
    size_t nwords = saturating_add(saturating_mul(tile->nx * tile->ny, 3), HEAD_NWORDS);
    return saturating_mul(nwords, 2);
}

static size_t scratch_nbytes(const struct fitscodecs_tile *tile)
{
    (void)tile;
    return 0;
}

/* ------------------------------------------------------------------------------ encode */

struct list {
    uint8_t *words;
    size_t nwords, capacity; /* words past the capacity are counted, not stored */
};

static void put_word(struct list *list, unsigned operation, uint32_t argument)
{
    if (list->nwords < list->capacity) {
        store_be16(list->words + 2 * list->nwords, (uint32_t)operation << 12 | argument);
    }
    list->nwords++;
}

/* 'n' pixels of one operation; returns the argument of the last word, 0 if there was none. */
static uint32_t put_run(struct list *list, unsigned operation, size_t n)
{
    uint32_t argument = 0;
    for (; n > 0; n -= argument) {
        argument = n < RUN_MAX ? (uint32_t)n : RUN_MAX;
        put_word(list, operation, argument);
    }
    return argument;
}

/*
 * A gap of zeros and the run of 'count' pixels of 'value' > 0 after it.  'level' is the last value
 * written.
 *
 * A single pixel after a gap is merged into the last word of the gap (operation 5), which adds 1
 * to its argument; when that is already the largest one, the pixel gets its own word instead.
 * (Software that adds regardless carries into the operation and loses 4095 zeros.)
 */
static void put_gap_and_run(struct list *list, int32_t *level, size_t gap, int32_t value,
                            size_t count)
{
    int32_t step = value - *level;
    *level = value;
    if (step > RUN_MAX || step < -RUN_MAX) {
        put_word(list, SET_LEVEL, (uint32_t)value & 0xFFF);
        put_word(list, 0, (uint32_t)value >> 12);
    } else if (step != 0) {
        bool alone = gap == 0 && count == 1;
        uint32_t argument = (uint32_t)(step > 0 ? step : -step);
        put_word(list, (step > 0 ? RAISE : LOWER) + (alone ? RAISE_THEN_ONE - RAISE : 0), argument);
        if (alone) {
            return;
        }
    }

    uint32_t last = put_run(list, ZEROS, gap);
    if (count == 1 && last > 0 && last < RUN_MAX) {
        list->nwords--;
        put_word(list, ZEROS_THEN_ONE, last + 1);
    } else {
        put_run(list, RUN, count);
    }
}

static void put_head(struct list *list, size_t nwords)
{
    const uint32_t head[HEAD_NWORDS] = {
        0, HEAD_NWORDS, 0xFF9C /* -100 */, nwords & 0x7FFF, (uint32_t)(nwords >> 15), 0, 0,
    };
    list->nwords = 0;
    for (size_t i = 0; i < HEAD_NWORDS; i++) {
        put_word(list, head[i] >> 12, head[i] & 0xFFF);
    }
}

static enum fitscodecs_status encode(const struct fitscodecs_tile *tile, const void *pixels,
                                     uint8_t *out, size_t out_nbytes, void *scratch,
                                     struct fitscodecs_result *result)
{
    const int32_t *p = pixels;
    size_t npixels = tile->nx * tile->ny, gap = 0;
    int32_t level = 1;
    struct list list = {out, HEAD_NWORDS, out_nbytes / 2};

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    for (size_t i = 0, count; i < npixels; i += count) {
        if (p[i] < 0 || p[i] > LEVEL_MAX) {
            return fitscodecs_fail(result, FITSCODECS_VALUE_RANGE,
                                   "pixel value {found}, wanted 0 to {wanted}", p[i], LEVEL_MAX);
        }
        for (count = 1; i + count < npixels && p[i + count] == p[i]; count++) {
        }
        if (p[i] == 0) {
            gap = count;
        } else {
            put_gap_and_run(&list, &level, gap, p[i], count);
            gap = 0;
        }
    }
    put_run(&list, ZEROS, gap);

    size_t nwords = list.nwords;
    if (nwords > LIST_MAX_NWORDS) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "a list of {found} words, wanted at most {wanted}", (int64_t)nwords,
                               LIST_MAX_NWORDS);
    }
    if (nwords > list.capacity) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of output, wanted {wanted}", (int64_t)out_nbytes,
                               (int64_t)(2 * nwords));
    }
    put_head(&list, nwords);
    result->nbytes = 2 * nwords;
    return FITSCODECS_OK;
}

/* ------------------------------------------------------------------------------ decode */

/* The words [first, nwords) are the code; all of them are inside the input when OK is returned. */
static enum fitscodecs_status read_head(const uint8_t *in, size_t in_nbytes, size_t *first,
                                        size_t *nwords, struct fitscodecs_result *result)
{
    const char *ends_early = "data ends after {found} of {wanted} words";
    size_t available = in_nbytes / 2;
    int64_t length;

    if (available < OLD_HEAD_NWORDS) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT, ends_early, (int64_t)available,
                               OLD_HEAD_NWORDS);
    }
    length = sign_extend(load_be16(in + 4), 16);
    *first = OLD_HEAD_NWORDS;
    if (length <= 0) {
        if (available < HEAD_NWORDS) {
            return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT, ends_early, (int64_t)available,
                                   HEAD_NWORDS);
        }
        length = sign_extend(load_be16(in + 8), 16) * 32768 + (int64_t)load_be16(in + 6);
        *first = load_be16(in + 2);
    }
    if (length < (int64_t)*first) {
        return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                               "a list of {found} words, wanted at least {wanted}", length,
                               (int64_t)*first);
    }
    if ((uint64_t)length > available) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT, ends_early, (int64_t)available,
                               length);
    }
    *nwords = (size_t)length;
    return FITSCODECS_OK;
}

/* Where the decoder is in the tile; room is what is left of it. */
struct cursor {
    int32_t *pixels;
    size_t room;
};

/* n pixels of one value; those that no longer fit the tile are dropped. */
static void emit(struct cursor *cursor, size_t n, int32_t value)
{
    n = n < cursor->room ? n : cursor->room;
    for (size_t i = 0; i < n; i++) {
        cursor->pixels[i] = value;
    }
    cursor->pixels += n;
    cursor->room -= n;
}

/* Emit what an operation paints; the level has been moved already. */
static void paint(struct cursor *cursor, unsigned operation, uint32_t argument, int32_t level)
{
    switch (operation) {
    case ZEROS:
        emit(cursor, argument, 0);
        break;
    case RUN:
        emit(cursor, argument, level);
        break;
    case ZEROS_THEN_ONE:
        emit(cursor, argument == 0 ? 0 : argument - 1, 0);
        emit(cursor, 1, level);
        break;
    default: /* RAISE_THEN_ONE, LOWER_THEN_ONE */
        emit(cursor, 1, level);
    }
}

static enum fitscodecs_status decode(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result)
{
    struct cursor cursor = {pixels, tile->nx * tile->ny};
    size_t i, nwords;
    int64_t level = 1; /* at most 2^30 words move it by less than 2^28 each: no overflow */
    enum fitscodecs_status status;

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    status = read_head(in, in_nbytes, &i, &nwords, result);
    while (status == FITSCODECS_OK && i < nwords && cursor.room > 0) {
        uint32_t word = load_be16(in + 2 * i++);
        unsigned operation = word >> 12;
        uint32_t argument = word & 0xFFF;

        if (operation > LOWER_THEN_ONE) {
            return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                                   "operation {found}, wanted at most {wanted}", operation,
                                   LOWER_THEN_ONE);
        }
        if (operation == SET_LEVEL) {
            if (i == nwords) {
                return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                                       "list ends after {found} of {wanted} words", (int64_t)i,
                                       (int64_t)i + 1);
            }
            level = sign_extend(load_be16(in + 2 * i++), 16) * 4096 + argument;
        } else if (operation == RAISE || operation == RAISE_THEN_ONE) {
            level += argument;
        } else if (operation == LOWER || operation == LOWER_THEN_ONE) {
            level -= argument;
        }
        if (operation == ZEROS || operation >= RUN) {
            if (operation != ZEROS && (level < 0 || level > LEVEL_MAX)) {
                return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                                       "pixel value {found}, wanted 0 to {wanted}", level,
                                       LEVEL_MAX);
            }
            paint(&cursor, operation, argument, (int32_t)level);
        }
    }
    if (status == FITSCODECS_OK) {
        emit(&cursor, cursor.room, 0);
        result->nbytes = 2 * nwords;
    }
    return status;
}

const struct fitscodecs_codec fitscodecs_plio_1 = {
    .name = "PLIO_1",
    .parameters = {NULL},
    .check = check,
    .pixel_nbytes = pixel_nbytes,
    .encode_bound = encode_bound,
    .scratch_nbytes = scratch_nbytes,
    .encode = encode,
    .decode = decode,
};
