/* SPDX-License-Identifier: BSD-3-Clause */
/* What the CPU can do, asked once by whoever calls fitscodecs_init(). */
#include "fitscodecs.h"

unsigned fitscodecs_cpu_features(void)
{
    unsigned features = 0;
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
    /* The compiler's own check, which includes that the operating system saves the registers. */
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.1")) {
        features |= FITSCODECS_CPU_SSE41;
    }
    /* LZCNT, for which old compilers have no such question, is in every CPU with BMI2. */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")) {
        features |= FITSCODECS_CPU_AVX2;
    }
    if (__builtin_cpu_is("bdver4") || __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2")) {
        features |= FITSCODECS_CPU_SLOW_PDEP;
    }
    if ((features & FITSCODECS_CPU_AVX2) != 0 && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        features |= FITSCODECS_CPU_AVX512;
    }
#elif defined(__aarch64__) || defined(_M_ARM64)
    features |= FITSCODECS_CPU_NEON; /* part of the architecture */
#endif
    return features;
}
