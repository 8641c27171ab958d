/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels for x86-64 with the parts of AVX-512 that all CPUs with 512-bit integers have: F, BW,
 * CD, DQ and VL, and with FMA.  Only what gains by them is here; what is done with fewer registers
 * or by waiting for memory keeps the kernels for AVX2.
 */
#include "kernels.h"

#if FITSCODECS_HAS_AVX512

#include <immintrin.h>

#define NAME(function) function##_avx512
#define WITH_SSE41 1
#define WITH_AVX2 1
#define WITH_AVX512 1

#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((                                                                                \
        target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi,bmi2,lzcnt,popcnt"))),    \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif

#include "rice_decode_kernels.h"
#include "noise_kernels.h"
#include "quantize_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

void fitscodecs_kernels_avx512(struct fitscodecs_kernels *kernels)
{
    kernels->rice_decode = &rice_decode_avx512;
    kernels->noise = &noise_avx512;
    kernels->quantize = &quantize_avx512;
}

#else
typedef int nothing_here; /* a file must not be empty */
#endif
