/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of RICE_1 for one pixel width; included by rice.c once for each.
 *
 * Expects PIXEL (an unsigned type of WIDTH bits), NAME(function), WIDTH, IDBITS and RAWLEVEL, and
 * undefines them.
 */

/* Difference with its sign folded into the lowest bit, and back. */
static inline PIXEL NAME(fold)(PIXEL pixel, PIXEL previous)
{
    PIXEL difference = (PIXEL)(pixel - previous);
    PIXEL sign = (PIXEL)(0 - (difference >> (WIDTH - 1))); /* all ones if negative */
    return (PIXEL)((PIXEL)(difference << 1) ^ sign);
}

static inline PIXEL NAME(unfold)(PIXEL u)
{
    return (PIXEL)((u >> 1) ^ (PIXEL)(0 - (u & 1)));
}

static uint64_t NAME(sum_of_block)(const PIXEL *pixels, size_t m, PIXEL previous)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m; i++) {
        sum += NAME(fold)(pixels[i], previous);
        previous = pixels[i];
    }
    return sum;
}

static void NAME(encode_block)(struct bitwriter *bw, const PIXEL *pixels, size_t m, PIXEL previous)
{
    uint64_t sum = NAME(sum_of_block)(pixels, m, previous);
    unsigned level = choose_level(sum, m);

    if (level >= RAWLEVEL) {
        bits_put(bw, RAWLEVEL + 1, IDBITS);
        for (size_t i = 0; i < m; i++) {
            bits_put(bw, NAME(fold)(pixels[i], previous), WIDTH);
            previous = pixels[i];
        }
    } else if (sum == 0) {
        bits_put(bw, 0, IDBITS);
    } else {
        uint32_t low = ((uint32_t)1 << level) - 1;
        bits_put(bw, level + 1, IDBITS);
        for (size_t i = 0; i < m; i++) {
            PIXEL u = NAME(fold)(pixels[i], previous);
            bits_put_zeros(bw, (uint64_t)u >> level);
            bits_put(bw, (low + 1) | (u & low), level + 1);
            previous = pixels[i];
        }
    }
}

static void NAME(encode)(struct bitwriter *bw, const void *pixels, size_t npixels, size_t blocksize)
{
    const PIXEL *p = pixels;
    PIXEL previous = p[0];

    bits_put(bw, previous, WIDTH);
    for (size_t i = 0; i < npixels; i += blocksize) {
        size_t m = npixels - i < blocksize ? npixels - i : blocksize;
        NAME(encode_block)(bw, p + i, m, previous);
        previous = p[i + m - 1];
        if (m < blocksize) {
            break; /* so that i cannot wrap */
        }
    }
}

/*
 * One block of m pixels.  'done' tells how many were stored when the status is not OK; the stream
 * is checked bit by bit, so nothing is read past its end.
 */
static enum fitscodecs_status NAME(decode_block)(struct bitreader *br, PIXEL *pixels, size_t m,
                                                 PIXEL previous, size_t *done,
                                                 struct fitscodecs_result *result)
{
    uint64_t code, value;

    *done = 0;
    if (!bits_take(br, IDBITS, &code)) {
        return FITSCODECS_SHORT_INPUT;
    }
    if (code == 0) {
        for (size_t i = 0; i < m; i++) {
            pixels[i] = previous;
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
            pixels[*done] = previous = (PIXEL)(previous + NAME(unfold)((PIXEL)value));
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
        PIXEL u = (PIXEL)(zeros << level | value);
        pixels[*done] = previous = (PIXEL)(previous + NAME(unfold)(u));
    }
    return FITSCODECS_OK;
}

static enum fitscodecs_status NAME(decode)(struct bitreader *br, void *pixels, size_t npixels,
                                           size_t blocksize, struct fitscodecs_result *result)
{
    PIXEL *p = pixels;
    PIXEL previous;
    uint64_t first;

    if (!bits_take(br, WIDTH, &first)) {
        return fitscodecs_fail(result, FITSCODECS_SHORT_INPUT, ends_early, 0, (int64_t)npixels);
    }
    previous = (PIXEL)first;
    for (size_t i = 0; i < npixels;) {
        size_t m = npixels - i < blocksize ? npixels - i : blocksize, done;
        enum fitscodecs_status status = NAME(decode_block)(br, p + i, m, previous, &done, result);
        if (status == FITSCODECS_SHORT_INPUT) {
            return fitscodecs_fail(result, status, ends_early, (int64_t)(i + done),
                                   (int64_t)npixels);
        }
        if (status != FITSCODECS_OK) {
            return status;
        }
        i += m;
        previous = p[i - 1];
    }
    return FITSCODECS_OK;
}

#undef PIXEL
#undef NAME
#undef WIDTH
#undef IDBITS
#undef RAWLEVEL
