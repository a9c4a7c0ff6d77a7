/* LutInterpolatedPerChannel: lines between the knots of each channel.

   An entry, and what its line rises for each part of it, are steps of y in float32: a sum of
   them has 23 bits, and one more that tells where ties go, so that all is exact. */

#include "codes.h"
#include "instruction_sets.h"
#include "kernels.h"
#include "prepared.h"
#include "rescaling.h"

namespace qpasses {
namespace {

constexpr int32_t KNOTS = 513, SEGMENTS = 512, WIDTH = 128, PART = 1 << 14;

/* How a level becomes a code: within ``low`` and ``high``, ties as ``lift`` and ``away`` say. */
struct Lines {
    float lift, away, low, high;
    int32_t zero;
};

/* By channel and segment: the level at which it begins, and how far that rises a part. */
struct Segments {
    Type type;
    Lines lines;
    std::vector<float> starts, rises;
};

#define LOOPS "knot_loops.h"
#include "each_set.h"

struct LutInterpolatedPerChannel {
    int64_t axis;
    Rounding rounding;
    Prepared<Segments> prepared;

    explicit LutInterpolatedPerChannel(const Attributes &given)
        : axis(given.integer("axis")), rounding(rounding_of(given.text("rounding"))),
          prepared(given, 6, [this](const Inputs &inputs) { return segments(inputs); }) {}

    Segments segments(const Inputs &inputs) const {
        const Tensor tables = inputs(1);
        if (tables.type != INT16 || tables.shape.size() != 2 || tables.shape[1] != KNOTS)
            throw std::runtime_error("LutInterpolatedPerChannel: a table has not 513 entries");
        must_be_from(tables.shape[0], 0, 1 << 21, "LutInterpolatedPerChannel: its channels");
        const int64_t shift = inputs(2).number();
        must_be_from(shift, 1, 62, "LutInterpolatedPerChannel: its shift");
        of_stored(inputs(3).type, "LutInterpolatedPerChannel: y_zero", [](auto) {});
        const Ends ends = {inputs(3).number(), inputs(4).number(), inputs(5).number()};
        const float part = std::ldexp(1.0f, -static_cast<int>(shift)), tie = part / 2;
        Segments found = {inputs(3).type, {}, {}, {}};
        found.lines = {rounding == Rounding::HALF_UP ? tie : 0.0f,
                       rounding == Rounding::HALF_AWAY ? tie : 0.0f,
                       static_cast<float>(ends.low - ends.zero),
                       static_cast<float>(ends.high - ends.zero),
                       static_cast<int32_t>(ends.zero)};
        for (int64_t row = 0; row < tables.shape[0]; row++)
            for (int32_t k = 0; k < SEGMENTS; k++) {
                const int16_t *from = tables.as<int16_t>() + row * KNOTS + k;
                found.starts.push_back(static_cast<float>(from[0] * WIDTH) * part);
                found.rises.push_back(static_cast<float>(from[1] - from[0]) * part);
            }
        return found;
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const Tensor x = context.input(0);
        void *y = context.output(0, x.shape);
        if (x.type != INT16)
            throw std::runtime_error("LutInterpolatedPerChannel: x has no words");
        const size_t place = axis_of(axis, x.shape);
        if (x.shape[place] * SEGMENTS != static_cast<int64_t>(known->starts.size()))
            throw std::runtime_error(
                "LutInterpolatedPerChannel: there is not one table for each channel");
        const int64_t inner = inner_of(x.shape, place);
        if (x.size() == 0)
            return;
        of_bits(known->type, "LutInterpolatedPerChannel: y_zero", [&](auto code) {
            using Y = decltype(code);
            if (inner == 1)
                look_up_places(context, *known, x, x.shape[place], static_cast<Y *>(y));
            else
                look_up_rows(context, *known, x, x.shape[place], inner, static_cast<Y *>(y));
        });
    }

  private:
    /* Channels first: the lines of one for a row. */
    template <typename Y>
    static void look_up_rows(const Context &context, const Segments &known, const Tensor &x,
                             int64_t channels, int64_t inner, Y *y) {
        const int64_t count = static_cast<int64_t>(x.size()) / inner, least = PART / inner + 1;
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t row = begin; row < count && row < begin + least; row++) {
                const int64_t first = row % channels * SEGMENTS;
                BEST(row_on_lines<Y>)(known.lines, known.starts.data() + first,
                                   known.rises.data() + first, x.as<int16_t>() + row * inner,
                                   y + row * inner, inner);
            }
        });
    }

    /* Channels last. */
    template <typename Y>
    static void look_up_places(const Context &context, const Segments &known, const Tensor &x,
                               int64_t channels, Y *y) {
        const int64_t count = static_cast<int64_t>(x.size()) / channels;
        const int64_t least = PART / channels + 1;
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t at = begin; at < count && at < begin + least; at++)
                BEST(place_on_lines<Y>)(known.lines, known.starts.data(), known.rises.data(),
                                     x.as<int16_t>() + at * channels, y + at * channels,
                                     static_cast<int32_t>(channels));
        });
    }
};

} // namespace

const Kernel LUT_INTERPOLATED_PER_CHANNEL =
    kernel<LutInterpolatedPerChannel>("LutInterpolatedPerChannel", 6, 3);

} // namespace qpasses
