/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels for 64-bit ARM, where NEON is part of the architecture: compilers use it for the
 * portable ones as well, and only what gains by more than that is here. */
#include "kernels.h"

#if FITSCODECS_HAS_NEON

#include <arm_neon.h>

#define NAME(function) function##_neon
#define WITH_NEON 1

#include "rice_decode_kernels.h"

void fitscodecs_kernels_neon(struct fitscodecs_kernels *kernels)
{
    kernels->rice_decode = &rice_decode_neon;
}

#else
typedef int nothing_here; /* a file must not be empty */
#endif
