/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of PLIO_1; part of checkkernels.c. */

/* Around the blocks of 48 and 64 pixels that the kernels work with, and what a chunk may have. */
static const size_t plio_lengths[] = {1,   2,   3,   8,   16,  17,  31,  32,   33,   47,
                                      48,  49,  63,  64,  65,  66,  96,  97,   127,  128,
                                      129, 130, 192, 193, 300, 511, 777, 1023, 1024, 1025};
#define NPLIO_REPEATS 30
#define PLIO_MAX_NWORDS 60

/* Runs with a mean length of 1 to 256, or the same value all along. */
static void fill_runs(int32_t *pixels, size_t n)
{
    size_t length = (size_t)1 << random_below(9);
    int32_t value = random_once_in(3) ? (int32_t)random_u64() : 0;
    bool is_flat = random_once_in(8);

    for (size_t i = 0; i < n; i++) {
        if (!is_flat && random_once_in(length)) {
            value = random_once_in(4) ? (int32_t)random_u64() : (int32_t)random_below(3);
        }
        pixels[i] = value;
    }
}

static uint64_t compare_steps(const struct fitscodecs_plio_kernels *fast, size_t n)
{
    struct buffer pixels = buffer_new(4 * n, 4);
    struct buffer steps = buffer_new(2 * PLIO_STEPS_LENGTH, 2);
    const int32_t *p = (const int32_t *)pixels.data;
    const uint16_t *found = (const uint16_t *)steps.data;
    size_t nfound, nwanted = 0;

    set_case("find_steps, %zu pixels", n);
    fill_runs((int32_t *)pixels.data, n);
    nfound = fast->find_steps(p, n, (uint16_t *)steps.data);
    for (size_t i = 1; i < n; i++) {
        if (p[i] != p[i - 1]) {
            CHECK(nwanted < nfound && found[nwanted] == i);
            nwanted++;
        }
    }
    CHECK(nfound == nwanted);
    buffer_free(&steps);
    buffer_free(&pixels);
    return 1;
}

/* Words of any kind, or mostly of those that an encoder writes. */
static void fill_words(uint8_t *words, size_t n)
{
    bool is_tame = random_once_in(2);

    for (size_t i = 0; i < n; i++) {
        uint32_t word = (uint32_t)random_u64() & 0xFFFF;
        if (is_tame || random_once_in(2)) {
            word &= 0x7000 | (random_once_in(8) ? 0xFFF : 0x7F);
        }
        store_be16(words + 2 * i, word);
    }
}

/* Follow words as the standard describes them, and return the level that they leave; the pixels of
 * so many bytes have to be those that there are. */
static int64_t follow_words(const uint8_t *words, size_t nwords, int64_t level,
                            const uint8_t *pixels, size_t nbytes, size_t npixels)
{
    size_t at = 0;

    for (size_t i = 0; i < nwords; i++) {
        uint32_t word = load_be16(words + 2 * i), argument = word & 0xFFF;
        size_t nzeros = 0, nlevels = 0;
        switch (word >> 12) {
        case 0:
            nzeros = argument;
            break;
        case 1:
            level = sign_extend(load_be16(words + 2 * ++i), 16) * 4096 + argument;
            break;
        case 4:
            nlevels = argument;
            break;
        case 5:
            nzeros = argument - (argument > 0);
            nlevels = 1;
            break;
        default: /* 2, 3, 6, 7 */
            level += word >> 12 & 1 ? -(int64_t)argument : (int64_t)argument;
            nlevels = word >> 12 >= 6;
        }
        for (; nzeros + nlevels > 0; at++) {
            uint64_t wanted = nzeros > 0 ? 0 : (uint64_t)level;
            CHECK(at < npixels && load_pixel(pixels, nbytes, at) == wanted);
            *(nzeros > 0 ? &nzeros : &nlevels) -= 1;
        }
    }
    CHECK(at == npixels);
    return level;
}

/* The pixels up to the cursor have to be right; those behind it are painted later. */
static uint64_t compare_paint(const struct fitscodecs_plio_kernels *portable,
                              const struct fitscodecs_plio_kernels *fast, size_t width,
                              size_t npixels)
{
    static const int64_t highest[] = {UINT8_MAX, INT16_MAX, PLIO_LEVEL_MAX};
    size_t nwords = random_below(PLIO_MAX_NWORDS + 1), nwanted, nfound;
    size_t nbytes = (size_t)1 << width;
    struct buffer words = buffer_new(2 * nwords, 1);
    struct buffer wanted = buffer_new(nbytes * npixels, nbytes);
    struct buffer found = buffer_new(nbytes * npixels, nbytes);
    int64_t level =
        random_once_in(8) ? random_between(-100, (int64_t)1 << 40) : random_between(0, 9);
    struct plio_cursor one = {wanted.data, npixels, level, highest[width]};
    struct plio_cursor other = {found.data, npixels, level, highest[width]};

    set_case("paint, %zu words, %zu pixels of %zu bytes", nwords, npixels, nbytes);
    fill_words(words.data, nwords);
    random_bytes(found.data, found.nbytes);
    nwanted = portable->paint[width](words.data, nwords, &one);
    nfound = fast->paint[width](words.data, nwords, &other);
    CHECK(nfound == nwanted && nfound <= nwords);
    CHECK(other.room == one.room && other.level == one.level);
    CHECK((uint8_t *)other.pixels == found.data + nbytes * (npixels - other.room));
    CHECK(other.level ==
          follow_words(words.data, nfound, level, found.data, nbytes, npixels - other.room));
    buffer_free(&found);
    buffer_free(&wanted);
    buffer_free(&words);
    return 1;
}

/* What they mean: each operation once, then one that is none. */
static void check_meaning_of_plio(const struct fitscodecs_plio_kernels *k)
{
    static const uint16_t list[] = {0x0002, 0x4003, 0x2004, 0x5003, 0x6002, 0x7001,
                                    0x3005, 0x1005, 1,      0x4002, 0x8000};
    static const int32_t wanted[] = {0, 0, 1, 1, 1, 0, 0, 5, 7, 6, 4101, 4101};
    uint8_t words[sizeof list];
    int32_t pixels[512];
    struct plio_cursor cursor = {pixels, LENGTH(pixels), 1, PLIO_LEVEL_MAX};

    set_case("the meaning of the words of PLIO_1");
    for (size_t i = 0; i < LENGTH(list); i++) {
        store_be16(words + 2 * i, list[i]);
    }
    CHECK(k->paint[2](words, LENGTH(list), &cursor) == LENGTH(list) - 1);
    CHECK((int32_t *)cursor.pixels == pixels + LENGTH(wanted));
    CHECK(cursor.level == 4101);
    CHECK(memcmp(pixels, wanted, sizeof wanted) == 0);
}

static uint64_t check_plio_kernels(const struct fitscodecs_kernels *portable,
                                   const struct fitscodecs_kernels *fast)
{
    uint64_t ncases = 0;

    check_meaning_of_plio(fast->plio);
    for (size_t i = 0; i < LENGTH(plio_lengths); i++) {
        for (size_t repeat = 0; repeat < NPLIO_REPEATS; repeat++) {
            ncases += compare_steps(fast->plio, plio_lengths[i]);
            for (size_t width = 0; width < 3; width++) {
                ncases += compare_paint(portable->plio, fast->plio, width, 8 * plio_lengths[i] - 7);
            }
        }
    }
    return ncases;
}
