/* Products of stored matrices, exact in int32, and their requantization. */

#pragma once

#include "kernel.h"
#include "rounding.h"

#include <vector>

namespace qpasses {

/* A matrix of bytes as right operand, so that four of a column, or two as words, lie side by
   side; its columns in panels. ``sums``: those of its columns. */
class RightMatrix {
  public:
    /* ``rows`` times ``columns`` stored numbers, row by row. */
    void pack(const uint8_t *from, bool is_signed, int64_t rows, int64_t columns);

    int64_t rows = 0, columns = 0;
    std::vector<int8_t> quads;    /* AVX-512: panels of 64 columns */
    std::vector<int16_t> pairs;   /* others: panels of 16 */
    std::vector<int32_t> sums;

    /* The sum of the sizes of each column, of what was packed. */
    std::vector<int64_t> sizes(const uint8_t *from, bool is_signed) const;
};

/* What becomes of the sums of columns. ``offset`` is added to sums of bytes as they are stored.
   Where doubles hold all products, a level is sum * scale + rest, and so much farther from zero
   (``away``); else it follows from multiplier, shift and rest of a column, or of all. */
struct Requantized {
    std::vector<int32_t> offset;
    std::vector<double> scale, rest, away;
    std::vector<int64_t> multiplier, shift, rests;
    Requantization rounding;
    int64_t zero, least, most;
    double low, high;
    bool in_double, are_small = true; /* levels below 2**30 that are not moved away from zero */

    /* Of so many columns whose sums have at most these sizes. */
    Requantized(const Requantization &rounding, const Tensor &multiplier, const Tensor &shift,
                const Shape &rests, int64_t zero, int64_t least, int64_t most,
                const std::vector<int64_t> &largest);
};

/* y [count, columns] of x [count, rows], rows of unsigned bytes ``step`` apart; ``row_offsets``
   are added to all sums of a row, or there are none. */
void multiply(const RightMatrix &right, const Requantized &after, const uint8_t *x, int64_t step,
              int64_t count, const int32_t *row_offsets, uint8_t *y, int64_t y_step);

} // namespace qpasses
