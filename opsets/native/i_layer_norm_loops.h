/* The loop of ILayerNorm, for one instruction set: see i_layer_norm.cpp. */

#include "shift_loops.h"
#include "square_sums.h"

template <typename S, typename T, Rounding ROUNDING>
void normalize(const Row &given, const void *codes, int64_t cells, void *results) {
    const Row row = given; /* which no write to y can change */
    const S *__restrict x = static_cast<const S *>(codes);
    T *__restrict y = static_cast<T *>(results);
    const int64_t *__restrict bias = row.bias, *__restrict multiplier = row.multiplier;
    const int64_t *__restrict shift = row.shift;
    for (int64_t k = 0; k < cells; k++) {
        const int64_t normal = (x[k] - row.mean) * row.factor >> 1;
        int64_t level = rounded<ROUNDING>((normal + bias[k]) * multiplier[k], shift[k]);
        level += row.ends.zero;
        level = level < row.ends.low ? row.ends.low : level;
        y[k] = static_cast<T>(level > row.ends.high ? row.ends.high : level);
    }
}
