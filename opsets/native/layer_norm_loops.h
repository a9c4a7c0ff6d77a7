/* The loops of IntLayerNorm, for one instruction set: see int_layer_norm.cpp. */

template <typename S> void sums(const S *x, int64_t cells, int64_t *total, int64_t *squares) {
    int64_t sum = 0, square = 0;
    for (int64_t begin = 0; begin < cells; begin += 4096) { /* int32 holds so many */
        int32_t part = 0, squared = 0;
        const int64_t end = begin + 4096 < cells ? begin + 4096 : cells;
        if constexpr (sizeof(S) == 1) {
            for (int64_t k = begin; k < end; k++) {
                const int32_t code = x[k];
                part += code;
                squared += code * code;
            }
            square += squared;
        } else {
            for (int64_t k = begin; k < end; k++) {
                const int64_t code = x[k];
                part += static_cast<int32_t>(code);
                square += code * code;
            }
        }
        sum += part;
    }
    *total = sum;
    *squares = square;
}

template <typename S, typename T, Rounding ROUNDING> void normalize(const Row &given) {
    const Row row = given; /* which no write to y can change */
    const S *__restrict x = static_cast<const S *>(row.x);
    T *__restrict y = static_cast<T *>(row.y);
    const int64_t *__restrict multiplier = row.multiplier, *__restrict bias = row.bias;
    for (int64_t k = 0; k < row.cells; k++) {
        const int64_t distance = row.times * x[k] - row.less;
        const int64_t normal =
            rounded<Rounding::HALF_TO_EVEN>(distance * row.factor, row.drop_bits);
        const int64_t scaled = normal * multiplier[k] + bias[k];
        int64_t level = rounded<ROUNDING>(scaled, row.shift) + row.zero;
        level = level < row.low ? row.low : level;
        y[k] = static_cast<T>(level > row.high ? row.high : level);
    }
}
