/* IntConv and IntConvPerChannel: convolutions of stored numbers, whose weights are packed once.
   IntAveragePool: one with weights of one. */

#include "depthwise.h"
#include "geometry.h"
#include "kernels.h"
#include "matrices.h"
#include "prepared.h"
#include "transposed.h"
#include "word_filters.h"

#include <algorithm>
#include <memory>

namespace qpasses {
namespace {

constexpr int64_t WINDOWS = 24; /* of a part at least, which share what is read of weights */

/* Weights and all that stands on a node: a matrix for each group of outputs, or filters that
   read one channel each. */
struct Filters {
    int64_t outputs = 0, inputs = 0; /* of all groups; of one */
    int64_t zero = 0;                /* of weights, less what they were shifted by */
    bool is_signed = false;          /* the pictures */
    std::vector<uint8_t> x_zeros;    /* as unsigned codes, one or one for each channel */
    std::vector<RightMatrix> matrices;
    std::vector<Requantized> after;
    std::vector<std::vector<int32_t>> offsets; /* of each output */
    std::unique_ptr<Depthwise> depthwise;
    std::unique_ptr<WordFilters> words; /* all there is of a node with 16 bits at an end */
};

/* What the windows of a part lie on, channels last: unsigned codes, padded. */
struct Band {
    const uint8_t *start;
    int64_t row_step, plane_step;
    std::vector<uint8_t> copied;
};

/* Outputs of some rows, of one picture and depth. */
struct Part {
    int64_t picture, depth, first, rows;
};

struct Convolution {
    Windows windows;
    Requantization rounding;
    int64_t group;
    Integers rests;

    /* From the inputs 1 to 9 of a convolution. */
    Filters made(const Inputs &input) const {
        Filters found;
        const Tensor x_zero = input(1), w = input(2), bias = input(4);
        if (has_words(x_zero, input(7))) {
            if (!rests.empty())
                fail("rests of biases beside words");
            found.words = std::make_unique<WordFilters>(input, windows, group, rounding);
            return found;
        }
        must_be_codes(w, "a convolution: w");
        must_be_codes(x_zero, "a convolution: x_zero");
        must_be_codes(input(3), "a convolution: w_zero");
        if (x_zero.type != input(7).type)
            fail("a convolution: x and its results differ in type");
        if (w.shape.size() < 3 || Integers(w.shape.begin() + 2, w.shape.end()) != windows.kernel)
            fail("a convolution: weights are not of its window");
        found.outputs = w.shape[0];
        found.inputs = w.shape[1];
        found.is_signed = x_zero.type == INT8;
        found.zero = input(3).number() - (w.type == INT8 ? 0 : 128);
        must_be_from(group, 1, INT32_MAX, "group");
        if (found.outputs % group || bias.type != INT32 ||
            static_cast<int64_t>(bias.size()) != found.outputs)
            fail("weights that are not of their groups or their biases");
        const int64_t count = static_cast<int64_t>(x_zero.size());
        if (count != 1 && (count != group || found.inputs != 1))
            fail("zero points that are neither one nor one for each channel");
        for (int64_t c = 0; c < count; c++)
            found.x_zeros.push_back(x_zero.as<uint8_t>()[c] ^ (found.is_signed ? 0x80 : 0));
        const std::vector<int64_t> multipliers = numbers_of(input(5), found.outputs);
        const std::vector<int64_t> shifts = numbers_of(input(6), found.outputs);
        if (found.inputs == 1 && found.outputs == group && found.zero == 0 &&
            windows.kernel.size() < 3)
            found.depthwise = std::make_unique<Depthwise>();
        add_groups(found, w, bias.as<int32_t>(), multipliers, shifts, input(7).number(),
                   input(8).number(), input(9).number());
        return found;
    }

    /* How many cells of a window lie side by side in a picture. */
    int64_t in_row() const {
        return group == 1 && windows.dilations.back() == 1 ? windows.kernel.back() : 1;
    }

    void add_groups(Filters &filters, const Tensor &w, const int32_t *bias,
                    const std::vector<int64_t> &multipliers, const std::vector<int64_t> &shifts,
                    int64_t y_zero, int64_t y_least, int64_t y_most) const {
        const bool is_signed = w.type == INT8;
        const int64_t cells = windows.cells, inputs = filters.inputs, count = cells * inputs;
        /* filters of one channel are one group here, of which every output has its own sum */
        const int64_t groups = filters.depthwise ? 1 : group, outputs = filters.outputs / groups;
        if (!rests.empty() && static_cast<int64_t>(rests.size()) != filters.outputs)
            fail("rests of biases that are not one for each output");
        std::vector<uint8_t> turned(count * outputs);
        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *from = w.as<uint8_t>() + g * outputs * count;
            for (int64_t m = 0; m < outputs; m++)
                for (int64_t c = 0; c < inputs; c++)
                    for (int64_t k = 0; k < cells; k++)
                        turned[(k * inputs + c) * outputs + m] = from[(m * inputs + c) * cells + k];
            RightMatrix matrix;
            matrix.pack(turned.data(), is_signed, cells / in_row(), in_row() * inputs, outputs);
            const int64_t first = g * outputs;
            const std::vector<int64_t> start(bias + first, bias + first + outputs);
            std::vector<int64_t> x_zeros;
            for (int64_t m = 0; m < outputs; m++) {
                const size_t channel = (first + m) / (filters.outputs / group);
                x_zeros.push_back(filters.x_zeros[filters.x_zeros.size() > 1 ? channel : 0]);
            }
            const std::vector<Span> spans =
                matrix.spans(turned.data(), is_signed, filters.zero, x_zeros, start);
            const auto some = [&](const Integers &all) {
                return all.empty() ? all
                                   : Integers{all.begin() + first, all.begin() + first + outputs};
            };
            filters.after.emplace_back(rounding, some(multipliers), some(shifts), some(rests),
                                       y_zero, y_least, y_most, spans);
            filters.offsets.emplace_back(padded(outputs, LANES));
            for (int64_t m = 0; m < outputs; m++)
                filters.offsets[g][m] = static_cast<int32_t>(
                    start[m] - x_zeros[m] * matrix.sums[m] + count * x_zeros[m] * filters.zero);
            if (filters.depthwise)
                filters.depthwise->pack(turned.data(), is_signed,
                                        windows.kernel.size() < 2 ? cells : windows.kernel[0],
                                        windows.kernel.size() < 2 ? 1 : windows.kernel[1], outputs);
            else
                filters.matrices.push_back(std::move(matrix));
        }
    }

    void run(const Context &context, const Filters &filters) const {
        if (filters.words)
            return filters.words->run(context);
        const Tensor x = context.input(0);
        const size_t rank = windows.kernel.size() + 2;
        const int64_t channels = filters.inputs * group;
        if (x.type != (filters.is_signed ? INT8 : UINT8))
            fail("a convolution: x and its zero point differ in type");
        if (x.shape.size() != rank || x.shape[windows.is_last ? rank - 1 : 1] != channels)
            fail("a convolution: x has other axes or channels than weights");
        const Geometry given(windows, x.shape);
        Shape shape = x.shape;
        shape[windows.is_last ? rank - 1 : 1] = filters.outputs;
        for (size_t k = 0; k < rank - 2; k++)
            shape[windows.first_axis() + k] = given.out()[k];
        uint8_t *y = static_cast<uint8_t *>(context.output(0, shape));
        const int64_t rows = given.height().out, wide = given.width().out;
        if (x.shape[0] == 0 || given.windows() == 0 || filters.outputs == 0)
            return;
        const int64_t each = wide * filters.outputs * (given.cells() * filters.inputs + OUTPUT);
        const int64_t least =
            std::min(rows, std::max(WORK / each, filters.depthwise ? 0 : WINDOWS / wide) + 1);
        const int64_t in_rows = (rows + least - 1) / least;
        context.parallel(x.shape[0] * given.depth().out * in_rows, [&](size_t number) {
            const int64_t part = static_cast<int64_t>(number), outer = part / in_rows;
            const int64_t first = part % in_rows * least;
            const Part at = {outer / given.depth().out, outer % given.depth().out, first,
                             std::min(least, rows - first)};
            const int64_t begin = (outer * rows + first) * wide;
            if (windows.is_last)
                return convolve(filters, given, x, at, y + begin * filters.outputs);
            std::vector<uint8_t> last(at.rows * wide * filters.outputs);
            convolve(filters, given, x, at, last.data());
            const int64_t plane = given.windows();
            uint8_t *to = y + at.picture * filters.outputs * plane +
                          (at.depth * rows + first) * wide;
            transpose(last.data(), filters.outputs, at.rows * wide, filters.outputs, to, plane, 0);
        });
    }

    /* Outputs of a part, channels last. */
    void convolve(const Filters &filters, const Geometry &given, const Tensor &x, const Part &part,
                  uint8_t *y) const {
        const int64_t channels = filters.inputs * group, wide = given.width().out;
        const Band band = band_of(filters, given, x, part);
        if (filters.depthwise) {
            for (int64_t row = 0; row < part.rows; row++)
                filters.depthwise->run(given, filters.after[0], filters.offsets[0].data(),
                                       band.start + row * given.height().stride * band.row_step,
                                       band.row_step, y + row * wide * filters.outputs);
            return;
        }
        std::vector<const uint8_t *> starts(part.rows * wide);
        for (int64_t row = 0; row < part.rows; row++)
            for (int64_t column = 0; column < wide; column++)
                starts[row * wide + column] = band.start +
                                              row * given.height().stride * band.row_step +
                                              column * given.width().stride * channels;
        const int64_t outputs = filters.outputs / group;
        const bool is_signal = windows.kernel.size() == 1;
        const int64_t down = is_signal ? in_row() : 1, along = is_signal ? 1 : in_row();
        for (int64_t g = 0; g < group; g++) {
            const RightMatrix &matrix = filters.matrices[g];
            std::vector<int64_t> runs;
            for (int64_t plane = 0; plane < given.depth().kernel; plane++)
                for (int64_t row = 0; row < given.height().kernel; row += down)
                    for (int64_t cell = 0; cell < given.width().kernel; cell += along)
                        runs.push_back(plane * given.depth().dilation * band.plane_step +
                                       row * given.height().dilation * band.row_step +
                                       cell * given.width().dilation * channels +
                                       g * filters.inputs);
            const LeftRows left = {starts.data(), runs.data(), static_cast<int64_t>(starts.size())};
            const std::vector<int32_t> offsets =
                filters.zero ? row_offsets(left, matrix, filters.zero) : std::vector<int32_t>();
            multiply(left, matrix, filters.after[g],
                     {filters.offsets[g].data(), filters.zero ? offsets.data() : nullptr},
                     y + g * outputs, filters.outputs);
        }
    }

    /* What weights with a zero point take from the sums of each row. */
    static std::vector<int32_t> row_offsets(const LeftRows &left, const RightMatrix &matrix,
                                            int64_t zero) {
        std::vector<int32_t> found;
        for (int64_t r = 0; r < left.count; r++) {
            int64_t total = 0;
            for (int64_t run = 0; run < matrix.runs; run++)
                for (int64_t k = 0; k < matrix.length; k++)
                    total += left.rows[r][left.runs[run] + k];
            found.push_back(static_cast<int32_t>(-zero * total));
        }
        return found;
    }

    /* The picture as it lies, where that will do; else a copy. */
    Band band_of(const Filters &filters, const Geometry &given, const Tensor &x,
                 const Part &part) const {
        const int64_t channels = filters.inputs * group, row_step = given.width().size * channels;
        const int64_t plane_step = given.height().size * row_step;
        const uint8_t *picture = x.as<uint8_t>() + part.picture * given.depth().size * plane_step;
        const int64_t plane = part.depth * given.depth().stride - given.depth().before;
        const int64_t row = part.first * given.height().stride - given.height().before;
        const bool can_be_read = filters.depthwise || filters.matrices[0].length % QUAD == 0;
        if (windows.is_last && !given.is_padded() && !filters.is_signed && can_be_read)
            return {picture + plane * plane_step + row * row_step, row_step, plane_step, {}};
        const int64_t planes = given.depth().reach(1), rows = given.height().reach(part.rows);
        const int64_t across = given.width().reach(given.width().out), wide = across * channels;
        must_be_from(wide, 0, (INT64_MAX - QUAD) / planes / rows, "a padded picture");
        Band band = {nullptr, wide, rows * wide, std::vector<uint8_t>(planes * rows * wide + QUAD)};
        uint8_t *to = band.copied.data();
        const int64_t before = std::min(given.width().before, across);
        const int64_t cells = std::min(given.width().size, across - before);
        const int64_t left = before * channels, middle = cells * channels;
        for (int64_t p = plane; p < plane + planes; p++)
            for (int64_t r = row; r < row + rows; r++, to += wide) {
                const bool is_inside =
                    p >= 0 && p < given.depth().size && r >= 0 && r < given.height().size;
                fill(filters, to, is_inside ? left : wide);
                if (!is_inside)
                    continue;
                fill(filters, to + left + middle, wide - left - middle);
                copy(filters, given, picture,
                     (p * given.height().size + r) * given.width().size, cells, to + left);
            }
        band.start = band.copied.data();
        return band;
    }

    /* So many bytes of padding, from a first channel on. */
    static void fill(const Filters &filters, uint8_t *to, int64_t count) {
        const std::vector<uint8_t> &zeros = filters.x_zeros;
        if (zeros.size() == 1)
            std::fill(to, to + count, zeros[0]);
        else
            for (int64_t k = 0; k < count; k += zeros.size())
                std::copy(zeros.begin(), zeros.end(), to + k);
    }

    /* Cells in a row, as unsigned codes, channels last. */
    void copy(const Filters &filters, const Geometry &given, const uint8_t *picture, int64_t first,
              int64_t count, uint8_t *to) const {
        const int64_t channels = filters.inputs * group;
        const uint8_t turn = filters.is_signed ? 0x80 : 0;
        if (windows.is_last) {
            const uint8_t *from = picture + first * channels;
            for (int64_t k = 0; k < count * channels; k++)
                to[k] = from[k] ^ turn;
            return;
        }
        const int64_t plane = given.depth().size * given.height().size * given.width().size;
        transpose(picture + first, plane, channels, count, to, channels, turn);
    }
};

struct IntConv {
    Convolution convolution;
    Prepared<Filters> filters;

    explicit IntConv(const Attributes &given)
        : convolution{Windows(given, kernel_of(given, Constants(given, 10).at(2).shape)),
                      Requantization(given.text("rounding")), given.integer_or("group", 1),
                      given.integers_or_none("bias_rests")},
          filters(given, 10, [this](const Inputs &inputs) { return convolution.made(inputs); }) {}

    /* As it is said, else that of weights. */
    template <typename Node> static Integers kernel_of(const Node &given, const Shape &weights) {
        const Integers found = given.integers_or_none("kernel_shape");
        const bool is_of_weights = found.empty() && weights.size() > 2;
        return is_of_weights ? Integers(weights.begin() + 2, weights.end()) : found;
    }

    static void shape(const Inference &given, Sizes &sizes) {
        const Sizes weights = given.input(2);
        sizes.is_known = sizes.is_known && weights.is_known;
        if (weights.rank != sizes.rank || sizes.rank < 3)
            return;
        const Shape known(weights.numbers, weights.numbers + weights.rank);
        const Windows windows(given, kernel_of(given, known));
        const size_t channels = windows.is_last ? sizes.rank - 1 : 1;
        windows.turn(sizes);
        sizes.numbers[channels] = weights.numbers[0];
        sizes.names[channels] = weights.names[0];
    }

    void run(const Context &context) const { convolution.run(context, *filters.of(context)); }
};

struct IntAveragePool {
    int64_t channels;
    Convolution convolution;
    Prepared<Filters> filters;

    explicit IntAveragePool(const Attributes &given)
        : channels(given.integer("channels")),
          convolution{Windows(given), Requantization(given.text("rounding")), channels, {}},
          filters(given, 7, [this](const Inputs &inputs) { return made(inputs); }) {}

    static void shape(const Inference &given, Sizes &sizes) { Windows::shape(given, sizes); }

    /* Weights of one, no zero point and no bias; the rest as the node has it. */
    Filters made(const Inputs &inputs) const {
        must_be_from(channels, 1, Windows::LARGEST, "IntAveragePool: channels");
        Shape shape = {channels, 1};
        for (int64_t size : convolution.windows.kernel)
            shape.push_back(size);
        const Tensor w = {nullptr, INT8, shape};
        const std::vector<int8_t> ones(w.size(), 1), none(1);
        const std::vector<int32_t> bias(channels);
        return convolution.made([&](size_t place) -> Tensor {
            switch (place) {
            case 1:
                return inputs(1);
            case 2:
                return {ones.data(), INT8, shape};
            case 3:
                return {none.data(), INT8, {}};
            case 4:
                return {bias.data(), INT32, {channels}};
            default:
                return inputs(place - 3);
            }
        });
    }

    void run(const Context &context) const { convolution.run(context, *filters.of(context)); }
};

} // namespace

const Kernel INT_CONV = shaping<IntConv>("IntConv", 10, 7);
const Kernel INT_CONV_PER_CHANNEL = shaping<IntConv>("IntConvPerChannel", 10, 7);
const Kernel INT_AVERAGE_POOL = shaping<IntAveragePool>("IntAveragePool", 7, 4);

} // namespace qpasses
