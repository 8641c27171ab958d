/* SPDX-License-Identifier: BSD-3-Clause */
/* What plio.c and the kernels of PLIO_1 share: the code words, and where a decoder is. */
#ifndef FITSCODECS_PLIO_H
#define FITSCODECS_PLIO_H

#include "common.h"

#define PLIO_RUN_MAX 4095       /* largest argument of one word */
#define PLIO_LEVEL_MAX 0xFFFFFF /* pixels have 24 bits */

/* Operations, as described in plio.c.  Bit 1 tells those that move the level, bit 0 of those the
 * ones that lower it, bit 2 those that paint pixels of the level. */
enum plio_operation {
    PLIO_ZEROS,
    PLIO_SET_LEVEL,
    PLIO_RAISE,
    PLIO_LOWER,
    PLIO_RUN,
    PLIO_ZEROS_THEN_ONE,
    PLIO_RAISE_THEN_ONE,
    PLIO_LOWER_THEN_ONE,
};

/* The second word of PLIO_SET_LEVEL is signed. */
static inline int64_t plio_level(uint32_t argument, const uint8_t *second)
{
    return sign_extend(load_be16(second), 16) * 4096 + argument;
}

/* Where the decoder is in the tile; room is what is left of it. */
struct plio_cursor {
    void *pixels;
    size_t room;
    int64_t level; /* at most 2^30 words move it by less than 2^28 each: no overflow */
    int64_t most;  /* the highest level that is painted */
};

/* Pixels that the encoder looks at in one call of a kernel, and what it needs for their steps. */
#define PLIO_CHUNK 1024
#define PLIO_STEPS_LENGTH (PLIO_CHUNK + 64)

#endif
