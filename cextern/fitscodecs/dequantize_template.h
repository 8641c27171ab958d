/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of dequantize_kernels.h, each over a contiguous run.  Included once for each pair of
 * types, with
 *
 *   INTEGER     type of the quantized pixels
 *   PIXEL       float or double
 *   TYPED(name) the name of a function for these types and instruction set
 *
 * The functions take untyped pointers so that those of all pairs have one type.
 */
static void TYPED(plain)(const void *restrict in, size_t n, double scale, double zero,
                         void *restrict out)
{
    const INTEGER *restrict integers = in;
    PIXEL *restrict pixels = out;

    for (size_t i = 0; i < n; i++) {
        pixels[i] = (PIXEL)((double)integers[i] * scale + zero);
    }
}

static void TYPED(dithered)(const void *restrict in, const float *restrict table, size_t n,
                            double scale, double zero, void *restrict out)
{
    const INTEGER *restrict integers = in;
    PIXEL *restrict pixels = out;

    for (size_t i = 0; i < n; i++) {
        pixels[i] = (PIXEL)(((double)integers[i] - table[i] + 0.5) * scale + zero);
    }
}

static bool TYPED(contains)(const void *in, size_t n, int64_t special)
{
    const INTEGER *integers = in;
    INTEGER integer = (INTEGER)special, found = 0;

    for (size_t i = 0; i < n; i++) {
        found |= integers[i] == integer;
    }
    return found != 0;
}

/* Set the pixels of an integer that stands for something else than a number of steps. */
static void TYPED(replace)(const void *restrict in, size_t n, int64_t special, double value,
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

#undef INTEGER
#undef PIXEL
#undef TYPED
