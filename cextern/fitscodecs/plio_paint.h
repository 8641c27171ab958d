/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Painting the runs of PLIO_1 in pixels of one type; included by plio_kernels.h once for each.
 *
 * Expects PIXEL and WIDE(function), and undefines them.
 */
#define PLIO(function) PLIO_NAME(WIDE(function))
#define PLIO_NAME(function) NAME(function) /* after WIDE() has been put in */

/* Pixels that are written at least.  Of 16, 32, 48, 64 and 96 this was the fastest for discs of 3
 * to 60 pixels radius, for segments of 2 to 9, and for single pixels. */
#define PAINT_BLOCK 48

/* n pixels of one value, and up to PAINT_BLOCK of it behind them, whatever n is. */
static inline void PLIO(fill)(PIXEL *p, size_t n, PIXEL value)
{
    size_t done = 0;
    do {
        for (size_t i = 0; i < PAINT_BLOCK; i++) {
            p[done + i] = value;
        }
        done += PAINT_BLOCK;
    } while (done < n);
}

static size_t PLIO(paint)(const uint8_t *words, size_t nwords, struct plio_cursor *cursor)
{
    PIXEL *p = cursor->pixels;
    size_t i = 0, room = cursor->room;
    int64_t level = cursor->level;
    uint64_t most = (uint64_t)cursor->most;

    while (i < nwords) {
        uint32_t word = load_be16(words + 2 * i);
        uint32_t operation = word >> 12, argument = word & 0xFFF;
        bool moves = (operation & 2) != 0;
        int64_t next = level;
        size_t n = 0;

        if (operation > PLIO_LOWER_THEN_ONE || (operation == PLIO_SET_LEVEL && nwords - i < 2)) {
            break;
        }
        if (operation == PLIO_SET_LEVEL) {
            next = plio_level(argument, words + 2 * i + 2);
        } else {
            next += !moves ? 0 : (operation & 1) != 0 ? -(int64_t)argument : (int64_t)argument;
            n = moves ? operation >> 2 : argument | (word == PLIO_ZEROS_THEN_ONE << 12);
        }
        if ((uint64_t)next > most || n + PAINT_BLOCK > room) { /* room for fill() */
            break;
        }
        level = next;
        i += operation == PLIO_SET_LEVEL ? 2 : 1;
        bool is_gap = operation == PLIO_ZEROS || operation == PLIO_ZEROS_THEN_ONE;
        PLIO(fill)(p, n, is_gap ? 0 : (PIXEL)level);
        p[n - (n != 0)] = operation == PLIO_ZEROS ? 0 : (PIXEL)level; /* n = 0: in the way */
        p += n;
        room -= n;
    }
    *cursor = (struct plio_cursor){p, room, level, cursor->most};
    return i;
}

#undef PAINT_BLOCK
#undef PLIO
#undef PLIO_NAME
#undef PIXEL
#undef WIDE
