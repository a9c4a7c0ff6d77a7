/* Products of stored matrices, exact in int32, as codes. */

#pragma once

#include "requantized.h"

#include <vector>

namespace qpasses {

constexpr int64_t QUAD = 4;         /* so many products are added at once */
constexpr int64_t OUTPUT = 64;      /* so many take the time of making a code of their sum */
constexpr int64_t WORK = 1 << 22;   /* so many are worth a part of their own */

/* A matrix of bytes as right operand, so that four of a column lie side by side; its columns in
   panels. Its rows come in runs, so many of one length, which left rows have side by side.
   ``sums``: those of its columns. */
class RightMatrix {
  public:
    /* Stored numbers, row by row. */
    void pack(const uint8_t *from, bool is_signed, int64_t runs, int64_t length, int64_t columns);

    int64_t runs = 0, length = 0, columns = 0;
    std::vector<int8_t> bytes;  /* AVX-512: panels of 64 columns; dotprod: of 16 */
    std::vector<int16_t> words; /* others: of 16, plain ones of 1 */
    std::vector<int32_t> sums;

    /* In what the sums of each column lie: ``start`` and products of what was packed with
       unsigned bytes less ``x_zero``, as weights less ``zero``. */
    std::vector<Span> spans(const uint8_t *from, bool is_signed, int64_t zero,
                            const std::vector<int64_t> &x_zero,
                            const std::vector<int64_t> &start) const;

    /* How many there are in a panel, of each column. */
    int64_t rows() const { return runs * padded(length, QUAD); }
};

/* Rows of unsigned bytes as left operand: where each begins, and how far behind that its runs
   do. All can be read until they have a multiple of four. */
struct LeftRows {
    const uint8_t *const *rows;
    const int64_t *runs;
    int64_t count;
};

/* y [count, columns], rows so far from each other. */
void multiply(const LeftRows &left, const RightMatrix &right, const Requantized &after,
              const Offsets &offsets, uint8_t *y, int64_t y_step);

/* Rows of one run each for ``multiply``: as they lie where that will do, else copied, int8 ones
   with their highest bit turned. */
class LeftMatrix {
  public:
    LeftMatrix(const uint8_t *from, bool is_signed, int64_t count, int64_t length);

    LeftRows rows() const { return {starts.data(), &run, static_cast<int64_t>(starts.size())}; }

    /* The sum of a row. */
    int64_t sum(int64_t row) const;

  private:
    int64_t length, run = 0;
    std::vector<const uint8_t *> starts;
    std::vector<uint8_t> copied;
};

} // namespace qpasses
