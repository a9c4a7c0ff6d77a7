/* Convolutions with 16 bits at an end: each window is a row of words, which are padded with
   zeros. */

#include "word_filters.h"
#include "matrices.h"
#include "requantized.h"

#include <algorithm>

namespace qpasses {

namespace {

constexpr int64_t PART = 1 << 14; /* so many words are made at once */

size_t bytes_of(Type type) { return type == INT16 ? 2 : 1; }

/* Weights, less their zero point, [outputs, cells, inputs]. */
std::vector<int16_t> levels_of(const Tensor &w, int64_t zero, int64_t inputs, int64_t cells) {
    must_be_from(zero, -0x80, 0xff, "the zero point of weights");
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

/* So many words, and up to 7 more, which what is written next, or weights of zero, undo. */
void copy_words(const int16_t *from, int64_t count, int16_t *to) {
    constexpr int64_t SOME = 8;
    for (int64_t k = 0; k < count; k += SOME)
        std::memcpy(to + k, from + k, SOME * sizeof *to);
}

/* Puts cells that lie side by side together, in whole rows of ``wide`` ones or all of them:
   ``places`` are of their first ones then. How many words lie at each. */
int64_t joined(std::vector<int64_t> &places, int64_t wide, int64_t words) {
    const int64_t count = static_cast<int64_t>(places.size());
    for (const int64_t some : {count, wide}) {
        int64_t k = 1;
        while (k < count && (k % some == 0 || places[k] == places[k - 1] + words))
            k++;
        if (k < count)
            continue;
        for (int64_t n = 0; n * some < count; n++)
            places[n] = places[n * some];
        places.resize(count / some);
        return some * words;
    }
    return words;
}

template <typename Item>
std::vector<Item> part_of(const std::vector<Item> &all, int64_t first, int64_t count) {
    return {all.begin() + first, all.begin() + first + count};
}

} // namespace

/* A picture with all cells that windows lie on, channels last. */
struct WordFilters::Padded {
    int64_t planes, rows, wide, channels;

    Padded(const Geometry &given, int64_t channels, int64_t pictures)
        : planes(given.depth().reach(given.depth().out)),
          rows(given.height().reach(given.height().out)),
          wide(given.width().reach(given.width().out)), channels(channels) {
        must_be_from(wide * channels, 0, MOST / planes / rows / pictures, "padded pictures");
    }

    static constexpr int64_t MOST = int64_t{1} << 34; /* words in all */

    int64_t size() const { return planes * rows * wide * channels; }

    int64_t place(int64_t plane, int64_t row, int64_t cell) const {
        return ((plane * rows + row) * wide + cell) * channels;
    }
};

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
    const bool is_depthwise = inputs_ == 1 && outputs_ == group && group > 1;
    const int64_t groups = is_depthwise ? 1 : group, outputs = outputs_ / groups;
    const int64_t length = cells * inputs_;
    for (int64_t g = 0; g < groups; g++)
        groups_.emplace_back(part_of(levels, g * outputs * length, outputs * length), length,
                             LevelRange::of(x_zero),
                             part_of(biases, g * outputs, outputs),
                             part_of(multipliers, g * outputs, outputs),
                             part_of(shifts, g * outputs, outputs), rounding, input(7).number(),
                             input(8).number(), input(9).number(), result_);
    if (is_depthwise)
        each_.emplace_back(levels, cells, groups_[0]);
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
    const Padded padded(given, channels, x.shape[0]);
    const std::vector<int16_t> pictures = levels_of_pictures(context, x, given, padded);
    const int64_t each = outputs_ * (given.cells() * inputs_ + OUTPUT);
    const int64_t least = std::min(windows, WORK / each / 8 + 1);
    const int64_t parts = (windows + least - 1) / least;
    const size_t bytes = bytes_of(result_);
    context.parallel(x.shape[0] * parts, [&](size_t number) {
        const int64_t part = static_cast<int64_t>(number), picture = part / parts;
        const int64_t first = part % parts * least, count = std::min(least, windows - first);
        const int16_t *from = pictures.data() + picture * padded.size();
        char *to = y + picture * windows * outputs_ * bytes;
        if (windows_.is_last)
            return windows_of(given, padded, from, first, count, to + first * outputs_ * bytes);
        std::vector<char> last(count * outputs_ * bytes);
        windows_of(given, padded, from, first, count, last.data());
        for (int64_t m = 0; m < outputs_; m++)
            for (int64_t k = 0; k < count; k++)
                std::memcpy(to + (m * windows + first + k) * bytes,
                            last.data() + (k * outputs_ + m) * bytes, bytes);
    });
}

/* The levels of all pictures, channels last, with zeros around them. */
std::vector<int16_t> WordFilters::levels_of_pictures(const Context &context, const Tensor &x,
                                                     const Geometry &given,
                                                     const Padded &padded) const {
    const WindowAxis &depth = given.depth(), &height = given.height(), &width = given.width();
    const int64_t channels = inputs_ * group_;
    const int64_t inside = std::min(width.size, std::max<int64_t>(padded.wide - width.before, 0));
    std::vector<int16_t> found(x.shape[0] * padded.size() + CellSums::BEHIND);
    const int64_t planes = x.shape[0] * depth.size, all = planes * height.size;
    const int64_t least = PART / std::max<int64_t>(inside * channels, 1) + 1;
    context.parallel(inside ? (all + least - 1) / least : 0, [&](size_t part) {
        std::vector<int16_t> row(windows_.is_last ? 0 : inside);
        const int64_t begin = static_cast<int64_t>(part) * least;
        for (int64_t number = begin; number < std::min(all, begin + least); number++) {
            const int64_t picture = number / height.size / depth.size;
            const int64_t plane = number / height.size % depth.size + depth.before;
            const int64_t r = number % height.size + height.before;
            if (plane >= padded.planes || r >= padded.rows)
                continue;
            const int64_t first = number * width.size;
            int16_t *to = found.data() + picture * padded.size() +
                          padded.place(plane, r, width.before);
            if (windows_.is_last) {
                to_words(x, first * channels, inside * channels,
                         x_zeros_.size() == 1 ? x_zeros_[0] : 0, to);
                for (int64_t k = 0; x_zeros_.size() > 1 && k < inside * channels; k++)
                    to[k] = static_cast<int16_t>(to[k] - x_zeros_[k % channels]);
                continue;
            }
            const int64_t cells = depth.size * height.size * width.size;
            for (int64_t c = 0; c < channels; c++) {
                to_words(x, first + (picture * (channels - 1) + c) * cells, inside,
                         x_zeros_[x_zeros_.size() == 1 ? 0 : c], row.data());
                for (int64_t k = 0; k < inside; k++)
                    to[k * channels + c] = row[k];
            }
        }
    });
    return found;
}

/* The results of some windows of a picture, channels last. */
void WordFilters::windows_of(const Geometry &given, const Padded &padded, const int16_t *picture,
                             int64_t first, int64_t count, char *y) const {
    const WindowAxis &depth = given.depth(), &height = given.height(), &width = given.width();
    const size_t bytes = bytes_of(result_);
    std::vector<const int16_t *> windows(count);
    for (int64_t n = 0; n < count;) {
        const int64_t row = (first + n) / width.out, begin = (first + n) % width.out;
        const int64_t some = std::min(width.out - begin, count - n);
        const int16_t *place =
            picture + padded.place(row / height.out * depth.stride,
                                   row % height.out * height.stride, begin * width.stride);
        for (const int64_t end = n + some; n < end; n++, place += width.stride * padded.channels)
            windows[n] = place;
    }
    std::vector<int64_t> places;
    for (int64_t i = 0; i < depth.kernel; i++)
        for (int64_t j = 0; j < height.kernel; j++)
            for (int64_t k = 0; k < width.kernel; k++)
                places.push_back(padded.place(i * depth.dilation, j * height.dilation,
                                              k * width.dilation));
    if (!each_.empty())
        return each_[0].run(windows, places, y, outputs_ * bytes);
    const int64_t run = group_ == 1 ? joined(places, width.kernel, inputs_) : inputs_;
    for (int64_t g = 0; g < group_; g++) {
        char *to = y + g * groups_[g].outputs() * bytes;
        if (run % 2 == 0)
            groups_[g].run(windows, {places.data(), static_cast<int64_t>(places.size()), run / 2},
                           to, outputs_ * bytes);
        else
            copied(groups_[g], windows, places, run, to);
        for (const int16_t *&window : windows)
            window += inputs_;
    }
}

/* The same of windows whose runs are no pairs, which are put one behind the other. */
void WordFilters::copied(const WordSums &sums, const std::vector<const int16_t *> &windows,
                         const std::vector<int64_t> &places, int64_t run, char *y) const {
    constexpr size_t SOME = 24; /* rows that lie in the caches */
    const int64_t none = 0, step = outputs_ * bytes_of(result_);
    std::vector<int16_t> copies(SOME * sums.deep() + CellSums::BEHIND);
    for (size_t n = 0; n < windows.size(); n += SOME) {
        std::vector<const int16_t *> rows;
        for (size_t r = 0; r < std::min(SOME, windows.size() - n); r++) {
            int16_t *row = copies.data() + r * sums.deep();
            for (size_t k = 0; k < places.size(); k++)
                copy_words(windows[n + r] + places[k], run, row + k * run);
            rows.push_back(row);
        }
        sums.run(rows, {&none, 1, sums.deep() / 2}, y + n * step, step);
    }
}

} // namespace qpasses
