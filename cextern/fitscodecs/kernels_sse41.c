/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for x86-64 with SSE4.1, which nearly all have. */
#include "kernels.h"

#if FITSCODECS_HAS_X86

#include <immintrin.h>

#define NAME(function) function##_sse41
#define WITH_SSE41 1

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("sse4.1"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("sse4.1")
#endif

#include "bytes_kernels.h"
#include "convert_kernels.h"
#include "plio_kernels.h"
#include "noise_kernels.h"
#include "quantize_kernels.h"
#include "dequantize_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

void fitscodecs_kernels_sse41(struct fitscodecs_kernels *kernels)
{
    kernels->bytes = &bytes_sse41;
    kernels->plio = &plio_sse41;
    kernels->convert = &convert_sse41;
    kernels->noise = &noise_sse41;
    kernels->quantize = &quantize_sse41;
    kernels->dequantize = &dequantize_sse41;
}

#else
typedef int nothing_here; /* a file must not be empty */
#endif
