/* Sums of levels and their codes, for one instruction set: see word_matrices.cpp. */

/* Of TALL rows and WIDE columns, so many products each. */
void word_sums(const double *a, int64_t a_step, const double *b, int64_t length, double *sums) {
    constexpr int64_t LANES = 8, VECTORS = WIDE / LANES;
    typedef double Levels __attribute__((vector_size(LANES * sizeof(double))));
    Levels found[TALL][VECTORS] = {};
    for (int64_t k = 0; k < length; k++, b += WIDE) {
        Levels columns[VECTORS];
        __builtin_memcpy(columns, b, sizeof columns);
        for (int64_t row = 0; row < TALL; row++)
            for (int64_t n = 0; n < VECTORS; n++)
                found[row][n] += a[row * a_step + k] * columns[n];
    }
    __builtin_memcpy(sums, found, sizeof found);
}

/* Of sums whose products double holds. */
void word_codes(const Scaling &scaling, const double *__restrict sums, int64_t count,
                int16_t *__restrict y) {
    const Scaling given = scaling; /* which no write to y can change */
    for (int64_t k = 0; k < count; k++) {
        double level = sums[k] * given.scale;
        level = level < given.low ? given.low : level;
        level = level > given.high ? given.high : level;
        level += given.lift + __builtin_copysign(given.away, level);
        y[k] = static_cast<int16_t>(static_cast<int32_t>(level + MAGIC - MAGIC) + given.zero);
    }
}
