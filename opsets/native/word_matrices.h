/* Products of matrices of words, or of words and bytes: exact in double, as codes of any type. */

#pragma once

#include "rescaling.h"

#include <vector>

namespace qpasses {

/* Levels of a left matrix, row by row, some rows of nothing behind them. */
std::vector<double> left_levels(const Tensor &from, int64_t place, int64_t zero, int64_t count,
                                int64_t length);

/* Levels of a right matrix: its columns in panels, filled up with nothing. */
std::vector<double> right_levels(const Tensor &from, int64_t place, int64_t zero, int64_t length,
                                 int64_t columns);

/* Of sums to levels, and where these end: ``lift`` and ``away`` say how they are rounded. */
struct LevelScaling {
    double scale, low, high, lift, away;
    int32_t zero;
};

/* The same on integers. */
struct LongScaling {
    int64_t multiplier, shift, zero, low, high;
};

/* How sums that are ``reach`` in size at most become codes: in double where that holds all
   products with the multiplier, else in int64, else in 128 bits. */
class WordCodes {
  public:
    WordCodes(const Requantization &rounding, int64_t multiplier, int64_t shift, const Ends &ends,
              Type type, int64_t reach);

    /* Those of so many sums; ``to``: the place of the first in y. */
    void store(const double *sums, int64_t count, void *y, int64_t to) const;
    void store(const int64_t *sums, int64_t count, void *y, int64_t to) const;

    bool sums_are_doubles() const { return sums_are_doubles_; }

  private:
    Rescaling exact_;
    Ends ends_;
    Type type_;
    Rounding rounding_;
    LevelScaling scaling_;
    LongScaling long_scaling_;
    bool sums_are_doubles_, in_double_, in_int64_;

    template <typename Y> void store_as(const double *sums, int64_t count, Y *y) const;
};

/* y [count, columns] from the place ``to`` on. */
void multiply(const std::vector<double> &left, const std::vector<double> &right, int64_t count,
              int64_t length, int64_t columns, const WordCodes &codes, void *y, int64_t to);

} // namespace qpasses
