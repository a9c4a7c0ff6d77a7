/* The loops of average pools, for one instruction set: see int_average_pool.cpp. */

/* Sums of ``rows`` for so many windows, each of several channels, ``step`` apart in them. */
template <typename Sum>
void sum_windows(std::vector<const Sum *> &rows, int64_t step, int64_t channels, int64_t count,
                 int32_t *__restrict sums) {
    const int64_t number = static_cast<int64_t>(rows.size());
    if (step == channels) {
        sum_rows<Sum, int32_t>(rows.data(), number, 0, count * channels, sums);
    } else if (channels == 1) {
        for (int64_t k = 0; k < count; k++)
            sums[k] = 0;
        for (const Sum *row : rows)
            for (int64_t k = 0; k < count; k++)
                sums[k] += row[k * step];
    } else {
        for (int64_t k = 0; k < count; k++) {
            sum_rows<Sum, int32_t>(rows.data(), number, 0, channels, sums + k * channels);
            for (const Sum *&row : rows)
                row += step;
        }
    }
}

/* Quotients of products below 2**52: no rounding of such a quotient reaches a tie. */
template <typename T, Rounding ROUNDING>
void divided_sums(const Quotients &quotients, const int32_t *__restrict sums, int64_t count,
                  void *results) {
    const Quotients given = quotients; /* which no write to y can change */
    const double *__restrict divisors = given.divisors;
    T *__restrict y = static_cast<T *>(results);
    for (int64_t k = 0; k < count; k++) {
        double quotient = sums[k] * given.multiplier / divisors[k];
        quotient = quotient < given.low ? given.low : quotient;
        quotient = quotient > given.high ? given.high : quotient;
        double level = quotient + MAGIC - MAGIC;
        const double rest = quotient - level;
        if constexpr (ROUNDING == Rounding::HALF_UP)
            level += rest == 0.5 ? 1.0 : 0.0;
        if constexpr (ROUNDING == Rounding::HALF_AWAY)
            level += rest == 0.5 && quotient > 0.0    ? 1.0
                     : rest == -0.5 && quotient < 0.0 ? -1.0
                                                      : 0.0;
        y[k] = static_cast<T>(static_cast<int32_t>(level) + given.zero);
    }
}
