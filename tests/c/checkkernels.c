/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each kernel, for every combination of the features of this machine's CPU, against the portable
 * one: the same output from the same input, which stays as it is.
 */
#include "testing.h"

#include "kernels.h"
#include "checkkernels_bytes.h"
#include "checkkernels_convert.h"
#include "checkkernels_plio.h"
#include "checkkernels_rice.h"
#include "checkkernels_quantize.h"

static uint64_t check_features(unsigned features)
{
    struct fitscodecs_kernels portable, fast;
    uint64_t ncases = 0;

    fitscodecs_kernels_init(&portable, 0);
    fitscodecs_kernels_init(&fast, features);
    fitscodecs_init(features);
    ncases += check_bytes_kernels(&portable, &fast);
    ncases += check_plio_kernels(&portable, &fast);
    ncases += check_convert_kernels(&portable, &fast);
    ncases += check_rice_kernels(&fast);
    ncases += check_float_kernels(&portable, &fast);
    return ncases;
}

int main(int argc, char **argv)
{
    unsigned found = fitscodecs_cpu_features();
    uint64_t ncases = 0;

    test_init(argc, argv);
    for (unsigned features = found;; features = (features - 1) & found) { /* all subsets */
        ncases += check_features(features);
        if (features == 0) {
            break;
        }
    }
    return test_done("checkkernels", ncases);
}
