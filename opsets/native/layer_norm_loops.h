/* The loops of IntLayerNorm, for one instruction set: see int_layer_norm.cpp. */

#include "shift_loops.h"
#include "square_sums.h"

template <Rounding ROUNDING> void normalize(const Row &given) {
    const Row row = given; /* which no write to y can change */
    const int16_t *__restrict x = row.x;
    int16_t *__restrict y = row.y;
    const int64_t *__restrict multiplier = row.multiplier, *__restrict bias = row.bias;
    for (int64_t k = 0; k < row.cells; k++) {
        const int64_t distance = row.times * x[k] - row.less;
        const int64_t normal = rounded<Rounding::HALF_TO_EVEN>(
            wrapping_product(distance, row.factor), row.drop_bits);
        const int64_t scaled = wrapping_sum(wrapping_product(normal, multiplier[k]), bias[k]);
        int64_t level = wrapping_sum(rounded<ROUNDING>(scaled, row.shift), row.zero);
        level = level < row.low ? row.low : level;
        y[k] = static_cast<int16_t>(level > row.high ? row.high : level);
    }
}

/* The same by float32, of a block of codes of 8 bits; false if a level is too near to a tie to
   say. */
template <typename S, typename T>
bool normalize_in_float(const FloatRow &given, const S *__restrict x, const float *__restrict slope,
                        const float *__restrict start, T *__restrict y) {
    const FloatRow row = given;
    int32_t doubts = 0;
    for (int64_t k = 0; k < BLOCK; k++) {
        const float distance = row.times * static_cast<float>(x[k]) - row.less;
        const float level = distance * row.factor * slope[k] + start[k];
        float nearest = level + NEAR - NEAR;
        doubts |= __builtin_fabsf(level - nearest) >= row.sure;
        nearest = nearest < row.low ? row.low : nearest;
        nearest = nearest > row.high ? row.high : nearest;
        y[k] = static_cast<T>(static_cast<int32_t>(nearest) + row.zero);
    }
    return !doubts;
}
