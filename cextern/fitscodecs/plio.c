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
#include "kernels.h"

#define HEAD_NWORDS 7
#define OLD_HEAD_NWORDS 3
#define LIST_MAX_NWORDS 0x3FFFFFFF /* the head has 15 + 15 bits for the length */

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
        argument = n < PLIO_RUN_MAX ? (uint32_t)n : PLIO_RUN_MAX;
        put_word(list, operation, argument);
    }
    return argument;
}

/*
 * put_gap_and_run() where the run has two pixels or more, and one word each is enough for the step
 * of the level, the gap and the run; false if that does not do.  Without a branch for what is
 * there: words of nothing are written as well, and the next one goes over them.
 */
static bool put_short(struct list *list, int32_t step, size_t gap, size_t count)
{
    uint32_t change = (uint32_t)(step > 0 ? step : -step);
    uint8_t *word;

    if (change > PLIO_RUN_MAX || gap > PLIO_RUN_MAX || count < 2 || count > PLIO_RUN_MAX ||
        list->nwords + 3 > list->capacity) {
        return false;
    }
    word = list->words + 2 * list->nwords;
    store_be16(word, (step > 0 ? PLIO_RAISE : PLIO_LOWER) << 12 | change);
    word += step != 0 ? 2 : 0;
    store_be16(word, PLIO_ZEROS << 12 | (uint32_t)gap);
    word += gap != 0 ? 2 : 0;
    store_be16(word, PLIO_RUN << 12 | (uint32_t)count);
    list->nwords += 1 + (step != 0) + (gap != 0);
    return true;
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
    if (put_short(list, step, gap, count)) {
        return;
    }
    if (step > PLIO_RUN_MAX || step < -PLIO_RUN_MAX) {
        put_word(list, PLIO_SET_LEVEL, (uint32_t)value & 0xFFF);
        put_word(list, 0, (uint32_t)value >> 12);
    } else if (step != 0) {
        bool alone = gap == 0 && count == 1;
        uint32_t argument = (uint32_t)(step > 0 ? step : -step);
        put_word(list,
                 (step > 0 ? PLIO_RAISE : PLIO_LOWER) +
                     (alone ? PLIO_RAISE_THEN_ONE - PLIO_RAISE : 0),
                 argument);
        if (alone) {
            return;
        }
    }

    uint32_t last = put_run(list, PLIO_ZEROS, gap);
    if (count == 1 && last > 0 && last < PLIO_RUN_MAX) {
        list->nwords--;
        put_word(list, PLIO_ZEROS_THEN_ONE, last + 1);
    } else {
        put_run(list, PLIO_RUN, count);
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

/* What the encoder has behind it: 'gap' zeros that are not written yet. */
struct encoder {
    struct list list;
    int32_t level;
    size_t gap;
};

/* The next 'count' pixels, all of one value. */
static enum fitscodecs_status encode_run(struct encoder *encoder, int32_t value, size_t count,
                                         struct fitscodecs_result *result)
{
    if (value < 0 || value > PLIO_LEVEL_MAX) {
        return fitscodecs_fail(result, FITSCODECS_VALUE_RANGE,
                               "pixel value {found}, wanted 0 to {wanted}", value, PLIO_LEVEL_MAX);
    }
    if (value == 0) {
        encoder->gap = count;
    } else {
        put_gap_and_run(&encoder->list, &encoder->level, encoder->gap, value, count);
        encoder->gap = 0;
    }
    return FITSCODECS_OK;
}

/* All runs of a tile, in chunks, each of which looks one pixel into the next one. */
static enum fitscodecs_status encode_runs(struct encoder *encoder, const int32_t *pixels,
                                          size_t npixels, struct fitscodecs_result *result)
{
    uint16_t steps[PLIO_STEPS_LENGTH];
    size_t start = 0; /* of the run */
    enum fitscodecs_status status = FITSCODECS_OK;

    for (size_t i = 0; i < npixels && status == FITSCODECS_OK; i += PLIO_CHUNK) {
        size_t n = npixels - i < PLIO_CHUNK + 1 ? npixels - i : PLIO_CHUNK + 1;
        size_t nsteps = fitscodecs_kernels.plio->find_steps(pixels + i, n, steps);
        for (size_t k = 0; k < nsteps && status == FITSCODECS_OK; k++) {
            size_t end = i + steps[k];
            status = encode_run(encoder, pixels[start], end - start, result);
            start = end;
        }
    }
    if (status == FITSCODECS_OK) {
        status = encode_run(encoder, pixels[start], npixels - start, result);
    }
    return status;
}

static enum fitscodecs_status encode(const struct fitscodecs_tile *tile, const void *pixels,
                                     uint8_t *out, size_t out_nbytes, void *scratch,
                                     struct fitscodecs_result *result)
{
    struct encoder encoder = {{out, HEAD_NWORDS, out_nbytes / 2}, 1, 0};
    struct list *list = &encoder.list;
    enum fitscodecs_status status;

    (void)scratch;
    *result = (struct fitscodecs_result){0};
    status = encode_runs(&encoder, pixels, tile->nx * tile->ny, result);
    if (status != FITSCODECS_OK) {
        return status;
    }
    put_run(list, PLIO_ZEROS, encoder.gap);

    size_t nwords = list->nwords;
    if (nwords > LIST_MAX_NWORDS) {
        return fitscodecs_fail(result, FITSCODECS_BAD_PARAMETER,
                               "a list of {found} words, wanted at most {wanted}", (int64_t)nwords,
                               LIST_MAX_NWORDS);
    }
    if (nwords > list->capacity) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_OUTPUT,
                               "{found} bytes of output, wanted {wanted}", (int64_t)out_nbytes,
                               (int64_t)(2 * nwords));
    }
    put_head(list, nwords);
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

/* The cursor, and the bytes of the pixels that it points to: 1, 2 or 4. */
struct painter {
    struct plio_cursor cursor;
    size_t pixel_nbytes;
};

/* n pixels of one value; those that no longer fit the tile are dropped. */
static void emit(struct painter *painter, size_t n, int32_t value)
{
    struct plio_cursor *cursor = &painter->cursor;
    uint8_t *u8 = cursor->pixels;
    int16_t *i16 = cursor->pixels;
    int32_t *i32 = cursor->pixels;

    n = n < cursor->room ? n : cursor->room;
    for (size_t i = 0; i < n; i++) {
        if (painter->pixel_nbytes == 1) {
            u8[i] = (uint8_t)value;
        } else if (painter->pixel_nbytes == 2) {
            i16[i] = (int16_t)value;
        } else {
            i32[i] = value;
        }
    }
    cursor->pixels = u8 + n * painter->pixel_nbytes;
    cursor->room -= n;
}

/* Emit what an operation paints; the level has been moved already. */
static void paint(struct painter *painter, unsigned operation, uint32_t argument)
{
    int32_t level = (int32_t)painter->cursor.level;

    switch (operation) {
    case PLIO_ZEROS:
        emit(painter, argument, 0);
        break;
    case PLIO_RUN:
        emit(painter, argument, level);
        break;
    case PLIO_ZEROS_THEN_ONE:
        emit(painter, argument == 0 ? 0 : argument - 1, 0);
        emit(painter, 1, level);
        break;
    default: /* PLIO_RAISE_THEN_ONE, PLIO_LOWER_THEN_ONE */
        emit(painter, 1, level);
    }
}

/* Decode the operation at words[*i], and move on: any that there may be, anywhere in the tile. */
static enum fitscodecs_status decode_operation(const uint8_t *words, size_t nwords, size_t *i,
                                               struct painter *painter,
                                               struct fitscodecs_result *result)
{
    struct plio_cursor *cursor = &painter->cursor;
    uint32_t word = load_be16(words + 2 * (*i)++);
    unsigned operation = word >> 12;
    uint32_t argument = word & 0xFFF;

    if (operation > PLIO_LOWER_THEN_ONE) {
        return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                               "operation {found}, wanted at most {wanted}", operation,
                               PLIO_LOWER_THEN_ONE);
    }
    if (operation == PLIO_SET_LEVEL) {
        if (*i == nwords) {
            return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT,
                                   "list ends after {found} of {wanted} words", (int64_t)*i,
                                   (int64_t)*i + 1);
        }
        cursor->level = plio_level(argument, words + 2 * (*i)++);
    } else if (operation == PLIO_RAISE || operation == PLIO_RAISE_THEN_ONE) {
        cursor->level += argument;
    } else if (operation == PLIO_LOWER || operation == PLIO_LOWER_THEN_ONE) {
        cursor->level -= argument;
    }
    if (operation == PLIO_ZEROS || operation >= PLIO_RUN) {
        if (operation != PLIO_ZEROS && (cursor->level < 0 || cursor->level > PLIO_LEVEL_MAX)) {
            return fitscodecs_fail(result, FITSCODECS_BAD_DATA,
                                   "pixel value {found}, wanted 0 to {wanted}", cursor->level,
                                   PLIO_LEVEL_MAX);
        }
        if (operation != PLIO_ZEROS && cursor->level > cursor->most) {
            return fitscodecs_fail(result, FITSCODECS_VALUE_RANGE,
                                   "pixel value {found}, wanted at most {wanted}", cursor->level,
                                   cursor->most);
        }
        paint(painter, operation, argument);
    }
    return FITSCODECS_OK;
}

static enum fitscodecs_status decode_to(struct painter *painter, const uint8_t *in,
                                        size_t in_nbytes, struct fitscodecs_result *result)
{
    size_t i = 0, nwords = 0, width = painter->pixel_nbytes == 4 ? 2 : painter->pixel_nbytes - 1;
    struct plio_cursor *cursor = &painter->cursor;
    enum fitscodecs_status status;

    *result = (struct fitscodecs_result){0};
    status = read_head(in, in_nbytes, &i, &nwords, result);
    while (status == FITSCODECS_OK && i < nwords && cursor->room > 0) {
        i += fitscodecs_kernels.plio->paint[width](in + 2 * i, nwords - i, cursor);
        if (i < nwords) {
            status = decode_operation(in, nwords, &i, painter, result);
        }
    }
    if (status == FITSCODECS_OK) {
        emit(painter, cursor->room, 0);
        result->nbytes = 2 * nwords;
    }
    return status;
}

static enum fitscodecs_status decode(const struct fitscodecs_tile *tile, const uint8_t *in,
                                     size_t in_nbytes, void *pixels, void *scratch,
                                     struct fitscodecs_result *result)
{
    struct painter painter = {{pixels, tile->nx * tile->ny, 1, PLIO_LEVEL_MAX}, 4};

    (void)scratch;
    return decode_to(&painter, in, in_nbytes, result);
}

static enum fitscodecs_status decode_narrow(const struct fitscodecs_tile *tile, const uint8_t *in,
                                            size_t in_nbytes, void *pixels, size_t nbytes,
                                            struct fitscodecs_result *result)
{
    struct painter painter = {{pixels, tile->nx * tile->ny, 1, nbytes == 1 ? UINT8_MAX : INT16_MAX},
                              nbytes};

    return decode_to(&painter, in, in_nbytes, result);
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
    .decode_narrow = decode_narrow,
};
