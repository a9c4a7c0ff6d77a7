/* The loops of average pools, for one instruction set: see int_average_pool.cpp. */

/* Every so many of them. */
template <typename Sum>
void pick(const Sum *__restrict sums, int64_t step, int64_t count, int32_t *__restrict picked) {
    if (step == 1)
        for (int64_t k = 0; k < count; k++)
            picked[k] = sums[k];
    else
        for (int64_t k = 0; k < count; k++)
            picked[k] = sums[k * step];
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
