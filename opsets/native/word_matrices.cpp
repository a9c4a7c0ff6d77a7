/* Products of matrices of words: tiles of rows and columns in registers, of doubles. */

#include "word_matrices.h"
#include "codes.h"
#include "instruction_sets.h"

#include <algorithm>

namespace qpasses {
namespace {

constexpr int64_t TALL = 4, WIDE = 16, BLOCK = 256;
constexpr int64_t PART = 1 << 20;            /* so many products of levels double holds the sum of */
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */
constexpr double EXACT = 9007199254740992.0; /* 2**53 */

/* Of sums to levels, and where their codes end. */
struct Scaling {
    double scale, low, high, lift, away;
    int32_t zero;
};

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
            for (int64_t n = 0; n < columns; n++)
                found[n / WIDE * WIDE * length + k * WIDE + n % WIDE] =
                    static_cast<double>(codes[k * columns + n] - zero);
    });
    return found;
}

WordCodes::WordCodes(const Requantization &rounding, int64_t multiplier, int64_t shift,
                     const Ends &ends, Type type, int64_t reach)
    : exact_(AnyRounding(rounding), multiplier, shift), ends_(ends), type_(type),
      scale_(std::ldexp(static_cast<double>(multiplier), -static_cast<int>(shift))),
      lift_(0), away_(0) {
    const double half = std::ldexp(0.5, -static_cast<int>(shift)); /* of the last bit */
    lift_ = rounding.last == Rounding::HALF_UP ? half : 0;
    away_ = rounding.last == Rounding::HALF_AWAY ? half : 0;
    const double largest = static_cast<double>(reach);
    const double halves = lift_ + away_ > 0 ? 2 : 1;
    sums_are_doubles_ = largest <= EXACT;
    in_double_ = !rounding.is_twice && sums_are_doubles_ &&
                 largest * std::fabs(static_cast<double>(multiplier)) * halves <= EXACT;
    of_stored(type, "a product", [](auto) {});
}

void WordCodes::store(const double *sums, int64_t count, void *y, int64_t to) const {
    const Scaling given = {scale_, static_cast<double>(ends_.low - ends_.zero),
                           static_cast<double>(ends_.high - ends_.zero), lift_, away_,
                           static_cast<int32_t>(ends_.zero)};
    int16_t words[BLOCK];
    int64_t wide[BLOCK];
    for (int64_t k = 0; k < count; k += BLOCK) {
        const int64_t some = std::min(BLOCK, count - k);
        if (in_double_) {
            BEST(word_codes)(given, sums + k, some, words);
            for (int64_t n = 0; n < some; n++)
                qpasses::store(type_, words[n], y, to + k + n);
        } else {
            std::copy(sums + k, sums + k + some, wide);
            store(wide, some, y, to + k);
        }
    }
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
                sums(a, length, b, length, some[0]);
                for (int64_t r = 0; r < rows; r++)
                    codes.store(some[r], width, y, to + (row + r) * columns + n);
                continue;
            }
            std::fill(all[0], all[0] + TALL * WIDE, int64_t{0});
            for (int64_t k = 0; k < length; k += PART) {
                sums(a + k, length, b + k * WIDE, std::min(PART, length - k), some[0]);
                for (int64_t place = 0; place < TALL * WIDE; place++)
                    all[0][place] += static_cast<int64_t>(some[0][place]);
            }
            for (int64_t r = 0; r < rows; r++)
                codes.store(all[r], width, y, to + (row + r) * columns + n);
        }
}

} // namespace qpasses
