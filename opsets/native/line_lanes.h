/* Vectors of LANES, for one instruction set: see knots.cpp. */

typedef int32_t Numbers __attribute__((vector_size(4 * LANES)));
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int16_t Words __attribute__((vector_size(2 * LANES)));
