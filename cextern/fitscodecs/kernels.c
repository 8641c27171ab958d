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
#include "rice_kernels.h"
#include "noise_kernels.h"
#include "quantize_kernels.h"
#include "dequantize_kernels.h"

struct fitscodecs_kernels fitscodecs_kernels = {
    .bytes = &bytes_portable,
    .plio = &plio_portable,
    .convert = &convert_portable,
    .rice = &rice_portable,
    .noise = &noise_portable,
    .quantize = &quantize_portable,
    .dequantize = &dequantize_portable,
};

void fitscodecs_kernels_init(struct fitscodecs_kernels *kernels, unsigned cpu_features)
{
    kernels->bytes = &bytes_portable;
    kernels->plio = &plio_portable;
    kernels->convert = &convert_portable;
    kernels->rice = &rice_portable;
    kernels->noise = &noise_portable;
    kernels->quantize = &quantize_portable;
    kernels->dequantize = &dequantize_portable;
#if FITSCODECS_HAS_X86
    if (cpu_features & FITSCODECS_CPU_SSE41) {
        fitscodecs_kernels_sse41(kernels);
    }
    if (cpu_features & FITSCODECS_CPU_AVX2) {
        fitscodecs_kernels_avx2(kernels);
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
