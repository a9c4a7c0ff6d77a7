/* Convolutions with 16 bits at an end: each window is a row of words, which are padded with
   zeros. */

#include "word_filters.h"
#include "matrices.h"
#include "requantized.h"

#include <algorithm>

namespace qpasses {

namespace {

size_t bytes_of(Type type) { return type == INT16 ? 2 : 1; }

/* Weights, less their zero point, [outputs, cells, inputs]. */
std::vector<int16_t> levels_of(const Tensor &w, int64_t zero, int64_t inputs, int64_t cells) {
    std::vector<int16_t> found(w.size());
    of_codes(w.type, "a convolution: w", [&](auto code) {
        const auto *from = w.as<decltype(code)>();
        const int64_t outputs = w.shape[0];
        for (int64_t m = 0; m < outputs; m++)
            for (int64_t c = 0; c < inputs; c++)
                for (int64_t k = 0; k < cells; k++)
                    found[(m * cells + k) * inputs + c] =
                        static_cast<int16_t>(from[(m * inputs + c) * cells + k] - zero);
    });
    return found;
}

template <typename Item>
std::vector<Item> part_of(const std::vector<Item> &all, int64_t first, int64_t count) {
    return {all.begin() + first, all.begin() + first + count};
}

} // namespace

WordFilters::WordFilters(const Inputs &input, const Windows &windows, int64_t group,
                         const Requantization &rounding)
    : windows_(windows), group_(group), result_(input(7).type) {
    const Tensor x_zero = input(1), w = input(2), bias = input(4);
    if (w.shape.size() < 3 || Integers(w.shape.begin() + 2, w.shape.end()) != windows.kernel)
        fail("a convolution: weights are not of its window");
    outputs_ = w.shape[0];
    inputs_ = w.shape[1];
    must_be_from(group, 1, INT32_MAX, "group");
    if (outputs_ % group || bias.type != INT32 || static_cast<int64_t>(bias.size()) != outputs_)
        fail("weights that are not of their groups or their biases");
    const int64_t count = static_cast<int64_t>(x_zero.size());
    if (count != 1 && (count != group || inputs_ != 1))
        fail("zero points that are neither one nor one for each channel");
    of_stored(x_zero.type, "a convolution: x_zero", [&](auto code) {
        const auto *zeros = x_zero.as<decltype(code)>();
        x_zeros_.assign(zeros, zeros + count);
    });
    const int64_t cells = windows.cells;
    const std::vector<int16_t> levels = levels_of(w, input(3).number(), inputs_, cells);
    const std::vector<int64_t> biases(bias.as<int32_t>(), bias.as<int32_t>() + outputs_);
    const std::vector<int64_t> multipliers = numbers_of(input(5), outputs_);
    const std::vector<int64_t> shifts = numbers_of(input(6), outputs_);
    const bool is_depthwise = inputs_ == 1 && outputs_ == group;
    if (is_depthwise) {
        each_cell_.resize(levels.size());
        for (int64_t m = 0; m < outputs_; m++)
            for (int64_t k = 0; k < cells; k++)
                each_cell_[k * outputs_ + m] = levels[m * cells + k];
    }
    const int64_t groups = is_depthwise ? 1 : group, outputs = outputs_ / groups;
    const int64_t length = is_depthwise ? 0 : cells * inputs_;
    for (int64_t g = 0; g < groups; g++)
        groups_.emplace_back(part_of(levels, g * outputs * length, outputs * length), length,
                             part_of(biases, g * outputs, outputs),
                             part_of(multipliers, g * outputs, outputs),
                             part_of(shifts, g * outputs, outputs), rounding, input(7).number(),
                             input(8).number(), input(9).number(), result_);
}

void WordFilters::run(const Context &context) const {
    const Tensor x = context.input(0);
    const size_t rank = windows_.kernel.size() + 2, axis = windows_.is_last ? rank - 1 : 1;
    const int64_t channels = inputs_ * group_;
    if (x.shape.size() != rank || x.shape[axis] != channels)
        fail("a convolution: x has other axes or channels than weights");
    const Geometry given(windows_, x.shape);
    Shape shape = x.shape;
    shape[axis] = outputs_;
    for (size_t k = 0; k < rank - 2; k++)
        shape[windows_.first_axis() + k] = given.out()[k];
    char *y = static_cast<char *>(context.output(0, shape));
    const int64_t windows = given.windows();
    if (x.shape[0] == 0 || windows == 0 || outputs_ == 0)
        return;
    const std::vector<int16_t> pictures = channels_last(context, x);
    const int64_t plane = static_cast<int64_t>(pictures.size()) / x.shape[0];
    const int64_t each = outputs_ * (given.cells() * inputs_ + OUTPUT);
    const int64_t least = std::min(windows, WORK / each / 8 + 1);
    const int64_t parts = (windows + least - 1) / least;
    const size_t bytes = bytes_of(result_);
    context.parallel(x.shape[0] * parts, [&](size_t number) {
        const int64_t part = static_cast<int64_t>(number), picture = part / parts;
        const int64_t first = part % parts * least, count = std::min(least, windows - first);
        const int16_t *from = pictures.data() + picture * plane;
        char *to = y + picture * windows * outputs_ * bytes;
        if (windows_.is_last)
            return windows_of(given, from, first, count, to + first * outputs_ * bytes);
        std::vector<char> last(count * outputs_ * bytes);
        windows_of(given, from, first, count, last.data());
        for (int64_t m = 0; m < outputs_; m++)
            for (int64_t k = 0; k < count; k++)
                std::memcpy(to + (m * windows + first + k) * bytes,
                            last.data() + (k * outputs_ + m) * bytes, bytes);
    });
}

/* The levels of all pictures. */
std::vector<int16_t> WordFilters::channels_last(const Context &context, const Tensor &x) const {
    const int64_t channels = inputs_ * group_, size = static_cast<int64_t>(x.size());
    const int64_t cells = size / x.shape[0] / channels;
    std::vector<int16_t> found(size);
    context.parallel(x.shape[0], [&](size_t picture) {
        const int64_t first = static_cast<int64_t>(picture) * cells * channels;
        const bool is_one = x_zeros_.size() == 1;
        if (windows_.is_last) {
            to_words(x, first, cells * channels, is_one ? x_zeros_[0] : 0, found.data() + first);
            for (int64_t k = 0; !is_one && k < cells * channels; k++)
                found[first + k] = static_cast<int16_t>(found[first + k] - x_zeros_[k % channels]);
            return;
        }
        std::vector<int16_t> plane(cells);
        for (int64_t c = 0; c < channels; c++) {
            to_words(x, first + c * cells, cells, x_zeros_[is_one ? 0 : c], plane.data());
            for (int64_t k = 0; k < cells; k++)
                found[first + k * channels + c] = plane[k];
        }
    });
    return found;
}

/* work(cell, place) for each cell of a window that lies in the picture. */
template <typename Work>
void WordFilters::cells_of(const Geometry &given, int64_t window, Work work) const {
    const WindowAxis &depth = given.depth(), &height = given.height(), &width = given.width();
    const int64_t w = window % width.out, rest = window / width.out;
    const int64_t h = rest % height.out, d = rest / height.out;
    int64_t cell = 0;
    for (int64_t i = 0; i < depth.kernel; i++)
        for (int64_t j = 0; j < height.kernel; j++)
            for (int64_t k = 0; k < width.kernel; k++, cell++) {
                const int64_t p = depth.place_of(d, i), r = height.place_of(h, j);
                const int64_t q = width.place_of(w, k);
                if (p >= 0 && p < depth.size && r >= 0 && r < height.size && q >= 0 &&
                    q < width.size)
                    work(cell, (p * height.size + r) * width.size + q);
            }
}

/* The results of some windows of a picture, channels last. */
void WordFilters::windows_of(const Geometry &given, const int16_t *picture, int64_t first,
                             int64_t count, char *y) const {
    const int64_t channels = inputs_ * group_;
    const size_t bytes = bytes_of(result_);
    if (!each_cell_.empty()) {
        constexpr int64_t MOST = 256; /* cells whose sum int32 holds */
        std::vector<int64_t> sums(outputs_);
        std::vector<int32_t> some(outputs_);
        const auto take = [&] {
            for (int64_t c = 0; c < channels; c++)
                sums[c] += some[c];
            std::fill(some.begin(), some.end(), 0);
        };
        for (int64_t n = 0; n < count; n++) {
            std::fill(sums.begin(), sums.end(), 0);
            int64_t cells = 0;
            cells_of(given, first + n, [&](int64_t cell, int64_t place) {
                add_cell(picture + place * channels, each_cell_.data() + cell * outputs_, channels,
                         some.data());
                if (++cells % MOST == 0)
                    take();
            });
            take();
            groups_[0].store(sums.data(), y + n * outputs_ * bytes);
        }
        return;
    }
    constexpr int64_t SOME = 24; /* windows whose rows lie in the caches */
    const int64_t deep = groups_[0].deep(), outputs = groups_[0].outputs();
    std::vector<int16_t> rows(SOME * deep);
    for (int64_t n = 0; n < count; n += SOME) {
        const int64_t some = std::min(SOME, count - n);
        for (int64_t g = 0; g < group_; g++) {
            std::fill(rows.begin(), rows.end(), 0);
            for (int64_t r = 0; r < some; r++)
                cells_of(given, first + n + r, [&](int64_t cell, int64_t place) {
                    std::copy_n(picture + place * channels + g * inputs_, inputs_,
                                rows.data() + r * deep + cell * inputs_);
                });
            groups_[g].run(rows.data(), some, y + (n * outputs_ + g * outputs) * bytes, outputs_);
        }
    }
}

} // namespace qpasses
