/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of quantize.c that depend on the pixel type, each over a contiguous run.  Included
 * once for each type, with
 *
 *   PIXEL    float or double
 *   SUFFIX   added to the name of each function
 */
#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b) JOIN_TOKENS(a, b)
#define NAME(name) JOIN(name, SUFFIX)

/* Pixels as a number of steps from the zero point. */
static void NAME(to_steps)(const PIXEL *restrict in, size_t n, double scale, double zero,
                           double *restrict steps)
{
    for (size_t i = 0; i < n; i++) {
        steps[i] = ((double)in[i] - zero) / scale;
    }
}

static void NAME(mark_nan)(const PIXEL *restrict in, size_t n, int32_t *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = in[i] != in[i] ? FITSCODECS_NULL_INTEGER : out[i];
    }
}

/* Zeros of either sign. */
static void NAME(mark_zero)(const PIXEL *restrict in, size_t n, int32_t *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = in[i] == 0 ? FITSCODECS_ZERO_INTEGER : out[i];
    }
}

/* (max - min) and (min + max), rounded to the pixel type, where they may become infinite. */
static double NAME(difference)(double maximum, double minimum)
{
    PIXEL difference = (PIXEL)maximum - (PIXEL)minimum;
    return difference;
}

static double NAME(sum)(double minimum, double maximum)
{
    PIXEL sum = (PIXEL)minimum + (PIXEL)maximum;
    return sum;
}

#undef JOIN_TOKENS
#undef JOIN
#undef NAME
#undef PIXEL
#undef SUFFIX
