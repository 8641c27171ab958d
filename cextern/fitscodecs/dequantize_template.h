/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of dequantize.c, each over a contiguous run.  Included once for each pair of types,
 * with
 *
 *   INTEGER  type of the quantized pixels
 *   PIXEL    float or double
 *   SUFFIX   added to the name of each function
 *
 * The functions take untyped pointers so that those of all pairs have one type.
 */
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)
#define NAME(name) JOIN(name, SUFFIX)

static void NAME(plain)(const void *restrict in, size_t n, double scale, double zero,
                        void *restrict out)
{
    const INTEGER *restrict integers = in;
    PIXEL *restrict pixels = out;

    for (size_t i = 0; i < n; i++) {
        pixels[i] = (PIXEL)((double)integers[i] * scale + zero);
    }
}

static void NAME(dithered)(const void *restrict in, const float *restrict table, size_t n,
                           double scale, double zero, void *restrict out)
{
    const INTEGER *restrict integers = in;
    PIXEL *restrict pixels = out;

    for (size_t i = 0; i < n; i++) {
        pixels[i] = (PIXEL)(((double)integers[i] - table[i] + 0.5) * scale + zero);
    }
}

/* Set the pixels of an integer that stands for something else than a number of steps. */
static void NAME(replace)(const void *restrict in, size_t n, int64_t special, double value,
                          void *restrict out)
{
    const INTEGER *restrict integers = in;
    PIXEL *restrict pixels = out;
    INTEGER integer = (INTEGER)special;
    PIXEL replacement = (PIXEL)value;

    for (size_t i = 0; i < n; i++) {
        pixels[i] = integers[i] == integer ? replacement : pixels[i];
    }
}

static const struct dequantize_loops NAME(loops) = {NAME(plain), NAME(dithered), NAME(replace),
                                                    sizeof(INTEGER), sizeof(PIXEL)};

#undef JOIN_TOKENS
#undef JOIN
#undef NAME
#undef INTEGER
#undef PIXEL
#undef SUFFIX
