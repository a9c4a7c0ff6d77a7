/* A product by a multiplier over a power of two in any rounding of nodes, for tables: never
   beyond what 128 bits hold. */

#pragma once

#include "kernel.h"
#include "rounding.h"

#include <algorithm>
#include <cmath>

namespace qpasses {

__extension__ typedef __int128 Wide;

constexpr int64_t FARTHEST = int64_t{1} << 61; /* results saturate here: two of them have a sum */

/* As nodes name it that may round in double too. */
struct AnyRounding {
    bool is_in_double;
    Requantization usual;

    QPASSES_ONCE explicit AnyRounding(const std::string &name)
        : is_in_double(name == "half_to_even_in_double"),
          usual(is_in_double ? "half_to_even" : name) {}

    explicit AnyRounding(const Requantization &given) : is_in_double(false), usual(given) {}
};

struct Rescaling {
    AnyRounding rounding;
    int64_t multiplier, shift;

    QPASSES_ONCE Rescaling(const AnyRounding &how, int64_t m, int64_t bits)
        : rounding(how), multiplier(m), shift(bits) {
        must_be_from(shift, 0, 62, "a shift");
        must_be_from(multiplier, -0x80000000LL, 0x80000000LL, "a multiplier");
    }

    /* multiplier / 2**shift, which double holds. */
    double factor() const { return std::ldexp(static_cast<double>(multiplier), static_cast<int>(-shift)); }

    /* Of a value of up to 90 bits. */
    int64_t operator()(Wide value) const {
        if (rounding.is_in_double)
            return in_double(static_cast<double>(value));
        if (rounding.usual.is_twice)
            return rounded_twice(static_cast<int64_t>(value), multiplier, shift,
                                 rounding.usual.last);
        const Wide product = value * multiplier, floor = product >> shift;
        const Wide step = Wide{1} << shift, rest = product - floor * step;
        const Wide beyond = 2 * rest - step;
        return within(floor + (beyond > 0 || (beyond == 0 && goes_up(product, floor))));
    }

  private:
    bool goes_up(Wide product, Wide floor) const {
        switch (rounding.usual.last) {
        case Rounding::HALF_TO_EVEN:
            return floor & 1;
        case Rounding::HALF_UP:
            return true;
        default:
            return product >= 0;
        }
    }

    static int64_t within(Wide level) {
        return static_cast<int64_t>(std::min<Wide>(std::max<Wide>(level, -FARTHEST), FARTHEST));
    }

    int64_t in_double(double value) const {
        const double product = value * static_cast<double>(multiplier);
        const double level = std::nearbyint(std::ldexp(product, -static_cast<int>(shift)));
        constexpr double most = static_cast<double>(FARTHEST);
        return static_cast<int64_t>(std::min(std::max(level, -most), most));
    }
};

/* The last step of every op. */
struct Ends {
    int64_t zero, low, high;

    QPASSES_ONCE Ends(int64_t y_zero, int64_t y_min, int64_t y_max)
        : zero(y_zero), low(y_min), high(y_max) {
        for (int64_t each : {zero, low, high})
            must_be_from(each, -0x8000, 0x7fff, "an end of codes");
    }

    int64_t operator()(int64_t level) const {
        return std::min(std::max(level + zero, low), high);
    }
};

} // namespace qpasses
