/* Sums of products with 16 bits at an end of their node: exact in int64. */

#pragma once

#include "kernel.h"
#include "rounding.h"

#include <vector>

namespace qpasses {

/* Weights of some outputs and what becomes of their sums, of words that the rows hold. */
class WordSums {
  public:
    static constexpr int64_t STEP = 32; /* words that rows are filled up to with zeros */

    /* ``weights`` [outputs, length], less their zero point. The multipliers and shifts, and the
       bias of each output; the zero point and the ends of codes of the result. */
    WordSums(const std::vector<int16_t> &weights, int64_t length, std::vector<int64_t> bias,
             const std::vector<int64_t> &multiplier, const std::vector<int64_t> &shift,
             const Requantization &how, int64_t zero, int64_t least, int64_t most, Type result);

    int64_t outputs() const { return static_cast<int64_t>(bias_.size()); }
    int64_t deep() const { return deep_; } /* the length of rows */

    /* The codes of so many rows, which follow each other; the results lie ``y_step`` apart. */
    void run(const int16_t *rows, int64_t count, void *y, int64_t y_step) const;

    /* The code of sums of all outputs as they are. */
    void store(const int64_t *sums, void *y) const;

  private:
    int64_t deep_;
    std::vector<int16_t> weights_;
    std::vector<int64_t> bias_;
    std::vector<double> scale_;
    Rounding rounding_;
    int64_t zero_;
    double low_, high_;
    Type result_;

    int32_t level(double value) const;
    template <typename Y> void put(int64_t output, int64_t sum, Y *y) const;
};

/* Whether a node has 16 bits at an end, by its zero points. */
inline bool has_words(const Tensor &x_zero, const Tensor &y_zero) {
    return x_zero.type == INT16 || y_zero.type == INT16;
}

/* So many codes as words, less a zero point; then zeros up to the end. */
void to_words(const Tensor &x, int64_t first, int64_t count, int64_t zero, int16_t *to);

} // namespace qpasses
