/* Quotients by powers of two, rounded as opsets/fixed_point.py says. */

#pragma once

#include "inference.h"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace qpasses {

enum class Rounding { HALF_TO_EVEN, HALF_UP, HALF_AWAY };

QPASSES_ONCE inline Rounding rounding_of(const std::string &name) {
    if (name == "half_to_even")
        return Rounding::HALF_TO_EVEN;
    if (name == "half_up")
        return Rounding::HALF_UP;
    if (name == "half_away")
        return Rounding::HALF_AWAY;
    fail("no rounding is called " + name);
}

/* Sums and products that wrap where int64 ends, as numpy's do. */
inline int64_t wrapping_sum(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

inline int64_t wrapping_product(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

/* What a value halfway between its floor and the next becomes. */
inline int64_t of_tie(int64_t floor, int64_t value, Rounding rounding) {
    switch (rounding) {
    case Rounding::HALF_TO_EVEN:
        return floor + (floor & 1);
    case Rounding::HALF_UP:
        return floor + 1;
    default:
        return floor + (value >= 0);
    }
}

/* value / 2**shift. */
inline int64_t shifted(int64_t value, int64_t shift, Rounding rounding) {
    const int64_t floor = value >> shift, half = int64_t{1} << (shift - 1);
    const int64_t rest = value & ((half << 1) - 1);
    return rest == half ? of_tie(floor, value, rounding) : floor + (rest > half);
}

/* value / divisor, a positive one below 2**62. */
inline int64_t divided(int64_t value, int64_t divisor, Rounding rounding) {
    int64_t floor = value / divisor, rest = value % divisor;
    if (rest < 0) {
        floor -= 1;
        rest += divisor;
    }
    const int64_t beyond = rest - (divisor - rest);
    return beyond ? floor + (beyond > 0) : of_tie(floor, value, rounding);
}

/* A rounding in one step, or TFLite's in two. */
struct Requantization {
    bool is_twice;
    Rounding last;

    QPASSES_ONCE explicit Requantization(const std::string &name)
        : is_twice(name == "tflite_double" || name == "ruy"),
          last(name == "tflite_double" ? Rounding::HALF_AWAY
               : name == "ruy"         ? Rounding::HALF_UP
                                       : rounding_of(name)) {}
};

/* A product by a multiplier over 2**shift, rounded in two steps as gemmlowp's. */
inline int64_t rounded_twice(int64_t level, int64_t multiplier, int64_t shift, Rounding last) {
    const int64_t left = shift < 31 ? 31 - shift : 0, right = shift > 31 ? shift - 31 : 0;
    const int64_t wrapped = static_cast<int32_t>(
        static_cast<uint32_t>(static_cast<uint64_t>(level) << left));
    int64_t found = (wrapped * multiplier + (int64_t{1} << 30)) >> 31;
    found = found > 0x7fffffff ? 0x7fffffff : found;
    if (right)
        found = (found + (int64_t{1} << (right - 1)) -
                 (last == Rounding::HALF_AWAY && found < 0)) >> right;
    return found;
}

/* The same as a code. */
struct Twice {
    int64_t multiplier, shift;
    Rounding last;
    int64_t zero, low, high;

    int64_t operator()(int64_t level) const {
        int64_t found = rounded_twice(level, multiplier, shift, last) + zero;
        found = found < low ? low : found;
        return found > high ? high : found;
    }
};

} // namespace qpasses
