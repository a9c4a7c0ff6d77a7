/* Sums of int32 as codes, by one multiplier or one for each channel. */

#pragma once

#include "prepared.h"
#include "rescaling.h"

namespace qpasses {

/* Of one channel, or of one after another. ``half``: of the smallest step that a product with
   ``scale`` has. The ends are less the zero point. */
struct Factors {
    const int32_t *multiplier, *shift;
    const double *scale, *half;
    int32_t zero, low, high;
};

class Requantizer {
  public:
    /* ``largest``: of the sums. */
    Requantizer(const Requantization &rounding, std::vector<int32_t> multipliers,
                std::vector<int32_t> shifts, const Ends &ends, Type type, int64_t largest);

    /* Inputs ``first`` to ``first`` + 4: multipliers, shifts, zero point and ends. */
    static Requantizer of_node(const Requantization &rounding, const Inputs &inputs, size_t first,
                               int64_t largest, bool may_be_words = false);

    size_t channels() const { return multipliers_.size(); }
    Type type() const { return type_; }

    /* So many sums of one channel; ``to``: the place of the first in y. */
    void of_one(size_t channel, const int32_t *sums, int64_t count, void *y, int64_t to) const {
        run(one_, channel, sums, count, y, to);
    }

    /* So many sums of as many channels. */
    void of_each(const int32_t *sums, void *y, int64_t to) const {
        run(each_, 0, sums, static_cast<int64_t>(channels()), y, to);
    }

  private:
    using Loop = void (*)(const Factors &, const int32_t *sums, int64_t count, int16_t *y);

    std::vector<int32_t> multipliers_, shifts_;
    std::vector<double> scales_, halves_;
    Ends ends_;
    Type type_;
    Loop one_, each_;

    void run(Loop loop, size_t channel, const int32_t *sums, int64_t count, void *y,
             int64_t to) const;

    static int64_t size_of(Type type) { return type == INT16 ? 2 : 1; }
};

} // namespace qpasses
