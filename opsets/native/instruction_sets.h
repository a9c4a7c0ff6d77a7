/* One source for several instruction sets: a header of loops is included once for each, in a
   namespace of its own and compiled for it; which runs is chosen when the library is loaded. */

#pragma once

namespace qpasses {

enum InstructionSet { PLAIN, NEON, DOTPROD, AVX2, AVX512 };

/* What runs: the best that the processor has, or what QPASSES_ISA names. */
InstructionSet chosen_set();

} // namespace qpasses

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define QPASSES_SETS 3
#define BEGIN_AVX2 \
    _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,bmi,bmi2,lzcnt,fma\")")
#define BEGIN_AVX512 \
    _Pragma("GCC push_options") \
    _Pragma("GCC target(\"avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512vbmi,avx512vnni,bmi,bmi2,lzcnt,fma,prefer-vector-width=512\")")
#define END_SET _Pragma("GCC pop_options")
/* Small: processors of the last ten years have another one. */
#define BEGIN_PLAIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"Os\")")
#define END_PLAIN END_SET
/* A loop of the namespaces plain, avx2 and avx512, for what is chosen. */
#define BEST(...)                                                                              \
    (chosen_set() == AVX512 ? avx512::__VA_ARGS__                                              \
     : chosen_set() == AVX2 ? avx2::__VA_ARGS__                                                \
                            : plain::__VA_ARGS__)
#else
#define BEGIN_PLAIN
#define END_PLAIN
#define QPASSES_SETS 1 /* plain ones, which on aarch64 are vectors of NEON */
#define BEST(...) (plain::__VA_ARGS__)
#endif

#if defined(__aarch64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define QPASSES_NEON
#define BEGIN_DOTPROD \
    _Pragma("GCC push_options") _Pragma("GCC target(\"arch=armv8.2-a+dotprod\")")
#define END_SET _Pragma("GCC pop_options")
#endif
