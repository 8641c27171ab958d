/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of pixels in another order.  Included once for each instruction set, see kernels.h.
 */

/* load_be and memcpy are what makes these right on machines of either byte order. */
static void NAME(swap)(const void *in, void *out, size_t n, size_t itemsize)
{
    const uint8_t *src = in;
    uint8_t *dst = out;

    switch (itemsize) {
    case 2:
        for (size_t i = 0; i < n; i++) {
            uint16_t item = (uint16_t)load_be16(src + 2 * i);
            memcpy(dst + 2 * i, &item, 2);
        }
        break;
    case 4:
        for (size_t i = 0; i < n; i++) {
            uint32_t item = load_be32(src + 4 * i);
            memcpy(dst + 4 * i, &item, 4);
        }
        break;
    case 8:
        for (size_t i = 0; i < n; i++) {
            uint64_t item = load_be64(src + 8 * i);
            memcpy(dst + 8 * i, &item, 8);
        }
        break;
    default:
        memcpy(dst, src, n * itemsize);
    }
}

/* ------------------------------------------------------------------------------ shuffle */

/* Place in a native item of its byte k, most significant first. */
static ALWAYS_INLINE size_t NAME(byte_of_item)(size_t k, size_t itemsize)
{
    const uint16_t one = 1;
    uint8_t first;

    memcpy(&first, &one, 1);
    return first == 1 ? itemsize - 1 - k : k;
}

/* Items 'first' to n - 1, one plane of bytes after the other. */
static ALWAYS_INLINE void NAME(shuffle_rest)(const uint8_t *src, uint8_t *dst, size_t first,
                                             size_t n, size_t itemsize)
{
    for (size_t k = 0; k < itemsize; k++) {
        const uint8_t *from = src + NAME(byte_of_item)(k, itemsize);
        for (size_t i = first; i < n; i++) {
            dst[k * n + i] = from[i * itemsize];
        }
    }
}

/* One item after the other, all of its bytes at once: the other way would write each one anew. */
static ALWAYS_INLINE void NAME(unshuffle_rest)(const uint8_t *src, uint8_t *dst, size_t first,
                                               size_t n, size_t itemsize)
{
    for (size_t i = first; i < n; i++) {
        for (size_t k = 0; k < itemsize; k++) {
            dst[i * itemsize + NAME(byte_of_item)(k, itemsize)] = src[k * n + i];
        }
    }
}

#if WITH_AVX2
typedef __m256i NAME(vector);
#define LANES 2
#define INTERLEAVE_LOW _mm256_unpacklo_epi8
#define INTERLEAVE_HIGH _mm256_unpackhi_epi8
#elif WITH_SSE41
typedef __m128i NAME(vector);
#define LANES 1
#define INTERLEAVE_LOW _mm_unpacklo_epi8
#define INTERLEAVE_HIGH _mm_unpackhi_epi8
#endif

#if LANES
/*
 * A vector has lanes of 16 bytes, which do not mix: they work on two blocks side by side.
 *
 * A block is 16 items: 'itemsize' vectors.  The address of a byte in it is the number of its
 * vector, then that of the byte, together 4 + log2(itemsize) bits.  Interleaving the first half of
 * the vectors with the second half moves the highest bit of the address to the lowest place, and
 * all others up by one.
 *
 *  - Of an item after the other, the bits are (item, byte); after 4 steps they are (byte, item):
 *    one plane after the other.
 *  - log2(itemsize) further steps lead back to where it began.
 */
#define BLOCK (16 * LANES) /* items */

static ALWAYS_INLINE NAME(vector) NAME(load)(const uint8_t *p, size_t lane_nbytes)
{
#if WITH_AVX2
    __m128i low = _mm_loadu_si128((const __m128i *)p);
    __m128i high = _mm_loadu_si128((const __m128i *)(p + lane_nbytes));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
#else
    (void)lane_nbytes;
    return _mm_loadu_si128((const __m128i *)p);
#endif
}

static ALWAYS_INLINE void NAME(store)(uint8_t *p, size_t lane_nbytes, NAME(vector) v)
{
#if WITH_AVX2
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(v));
    _mm_storeu_si128((__m128i *)(p + lane_nbytes), _mm256_extracti128_si256(v, 1));
#else
    (void)lane_nbytes;
    _mm_storeu_si128((__m128i *)p, v);
#endif
}

/* 'nsteps' steps for 'itemsize' vectors; both are constants where this is used. */
static ALWAYS_INLINE void NAME(interleave)(NAME(vector) * v, size_t itemsize, int nsteps)
{
    NAME(vector) next[8];

    for (int step = 0; step < nsteps; step++) {
        for (size_t i = 0; i < itemsize / 2; i++) {
            next[2 * i] = INTERLEAVE_LOW(v[i], v[i + itemsize / 2]);
            next[2 * i + 1] = INTERLEAVE_HIGH(v[i], v[i + itemsize / 2]);
        }
        for (size_t i = 0; i < itemsize; i++) {
            v[i] = next[i];
        }
    }
}

static ALWAYS_INLINE size_t NAME(shuffle_blocks)(const uint8_t *src, uint8_t *dst, size_t n,
                                                 size_t itemsize)
{
    NAME(vector) v[8];
    size_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK) {
        for (size_t k = 0; k < itemsize; k++) {
            v[k] = NAME(load)(src + i * itemsize + 16 * k, 16 * itemsize);
        }
        NAME(interleave)(v, itemsize, 4);
        for (size_t k = 0; k < itemsize; k++) {
            NAME(store)(dst + k * n + i, 16, v[itemsize - 1 - k]);
        }
    }
    return i;
}

static ALWAYS_INLINE size_t NAME(unshuffle_blocks)(const uint8_t *src, uint8_t *dst, size_t n,
                                                   size_t itemsize)
{
    NAME(vector) v[8];
    size_t i = 0;

    for (; i + BLOCK <= n; i += BLOCK) {
        for (size_t k = 0; k < itemsize; k++) {
            v[itemsize - 1 - k] = NAME(load)(src + k * n + i, 16);
        }
        NAME(interleave)(v, itemsize, itemsize == 2 ? 1 : itemsize == 4 ? 2 : 3);
        for (size_t k = 0; k < itemsize; k++) {
            NAME(store)(dst + i * itemsize + 16 * k, 16 * itemsize, v[k]);
        }
    }
    return i;
}

#undef LANES
#undef BLOCK
#undef INTERLEAVE_LOW
#undef INTERLEAVE_HIGH
#else
static ALWAYS_INLINE size_t NAME(shuffle_blocks)(const uint8_t *src, uint8_t *dst, size_t n,
                                                 size_t itemsize)
{
    (void)src, (void)dst, (void)n, (void)itemsize;
    return 0;
}

static ALWAYS_INLINE size_t NAME(unshuffle_blocks)(const uint8_t *src, uint8_t *dst, size_t n,
                                                   size_t itemsize)
{
    (void)src, (void)dst, (void)n, (void)itemsize;
    return 0;
}
#endif

static ALWAYS_INLINE void NAME(shuffle_items)(const uint8_t *src, uint8_t *dst, size_t n,
                                              size_t itemsize)
{
    size_t done = NAME(shuffle_blocks)(src, dst, n, itemsize);
    NAME(shuffle_rest)(src, dst, done, n, itemsize);
}

static ALWAYS_INLINE void NAME(unshuffle_items)(const uint8_t *src, uint8_t *dst, size_t n,
                                                size_t itemsize)
{
    size_t done = NAME(unshuffle_blocks)(src, dst, n, itemsize);
    NAME(unshuffle_rest)(src, dst, done, n, itemsize);
}

/* Sizes that the compiler knows. */
static void NAME(shuffle)(const void *in, void *out, size_t n, size_t itemsize)
{
    switch (itemsize) {
    case 2:
        NAME(shuffle_items)(in, out, n, 2);
        break;
    case 4:
        NAME(shuffle_items)(in, out, n, 4);
        break;
    case 8:
        NAME(shuffle_items)(in, out, n, 8);
        break;
    default:
        memcpy(out, in, n * itemsize);
    }
}

static void NAME(unshuffle)(const void *in, void *out, size_t n, size_t itemsize)
{
    switch (itemsize) {
    case 2:
        NAME(unshuffle_items)(in, out, n, 2);
        break;
    case 4:
        NAME(unshuffle_items)(in, out, n, 4);
        break;
    case 8:
        NAME(unshuffle_items)(in, out, n, 8);
        break;
    default:
        memcpy(out, in, n * itemsize);
    }
}

static const struct fitscodecs_bytes_kernels NAME(bytes) = {
    .swap = NAME(swap),
    .shuffle = NAME(shuffle),
    .unshuffle = NAME(unshuffle),
};
