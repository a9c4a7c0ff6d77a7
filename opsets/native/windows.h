/* Windows that slide over pictures of any number of axes, in either layout. */

#pragma once

#include "kernel.h"

#include <algorithm>

namespace qpasses {

/* One axis: a window begins at a multiple of the stride, less what is padded before. */
struct WindowAxis {
    int64_t size, kernel, stride, dilation, before, after, out;

    int64_t padded() const { return before + size + after; }

    int64_t place_of(int64_t window, int64_t place) const {
        return window * stride + place * dilation - before;
    }

    /* How many cells of a window lie in the padded picture without so much at its ends. */
    int64_t cells(int64_t window, int64_t less_before, int64_t less_after) const {
        int64_t found = 0;
        for (int64_t k = 0; k < kernel; k++) {
            const int64_t at = window * stride + k * dilation;
            found += at >= less_before && at < padded() - less_after;
        }
        return found;
    }
};

/* What nodes say of their windows; from Attributes or Inference. */
struct Windows {
    static constexpr int64_t LARGEST = 0x7fffffff;
    Shape kernel, strides, dilations, pads;
    bool is_last;

    template <typename Node>
    explicit Windows(const Node &node)
        : kernel(node.integers("kernel_shape")), strides(node.integers_or_none("strides")),
          dilations(node.integers_or_none("dilations")), pads(node.integers_or_none("pads")),
          is_last(node.integer_or("channels_last", 0) != 0) {
        for (Shape *each : {&strides, &dilations})
            if (each->empty())
                each->assign(kernel.size(), 1);
        if (pads.empty())
            pads.assign(2 * kernel.size(), 0);
        if (strides.size() != kernel.size() || dilations.size() != kernel.size() ||
            pads.size() != 2 * kernel.size() || kernel.empty())
            throw std::runtime_error("a window has not one number for each axis");
        for (const Shape *each : {&kernel, &strides, &dilations})
            for (int64_t number : *each)
                must_be_from(number, 1, LARGEST, "a number of a window");
        for (int64_t number : pads)
            must_be_from(number, 0, LARGEST, "a padding");
    }

    size_t first_axis() const { return is_last ? 1 : 2; }

    WindowAxis axis(size_t k, int64_t size) const {
        WindowAxis found = {size,         kernel[k], strides[k],
                            dilations[k], pads[k],   pads[k + kernel.size()], 0};
        const int64_t reach = (found.kernel - 1) * found.dilation + 1;
        if (found.padded() >= reach)
            found.out = (found.padded() - reach) / found.stride + 1;
        return found;
    }

    /* The axes of windows over a tensor of this shape. */
    std::vector<WindowAxis> axes(const Shape &shape) const {
        if (shape.size() != kernel.size() + 2)
            throw std::runtime_error("a window has not as many axes as the picture");
        std::vector<WindowAxis> found;
        for (size_t k = 0; k < kernel.size(); k++)
            found.push_back(axis(k, shape[first_axis() + k]));
        return found;
    }

    /* Of what is known of the result. */
    static void shape(const Inference &given, Sizes &sizes) {
        const Windows windows(given);
        if (sizes.rank != windows.kernel.size() + 2)
            return;
        for (size_t k = 0; k < windows.kernel.size(); k++) {
            int64_t &size = sizes.numbers[windows.first_axis() + k];
            size = size < 0 ? -1 : windows.axis(k, size).out;
            sizes.names[windows.first_axis() + k] = "";
        }
    }
};

} // namespace qpasses
