/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for x86-64 with AVX2 and the bit manipulation that came with it. */
#include "kernels.h"

#if FITSCODECS_HAS_X86

#include <immintrin.h>

#define NAME(function) function##_avx2
#define WITH_SSE41 1
#define WITH_AVX2 1

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt"))),                \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,lzcnt,popcnt")
#endif

#include "bytes_kernels.h"
#include "convert_kernels.h"
#include "plio_kernels.h"
#include "rice_decode_kernels.h"
#include "rice_encode_kernels.h"
#include "noise_kernels.h"
#include "quantize_kernels.h"
#include "dequantize_kernels.h"
#include "hcompress_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

void fitscodecs_kernels_avx2(struct fitscodecs_kernels *kernels)
{
    kernels->bytes = &bytes_avx2;
    kernels->plio = &plio_avx2;
    kernels->convert = &convert_avx2;
    kernels->rice_decode = &rice_decode_avx2;
    kernels->rice_encode = &rice_encode_avx2;
    kernels->noise = &noise_avx2;
    kernels->quantize = &quantize_avx2;
    kernels->dequantize = &dequantize_avx2;
    kernels->hcompress = &hcompress_avx2;
}

#else
typedef int nothing_here; /* a file must not be empty */
#endif
