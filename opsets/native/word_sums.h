/* Sums of products with 16 bits at an end of their node: exact in int64. */

#pragma once

#include "rescaling.h"

#include <vector>

namespace qpasses {

/* What becomes of the sums of outputs: codes from ``low`` to ``high``, as levels. A level in the
   middle goes ``up``, or ``away`` from zero, or to the even one. */
struct Levels {
    std::vector<double> bias, scale;
    double low, high, up, away;
    int32_t zero;
};

/* The words of a row: so many runs of ``pairs``, each at a place behind its beginning. */
struct WordRuns {
    const int64_t *places;
    int64_t count, pairs;
};

/* The smallest and the largest level of x. */
struct LevelRange {
    int64_t low, high;

    /* Of codes of ``x_zero``'s type, less any of its numbers. Fails for words that have one. */
    static LevelRange of(const Tensor &x_zero);
};

/* Weights of some outputs and what becomes of their sums, of words that the rows hold. Sums
   times multipliers are rounded in double where that holds all of them, else in 128 bits. */
class WordSums {
  public:
    /* ``weights`` [outputs, length], less their zero point. The multipliers and shifts, and the
       bias of each output; the zero point and the ends of codes of the result. */
    WordSums(const std::vector<int16_t> &weights, int64_t length, const LevelRange &x,
             const std::vector<int64_t> &bias,
             const std::vector<int64_t> &multiplier, const std::vector<int64_t> &shift,
             const Requantization &how, int64_t zero, int64_t least, int64_t most, Type result);

    int64_t outputs() const { return outputs_; }
    int64_t deep() const { return deep_; } /* the length of rows, filled up with a word */

    /* The codes of rows, which begin there; the results lie ``y_step`` bytes apart. */
    void run(const std::vector<const int16_t *> &rows, const WordRuns &runs, char *y,
             int64_t y_step) const;

    /* The codes of rows of sums of all outputs, which are whole and lie ``wide`` apart, filled up
       to whole panels; the results lie ``y_step`` bytes apart. */
    void store(const double *sums, int64_t rows, int64_t wide, char *y, int64_t y_step) const;

  private:
    int64_t deep_, outputs_;
    std::vector<int16_t> weights_; /* [panels, pairs, PANEL, 2] */
    Levels levels_;
    Ends ends_;
    std::vector<Rescaling> exact_; /* of each output, where double does not do */
    Type result_;

    void store(const double *sums, int64_t rows, int64_t wide, int64_t first, int64_t count, char *y,
               int64_t y_step) const;
};

/* Weights of windows whose channels have their own, and what becomes of their sums. */
class CellSums {
  public:
    static constexpr int64_t BEHIND = 16; /* words that may be read behind the last cell */

    /* ``weights`` [channels, cells], less their zero point; ``after`` says the rest. */
    CellSums(const std::vector<int16_t> &weights, int64_t cells, const WordSums &after);

    /* The codes of ``windows``, whose cells lie at ``places`` behind their first one; the results
       lie ``y_step`` bytes apart. */
    void run(const std::vector<const int16_t *> &windows, const std::vector<int64_t> &places,
             char *y, int64_t y_step) const;

  private:
    int64_t channels_, step_;
    std::vector<int32_t> weights_; /* [cells, step]: 16 bits of each */
    WordSums after_;
};

/* Whether a node has 16 bits at an end, by its zero points. */
inline bool has_words(const Tensor &x_zero, const Tensor &y_zero) {
    return x_zero.type == INT16 || y_zero.type == INT16;
}

/* So many codes as words, less a zero point. */
void to_words(const Tensor &x, int64_t first, int64_t count, int64_t zero, int16_t *to);

} // namespace qpasses
