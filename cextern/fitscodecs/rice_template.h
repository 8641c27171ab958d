/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of RICE_1 for one pixel width; included by rice.c once for each.
 *
 * Expects PIXEL (an unsigned type of WIDTH bits), NAME(function) and WIDTH, and undefines them.
 */
#define IDBITS NAME(RICE_IDBITS)
#define RAWLEVEL NAME(RICE_RAWLEVEL)

static uint64_t NAME(sum_of_block)(const PIXEL *pixels, size_t m, PIXEL previous)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m; i++) {
        sum += NAME(rice_fold)((PIXEL)(pixels[i] - previous));
        previous = pixels[i];
    }
    return sum;
}

static void NAME(encode_block)(struct bitwriter *bw, const PIXEL *pixels, size_t m, PIXEL previous)
{
    uint64_t sum = NAME(sum_of_block)(pixels, m, previous);
    unsigned level = rice_level(sum, m);

    if (level >= RAWLEVEL) {
        bits_put(bw, RAWLEVEL + 1, IDBITS);
        for (size_t i = 0; i < m; i++) {
            bits_put(bw, NAME(rice_fold)((PIXEL)(pixels[i] - previous)), WIDTH);
            previous = pixels[i];
        }
    } else if (sum == 0) {
        bits_put(bw, 0, IDBITS);
    } else {
        uint32_t low = ((uint32_t)1 << level) - 1;
        bits_put(bw, level + 1, IDBITS);
        for (size_t i = 0; i < m; i++) {
            PIXEL u = NAME(rice_fold)((PIXEL)(pixels[i] - previous));
            bits_put_zeros(bw, (uint64_t)u >> level);
            bits_put(bw, (low + 1) | (u & low), level + 1);
            previous = pixels[i];
        }
    }
}

static void NAME(put_first)(struct bitwriter *bw, const void *pixels)
{
    bits_put(bw, *(const PIXEL *)pixels, WIDTH);
}

/* Blocks of all pixels but the first 'done', which are whole blocks. */
static void NAME(encode_from)(struct bitwriter *bw, const void *pixels, size_t npixels,
                              size_t blocksize, size_t done)
{
    const PIXEL *p = pixels;

    while (done < npixels) {
        size_t m = npixels - done < blocksize ? npixels - done : blocksize;
        NAME(encode_block)(bw, p + done, m, p[done == 0 ? 0 : done - 1]);
        done += m;
    }
}

/*
 * One block of m pixels.  'previous' is the pixel before it, in its low bits, and becomes the last
 * one of the block; 'done' tells how many were stored when the status is not OK.  The stream is
 * checked bit by bit, so nothing is read past its end.
 */
static enum fitscodecs_status NAME(decode_block)(struct bitreader *br, void *out, size_t m,
                                                 uint32_t *previous, size_t *done,
                                                 struct fitscodecs_result *result)
{
    PIXEL *pixels = out;
    uint64_t code, value;

    *done = 0;
    if (!bits_take(br, IDBITS, &code)) {
        return FITSCODECS_SHORT_INPUT;
    }
    if (code == 0) {
        for (size_t i = 0; i < m; i++) {
            pixels[i] = (PIXEL)*previous;
        }
        return FITSCODECS_OK;
    }
    if (code > RAWLEVEL + 1) {
        return fitscodecs_fail(result, FITSCODECS_BAD_DATA, bad_code, (int64_t)code, RAWLEVEL + 1);
    }
    if (code == RAWLEVEL + 1) {
        for (; *done < m; ++*done) {
            if (!bits_take(br, WIDTH, &value)) {
                return FITSCODECS_SHORT_INPUT;
            }
            *previous += rice_unfold((uint32_t)value);
            pixels[*done] = (PIXEL)*previous;
        }
        return FITSCODECS_OK;
    }

    unsigned level = (unsigned)code - 1;
    uint64_t most = (PIXEL)~(PIXEL)0 >> level, zeros; /* u has to fit WIDTH bits */
    for (; *done < m; ++*done) {
        enum fitscodecs_status status = take_unary(br, most, &zeros);
        if (status == FITSCODECS_BAD_DATA) {
            return fitscodecs_fail(result, status, bad_run, (int64_t)zeros, (int64_t)most);
        }
        if (status != FITSCODECS_OK || !bits_take(br, level, &value)) {
            return FITSCODECS_SHORT_INPUT;
        }
        *previous += rice_unfold((uint32_t)(zeros << level | value));
        pixels[*done] = (PIXEL)*previous;
    }
    return FITSCODECS_OK;
}

/* All pixels, to rows of nx, which have whole blocks if there is more than one. */
static enum fitscodecs_status NAME(decode)(struct bitreader *br, const struct fitscodecs_rows *out,
                                           size_t nx, size_t npixels, size_t blocksize,
                                           struct fitscodecs_result *result)
{
    uint32_t previous;
    uint64_t first;

    if (!bits_take(br, WIDTH, &first)) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT, ends_early, 0, (int64_t)npixels);
    }
    previous = (uint32_t)first ^ highest_bit(out, WIDTH);
    for (size_t i = 0; i < npixels;) {
        size_t m = npixels - i < blocksize ? npixels - i : blocksize, done;
        PIXEL *row = (PIXEL *)((uint8_t *)out->pixels + (ptrdiff_t)(i / nx) * out->row_nbytes);
        enum fitscodecs_status status =
            NAME(decode_block)(br, row + i % nx, m, &previous, &done, result);
        if (status == FITSCODECS_SHORT_INPUT) {
            return fitscodecs_fail(result, status, ends_early, (int64_t)(i + done),
                                   (int64_t)npixels);
        }
        if (status != FITSCODECS_OK) {
            return status;
        }
        i += m;
        if (out->done != NULL && (i % nx == 0 || i == npixels)) {
            out->done(out->context, (i - 1) / nx);
        }
    }
    return FITSCODECS_OK;
}

#undef PIXEL
#undef NAME
#undef WIDTH
#undef IDBITS
#undef RAWLEVEL
