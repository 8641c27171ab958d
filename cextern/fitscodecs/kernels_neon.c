/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for 64-bit ARM, where NEON is part of the architecture. */
#include "kernels.h"

#if FITSCODECS_HAS_NEON

#include <arm_neon.h>

#define NAME(function) function##_neon
#define WITH_NEON 1

#include "bytes_kernels.h"
#include "convert_kernels.h"
#include "plio_kernels.h"
#include "rice_decode_kernels.h"
#include "rice_encode_kernels.h"

void fitscodecs_kernels_neon(struct fitscodecs_kernels *kernels)
{
    kernels->bytes = &bytes_neon;
    kernels->plio = &plio_neon;
    kernels->convert = &convert_neon;
    kernels->rice_decode = &rice_decode_neon;
    kernels->rice_encode = &rice_encode_neon;
}

#else
typedef int nothing_here; /* a file must not be empty */
#endif
