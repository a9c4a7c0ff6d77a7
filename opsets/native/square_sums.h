/* Sums of codes and of their squares, for one instruction set. */

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
