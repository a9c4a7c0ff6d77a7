/* Convolutions with 16 bits at an end: windows as rows of words. */

#pragma once

#include "geometry.h"
#include "prepared.h"
#include "word_sums.h"

#include <vector>

namespace qpasses {

class WordFilters {
  public:
    /* From the inputs 1 to 9 of a convolution. */
    WordFilters(const Inputs &input, const Windows &windows, int64_t group,
                const Requantization &rounding);

    void run(const Context &context) const;

  private:
    Windows windows_;
    int64_t group_, inputs_, outputs_; /* channels of one group; outputs of all */
    std::vector<int64_t> x_zeros_; /* one, or one for each channel */
    Type result_;
    std::vector<WordSums> groups_; /* one, of all outputs, where each reads one channel */
    std::vector<CellSums> each_;   /* of such ones */

    struct Padded;
    std::vector<int16_t> levels_of_pictures(const Context &context, const Tensor &x,
                                            const Geometry &given, const Padded &padded) const;
    void windows_of(const Geometry &given, const Padded &padded, const int16_t *picture,
                    int64_t first, int64_t count, char *y) const;
    void copied(const WordSums &sums, const std::vector<const int16_t *> &windows,
                const std::vector<int64_t> &places, int64_t run, char *y) const;
};

} // namespace qpasses
