/* IntResize: rows mixed of two or four, then places along them. */

#include "instruction_sets.h"
#include "kernels.h"
#include "requantize.h"

namespace qpasses {
namespace {

constexpr int64_t WORK = 1 << 16, BLOCK = 2048;
constexpr size_t AXES = 3; /* depth, height and width */

/* For each place of y along an axis two of x, and their coefficients. */
struct Taps {
    std::vector<int32_t> low, high, low_c, high_c;
};

#define LOOPS "resize_loops.h"
#include "each_set.h"

/* What stands on a node. */
struct Numbers {
    Taps taps[AXES];
    Requantizer after;
};

struct IntResize {
    int64_t dims;
    Integers x_sizes, y_sizes;
    bool is_last;
    Requantization rounding;
    Prepared<Numbers> prepared;

    explicit IntResize(const Attributes &given)
        : dims(given.integer("dims")), x_sizes(given.integers("x_sizes")),
          y_sizes(given.integers("y_sizes")), is_last(given.integer_or("channels_last", 0) != 0),
          rounding(given.text("rounding")),
          prepared(given, 9, [this](const Inputs &inputs) { return numbers(inputs); }) {}

    static void shape(const Inference &given, Sizes &sizes) {
        const Integers y_sizes = given.integers("y_sizes");
        const size_t dims = static_cast<size_t>(given.integer("dims"));
        const size_t behind = given.integer_or("channels_last", 0) != 0;
        if (y_sizes.size() != AXES || dims > AXES || sizes.rank < dims + behind)
            return;
        for (size_t k = 0; k < dims; k++) {
            sizes.numbers[sizes.rank - behind - dims + k] = y_sizes[AXES - dims + k];
            sizes.names[sizes.rank - behind - dims + k] = "";
        }
    }

    Numbers numbers(const Inputs &inputs) const {
        must_be_from(dims, 1, AXES, "IntResize: its axes");
        if (x_sizes.size() != AXES || y_sizes.size() != AXES)
            fail("IntResize: it has not three sizes");
        const Tensor indices = inputs(2), coefficients = inputs(3);
        int64_t all = 0;
        for (size_t axis = 0; axis < AXES; axis++) {
            const int64_t most = axis + dims < AXES ? 1 : 0x7fffffff;
            must_be_from(x_sizes[axis], 1, most, "IntResize: a size");
            must_be_from(y_sizes[axis], 1, most, "IntResize: a size");
            all += y_sizes[axis];
        }
        for (const Tensor *each : {&indices, &coefficients})
            if (each->type != INT32 || each->shape != Shape{2, all})
                fail("IntResize: there are not two places for each of y");
        Taps taps[AXES];
        int64_t largest = inputs(1).type == INT16 ? 65535 : 255, begin = 0;
        for (size_t axis = 0; axis < AXES; axis++) {
            const auto part = [&](const Tensor &given, int64_t row) {
                const int32_t *from = given.as<int32_t>() + row * all + begin;
                return std::vector<int32_t>(from, from + y_sizes[axis]);
            };
            taps[axis] = {part(indices, 0), part(indices, 1), part(coefficients, 0),
                          part(coefficients, 1)};
            largest *= largest_of(taps[axis], x_sizes[axis]);
            must_be_from(largest, 0, 0x7fffffff, "IntResize: its largest sum");
            begin += y_sizes[axis];
        }
        return {{taps[0], taps[1], taps[2]}, Requantizer::of_node(rounding, inputs, 4, largest, true)};
    }

    /* What the sizes of two coefficients add up to. */
    static int64_t largest_of(const Taps &taps, int64_t size) {
        int64_t largest = 0;
        for (size_t k = 0; k < taps.low.size(); k++) {
            must_be_from(taps.low[k], 0, size - 1, "IntResize: a place");
            must_be_from(taps.high[k], 0, size - 1, "IntResize: a place");
            largest = std::max(largest, std::abs(static_cast<int64_t>(taps.low_c[k])) +
                                            std::abs(static_cast<int64_t>(taps.high_c[k])));
        }
        must_be_from(largest, 0, 0x7fffffff, "IntResize: its coefficients");
        return largest;
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const auto known = prepared.of(context);
        const int64_t zero = context.input(1).number();
        must_be_from(zero, -32768, 32767, "a zero point");
        if (known->after.channels() != 1 || context.input(1).type != x.type)
            fail("IntResize: its numbers are not those of x");
        must_be_ends(x.type, known->after.type(), "IntResize");
        Shape shape = x.shape;
        const size_t rank = shape.size(), first = rank - is_last - dims;
        if (rank < static_cast<size_t>(dims) + 2 * is_last)
            fail("IntResize: x has too few axes");
        const int64_t inner = is_last ? shape.back() : 1;
        for (size_t k = 0; k < static_cast<size_t>(dims); k++) {
            if (shape[first + k] != x_sizes[AXES - dims + k])
                fail("IntResize: x has another shape than it says");
            shape[first + k] = y_sizes[AXES - dims + k];
        }
        int64_t outer = 1;
        for (size_t k = 0; k < first; k++)
            outer *= shape[k];
        void *y = context.output(0, shape);
        if (outer == 0 || inner == 0)
            return;
        of_stored(x.type, "IntResize: x", [&](auto code) {
            rows(context, *known, x.as<decltype(code)>(), zero, outer, inner, y);
        });
    }

    template <typename T>
    void rows(const Context &context, const Numbers &given, const T *x, int64_t zero,
              int64_t outer, int64_t inner, void *y) const {
        const int64_t size = y_sizes[2] * inner, all = outer * y_sizes[0] * y_sizes[1];
        const int64_t few = BLOCK / size + 1;
        const int64_t least = (WORK / (size + x_sizes[2] * inner) / few + 1) * few;
        context.parallel((all + least - 1) / least, [&](size_t part) {
            std::vector<int32_t> mixed(x_sizes[2] * inner), sums(few * size);
            const int64_t begin = static_cast<int64_t>(part) * least;
            const int64_t end = std::min(all, begin + least);
            for (int64_t row = begin; row < end; row += few) {
                const int64_t some = std::min(few, end - row);
                for (int64_t k = 0; k < some; k++) {
                    down(given, x, zero, row + k, inner, mixed);
                    across(given.taps[2], mixed.data(), inner, sums.data() + k * size);
                }
                given.after.of_one(0, sums.data(), some * size, y, row * size);
            }
        });
    }

    /* The rows of x that a row of y is mixed of. */
    template <typename T>
    void down(const Numbers &given, const T *x, int64_t zero, int64_t row, int64_t inner,
              std::vector<int32_t> &mixed) const {
        const int64_t height = row % y_sizes[1], depth = row / y_sizes[1] % y_sizes[0];
        const T *plane = x + row / y_sizes[1] / y_sizes[0] * x_sizes[0] * x_sizes[1] *
                                 x_sizes[2] * inner;
        const Taps &deep = given.taps[0], &tall = given.taps[1];
        const T *rows[4] = {plane, plane, plane, plane};
        int32_t coefficients[4] = {};
        int64_t total = 0;
        int number = 0;
        for (bool is_behind : {false, true})
            for (bool is_below : {false, true}) {
                const int32_t c = (is_behind ? deep.high_c : deep.low_c)[depth] *
                                  (is_below ? tall.high_c : tall.low_c)[height];
                if (c == 0)
                    continue;
                const int64_t place = (is_behind ? deep.high : deep.low)[depth] * x_sizes[1] +
                                      (is_below ? tall.high : tall.low)[height];
                rows[number] = plane + place * x_sizes[2] * inner;
                coefficients[number++] = c;
                total += c;
            }
        BEST(mix<T>)(rows, coefficients, number, static_cast<int32_t>(-zero * total),
                     static_cast<int64_t>(mixed.size()), mixed.data());
    }

    static void across(const Taps &taps, const int32_t *mixed, int64_t inner, int32_t *sums) {
        if (inner == 1) {
            BEST(mix_places)(taps, mixed, sums);
            return;
        }
        for (size_t k = 0; k < taps.low.size(); k++)
            BEST(mix_channels)(mixed + taps.low[k] * inner, mixed + taps.high[k] * inner,
                               taps.low_c[k], taps.high_c[k], inner,
                               sums + static_cast<int64_t>(k) * inner);
    }
};

} // namespace

const Kernel INT_RESIZE = shaping<IntResize>("IntResize", 9, 6);

} // namespace qpasses
