/* SPDX-License-Identifier: BSD-3-Clause */
/* The integers of quantized tiles. */
#ifndef FITSCODECS_QUANTIZE_H
#define FITSCODECS_QUANTIZE_H

#include "common.h"

/* The integers -2147483647 .. -2147483638 are set aside, of which two have a meaning so far. */
#define QUANTIZE_NRESERVED 10
#define QUANTIZE_LOWEST (FITSCODECS_NULL_INTEGER + QUANTIZE_NRESERVED)
#define QUANTIZE_LARGEST 2147483647

#endif
