/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The runs of PLIO_1: where they end, and painting them.  Included once for each instruction set,
 * see kernels.h.
 *
 * Runs have random lengths, so a branch that depends on one is guessed wrong about once a run,
 * which costs more than to write or look at some dozens of pixels for nothing.  So there are few
 * such branches here.
 */

/* ------------------------------------------------------------------------- find_steps */

#define STEPS_BLOCK 64 /* pixels at a time, a bit each */

#if WITH_AVX2
/* Bit k tells whether p[k] differs from p[k - 1]; 32 pixels. */
static inline uint32_t NAME(steps_of_32)(const int32_t *p)
{
    /* Packing works on halves of a register: four pixels of each vector in turn. */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i same[4];

    for (int i = 0; i < 4; i++) {
        __m256i here = _mm256_loadu_si256((const __m256i *)(p + 8 * i));
        __m256i before = _mm256_loadu_si256((const __m256i *)(p + 8 * i - 1));
        same[i] = _mm256_cmpeq_epi32(here, before);
    }
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(same[0], same[1]),
                                       _mm256_packs_epi32(same[2], same[3]));
    return ~(uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(bytes, order));
}

static inline uint64_t NAME(steps_of_block)(const int32_t *p)
{
    return NAME(steps_of_32)(p) | (uint64_t)NAME(steps_of_32)(p + 32) << 32;
}
#elif WITH_SSE41
static inline uint32_t NAME(steps_of_16)(const int32_t *p)
{
    __m128i same[4];

    for (int i = 0; i < 4; i++) {
        __m128i here = _mm_loadu_si128((const __m128i *)(p + 4 * i));
        __m128i before = _mm_loadu_si128((const __m128i *)(p + 4 * i - 1));
        same[i] = _mm_cmpeq_epi32(here, before);
    }
    __m128i bytes =
        _mm_packs_epi16(_mm_packs_epi32(same[0], same[1]), _mm_packs_epi32(same[2], same[3]));
    return ~(uint32_t)_mm_movemask_epi8(bytes) & 0xFFFF;
}

static inline uint64_t NAME(steps_of_block)(const int32_t *p)
{
    uint64_t steps = 0;
    for (int i = 0; i < 4; i++) {
        steps |= (uint64_t)NAME(steps_of_16)(p + 16 * i) << (16 * i);
    }
    return steps;
}
#endif

#if WITH_SSE41
/*
 * Append the positions of the bits; 'first' is that of bit 0.  Four are written whether there are
 * as many or not, so that the usual block needs no branch that depends on them.
 */
static inline size_t NAME(put_steps)(uint64_t bits, size_t first, uint16_t *steps)
{
    const uint64_t stop = (uint64_t)1 << 63; /* something to find when there is no bit left */
    size_t n = 0;
    uint64_t left = bits;

    do {
        for (int i = 0; i < 4; i++, left &= left - 1) {
            steps[n + i] = (uint16_t)(first + (size_t)__builtin_ctzll(left | stop));
        }
        n += 4;
    } while (left != 0);
    return (size_t)__builtin_popcountll(bits);
}
#else
/* The steps among the pixels of a block: all are compared, then eight at a time are skipped that
 * have none.  'first' is the position of the first one. */
static inline size_t NAME(find_in_block)(const int32_t *p, size_t first, uint16_t *steps)
{
    const int32_t *before = p - 1;
    uint8_t differs[STEPS_BLOCK];
    uint64_t eight;
    size_t n = 0;

    for (size_t i = 0; i < STEPS_BLOCK; i++) {
        differs[i] = p[i] != before[i];
    }
    for (size_t i = 0; i < STEPS_BLOCK; i += 8) {
        memcpy(&eight, differs + i, 8);
        for (size_t k = 0; eight != 0 && k < 8; k++) {
            steps[n] = (uint16_t)(first + i + k);
            n += differs[i + k];
        }
    }
    return n;
}
#endif

static size_t NAME(find_steps)(const int32_t *pixels, size_t n, uint16_t *steps)
{
    size_t i = 1, nsteps = 0;

    for (; i + STEPS_BLOCK <= n; i += STEPS_BLOCK) {
#if WITH_SSE41
        nsteps += NAME(put_steps)(NAME(steps_of_block)(pixels + i), i, steps + nsteps);
#else
        nsteps += NAME(find_in_block)(pixels + i, i, steps + nsteps);
#endif
    }
    for (; i < n; i++) {
        steps[nsteps] = (uint16_t)i;
        nsteps += pixels[i] != pixels[i - 1];
    }
    return nsteps;
}

/* ------------------------------------------------------------------------------ paint */

#define PIXEL uint8_t
#define WIDE(function) function##_u8
#include "plio_paint.h"

#define PIXEL int16_t
#define WIDE(function) function##_i16
#include "plio_paint.h"

#define PIXEL int32_t
#define WIDE(function) function##_i32
#include "plio_paint.h"

static const struct fitscodecs_plio_kernels NAME(plio) = {
    .find_steps = NAME(find_steps),
    .paint = {NAME(paint_u8), NAME(paint_i16), NAME(paint_i32)},
};

#undef STEPS_BLOCK
