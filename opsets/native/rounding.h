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

} // namespace qpasses
