/* Results that depend on how far a code of 8 bits lies below the largest of its row, and on the
   sum of a term of each. */

#pragma once

#include "kernel.h"

#include <functional>

namespace qpasses {

/* Codes for the distances from 0 on, of so many, and of a row with this sum. */
using LevelsOfSum = std::function<void(int64_t sum, int64_t count, uint8_t *levels)>;

/* ``terms``: 256, whose sums int64 holds. */
void by_distance(const Context &context, const Tensor &x, int64_t axis, const int64_t *terms,
                 const LevelsOfSum &levels, uint8_t *y);

} // namespace qpasses
