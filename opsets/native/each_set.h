/* Includes the header LOOPS once for each instruction set, in its namespace: see
   instruction_sets.h. */

BEGIN_PLAIN
namespace plain {
#include LOOPS
}
END_PLAIN
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
#include LOOPS
}
END_SET
BEGIN_AVX512
namespace avx512 {
#include LOOPS
}
END_SET
#endif
#undef LOOPS
