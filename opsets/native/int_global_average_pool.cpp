/* IntGlobalAveragePool: the sum of each channel. */

#include "instruction_sets.h"
#include "kernels.h"
#include "requantize.h"

#include <type_traits>

namespace qpasses {
namespace {

constexpr int64_t WORK = 1 << 15, MOST_CELLS = 0x7fffffff / 255, BLOCK = 64;

#define LOOPS "code_sums.h"
#include "each_set.h"

struct IntGlobalAveragePool {
    int64_t channels;
    Integers window;
    bool is_last;
    Requantization rounding;
    int64_t cells = 1;
    Prepared<Requantizer> prepared;

    explicit IntGlobalAveragePool(const Attributes &given)
        : channels(given.integer("channels")), window(given.integers("spatial_shape")),
          is_last(given.integer_or("channels_last", 0) != 0), rounding(given.text("rounding")),
          prepared(given, 7, [this](const Inputs &inputs) {
              return Requantizer::of_node(rounding, inputs, 2, 255 * MOST_CELLS);
          }) {
        for (int64_t size : window) {
            must_be_from(size, 1, MOST_CELLS / cells, "IntGlobalAveragePool: its window");
            cells *= size;
        }
    }

    static void shape(const Inference &given, Sizes &sizes) {
        const bool is_last = given.integer_or("channels_last", 0) != 0;
        for (size_t k = is_last ? 1 : 2; k + is_last < sizes.rank; k++) {
            sizes.numbers[k] = 1;
            sizes.names[k] = "";
        }
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const auto after = prepared.of(context);
        const int64_t zero = context.input(1).number();
        must_be_from(zero, -128, 255, "a zero point");
        if (after->channels() != 1 || after->type() != x.type || context.input(1).type != x.type)
            fail("IntGlobalAveragePool: its numbers are not those of x");
        if (x.shape.size() < 2)
            fail("IntGlobalAveragePool: x is no picture");
        if (x.shape != shape_of(x.shape[0], window))
            fail("IntGlobalAveragePool: x has another shape than it says");
        void *y = context.output(0, shape_of(x.shape[0], Integers(window.size(), 1)));
        of_codes(x.type, "IntGlobalAveragePool", [&](auto code) {
            using T = decltype(code);
            if (is_last)
                columns(context, *after, x.as<T>(), x.shape[0], zero, y);
            else
                rows(context, *after, x.as<T>(), x.shape[0] * channels, zero, y);
        });
    }

    /* Of so many pictures of these sizes. */
    Shape shape_of(int64_t pictures, const Integers &sizes) const {
        Shape found = {pictures};
        if (!is_last)
            found.push_back(channels);
        for (int64_t size : sizes)
            found.push_back(size);
        if (is_last)
            found.push_back(channels);
        return found;
    }

    /* Channels first: those of all pictures in a row. */
    template <typename T>
    void rows(const Context &context, const Requantizer &after, const T *x, int64_t count,
              int64_t zero, void *y) const {
        const int64_t least = WORK / cells + 1;
        const auto sum_of = BEST(sum_of<T>);
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            std::vector<int32_t> sums;
            for (int64_t k = begin; k < std::min(count, begin + least); k++)
                sums.push_back(static_cast<int32_t>(sum_of(x + k * cells, cells) - cells * zero));
            after.of_one(0, sums.data(), static_cast<int64_t>(sums.size()), y, begin);
        });
    }

    /* Channels last: some of one picture. */
    template <typename T>
    void columns(const Context &context, const Requantizer &after, const T *x, int64_t pictures,
                 int64_t zero, void *y) const {
        const int64_t width = std::max(BLOCK, WORK / cells);
        const int64_t blocks = (channels + width - 1) / width;
        context.parallel(pictures * blocks, [&](size_t part) {
            const int64_t picture = static_cast<int64_t>(part) / blocks;
            const int64_t begin = static_cast<int64_t>(part) % blocks * width;
            const int64_t some = std::min(width, channels - begin);
            std::vector<int32_t> sums(some);
            BEST(sum_columns<T>)(x + picture * cells * channels + begin, cells, channels,
                                 static_cast<int32_t>(-cells * zero), some, sums.data());
            after.of_one(0, sums.data(), some, y, picture * channels + begin);
        });
    }
};

} // namespace

const Kernel INT_GLOBAL_AVERAGE_POOL = shaping<IntGlobalAveragePool>("IntGlobalAveragePool", 7, 4);

} // namespace qpasses
