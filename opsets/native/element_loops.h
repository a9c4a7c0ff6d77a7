/* Loops over single numbers, for one instruction set: see elements.cpp. */

#include "shift_loops.h"

/* Levels as doubles, which hold all products and sums of codes: to the nearest, in the manner
   that ``lift`` and ``away`` say, as codes. */
template <typename Y> inline Y stored(double level, const Steps &given) {
    level = level < given.low ? given.low : level;
    level = level > given.high ? given.high : level;
    level += given.lift + __builtin_copysign(given.away, level);
    return static_cast<Y>(static_cast<int32_t>(level + MAGIC - MAGIC) + given.zero);
}

template <typename T>
void sums(const Steps &steps, const T *__restrict a, const T *__restrict b, T *__restrict y,
          int64_t count) {
    const Steps given = steps; /* which no write to y can change */
    for (int64_t k = 0; k < count; k++)
        y[k] = stored<T>(a[k] * given.a + b[k] * given.b + given.offset, given);
}

template <typename T>
void products(const Steps &steps, const T *__restrict a, const T *__restrict b, T *__restrict y,
              int64_t count) {
    const Steps given = steps;
    for (int64_t k = 0; k < count; k++)
        y[k] = stored<T>((a[k] - given.a_zero) * (b[k] - given.b_zero) * given.a, given);
}

/* The same of products that double does not hold, but 62 bits. */
template <typename T, Rounding ROUNDING>
void long_products(const LongSteps &steps, const T *__restrict a, const T *__restrict b,
                   T *__restrict y, int64_t count) {
    const LongSteps given = steps;
    for (int64_t k = 0; k < count; k++) {
        const int64_t product = (a[k] - given.a_zero) * (b[k] - given.b_zero);
        int64_t level = rounded<ROUNDING>(product * given.multiplier, given.shift) + given.zero;
        level = level < given.low ? given.low : level;
        y[k] = static_cast<T>(level > given.high ? given.high : level);
    }
}

/* What is alike for all of b is in the offset, or in the factor. */
template <typename A, typename Y>
void scaled(const Steps &steps, const A *__restrict a, Y *__restrict y, int64_t count) {
    const Steps given = steps;
    for (int64_t k = 0; k < count; k++)
        y[k] = stored<Y>(a[k] * given.a + given.offset, given);
}

/* A quotient is any double: a tie that was rounded down or up to the even one is mended. */
inline void quotients(const Quotients &steps, const int16_t *__restrict a,
                      const int16_t *__restrict b, int16_t *__restrict y, int64_t count) {
    const Quotients given = steps;
    for (int64_t k = 0; k < count; k++) {
        const double level = a[k] - given.a_zero, divisor = b[k] - given.b_zero;
        double value = divisor == 0 ? level * BEYOND : level * given.factor / divisor;
        value = value < given.low ? given.low : value;
        value = value > given.high ? given.high : value;
        const double even = value + MAGIC - MAGIC, rest = value - even;
        const double up = rest == 0.5 && value > given.up_above ? 1 : 0;
        const double down = rest == -0.5 && value < given.down_below ? 1 : 0;
        y[k] = static_cast<int16_t>(static_cast<int32_t>(even + up - down) + given.zero);
    }
}
