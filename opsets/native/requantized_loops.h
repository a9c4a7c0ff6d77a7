/* Sums as codes, for one instruction set. */

constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */
constexpr float NEAR = 12582912.0F;          /* 3 * 2**22, likewise */

inline int32_t added(int32_t a, int32_t b, int32_t c) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b) +
                                static_cast<uint32_t>(c));
}

/* Sums of a row, from a column on, as codes. */
__attribute__((noinline)) void store(const Requantized &after, int64_t first, int64_t width,
                                     const int32_t *__restrict sums,
                                     const int32_t *__restrict offset, int32_t row_offset,
                                     uint8_t *__restrict y) {
    const int32_t zero = static_cast<int32_t>(after.zero);
    const double low = static_cast<double>(after.least - after.zero);
    const double high = static_cast<double>(after.most - after.zero);
    if (after.in_float[first / LANES]) {
        const float *__restrict factor = after.factor.data() + first;
        const float least = static_cast<float>(low), most = static_cast<float>(high);
        for (int64_t n = 0; n < width; n++) {
            float level = static_cast<float>(added(sums[n], offset[n], row_offset)) * factor[n];
            level = level < least ? least : level;
            level = level > most ? most : level;
            y[n] = static_cast<uint8_t>(static_cast<int32_t>(level + NEAR - NEAR) + zero);
        }
        return;
    }
    if (!after.in_double) {
        for (int64_t n = 0; n < width; n++) {
            const int32_t sum = added(sums[n], offset[n], row_offset);
            const int64_t code = after.level(first + n, sum) + after.zero;
            y[n] = static_cast<uint8_t>(std::min(std::max(code, after.least), after.most));
        }
        return;
    }
    const double *__restrict scale = after.scale.data() + first;
    const double *__restrict rest = after.rest.data() + first;
    const double *__restrict away = after.away.data() + first;
    for (int64_t n = 0; n < width; n++) {
        double level = added(sums[n], offset[n], row_offset) * scale[n] + rest[n];
        level += __builtin_copysign(away[n], level);
        level = level < low ? low : level;
        level = level > high ? high : level;
        y[n] = static_cast<uint8_t>(static_cast<int32_t>(level + MAGIC - MAGIC) + zero);
    }
}
