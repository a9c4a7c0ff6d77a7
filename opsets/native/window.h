/* Windows over pictures: sizes, padding and where the cells of a window lie. */

#pragma once

#include "kernel.h"

#include <algorithm>
#include <array>

namespace qpasses {

/* Depth, height and width, of which a signal has the height alone, a picture the last two. */
using Extent = std::array<int64_t, 3>;

/* What an attribute says of each axis, from so many; of axes that are not there ``other``. */
inline Extent extent_of(const Shape &given, size_t axes, int64_t other, size_t from = 0) {
    Extent found = {other, other, other};
    if (given.empty() && other == 1 && from == 0)
        return found;
    if (given.size() < from + axes)
        throw std::runtime_error("an attribute of a window that has not a number for each axis");
    for (size_t k = 0; k < axes; k++)
        found[(axes == 1 ? 1 : 3 - axes) + k] = given[from + k];
    return found;
}

/* How a window goes over a picture: ONNX's attributes. */
struct Window {
    Shape strides, dilations, pads;
    std::string auto_pad;

    template <typename Node> explicit Window(const Node &given)
        : strides(given.integers_or_none("strides")), dilations(given.integers_or_none("dilations")),
          pads(given.integers_or_none("pads")), auto_pad(given.text_or("auto_pad", "NOTSET")) {}
};

/* A window of so many cells over a picture. */
struct Geometry {
    Extent size, cells, stride, dilation, before, after, count; /* ``count``: of outputs */

    /* Throws where there is none. */
    Geometry(const Window &window, const Shape &x, bool is_channels_last, const Shape &kernel) {
        const size_t axes = x.size() - 2;
        const size_t first = is_channels_last ? 1 : 2;
        if (axes < 1 || axes > 3 || kernel.size() != axes)
            throw std::runtime_error("a window needs one, two or three axes");
        size = extent_of({x.begin() + first, x.begin() + first + axes}, axes, 1);
        cells = extent_of(kernel, axes, 1);
        stride = extent_of(window.strides, axes, 1);
        dilation = extent_of(window.dilations, axes, 1);
        before = after = {0, 0, 0};
        const bool is_same = window.auto_pad == "SAME_UPPER" || window.auto_pad == "SAME_LOWER";
        const bool has_pads = !is_same && window.auto_pad != "VALID" && !window.pads.empty();
        if (has_pads) {
            before = extent_of(window.pads, axes, 0);
            after = extent_of(window.pads, axes, 0, axes);
        }
        for (size_t k = 0; k < 3; k++) {
            for (const int64_t each : {cells[k], stride[k], dilation[k]})
                must_be_from(each, 1, INT32_MAX, "a size, stride or dilation of a window");
            must_be_from(size[k], 0, INT32_MAX, "a size of a picture");
            const int64_t wide = reach(k);
            if (is_same) {
                const int64_t steps = (size[k] + stride[k] - 1) / stride[k];
                const int64_t total = std::max<int64_t>((steps - 1) * stride[k] + wide - size[k], 0);
                before[k] = window.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
                after[k] = total - before[k];
            }
            for (const int64_t each : {before[k], after[k]})
                must_be_from(each, 0, INT32_MAX, "padding");
            const int64_t room = before[k] + size[k] + after[k] - wide;
            count[k] = room < 0 ? 0 : room / stride[k] + 1;
        }
    }

    /* From the first to behind the last cell of a window along an axis. */
    int64_t reach(size_t axis) const { return (cells[axis] - 1) * dilation[axis] + 1; }

    /* The cells that so many windows in a row lie on. */
    int64_t reach(size_t axis, int64_t windows) const {
        return (windows - 1) * stride[axis] + reach(axis);
    }

    bool is_padded() const {
        return before != Extent{0, 0, 0} || after != Extent{0, 0, 0};
    }

    int64_t windows() const { return count[0] * count[1] * count[2]; }

    /* The number of an axis, of so many that a picture has. */
    static int64_t of_axis(const Extent &all, size_t axis, size_t axes) {
        return all[(axes == 1 ? 1 : 3 - axes) + axis];
    }

    /* The sizes of outputs, where those of inputs are known. */
    static void infer(const Inference &given, Sizes &sizes, bool is_channels_last,
                      const Shape &kernel) {
        const size_t axes = sizes.rank - 2, first = is_channels_last ? 1 : 2;
        Shape known(sizes.numbers, sizes.numbers + sizes.rank);
        for (int64_t &each : known)
            each = std::max<int64_t>(each, 0);
        const bool has_kernel = std::all_of(kernel.begin(), kernel.end(), [](int64_t k) { return k > 0; });
        for (size_t k = 0; k < axes; k++) {
            int64_t &size = sizes.numbers[first + k];
            if (size >= 0 && has_kernel)
                size = of_axis(Geometry(Window(given), known, is_channels_last, kernel).count, k, axes);
            else
                size = -1;
            sizes.names[first + k] = "";
        }
    }
};

} // namespace qpasses
