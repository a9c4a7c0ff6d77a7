/* Quotients by powers of two, rounded as opsets/fixed_point.py says. */

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace qpasses {

enum class Rounding { HALF_TO_EVEN, HALF_UP, HALF_AWAY };

inline Rounding rounding_of(const std::string &name) {
    if (name == "half_to_even")
        return Rounding::HALF_TO_EVEN;
    if (name == "half_up")
        return Rounding::HALF_UP;
    if (name == "half_away")
        return Rounding::HALF_AWAY;
    throw std::runtime_error("no rounding is called " + name);
}

/* A product by a multiplier, rounded in two steps as gemmlowp's, as a code. */
struct Twice {
    int64_t multiplier, shift;
    Rounding last;
    int64_t zero, low, high;

    int64_t operator()(int64_t level) const {
        const int64_t left = shift < 31 ? 31 - shift : 0, right = shift > 31 ? shift - 31 : 0;
        const int64_t wrapped = static_cast<int32_t>(
            static_cast<uint32_t>(static_cast<uint64_t>(level) << left));
        int64_t found = (wrapped * multiplier + (int64_t{1} << 30)) >> 31;
        found = found > 0x7fffffff ? 0x7fffffff : found;
        if (right)
            found = (found + (int64_t{1} << (right - 1)) -
                     (last == Rounding::HALF_AWAY && found < 0)) >> right;
        found += zero;
        found = found < low ? low : found;
        return found > high ? high : found;
    }
};

} // namespace qpasses
