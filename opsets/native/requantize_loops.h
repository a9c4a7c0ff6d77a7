/* The loops of requantizations, for one instruction set: see requantize.cpp. */

#include "shift_loops.h"

/* One rounding, where doubles hold each product, or round what is far beyond the codes. */
template <Rounding ROUNDING, bool IS_ONE>
void in_double(const Factors &factors, const int32_t *__restrict sums, int64_t count,
               int16_t *__restrict y) {
    const Factors given = factors; /* which no write to y can change */
    const double *__restrict scale = given.scale, *__restrict half = given.half;
    const double low = given.low, high = given.high;
    for (int64_t k = 0; k < count; k++) {
        double level = sums[k] * scale[IS_ONE ? 0 : k];
        level = level < low ? low : level;
        level = level > high ? high : level;
        if (ROUNDING == Rounding::HALF_UP)
            level += half[IS_ONE ? 0 : k];
        if (ROUNDING == Rounding::HALF_AWAY)
            level += __builtin_copysign(half[IS_ONE ? 0 : k], level);
        y[k] = static_cast<int16_t>(static_cast<int32_t>(level + MAGIC - MAGIC) + given.zero);
    }
}

/* The same of levels below 2**30: the last bits of their doubles are integers. */
template <Rounding ROUNDING, bool IS_ONE>
void of_small(const Factors &factors, const int32_t *__restrict sums, int64_t count,
              int16_t *__restrict y) {
    const Factors given = factors;
    const double *__restrict scale = given.scale, *__restrict half = given.half;
    for (int64_t k = 0; k < count; k++) {
        double level = sums[k] * scale[IS_ONE ? 0 : k];
        if (ROUNDING == Rounding::HALF_UP)
            level += half[IS_ONE ? 0 : k];
        if (ROUNDING == Rounding::HALF_AWAY)
            level += __builtin_copysign(half[IS_ONE ? 0 : k], level);
        level += MAGIC;
        int64_t bits;
        __builtin_memcpy(&bits, &level, sizeof bits);
        int32_t found = static_cast<int32_t>(bits);
        found = found < given.low ? given.low : found;
        found = found > given.high ? given.high : found;
        y[k] = static_cast<int16_t>(found + given.zero);
    }
}

/* One rounding of any product. */
template <Rounding ROUNDING, bool IS_ONE>
void in_64_bits(const Factors &factors, const int32_t *__restrict sums, int64_t count,
                int16_t *__restrict y) {
    const Factors given = factors;
    const int32_t *__restrict multiplier = given.multiplier, *__restrict shift = given.shift;
    for (int64_t k = 0; k < count; k++) {
        const int64_t product = static_cast<int64_t>(sums[k]) * multiplier[IS_ONE ? 0 : k];
        int64_t level = rounded<ROUNDING>(product, shift[IS_ONE ? 0 : k]);
        level = level < given.low ? given.low : level;
        level = level > given.high ? given.high : level;
        y[k] = static_cast<int16_t>(level + given.zero);
    }
}

/* Two roundings: of the first quotient only the last 32 bits are looked at. */
template <Rounding LAST, bool IS_ONE>
void twice(const Factors &factors, const int32_t *__restrict sums, int64_t count,
           int16_t *__restrict y) {
    const Factors given = factors;
    const int32_t *__restrict multiplier = given.multiplier, *__restrict shift = given.shift;
    for (int64_t k = 0; k < count; k++) {
        const int32_t bits = shift[IS_ONE ? 0 : k];
        const int32_t left = bits < 31 ? 31 - bits : 0, right = bits > 31 ? bits - 31 : 0;
        const int32_t wrapped = static_cast<int32_t>(static_cast<uint32_t>(sums[k]) << left);
        const int64_t product =
            static_cast<int64_t>(wrapped) * multiplier[IS_ONE ? 0 : k] + (int64_t{1} << 30);
        const int32_t first = static_cast<int32_t>(static_cast<uint64_t>(product) >> 31);
        const uint32_t rest = static_cast<uint32_t>(first) & ((uint32_t{1} << right) - 1);
        const uint32_t half = right ? uint32_t{1} << (right - 1) : 1;
        const bool goes_up = LAST == Rounding::HALF_UP || first >= 0;
        int32_t level = (first >> right) + (rest + (goes_up && right) > half);
        level = level < given.low ? given.low : level;
        level = level > given.high ? given.high : level;
        y[k] = static_cast<int16_t>(level + given.zero);
    }
}
