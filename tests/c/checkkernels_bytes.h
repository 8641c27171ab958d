/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that put bytes in another order; part of checkkernels.c. */

/* Around the widths of vectors, for items of 1 to 8 bytes, and a length with many of them. */
static const size_t byte_lengths[] = {
    0,  1,  2,  3,  4,  5,  7,   8,   9,   15,  16,  17,  23,  24,  25,  31,   32,   33,  47,
    48, 63, 64, 65, 95, 96, 127, 128, 129, 191, 255, 256, 257, 511, 513, 1000, 1024, 4095};
#define NREPEATS 4

typedef void kernel(const void *in, void *out, size_t n, size_t itemsize);

static void compare_bytes(kernel *portable, kernel *fast, size_t n, size_t itemsize)
{
    size_t nbytes = n * itemsize;
    struct buffer in = buffer_new(nbytes, itemsize);
    struct buffer wanted = buffer_new(nbytes, itemsize), found = buffer_new(nbytes, itemsize);
    struct buffer kept;

    random_bytes(in.data, nbytes);
    random_bytes(found.data, nbytes);
    kept = buffer_copy(in.data, nbytes, itemsize);
    portable(in.data, wanted.data, n, itemsize);
    fast(in.data, found.data, n, itemsize);
    if (nbytes > 0) {
        CHECK(memcmp(wanted.data, found.data, nbytes) == 0);
        CHECK(memcmp(in.data, kept.data, nbytes) == 0);
    }
    buffer_free(&kept);
    buffer_free(&found);
    buffer_free(&wanted);
    buffer_free(&in);
}

/* One line for each kernel of the table. */
static uint64_t compare_bytes_tables(const struct fitscodecs_bytes_kernels *portable,
                                     const struct fitscodecs_bytes_kernels *fast, size_t n,
                                     size_t itemsize)
{
    uint64_t ncases = 0;
#define COMPARE(name)                                                                              \
    set_case("%s, %zu items of %zu bytes", #name, n, itemsize);                                    \
    compare_bytes(portable->name, fast->name, n, itemsize);                                        \
    ncases++
    COMPARE(swap);
    COMPARE(shuffle);
    COMPARE(unshuffle);
#undef COMPARE
    return ncases;
}

/* What they mean, which no comparison tells. */
static void check_meaning_of_bytes(const struct fitscodecs_bytes_kernels *k)
{
    const uint16_t items[3] = {0x0102, 0x0304, 0x0506};
    const uint8_t swapped[6] = {1, 2, 3, 4, 5, 6}, shuffled[6] = {1, 3, 5, 2, 4, 6};
    uint8_t bytes[6];
    uint16_t back[3];

    k->swap(items, bytes, 3, 2);
    CHECK(memcmp(bytes, swapped, 6) == 0);
    k->swap(bytes, back, 3, 2);
    CHECK(memcmp(back, items, 6) == 0);
    k->shuffle(items, bytes, 3, 2);
    CHECK(memcmp(bytes, shuffled, 6) == 0);
    k->unshuffle(bytes, back, 3, 2);
    CHECK(memcmp(back, items, 6) == 0);
}

static uint64_t check_bytes_kernels(const struct fitscodecs_kernels *portable,
                                    const struct fitscodecs_kernels *fast)
{
    uint64_t ncases = 0;

    check_meaning_of_bytes(fast->bytes);
    for (size_t i = 0; i < LENGTH(byte_lengths); i++) {
        for (size_t itemsize = 1; itemsize <= 8; itemsize *= 2) {
            for (size_t repeat = 0; repeat < NREPEATS; repeat++) {
                ncases +=
                    compare_bytes_tables(portable->bytes, fast->bytes, byte_lengths[i], itemsize);
            }
        }
    }
    return ncases;
}
