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

static inline uint64_t NAME(load_native)(const uint8_t *p, size_t itemsize)
{
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;

    switch (itemsize) {
    case 2:
        memcpy(&u16, p, 2);
        return u16;
    case 4:
        memcpy(&u32, p, 4);
        return u32;
    case 8:
        memcpy(&u64, p, 8);
        return u64;
    default:
        return *p;
    }
}

static inline void NAME(store_native)(uint8_t *p, uint64_t value, size_t itemsize)
{
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;

    switch (itemsize) {
    case 2:
        memcpy(p, &u16, 2);
        break;
    case 4:
        memcpy(p, &u32, 4);
        break;
    case 8:
        memcpy(p, &value, 8);
        break;
    default:
        *p = (uint8_t)value;
    }
}

static void NAME(shuffle)(const void *in, void *out, size_t n, size_t itemsize)
{
    const uint8_t *src = in;
    uint8_t *dst = out;

    for (size_t i = 0; i < n; i++) {
        uint64_t item = NAME(load_native)(src + i * itemsize, itemsize);
        for (size_t k = itemsize; k-- > 0; item >>= 8) {
            dst[k * n + i] = (uint8_t)item;
        }
    }
}

static void NAME(unshuffle)(const void *in, void *out, size_t n, size_t itemsize)
{
    const uint8_t *src = in;
    uint8_t *dst = out;

    for (size_t i = 0; i < n; i++) {
        uint64_t item = 0;
        for (size_t k = 0; k < itemsize; k++) {
            item = item << 8 | src[k * n + i];
        }
        NAME(store_native)(dst + i * itemsize, item, itemsize);
    }
}

static const struct fitscodecs_bytes_kernels NAME(bytes) = {
    .swap = NAME(swap),
    .shuffle = NAME(shuffle),
    .unshuffle = NAME(unshuffle),
};
