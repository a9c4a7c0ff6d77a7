/* LutInterpolatedPerChannel: lines between the knots of each channel.

   An entry, and what its line rises for each part of it, are steps of y in float32: a sum of
   them has 23 bits, and one more that tells where ties go, so that all is exact. */

#include "codes.h"
#include "kernels.h"
#include "prepared.h"
#include "rescaling.h"

#include <algorithm>

namespace qpasses {
namespace {

constexpr int32_t KNOTS = 513, SEGMENTS = 512, WIDTH = 128;
constexpr int64_t PART = 1 << 14;

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

constexpr float ROUNDS = 12582912.0f; /* 3 * 2**22: adding it rounds to an integer */

/* So many codes, each beside knots that begin ``step`` behind those of the one before: 0 where
   all are of one channel. */
inline void on_lines(const Lines &lines, const float *starts, const float *rises, int32_t step,
                     const int16_t *__restrict x, int16_t *__restrict y, int32_t count) {
    const Lines given = lines; /* which no write to y can change */
    for (int32_t k = 0; k < count; k++) {
        const int32_t knot = k * step + (x[k] >> 7) + 256;
        float level = starts[knot] + rises[knot] * static_cast<float>(x[k] & 127);
        level = level < given.low ? given.low : level;
        level = level > given.high ? given.high : level;
        level += given.lift + __builtin_copysignf(given.away, level);
        y[k] = static_cast<int16_t>(static_cast<int32_t>(level + ROUNDS - ROUNDS) + given.zero);
    }
}

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
            fail("LutInterpolatedPerChannel: a table has not 513 entries");
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
            fail("LutInterpolatedPerChannel: x has no words");
        const size_t place = axis_of(axis, x.shape);
        if (x.shape[place] * SEGMENTS != static_cast<int64_t>(known->starts.size()))
            fail(
                "LutInterpolatedPerChannel: there is not one table for each channel");
        const int64_t inner = inner_of(x.shape, place);
        if (x.size() == 0)
            return;
        const int64_t channels = x.shape[place], row = inner == 1 ? channels : inner;
        const int64_t count = static_cast<int64_t>(x.size()) / row, least = PART / row + 1;
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            std::vector<int16_t> words(known->type == INT16 ? 0 : std::min(row, PART));
            for (int64_t at = begin; at < count && at < begin + least; at++) {
                const int64_t first = inner == 1 ? 0 : at % channels * SEGMENTS;
                look_up(*known, first, inner == 1 ? SEGMENTS : 0, x.as<int16_t>() + at * row, row,
                        words, y, at * row);
            }
        });
    }

  private:
    /* A row of codes: all of one channel, or one of each, ``step`` between their knots. */
    static void look_up(const Segments &known, int64_t first, int32_t step, const int16_t *x,
                        int64_t count, std::vector<int16_t> &words, void *y, int64_t place) {
        for (int64_t done = 0; done < count; done += PART) {
            const int32_t some = static_cast<int32_t>(std::min(PART, count - done));
            const int64_t from = first + done * step;
            int16_t *to = words.empty() ? static_cast<int16_t *>(y) + place + done : words.data();
            on_lines(known.lines, known.starts.data() + from, known.rises.data() + from, step,
                           x + done, to, some);
            uint8_t *bytes = static_cast<uint8_t *>(y) + place + done;
            for (int32_t k = 0; k < some && !words.empty(); k++)
                bytes[k] = static_cast<uint8_t>(to[k]);
        }
    }
};

} // namespace

const Kernel LUT_INTERPOLATED_PER_CHANNEL =
    kernel<LutInterpolatedPerChannel>("LutInterpolatedPerChannel", 6, 3);

} // namespace qpasses
