/* Filters that read one channel each, over pictures with their channels last. */

#pragma once

#include "geometry.h"
#include "requantized.h"

namespace qpasses {

class Depthwise {
  public:
    /* ``from``: stored numbers [height, width, channels]. */
    void pack(const uint8_t *from, bool is_signed, int64_t height, int64_t width,
              int64_t channels);

    /* A row of outputs [windows, channels] of the rows from ``x`` on, ``step`` apart;
       ``offset`` is added to the sums of each channel. */
    void run(const Geometry &given, const Requantized &after, const int32_t *offset,
             const uint8_t *x, int64_t step, uint8_t *y) const;

  private:
    int64_t height = 0, width = 0, channels = 0;
    std::vector<int8_t> bytes;  /* AVX-512: four rows of a channel side by side */
    std::vector<int16_t> words; /* others: as they were given */
};

} // namespace qpasses
