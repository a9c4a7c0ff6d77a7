/* What becomes of exact sums in int32: codes. */

#pragma once

#include "kernel.h"
#include "rounding.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace qpasses {

constexpr int64_t LANES = 64; /* which vectors of numbers are filled up to */

inline int64_t padded(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

/* One number for each of so many columns, from one for each or one for all. */
std::vector<int64_t> numbers_of(const Tensor &given, int64_t columns);

/* Integers from the least to the greatest. */
struct Span {
    int64_t low, high;

    double size() const { return std::max(std::fabs(low), std::fabs(high)); }
    bool operator==(const Span &other) const { return low == other.low && high == other.high; }
};

/* What is added to sums of bytes as they are stored: for each column, as many as fill vectors,
   and for each row, or nothing. */
struct Offsets {
    const int32_t *columns, *rows;

    int32_t row(int64_t place) const { return rows ? rows[place] : 0; }
};

/* What becomes of the sums of columns. A level is sum * factor in float32, where that was found
   to be right around every step of the codes; else sum * scale + rest in double, and so much
   farther from zero (``away``), where that holds all products; else it follows from multiplier,
   shift and rest. */
struct Requantized {
    Requantization rounding;
    std::vector<int64_t> multiplier, shift, rests;
    int64_t zero, least, most;
    std::vector<float> factor;
    std::vector<double> scale, rest, away;
    std::vector<bool> in_float; /* of so many lanes each */
    bool in_double;
    bool are_small = true; /* levels in double: below 2**30, none moved away from zero */

    /* Of columns whose sums lie in these. */
    Requantized(const Requantization &rounding, std::vector<int64_t> multiplier,
                std::vector<int64_t> shift, Integers rests, int64_t zero, int64_t least, int64_t most,
                const std::vector<Span> &sums);

    /* The level of a sum of a column, before its zero point. */
    int64_t level(int64_t column, int64_t sum) const;

    /* The same for so many columns, all of them as the first is. */
    Requantized repeated(int64_t columns) const;

  private:
    std::vector<int64_t> first_sums(int64_t column, int64_t low, int64_t high,
                                    const Span &sums) const;
    float found_factor(int64_t column, const Span &sums) const;
};

} // namespace qpasses
