/* Sums of products with 16 bits at an end: words times weights, in int32 as far as it holds. */

#include "word_sums.h"
#include "instruction_sets.h"

#include <algorithm>
#include <cmath>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

namespace plain {
typedef int16_t Words __attribute__((vector_size(32)));
typedef int32_t Sums __attribute__((vector_size(64)));

inline Sums add(Sums sums, Words left, Words right) {
    return sums + __builtin_convertvector(left, Sums) * __builtin_convertvector(right, Sums);
}
#include "word_sum_loops.h"
}
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
using Words = __m256i;
using Sums = __m256i;

inline Sums add(Sums sums, Words left, Words right) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(left, right));
}
#include "word_sum_loops.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
using Words = __m512i;
using Sums = __m512i;

inline Sums add(Sums sums, Words left, Words right) {
    return _mm512_dpwssd_epi32(sums, left, right);
}
#include "word_sum_loops.h"
}
END_SET
#endif

constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: less than 2**31 more is rounded */

} // namespace

WordSums::WordSums(const std::vector<int16_t> &weights, int64_t length, std::vector<int64_t> bias,
                   const std::vector<int64_t> &multiplier, const std::vector<int64_t> &shift,
                   const Requantization &how, int64_t zero, int64_t least, int64_t most,
                   Type result)
    : deep_((length + STEP - 1) / STEP * STEP), bias_(std::move(bias)), rounding_(how.last),
      zero_(zero), low_(static_cast<double>(least - zero)),
      high_(static_cast<double>(most - zero)), result_(result) {
    if (how.is_twice)
        throw std::runtime_error("sums of words that are rounded twice");
    for (int64_t each : {zero, least, most})
        must_be_from(each, -0x8000, 0x7fff, "an end of codes");
    weights_.assign(deep_ * outputs(), 0);
    for (int64_t m = 0; m < outputs(); m++) {
        std::copy_n(weights.begin() + m * length, length, weights_.begin() + m * deep_);
        must_be_from(shift[m], 1, 62, "a shift");
        scale_.push_back(std::ldexp(static_cast<double>(multiplier[m]), -static_cast<int>(shift[m])));
    }
}

/* To the nearest: of what lies in the middle as the rounding says. */
int32_t WordSums::level(double value) const {
    value = std::min(std::max(value, low_ - 1), high_ + 1);
    double found = value + MAGIC - MAGIC;
    const double rest = value - found;
    if (rounding_ == Rounding::HALF_UP && rest == 0.5)
        found += 1;
    if (rounding_ == Rounding::HALF_AWAY && std::fabs(rest) == 0.5 && (rest > 0) == (value > 0))
        found += 2 * rest;
    return static_cast<int32_t>(std::min(std::max(found, low_), high_));
}

template <typename Y> void WordSums::put(int64_t output, int64_t sum, Y *y) const {
    const double value = static_cast<double>(sum + bias_[output]) * scale_[output];
    y[output] = static_cast<Y>(level(value) + zero_);
}

void WordSums::run(const int16_t *rows, int64_t count, void *y, int64_t y_step) const {
    constexpr int ROWS = 4;
    const auto many = BEST(dots<ROWS>);
    const auto one = BEST(dots<1>);
    of_bits(result_, "sums of words", [&](auto code) {
        using Y = decltype(code);
        for (int64_t first = 0; first < count; first += ROWS) {
            const int64_t some = std::min<int64_t>(ROWS, count - first);
            int64_t sums[ROWS];
            for (int64_t m = 0; m < outputs(); m++) {
                const int16_t *weights = weights_.data() + m * deep_;
                if (some == ROWS)
                    many(rows + first * deep_, weights, deep_, sums);
                for (int64_t r = 0; r < some; r++) {
                    if (some < ROWS)
                        one(rows + (first + r) * deep_, weights, deep_, sums + r);
                    put(m, sums[r], static_cast<Y *>(y) + (first + r) * y_step);
                }
            }
        }
    });
}

void WordSums::store(const int64_t *sums, void *y) const {
    of_bits(result_, "sums of words", [&](auto code) {
        for (int64_t m = 0; m < outputs(); m++)
            put(m, sums[m], static_cast<decltype(code) *>(y));
    });
}

void to_words(const Tensor &x, int64_t first, int64_t count, int64_t zero, int16_t *to) {
    of_stored(x.type, "x", [&](auto code) {
        const auto *from = x.as<decltype(code)>() + first;
        for (int64_t k = 0; k < count; k++)
            to[k] = static_cast<int16_t>(from[k] - zero);
    });
}

} // namespace qpasses
