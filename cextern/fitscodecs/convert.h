/* SPDX-License-Identifier: BSD-3-Clause */
/* Pixels of one type to another; inputs and outputs are aligned and do not overlap. */
#ifndef FITSCODECS_CONVERT_H
#define FITSCODECS_CONVERT_H

#include "common.h"

/*
 * out[i] = in[i] - offset, for integers of any two types.  A value that the type of the output does
 * not hold is clipped if 'clip' says so, else FITSCODECS_VALUE_RANGE is returned, and the result
 * tells of the first one; the output is undefined then.
 */
enum fitscodecs_status fitscodecs_convert_integers(const void *in, enum fitscodecs_pixel in_type,
                                                   size_t n, int64_t offset, bool clip, void *out,
                                                   enum fitscodecs_pixel out_type,
                                                   struct fitscodecs_result *result);

/* float to double, or double to float with one rounding: 'out_type' is the other one of 'in'. */
void fitscodecs_convert_floats(const void *in, size_t n, void *out, enum fitscodecs_pixel out_type);

#endif
