/* ILayerNorm: I-ViT's, ten steps of Newton's for the root of each row. */

#include "instruction_sets.h"
#include "kernels.h"
#include "prepared.h"
#include "rescaling.h"

namespace qpasses {
namespace {

constexpr int64_t STEPS = 10, START = 1 << 16, LARGEST = 0x7fffffff, WORK = 4096;

/* ``mean``: of codes as they are stored. */
struct Row {
    const int64_t *bias, *multiplier, *shift;
    int64_t mean, factor;
    Ends ends;
};

#define LOOPS "i_layer_norm_loops.h"
#include "each_set.h"

using Normalize = void (*)(const Row &, const void *, int64_t, void *);

template <typename S, typename T> Normalize loop_of(Rounding rounding) {
    switch (rounding) {
    case Rounding::HALF_TO_EVEN:
        return BEST(normalize<S, T, Rounding::HALF_TO_EVEN>);
    case Rounding::HALF_UP:
        return BEST(normalize<S, T, Rounding::HALF_UP>);
    default:
        return BEST(normalize<S, T, Rounding::HALF_AWAY>);
    }
}

/* What stands on a node. */
struct Numbers {
    int64_t x_zero;
    std::vector<int64_t> bias, multiplier, shift;
    Ends ends;
    Type type;
};

std::vector<int64_t> cells_of(const Tensor &given, Type type, int64_t cells) {
    if (given.type != type || given.shape != Shape{cells})
        fail("ILayerNorm: there is not one number for each cell");
    std::vector<int64_t> found;
    for (int64_t k = 0; k < cells; k++)
        found.push_back(type == INT64 ? given.as<int64_t>()[k] : given.as<int32_t>()[k]);
    return found;
}

struct ILayerNorm {
    int64_t cells;
    Rounding rounding;
    Prepared<Numbers> prepared;

    explicit ILayerNorm(const Attributes &given)
        : cells(given.integer("cells")), rounding(rounding_of(given.text("rounding"))),
          prepared(given, 8, [this](const Inputs &inputs) { return numbers(inputs); }) {}

    Numbers numbers(const Inputs &inputs) const {
        must_be_from(cells, 1, (int64_t{1} << 31) / (255 * 255) - 1, "ILayerNorm: its cells");
        Numbers found = {inputs(1).number(), cells_of(inputs(2), INT64, cells),
                         cells_of(inputs(3), INT32, cells), cells_of(inputs(4), INT32, cells),
                         {inputs(5).number(), inputs(6).number(), inputs(7).number()},
                         inputs(5).type};
        must_be_from(found.x_zero, -0x8000, 0x7fff, "ILayerNorm: its zero point");
        for (int64_t k = 0; k < cells; k++) {
            must_be_from(found.shift[k], 0, 62, "ILayerNorm: a shift");
            /* a root is no less than a distance of its row: normal codes are below 2**30 */
            const int64_t size = std::abs(found.multiplier[k]) + 1;
            const int64_t most = (int64_t{1} << 62) / size - (int64_t{1} << 30);
            must_be_from(found.bias[k], -most, most, "ILayerNorm: a bias");
        }
        return found;
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const auto known = prepared.of(context);
        if (x.shape.empty() || x.shape.back() != cells)
            fail("ILayerNorm: rows of x have not so many cells");
        void *y = context.output(0, x.shape);
        of_stored(x.type, "ILayerNorm: x", [&](auto s) {
            of_codes(known->type, "ILayerNorm: y_zero", [&](auto t) {
                using T = decltype(t);
                rows(context, *known, loop_of<decltype(s), T>(rounding), x.as<decltype(s)>(),
                     static_cast<int64_t>(x.size()) / cells, static_cast<T *>(y));
            });
        });
    }

    template <typename S, typename T>
    void rows(const Context &context, const Numbers &given, Normalize loop, const S *x,
              int64_t count, T *y) const {
        const int64_t least = WORK / cells + 1;
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t r = begin; r < std::min(count, begin + least); r++) {
                int64_t total, squares;
                BEST(sums<S>)(x + r * cells, cells, &total, &squares);
                const int64_t mean = given.x_zero + divided(total - cells * given.x_zero, cells,
                                                            Rounding::HALF_TO_EVEN);
                int64_t root = START;
                const int64_t variance = squares - 2 * mean * total + cells * mean * mean;
                for (int64_t step = 0; step < STEPS; step++)
                    root = (root + variance / root) >> 1;
                loop({given.bias.data(), given.multiplier.data(), given.shift.data(), mean,
                      LARGEST / root, given.ends},
                     x + r * cells, cells, y + r * cells);
            }
        });
    }
};

} // namespace

const Kernel I_LAYER_NORM = kernel<ILayerNorm>("ILayerNorm", 8, 5);

} // namespace qpasses
