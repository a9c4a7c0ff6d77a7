/* The loops of average pools, for one instruction set: see int_counted_average_pool.cpp. */

#include "code_sums.h"

/* Sums of ``rows`` for so many windows, each of several channels, ``step`` apart in them. */
inline void sum_windows(std::vector<const int32_t *> &rows, int64_t step, int64_t channels,
                        int64_t count, int32_t *__restrict sums) {
    const int64_t number = static_cast<int64_t>(rows.size());
    if (step == channels) {
        sum_rows(rows.data(), number, 0, count * channels, sums);
    } else if (channels == 1) {
        for (int64_t k = 0; k < count; k++)
            sums[k] = 0;
        for (const int32_t *row : rows)
            for (int64_t k = 0; k < count; k++)
                sums[k] += row[k * step];
    } else {
        for (int64_t k = 0; k < count; k++) {
            sum_rows(rows.data(), number, 0, channels, sums + k * channels);
            for (const int32_t *&row : rows)
                row += step;
        }
    }
}

/* Quotients of products below 2**52: no rounding of such a quotient reaches a tie. */
template <Rounding ROUNDING, typename Y>
void divided_sums(const Quotients &quotients, const int32_t *__restrict sums, int64_t count,
                  Y *__restrict y) {
    const Quotients given = quotients; /* which no write to y can change */
    const double *__restrict divisors = given.divisors;
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
        y[k] = static_cast<Y>(static_cast<int32_t>(level) + given.zero);
    }
}
