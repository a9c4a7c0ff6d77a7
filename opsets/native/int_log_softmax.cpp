/* IntLogSoftmax: the logarithm of the sum of a row, from the largest code to the least. */

#include "distance_rows.h"
#include "instruction_sets.h"
#include "kernels.h"
#include "prepared.h"
#include "rescaling.h"

namespace qpasses {
namespace {

constexpr int64_t CODES = 256, OCTAVES = 41, PIECES = 256;
constexpr int64_t LARGEST = int64_t{1} << 60; /* of what is looked up, so that sums fit */

struct Depths {
    const int64_t *distances;
    int64_t bits, zero, low, high;
};

#define LOOPS "log_softmax_loops.h"
#include "each_set.h"

using Loop = void (*)(const Depths &, int64_t, int64_t, uint8_t *);

template <typename T> Loop loop_of(Rounding rounding) {
    switch (rounding) {
    case Rounding::HALF_TO_EVEN:
        return BEST(levels_of<T, Rounding::HALF_TO_EVEN>);
    case Rounding::HALF_UP:
        return BEST(levels_of<T, Rounding::HALF_UP>);
    default:
        return BEST(levels_of<T, Rounding::HALF_AWAY>);
    }
}

/* What stands on a node. */
struct Tables {
    std::vector<int64_t> denominators, distances, octaves, logarithms;
    Ends ends;
    Type type;

    /* Of a sum: by its first bit, eight more, and twenty on a line. */
    int64_t logarithm(int64_t sum) const {
        const int64_t kept = std::min(std::max<int64_t>(sum, 1), (int64_t{1} << OCTAVES) - 1);
        int64_t octave = 0;
        while (kept >> (octave + 1))
            octave++;
        const int64_t mantissa = kept << (OCTAVES - 1 - octave);
        const int64_t place = (mantissa >> 32) - PIECES, rest = mantissa >> 12 & 0xfffff;
        const Wide rise = logarithms[place + 1] - logarithms[place];
        return octaves[octave] + logarithms[place] + static_cast<int64_t>(rise * rest >> 20);
    }
};

std::vector<int64_t> table_of(const Tensor &given, int64_t count) {
    if (given.type != INT64 || given.shape != Shape{count})
        fail("IntLogSoftmax: a table that is not of its numbers");
    std::vector<int64_t> found(given.as<int64_t>(), given.as<int64_t>() + count);
    for (int64_t each : found)
        must_be_from(each, -LARGEST, LARGEST, "IntLogSoftmax: a number of a table");
    return found;
}

struct IntLogSoftmax {
    int64_t axis, bits;
    Rounding rounding;
    Prepared<Tables> prepared;

    explicit IntLogSoftmax(const Attributes &given)
        : axis(given.integer("axis")), bits(given.integer("fraction_bits")),
          rounding(rounding_of(given.text("rounding"))), prepared(given, 8, tables) {
        must_be_from(bits, 1, 31, "IntLogSoftmax: fraction_bits");
    }

    static Tables tables(const Inputs &inputs) {
        const Tensor denominators = inputs(1);
        if (denominators.type != INT32 || denominators.shape != Shape{CODES})
            fail("IntLogSoftmax: its denominators are not 256");
        const int32_t *from = denominators.as<int32_t>();
        return {{from, from + CODES}, table_of(inputs(2), CODES), table_of(inputs(3), OCTAVES),
                table_of(inputs(4), PIECES + 1),
                {inputs(5).number(), inputs(6).number(), inputs(7).number()}, inputs(5).type};
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const auto known = prepared.of(context);
        const Tables &given = *known;
        must_be_codes(x, "IntLogSoftmax: x");
        if (given.type != x.type)
            fail("IntLogSoftmax: results of another type");
        void *y = context.output(0, x.shape);
        const Depths depths = {given.distances.data(), bits, given.ends.zero, given.ends.low,
                               given.ends.high};
        const Loop loop = x.type == INT8 ? loop_of<int8_t>(rounding) : loop_of<uint8_t>(rounding);
        by_distance(context, x, axis, given.denominators.data(),
                    [&](int64_t sum, int64_t count, uint8_t *levels) {
                        loop(depths, given.logarithm(sum), count, levels);
                    },
                    static_cast<uint8_t *>(y));
    }
};

} // namespace

const Kernel INT_LOG_SOFTMAX = kernel<IntLogSoftmax>("IntLogSoftmax", 8, 5);

} // namespace qpasses
