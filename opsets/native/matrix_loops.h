/* The loops of products, for one instruction set: see matrices.cpp. */

inline void plain_sums(const int16_t *pairs, const uint8_t *x, int64_t rows, int32_t *sums) {
    for (int64_t n = 0; n < PANEL; n++)
        sums[n] = 0;
    for (int64_t k = 0; k < rows; k += 2, pairs += 2 * PANEL) {
        const int32_t first = x[k], second = k + 1 < rows ? x[k + 1] : 0;
        for (int64_t n = 0; n < PANEL; n++)
            sums[n] += first * pairs[2 * n] + second * pairs[2 * n + 1];
    }
}

/* Sums of a row, from a column on, as codes. */
inline void store(const Requantized &after, int64_t first, int64_t width, const int32_t *__restrict sums,
                  int32_t row_offset, uint8_t *__restrict y) {
    const int32_t *__restrict offset = after.offset.data() + first;
    if (!after.in_double) {
        for (int64_t n = 0; n < width; n++)
            y[n] = code_of(after, first + n,
                           static_cast<int32_t>(static_cast<uint32_t>(sums[n]) +
                                                static_cast<uint32_t>(offset[n]) +
                                                static_cast<uint32_t>(row_offset)));
        return;
    }
    const double *__restrict scale = after.scale.data() + first;
    const double *__restrict rest = after.rest.data() + first;
    const double *__restrict away = after.away.data() + first;
    const double low = after.low, high = after.high;
    const int32_t zero = static_cast<int32_t>(after.zero);
    for (int64_t n = 0; n < width; n++) {
        const int32_t sum = static_cast<int32_t>(static_cast<uint32_t>(sums[n]) +
                                                 static_cast<uint32_t>(offset[n]) +
                                                 static_cast<uint32_t>(row_offset));
        double level = sum * scale[n] + rest[n];
        level += __builtin_copysign(away[n], level);
        level = level < low ? low : level;
        level = level > high ? high : level;
        y[n] = static_cast<uint8_t>(static_cast<int32_t>(level + MAGIC - MAGIC) + zero);
    }
}
