/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of codecs: each is declared and listed by one line of CODECS. */
#include "common.h"

/* clang-format off */
#define CODECS(codec)                                                                             \
    codec(fitscodecs_rice_1)                                                                      \
    codec(fitscodecs_plio_1)                                                                      \
    codec(fitscodecs_hcompress_1)                                                                 \
    codec(fitscodecs_nocompress)
/* clang-format on */

#define DECLARE(codec) extern const struct fitscodecs_codec codec;
#define LIST(codec) &codec,

CODECS(DECLARE)

const struct fitscodecs_codec *const fitscodecs_codecs[] = {CODECS(LIST) NULL};

const struct fitscodecs_codec *fitscodecs_find_codec(const char *name)
{
    for (size_t i = 0; fitscodecs_codecs[i] != NULL; i++) {
        if (strcmp(fitscodecs_codecs[i]->name, name) == 0) {
            return fitscodecs_codecs[i];
        }
    }
    return NULL;
}
