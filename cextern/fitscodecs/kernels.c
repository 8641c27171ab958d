/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The portable kernels, which are the reference for all others, and the choice between them.
 */
#include "kernels.h"
#include "dither.h"

#define NAME(function) function##_portable
#include "bytes_kernels.h"
#include "convert_kernels.h"
#include "plio_kernels.h"
#include "rice_decode_kernels.h"
#include "rice_encode_kernels.h"
#include "noise_kernels.h"
#include "quantize_kernels.h"
#include "dequantize_kernels.h"
#include "hcompress_kernels.h"

/* clang-format off */
#define PORTABLE {                                                                                 \
    .bytes = &bytes_portable,                                                                      \
    .plio = &plio_portable,                                                                        \
    .convert = &convert_portable,                                                                  \
    .rice_decode = &rice_decode_portable,                                                          \
    .rice_encode = &rice_encode_portable,                                                          \
    .noise = &noise_portable,                                                                      \
    .quantize = &quantize_portable,                                                                \
    .dequantize = &dequantize_portable,                                                            \
    .hcompress = &hcompress_portable,                                                              \
}
/* clang-format on */

struct fitscodecs_kernels fitscodecs_kernels = PORTABLE;

void fitscodecs_kernels_init(struct fitscodecs_kernels *kernels, unsigned cpu_features)
{
    *kernels = (struct fitscodecs_kernels)PORTABLE;
#if FITSCODECS_HAS_X86
    if (cpu_features & FITSCODECS_CPU_SSE41) {
        fitscodecs_kernels_sse41(kernels);
    }
    if (cpu_features & FITSCODECS_CPU_AVX2) {
        fitscodecs_kernels_avx2(kernels);
    }
#if FITSCODECS_HAS_AVX512
    if (cpu_features & FITSCODECS_CPU_AVX512) {
        fitscodecs_kernels_avx512(kernels);
    }
#endif
    if (cpu_features & FITSCODECS_CPU_SLOW_PDEP) { /* what they use for each word of codes */
        kernels->hcompress = &hcompress_portable;
    }
#elif FITSCODECS_HAS_NEON
    if (cpu_features & FITSCODECS_CPU_NEON) {
        fitscodecs_kernels_neon(kernels);
    }
#endif
    (void)cpu_features;
}

void fitscodecs_init(unsigned cpu_features)
{
    fitscodecs_dither_init();
    fitscodecs_kernels_init(&fitscodecs_kernels, cpu_features);
}
