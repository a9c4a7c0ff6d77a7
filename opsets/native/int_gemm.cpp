/* IntGemm: stored numbers times weights, which are packed once. */

#include "kernels.h"
#include "matrices.h"

#include <algorithm>
#include <memory>

namespace qpasses {
namespace {

/* Weights and all that stands on a node. */
struct Weights {
    RightMatrix matrix;
    std::unique_ptr<Requantized> after;
    std::vector<int32_t> offset; /* of each column */
    int64_t zero; /* of weights, less what they were shifted by */
};

struct IntGemm {
    Requantization rounding;
    Shape rests;
    Constants constants;
    std::unique_ptr<Weights> packed; /* where all of it is constant */

    explicit IntGemm(const Attributes &given)
        : rounding(given.text("rounding")), rests(given.integers_or_none("bias_rests")),
          constants(given, 10) {
        if (constants.are_known(1, 9))
            packed = made([&](size_t place) { return constants.at(place); });
    }

    static void shape(const Inference &given, Sizes &sizes) {
        const Sizes weights = given.input(2);
        if (sizes.rank && weights.rank == 2) {
            sizes.numbers[sizes.rank - 1] = weights.numbers[1];
            sizes.names[sizes.rank - 1] = weights.names[1];
        }
    }

    /* From the inputs 1 to 9. */
    template <typename Input> std::unique_ptr<Weights> made(Input input) const {
        auto found = std::make_unique<Weights>();
        const Tensor x_zero = input(1), w = input(2), bias = input(4);
        must_be_codes(w, "IntGemm: w");
        if (w.shape.size() != 2 || bias.type != INT32 ||
            static_cast<int64_t>(bias.size()) != w.shape[1])
            throw std::runtime_error("IntGemm: weights are no matrix, or not of their biases");
        const bool is_signed = x_zero.type == INT8;
        const int64_t zero = x_zero.number() + (is_signed ? 128 : 0), rows = w.shape[0];
        RightMatrix &matrix = found->matrix;
        matrix.pack(w.as<uint8_t>(), w.type == INT8, 1, rows, w.shape[1]);
        found->zero = input(3).number() - (w.type == INT8 ? 0 : 128);
        const std::vector<int64_t> start(bias.as<int32_t>(), bias.as<int32_t>() + matrix.columns);
        const std::vector<Span> spans =
            matrix.spans(w.as<uint8_t>(), w.type == INT8, found->zero,
                         std::vector<int64_t>(matrix.columns, zero), start);
        found->after = std::make_unique<Requantized>(
            rounding, numbers_of(input(5), matrix.columns), numbers_of(input(6), matrix.columns),
            rests, input(7).number(), input(8).number(), input(9).number(), spans);
        found->offset.resize(padded(matrix.columns, LANES));
        for (int64_t n = 0; n < matrix.columns; n++)
            found->offset[n] = static_cast<int32_t>(
                start[n] - zero * matrix.sums[n] + rows * zero * found->zero);
        return found;
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        must_be_codes(x, "IntGemm: x");
        std::unique_ptr<Weights> own;
        if (!packed)
            own = made([&](size_t place) { return context.input(place); });
        const Weights &weights = packed ? *packed : *own;
        const RightMatrix &matrix = weights.matrix;
        const int64_t length = matrix.length;
        if (x.shape.empty() || x.shape.back() != length)
            throw std::runtime_error("IntGemm: x has not as many columns as there are weights");
        Shape shape = x.shape;
        shape.back() = matrix.columns;
        uint8_t *y = static_cast<uint8_t *>(context.output(0, shape));
        int64_t count = 1;
        for (size_t k = 0; k + 1 < shape.size(); k++)
            count *= shape[k];
        if (count == 0 || matrix.columns == 0)
            return;
        const int64_t each = (length + OUTPUT) * matrix.columns;
        const int64_t least = (WORK / each / 12 + 1) * 12;
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            const int64_t some = std::min(least, count - begin);
            const LeftMatrix left(x.as<uint8_t>() + begin * length, x.type == INT8, some, length);
            std::vector<int32_t> offsets(weights.zero ? some : 0);
            for (size_t r = 0; r < offsets.size(); r++)
                offsets[r] = static_cast<int32_t>(-weights.zero * left.sum(r));
            multiply(left.rows(), matrix, *weights.after,
                     {weights.offset.data(), weights.zero ? offsets.data() : nullptr},
                     y + begin * matrix.columns, matrix.columns);
        });
    }
};

} // namespace

const Kernel INT_GEMM = shaping<IntGemm>("IntGemm", 10, 0);

} // namespace qpasses
