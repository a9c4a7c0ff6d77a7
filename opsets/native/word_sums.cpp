/* Sums of products with 16 bits at an end: words times weights, in int32 as far as it holds. */

#include "word_sums.h"
#include "codes.h"
#include "instruction_sets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

constexpr int64_t PANEL = 16; /* outputs whose weights lie side by side, in pairs */
constexpr double EXACT = 9007199254740992.0; /* 2**53: below it double holds all integers */
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: less than 2**31 more is rounded */

typedef int32_t Lanes __attribute__((vector_size(4 * PANEL)));
typedef int16_t Words __attribute__((vector_size(2 * PANEL)));

BEGIN_PLAIN
namespace plain {
constexpr int MOST_SUMS = 4;

inline void add(Lanes &sums, const Lanes &pairs, const Lanes &others) {
    sums += ((pairs << 16) >> 16) * ((others << 16) >> 16) + (pairs >> 16) * (others >> 16);
}
#include "word_sum_loops.h"
}
END_PLAIN
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
constexpr int MOST_SUMS = 4;

inline void add(Lanes &sums, const Lanes &pairs, const Lanes &others) {
    __m256i part[2], other[2], found[2];
    __builtin_memcpy(part, &pairs, sizeof part);
    __builtin_memcpy(other, &others, sizeof other);
    __builtin_memcpy(found, &sums, sizeof found);
    for (int k = 0; k < 2; k++)
        found[k] = _mm256_add_epi32(found[k], _mm256_madd_epi16(part[k], other[k]));
    __builtin_memcpy(&sums, found, sizeof sums);
}
#include "word_sum_loops.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
constexpr int MOST_SUMS = 12;

inline void add(Lanes &sums, const Lanes &pairs, const Lanes &others) {
    sums = (Lanes)_mm512_dpwssd_epi32((__m512i)sums, (__m512i)pairs, (__m512i)others);
}
#include "word_sum_loops.h"
}
END_SET
#endif

} // namespace

LevelRange LevelRange::of(const Tensor &x_zero) {
    LevelRange found = {INT64_MAX, INT64_MIN};
    of_stored(x_zero.type, "x_zero", [&](auto code) {
        using Limits = std::numeric_limits<decltype(code)>;
        const auto *zeros = x_zero.as<decltype(code)>();
        for (size_t k = 0; k < x_zero.size(); k++) {
            if (sizeof code == 2 && zeros[k])
                fail("words that have a zero point");
            found.low = std::min<int64_t>(found.low, Limits::min() - zeros[k]);
            found.high = std::max<int64_t>(found.high, Limits::max() - zeros[k]);
        }
    });
    return found;
}

WordSums::WordSums(const std::vector<int16_t> &weights, int64_t length, const LevelRange &x,
                   const std::vector<int64_t> &bias,
                   const std::vector<int64_t> &multiplier, const std::vector<int64_t> &shift,
                   const Requantization &how, int64_t zero, int64_t least, int64_t most,
                   Type result)
    : deep_((length + 1) / 2 * 2), outputs_(static_cast<int64_t>(bias.size())), ends_(zero, least, most), result_(result) {
    if (how.is_twice)
        fail("sums of words that are rounded twice");
    levels_ = {{bias.begin(), bias.end()},
               {},
               static_cast<double>(least - zero),
               static_cast<double>(most - zero),
               how.last == Rounding::HALF_UP ? 1.0 : 0.0,
               how.last == Rounding::HALF_AWAY ? 1.0 : 0.0,
               static_cast<int32_t>(zero)};
    const int64_t panels = (outputs() + PANEL - 1) / PANEL;
    levels_.bias.resize(panels * PANEL);
    double furthest = 0;
    weights_.assign(panels * deep_ * PANEL, 0);
    for (int64_t m = 0; m < outputs(); m++) {
        int16_t *to = weights_.data() + m / PANEL * deep_ * PANEL + m % PANEL * 2;
        for (int64_t k = 0; k < length; k++)
            to[k / 2 * 2 * PANEL + k % 2] = weights[m * length + k];
        must_be_from(shift[m], 1, 62, "a shift");
        exact_.emplace_back(AnyRounding(how), multiplier[m], shift[m]);
        double low = static_cast<double>(bias[m]), high = low;
        for (int64_t k = 0; k < length; k++) {
            const double weight = weights[m * length + k];
            low += weight * static_cast<double>(weight > 0 ? x.low : x.high);
            high += weight * static_cast<double>(weight > 0 ? x.high : x.low);
        }
        furthest = std::max(furthest, std::max(-low, high) *
                                          std::fabs(static_cast<double>(multiplier[m])));
        levels_.scale.push_back(
            std::ldexp(static_cast<double>(multiplier[m]), -static_cast<int>(shift[m])));
    }
    levels_.scale.resize(panels * PANEL);
    if (furthest <= EXACT)
        exact_.clear();
}

void WordSums::run(const std::vector<const int16_t *> &rows, const WordRuns &runs, char *y,
                   int64_t y_step) const {
    if (2 * runs.count * runs.pairs != deep_)
        fail("rows of words of another length than weights");
    const int64_t count = static_cast<int64_t>(rows.size());
    const auto two = BEST(some_rows<2>);
    const auto one = BEST(some_rows<1>);
    double sums[12 * PANEL]; /* the most of MOST_SUMS */
    for (int64_t first = 0; first < outputs();) {
        const int64_t wide = outputs() - first > PANEL ? 2 * PANEL : PANEL;
        const int64_t some = std::min(wide, outputs() - first);
        const int16_t *weights = weights_.data() + first * deep_;
        for (int64_t row = 0; row < count;) {
            const int64_t done = (wide > PANEL ? two : one)(rows.data() + row, count - row, runs,
                                                            weights, sums);
            store(sums, done, wide, first, some, y + row * y_step, y_step);
            row += done;
        }
        first += wide;
    }
}

CellSums::CellSums(const std::vector<int16_t> &weights, int64_t cells, const WordSums &after)
    : channels_(after.outputs()), step_((channels_ + PANEL - 1) / PANEL * PANEL),
      weights_(cells * step_), after_(after) {
    for (int64_t m = 0; m < channels_; m++)
        for (int64_t k = 0; k < cells; k++)
            weights_[k * step_ + m] = static_cast<uint16_t>(weights[m * cells + k]);
}

void CellSums::run(const std::vector<const int16_t *> &windows, const std::vector<int64_t> &places,
                   char *y, int64_t y_step) const {
    constexpr size_t SOME_WINDOWS = 8;
    const auto sums_of = BEST(sums_of_cells);
    std::vector<double> sums(SOME_WINDOWS * step_);
    for (size_t n = 0; n < windows.size(); n += SOME_WINDOWS) {
        const size_t some = std::min(SOME_WINDOWS, windows.size() - n);
        for (size_t k = 0; k < some; k++)
            sums_of(windows[n + k], places.data(), places.size(), weights_.data(), channels_,
                    sums.data() + k * step_);
        after_.store(sums.data(), some, step_, y + n * y_step, y_step);
    }
}

void WordSums::store(const double *sums, int64_t rows, int64_t wide, char *y,
                     int64_t y_step) const {
    store(sums, rows, wide, 0, outputs(), y, y_step);
}

void WordSums::store(const double *sums, int64_t rows, int64_t wide, int64_t first, int64_t count,
                     char *y, int64_t y_step) const {
    if (exact_.empty()) {
        of_bits(result_, "sums of words", [&](auto code) {
            BEST(store_levels<decltype(code)>)(levels_, sums, rows, wide, first, count, y, y_step);
        });
        return;
    }
    for (int64_t row = 0; row < rows; row++)
        for (int64_t n = 0; n < count; n++) {
            const int64_t sum = static_cast<int64_t>(sums[row * wide + n] + levels_.bias[first + n]);
            qpasses::store(result_, ends_(exact_[first + n](sum)), y + row * y_step, first + n);
        }
}

void to_words(const Tensor &x, int64_t first, int64_t count, int64_t zero, int16_t *to) {
    of_stored(x.type, "x", [&](auto code) {
        const auto *from = x.as<decltype(code)>() + first;
        for (int64_t k = 0; k < count; k++)
            to[k] = static_cast<int16_t>(from[k] - zero);
    });
}

} // namespace qpasses
