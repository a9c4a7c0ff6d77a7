/* Exponentials of published integer algorithms: see opsets/published.py. */

#pragma once

#include "rescaling.h"

namespace qpasses {

constexpr int64_t LARGEST_SUM = 0x7fffffff; /* what sums of exponentials saturate at */

/* Attributes of both kinds. */
struct Exponential {
    int64_t x0, n;

    explicit Exponential(const Attributes &given)
        : x0(given.integer("x0")), n(given.integer("fraction_bits")) {
        must_be_from(x0, 1 - (1 << 20), -1, "x0");
        must_be_from(n, 1, 30, "fraction_bits");
    }

    /* The quotient by x0, floored. */
    int64_t quotient(int64_t value) const {
        return value / x0 - (value % x0 > 0);
    }

    /* I-ViT's, of a value below 512 in size. */
    int64_t by_shifts(int64_t x) const {
        const int64_t scaled = std::max(x + (x >> 1) - (x >> 4), n * x0);
        const int64_t whole = quotient(scaled), places = std::min<int64_t>(n - whole, 40);
        return ((scaled - whole * x0 - 2 * x0) << places) >> 1;
    }

    /* I-BERT's, of a value up to 0. */
    Wide by_polynomial(int64_t x, int64_t b, int64_t c) const {
        const int64_t bounded = std::max(x, n * x0), whole = quotient(bounded);
        const int64_t rest = bounded - whole * x0;
        return Wide{std::max<int64_t>(rest * (rest + b) + c, 0)} << (n - whole);
    }
};

inline int64_t output_bits_of(const Attributes &given) {
    const int64_t bits = given.integer("output_bits");
    must_be_from(bits, 1, 16, "output_bits");
    return bits;
}

} // namespace qpasses
