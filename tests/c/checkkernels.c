/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each kernel, for every combination of the features of this machine's CPU, against the portable
 * one: the same output from the same input, which stays as it is.
 */
#include "testing.h"

#include "kernels.h"

/* Around the widths of vectors, for items of 1 to 8 bytes, and a length with many of them. */
static const size_t lengths[] = {0,   1,   2,   3,   4,   5,   7,   8,   9,    15,   16,  17, 23,
                                 24,  25,  31,  32,  33,  47,  48,  63,  64,   65,   95,  96, 127,
                                 128, 129, 191, 255, 256, 257, 511, 513, 1000, 1024, 4095};
#define NREPEATS 4

typedef void kernel(const void *in, void *out, size_t n, size_t itemsize);

static void compare(kernel *portable, kernel *fast, size_t n, size_t itemsize)
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
static uint64_t compare_tables(const struct fitscodecs_kernels *portable,
                               const struct fitscodecs_kernels *fast, size_t n, size_t itemsize)
{
    uint64_t ncases = 0;
#define COMPARE(name)                                                                              \
    set_case("%s, %zu items of %zu bytes", #name, n, itemsize);                                    \
    compare(portable->name, fast->name, n, itemsize);                                              \
    ncases++
    COMPARE(swap);
    COMPARE(shuffle);
    COMPARE(unshuffle);
#undef COMPARE
    return ncases;
}

/* The portable kernels have no other ones to be compared with: what they mean. */
static void check_portable(const struct fitscodecs_kernels *k)
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

static uint64_t check_features(unsigned features)
{
    struct fitscodecs_kernels portable, fast;
    uint64_t ncases = 0;

    fitscodecs_kernels_init(&portable, 0);
    fitscodecs_kernels_init(&fast, features);
    check_portable(&fast);
    for (size_t i = 0; i < LENGTH(lengths); i++) {
        for (size_t itemsize = 1; itemsize <= 8; itemsize *= 2) {
            for (size_t repeat = 0; repeat < NREPEATS; repeat++) {
                ncases += compare_tables(&portable, &fast, lengths[i], itemsize);
            }
        }
    }
    return ncases;
}

int main(int argc, char **argv)
{
    unsigned found = fitscodecs_cpu_features();
    uint64_t ncases = 0;

    test_init(argc, argv);
    for (unsigned features = found;; features = (features - 1) & found) { /* all subsets */
        ncases += check_features(features);
        if (features == 0) {
            break;
        }
    }
    return test_done("checkkernels", ncases);
}
