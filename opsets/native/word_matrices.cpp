/* Products of matrices of words: tiles of rows and columns in registers, of doubles. */

#include "word_matrices.h"
#include "codes.h"
#include "instruction_sets.h"

#include <algorithm>

namespace qpasses {
namespace {

constexpr int64_t TALL = 8, WIDE = 16;
constexpr int64_t PART = 1 << 20;            /* so many products of levels double holds the sum of */
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */
constexpr double EXACT = 9007199254740992.0; /* 2**53 */
constexpr double LARGEST = 4611686018427387904.0; /* 2**62 */

/* Sums that are in registers at once, and how many of them in one. */
namespace plain {
constexpr int64_t ROWS = 2, COLUMNS = 8, LANES = 2;
}
#if QPASSES_SETS > 1
namespace avx2 {
constexpr int64_t ROWS = 4, COLUMNS = 8, LANES = 4;
}
namespace avx512 {
constexpr int64_t ROWS = 8, COLUMNS = 16, LANES = 8;
}
#endif

#define LOOPS "word_loops.h"
#include "each_set.h"

int64_t up_to(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

} // namespace

std::vector<double> left_levels(const Tensor &from, int64_t place, int64_t zero, int64_t count,
                                int64_t length) {
    std::vector<double> found(up_to(count, TALL) * length, 0);
    of_stored(from.type, "a matrix", [&](auto code) {
        const auto *codes = from.as<decltype(code)>() + place;
        for (int64_t k = 0; k < count * length; k++)
            found[k] = static_cast<double>(codes[k] - zero);
    });
    return found;
}

std::vector<double> right_levels(const Tensor &from, int64_t place, int64_t zero, int64_t length,
                                 int64_t columns) {
    std::vector<double> found(up_to(columns, WIDE) * length, 0);
    of_stored(from.type, "a matrix", [&](auto code) {
        const auto *codes = from.as<decltype(code)>() + place;
        for (int64_t k = 0; k < length; k++)
            for (int64_t first = 0; first < columns; first += WIDE) {
                double *row = found.data() + first * length + k * WIDE;
                for (int64_t n = 0; n < std::min(WIDE, columns - first); n++)
                    row[n] = static_cast<double>(codes[k * columns + first + n] - zero);
            }
    });
    return found;
}

WordCodes::WordCodes(const Requantization &rounding, int64_t multiplier, int64_t shift,
                     const Ends &ends, Type type, int64_t reach)
    : exact_(AnyRounding(rounding), multiplier, shift), ends_(ends), type_(type),
      rounding_(rounding.last), scaling_({}),
      long_scaling_({multiplier, shift, ends.zero, ends.low, ends.high}) {
    const double half = std::ldexp(0.5, -static_cast<int>(shift)); /* of the last bit */
    scaling_.scale = 2 * half * static_cast<double>(multiplier);
    scaling_.low = static_cast<double>(ends.low - ends.zero);
    scaling_.high = static_cast<double>(ends.high - ends.zero);
    scaling_.lift = rounding.last == Rounding::HALF_UP ? half : 0;
    scaling_.away = rounding.last == Rounding::HALF_AWAY ? half : 0;
    scaling_.zero = static_cast<int32_t>(ends.zero);
    const double largest = static_cast<double>(reach);
    const double products = largest * std::fabs(static_cast<double>(multiplier));
    const double halves = rounding.last == Rounding::HALF_TO_EVEN ? 1 : 2;
    sums_are_doubles_ = largest <= EXACT;
    in_double_ = !rounding.is_twice && sums_are_doubles_ && products * halves <= EXACT;
    in_int64_ = !rounding.is_twice && sums_are_doubles_ && products < LARGEST;
    of_stored(type, "a product", [](auto) {});
}

template <typename Y>
void WordCodes::store_as(const double *sums, int64_t count, Y *y) const {
    if (in_double_)
        BEST(word_codes<Y>)(scaling_, sums, count, y);
    else if (rounding_ == Rounding::HALF_TO_EVEN)
        BEST(long_codes<Y, Rounding::HALF_TO_EVEN>)(long_scaling_, sums, count, y);
    else if (rounding_ == Rounding::HALF_UP)
        BEST(long_codes<Y, Rounding::HALF_UP>)(long_scaling_, sums, count, y);
    else
        BEST(long_codes<Y, Rounding::HALF_AWAY>)(long_scaling_, sums, count, y);
}

void WordCodes::store(const double *sums, int64_t count, void *y, int64_t to) const {
    if (!in_double_ && !in_int64_)
        for (int64_t k = 0; k < count; k++)
            qpasses::store(type_, ends_(exact_(static_cast<int64_t>(sums[k]))), y, to + k);
    else if (type_ == INT16)
        store_as(sums, count, static_cast<int16_t *>(y) + to);
    else
        store_as(sums, count, static_cast<uint8_t *>(y) + to);
}

void WordCodes::store(const int64_t *sums, int64_t count, void *y, int64_t to) const {
    for (int64_t k = 0; k < count; k++)
        qpasses::store(type_, ends_(exact_(sums[k])), y, to + k);
}

void multiply(const std::vector<double> &left, const std::vector<double> &right, int64_t count,
              int64_t length, int64_t columns, const WordCodes &codes, void *y, int64_t to) {
    const auto sums = BEST(word_sums);
    double some[TALL][WIDE];
    int64_t all[TALL][WIDE];
    for (int64_t n = 0; n < columns; n += WIDE)
        for (int64_t row = 0; row < count; row += TALL) {
            const double *a = left.data() + row * length, *b = right.data() + n * length;
            const int64_t width = std::min(WIDE, columns - n);
            const int64_t rows = std::min(TALL, count - row);
            if (codes.sums_are_doubles()) {
                sums(a, length, b, length, rows, some[0]);
                for (int64_t r = 0; r < rows; r++)
                    codes.store(some[r], width, y, to + (row + r) * columns + n);
                continue;
            }
            std::fill(all[0], all[0] + TALL * WIDE, int64_t{0});
            for (int64_t k = 0; k < length; k += PART) {
                sums(a + k, length, b + k * WIDE, std::min(PART, length - k), rows, some[0]);
                for (int64_t place = 0; place < rows * WIDE; place++)
                    all[0][place] += static_cast<int64_t>(some[0][place]);
            }
            for (int64_t r = 0; r < rows; r++)
                codes.store(all[r], width, y, to + (row + r) * columns + n);
        }
}

} // namespace qpasses
