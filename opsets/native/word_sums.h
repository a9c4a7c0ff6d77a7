/* Sums of products with 16 bits at an end of their node: exact in int64. */

#pragma once

#include "kernel.h"
#include "rounding.h"

#include <vector>

namespace qpasses {

/* What becomes of the sums of outputs: codes from ``low`` to ``high``, as levels. A level in the
   middle goes ``up``, or ``away`` from zero, or to the even one. */
struct Levels {
    std::vector<int64_t> bias;
    std::vector<double> scale;
    double low, high, up, away;
    int32_t zero;
};

/* Weights of some outputs and what becomes of their sums, of words that the rows hold. */
class WordSums {
  public:
    /* ``weights`` [outputs, length], less their zero point. The multipliers and shifts, and the
       bias of each output; the zero point and the ends of codes of the result. */
    WordSums(const std::vector<int16_t> &weights, int64_t length, std::vector<int64_t> bias,
             const std::vector<int64_t> &multiplier, const std::vector<int64_t> &shift,
             const Requantization &how, int64_t zero, int64_t least, int64_t most, Type result);

    int64_t outputs() const { return static_cast<int64_t>(levels_.bias.size()); }
    int64_t deep() const { return deep_; } /* the length of rows, filled up with a zero */

    /* The codes of so many rows, which follow each other; the results lie ``y_step`` apart. */
    void run(const int16_t *rows, int64_t count, void *y, int64_t y_step) const;

    /* The codes of the sums of all outputs. */
    void store(const int64_t *sums, void *y) const;

  private:
    int64_t deep_;
    std::vector<int16_t> weights_; /* [panels, pairs, PANEL, 2] */
    Levels levels_;
    Type result_;
};

/* Sums of one cell of windows whose channels have their own weights, added to those before:
   int32 holds 256 of them. */
void add_cell(const int16_t *x, const int16_t *w, int64_t count, int32_t *sums);

/* Whether a node has 16 bits at an end, by its zero points. */
inline bool has_words(const Tensor &x_zero, const Tensor &y_zero) {
    return x_zero.type == INT16 || y_zero.type == INT16;
}

/* So many codes as words, less a zero point. */
void to_words(const Tensor &x, int64_t first, int64_t count, int64_t zero, int16_t *to);

} // namespace qpasses
