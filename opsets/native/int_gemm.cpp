/* IntGemm: stored numbers times weights, which are packed once. */

#include "kernels.h"
#include "matrices.h"
#include "prepared.h"
#include "word_sums.h"

#include <algorithm>
#include <memory>

namespace qpasses {
namespace {

/* Weights and all that stands on a node. */
struct Weights {
    RightMatrix matrix;
    Requantized after;
    std::vector<int32_t> offset; /* of each column */
    int64_t zero;                /* of weights, less what they were shifted by */
};

/* The same of a node with 16 bits at an end. */
struct WordWeights {
    WordSums sums;
    int64_t length, x_zero;
    size_t bytes; /* of a result */
};

struct Prepacked {
    std::unique_ptr<Weights> codes;
    std::unique_ptr<WordWeights> words;
};

struct IntGemm {
    Requantization rounding;
    Integers rests;
    Prepared<Prepacked> prepared;

    explicit IntGemm(const Attributes &given)
        : rounding(given.text("rounding")), rests(given.integers_or_none("bias_rests")),
          prepared(given, 10, [this](const Inputs &inputs) {
              Prepacked found;
              if (has_words(inputs(1), inputs(7)))
                  found.words = std::make_unique<WordWeights>(made_of_words(inputs));
              else
                  found.codes = std::make_unique<Weights>(made(inputs));
              return found;
          }) {}

    static void shape(const Inference &given, Sizes &sizes) {
        const Sizes weights = given.input(2);
        sizes.is_known = sizes.is_known && weights.is_known;
        if (sizes.rank && weights.rank == 2) {
            sizes.numbers[sizes.rank - 1] = weights.numbers[1];
            sizes.names[sizes.rank - 1] = weights.names[1];
        }
    }

    Weights made(const Inputs &input) const {
        const Tensor x_zero = input(1), w = input(2), bias = input(4);
        must_be_codes(w, "IntGemm: w");
        must_be_codes(x_zero, "IntGemm: x_zero");
        must_be_codes(input(3), "IntGemm: w_zero");
        if (x_zero.type != input(7).type)
            fail("IntGemm: x and its results differ in type");
        if (w.shape.size() != 2 || bias.type != INT32 ||
            static_cast<int64_t>(bias.size()) != w.shape[1])
            fail("IntGemm: weights are no matrix, or not of their biases");
        const bool is_signed = w.type == INT8;
        const int64_t x_from = x_zero.number() + (x_zero.type == INT8 ? 128 : 0);
        const int64_t w_from = input(3).number() - (is_signed ? 0 : 128);
        const int64_t rows = w.shape[0], columns = w.shape[1];
        RightMatrix matrix;
        matrix.pack(w.as<uint8_t>(), is_signed, 1, rows, columns);
        const std::vector<int64_t> start(bias.as<int32_t>(), bias.as<int32_t>() + columns);
        const std::vector<int64_t> zeros(columns, x_from);
        Requantized after(rounding, numbers_of(input(5), columns), numbers_of(input(6), columns),
                          rests, input(7).number(), input(8).number(), input(9).number(),
                          matrix.spans(w.as<uint8_t>(), is_signed, w_from, zeros, start));
        std::vector<int32_t> offset(padded(columns, LANES));
        for (int64_t n = 0; n < columns; n++)
            offset[n] = static_cast<int32_t>(start[n] - x_from * matrix.sums[n] +
                                             rows * x_from * w_from);
        return {std::move(matrix), std::move(after), std::move(offset), w_from};
    }

    WordWeights made_of_words(const Inputs &input) const {
        const Tensor w = input(2), bias = input(4);
        if (w.shape.size() != 2 || bias.type != INT32 ||
            static_cast<int64_t>(bias.size()) != w.shape[1])
            fail("IntGemm: weights are no matrix, or not of their biases");
        if (!rests.empty())
            fail("IntGemm: rests of biases beside words");
        const int64_t length = w.shape[0], columns = w.shape[1], zero = input(3).number();
        must_be_from(zero, -0x80, 0xff, "the zero point of weights");
        std::vector<int16_t> turned(w.size());
        of_codes(w.type, "IntGemm: w", [&](auto code) {
            const auto *from = w.as<decltype(code)>();
            for (int64_t k = 0; k < length; k++)
                for (int64_t n = 0; n < columns; n++)
                    turned[n * length + k] = static_cast<int16_t>(from[k * columns + n] - zero);
        });
        const std::vector<int64_t> start(bias.as<int32_t>(), bias.as<int32_t>() + columns);
        return {WordSums(turned, length, LevelRange::of(input(1)), start, numbers_of(input(5), columns),
                         numbers_of(input(6), columns), rounding, input(7).number(),
                         input(8).number(), input(9).number(), input(7).type),
                length, input(1).number(), input(7).type == INT16 ? size_t{2} : size_t{1}};
    }

    static void run(const Context &context, const WordWeights &weights) {
        const Tensor x = context.input(0);
        const int64_t length = weights.length, columns = weights.sums.outputs();
        if (x.shape.empty() || x.shape.back() != length)
            fail("IntGemm: x has not as many columns as there are weights");
        Shape shape = x.shape;
        shape.back() = columns;
        char *y = static_cast<char *>(context.output(0, shape));
        int64_t count = 1;
        for (size_t k = 0; k + 1 < shape.size(); k++)
            count *= shape[k];
        if (count == 0 || columns == 0)
            return;
        const int64_t deep = weights.sums.deep();
        const int64_t least = WORK / ((length + OUTPUT) * columns) / 8 + 1;
        context.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            const int64_t some = std::min(least, count - begin);
            const bool is_read = x.type == INT16 && weights.x_zero == 0 && deep == length;
            std::vector<int16_t> words(is_read ? 0 : some * deep);
            std::vector<const int16_t *> rows;
            for (int64_t r = 0; r < some; r++) {
                if (!is_read)
                    to_words(x, (begin + r) * length, length, weights.x_zero, words.data() + r * deep);
                rows.push_back(is_read ? x.as<int16_t>() + (begin + r) * length
                                       : words.data() + r * deep);
            }
            const int64_t none = 0, step = columns * weights.bytes;
            weights.sums.run(rows, {&none, 1, deep / 2}, y + begin * step, step);
        });
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        if (known->words)
            return run(context, *known->words);
        const Tensor x = context.input(0);
        must_be_codes(x, "IntGemm: x");
        const Weights &weights = *known->codes;
        const RightMatrix &matrix = weights.matrix;
        const int64_t length = matrix.length;
        if (x.shape.empty() || x.shape.back() != length)
            fail("IntGemm: x has not as many columns as there are weights");
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
            multiply(left.rows(), matrix, weights.after,
                     {weights.offset.data(), weights.zero ? offsets.data() : nullptr},
                     y + begin * matrix.columns, matrix.columns);
        });
    }
};

} // namespace

const Kernel INT_GEMM = shaping<IntGemm>("IntGemm", 10, 7);

} // namespace qpasses
