/* LutInterpolated, LutInterpolatedPerChannel: lines between the knots of one table, or of each
   channel's.

   A line gives 128 times a level of entries, which has 23 bits, and one more that tells where
   ties go, so that all is exact in float32. */

#include "codes.h"
#include "instruction_sets.h"
#include "kernels.h"
#include "prepared.h"
#include "rescaling.h"

#include <algorithm>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

constexpr int32_t KNOTS = 513;
constexpr int64_t PART = 1 << 14;

/* How a level becomes a code: within ``low`` and ``high``, ties as ``lift`` and ``away`` say.
   ``unit``: what the total of a line is worth. */
struct Lines {
    float unit, lift, away, low, high;
    int32_t zero;
};

constexpr float ROUNDS = 12582912.0f; /* 3 * 2**22: adding it rounds to an integer */

BEGIN_PLAIN
namespace plain {
constexpr int LANES = 4;
#include "line_lanes.h"

/* Entries side by side, the first at each place: times the weights that lie in pairs there. */
inline Numbers on_line(const int16_t *table, const Numbers &places, const Numbers &weights) {
    Numbers found;
    for (int n = 0; n < LANES; n++) {
        const int16_t *from = table + places[n];
        found[n] = from[0] * (weights[n] & 0xffff) + from[1] * (weights[n] >> 16);
    }
    return found;
}
#include "line_loops.h"
}
END_PLAIN
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
constexpr int LANES = 8;
#include "line_lanes.h"

inline Numbers on_line(const int16_t *table, const Numbers &places, const Numbers &weights) {
    const __m256i pairs =
        _mm256_i32gather_epi32(reinterpret_cast<const int *>(table), (__m256i)places, 2);
    return (Numbers)_mm256_madd_epi16(pairs, (__m256i)weights);
}
#include "line_loops.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
constexpr int LANES = 16;
#include "line_lanes.h"

inline Numbers on_line(const int16_t *table, const Numbers &places, const Numbers &weights) {
    const __m512i pairs = _mm512_i32gather_epi32((__m512i)places, table, 2);
    return (Numbers)_mm512_madd_epi16(pairs, (__m512i)weights);
}
#include "line_loops.h"
}
END_SET
#endif

/* The tables of channels, or of all, and what becomes of their lines. */
struct Interpolated {
    Type type;
    Lines lines;
    std::vector<int16_t> tables;

    /* From the inputs of either op. */
    Interpolated(const Inputs &inputs, Rounding rounding) {
        const Tensor given = inputs(1);
        if (given.type != INT16 || given.shape.empty() || given.shape.back() != KNOTS)
            fail("knots: a table has not 513 entries");
        const int64_t shift = inputs(2).number();
        must_be_from(shift, 1, 62, "knots: their shift");
        type = inputs(3).type;
        of_stored(type, "knots: y_zero", [](auto) {});
        const Ends ends = {inputs(3).number(), inputs(4).number(), inputs(5).number()};
        const float unit = std::ldexp(1.0f, -static_cast<int>(shift)), tie = unit / 2;
        lines = {unit,
                 rounding == Rounding::HALF_UP ? tie : 0.0f,
                 rounding == Rounding::HALF_AWAY ? tie : 0.0f,
                 static_cast<float>(ends.low - ends.zero),
                 static_cast<float>(ends.high - ends.zero),
                 static_cast<int32_t>(ends.zero)};
        tables.assign(given.as<int16_t>(), given.as<int16_t>() + given.size());
    }

    /* So many codes: those of a row of ``tables``, or, with a ``step``, one of each. */
    void run(int64_t row, int32_t step, const int16_t *x, int64_t count, void *y,
             int64_t place) const {
        of_bits(type, "knots: y", [&](auto code) {
            BEST(on_lines<decltype(code)>)(lines, tables.data() + row * KNOTS, step, x,
                                           static_cast<decltype(code) *>(y) + place, count);
        });
    }
};

struct LutInterpolated {
    Rounding rounding;
    Prepared<Interpolated> prepared;

    explicit LutInterpolated(const Attributes &given)
        : rounding(rounding_of(given.text("rounding"))),
          prepared(given, 6, [this](const Inputs &inputs) {
              if (inputs(1).shape != Shape{KNOTS})
                  fail("LutInterpolated: its table has not 513 entries");
              return Interpolated(inputs, rounding);
          }) {}

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const Tensor x = context.input(0);
        if (x.type != INT16)
            fail("LutInterpolated: x has no words");
        void *y = context.output(0, x.shape);
        const int64_t count = static_cast<int64_t>(x.size());
        context.parallel((count + PART - 1) / PART, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * PART;
            known->run(0, 0, x.as<int16_t>() + begin, std::min(PART, count - begin), y, begin);
        });
    }
};

struct LutInterpolatedPerChannel {
    int64_t axis;
    Rounding rounding;
    Prepared<Interpolated> prepared;

    explicit LutInterpolatedPerChannel(const Attributes &given)
        : axis(given.integer("axis")), rounding(rounding_of(given.text("rounding"))),
          prepared(given, 6, [this](const Inputs &inputs) {
              if (inputs(1).shape.size() != 2)
                  fail("LutInterpolatedPerChannel: tables are no matrix");
              must_be_from(inputs(1).shape[0], 0, 1 << 21, "LutInterpolatedPerChannel: channels");
              return Interpolated(inputs, rounding);
          }) {}

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const Tensor x = context.input(0);
        void *y = context.output(0, x.shape);
        if (x.type != INT16)
            fail("LutInterpolatedPerChannel: x has no words");
        const size_t place = axis_of(axis, x.shape);
        const int64_t channels = x.shape[place], inner = inner_of(x.shape, place);
        if (channels * KNOTS != static_cast<int64_t>(known->tables.size()))
            fail(
                "LutInterpolatedPerChannel: there is not one table for each channel");
        if (x.size() == 0)
            return;
        const int64_t row = inner == 1 ? channels : inner;
        const int64_t count = static_cast<int64_t>(x.size()) / row, least = PART / row + 1;
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t at = begin; at < count && at < begin + least; at++)
                known->run(inner == 1 ? 0 : at % channels, inner == 1 ? KNOTS : 0,
                           x.as<int16_t>() + at * row, row, y, at * row);
        });
    }
};

} // namespace

const Kernel LUT_INTERPOLATED = kernel<LutInterpolated>("LutInterpolated", 6, 3);
const Kernel LUT_INTERPOLATED_PER_CHANNEL =
    kernel<LutInterpolatedPerChannel>("LutInterpolatedPerChannel", 6, 3);

} // namespace qpasses
