/* Windows that slide over pictures of any number of axes, in either layout. */

#pragma once

#include "kernel.h"

#include <algorithm>

namespace qpasses {

/* One axis: a window begins at a multiple of the stride, less what is padded before. */
struct WindowAxis {
    int64_t size, kernel, stride, dilation, before, after, out;

    int64_t padded() const { return before + size + after; }

    bool is_every_cell() const { return kernel == 1 && stride == 1 && padded() == size; }

    /* The cells that so many windows in a row lie on. */
    int64_t reach(int64_t windows) const {
        return (windows - 1) * stride + (kernel - 1) * dilation + 1;
    }

    /* Pads so that there is a window at each multiple of the stride, more behind or before. */
    void keep_size(bool is_more_behind) {
        const int64_t total = std::max<int64_t>(reach((size + stride - 1) / stride) - size, 0);
        before = is_more_behind ? total / 2 : total - total / 2;
        after = total - before;
    }

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
    static constexpr int64_t LARGEST = 0x7fffffff, MOST_CELLS = LARGEST / 255; /* of int32 */
    Integers kernel, strides, dilations, pads;
    std::string auto_pad;
    bool is_last;
    int64_t cells = 1;

    template <typename Node>
    explicit Windows(const Node &node) : Windows(node, node.integers("kernel_shape")) {}

    template <typename Node>
    Windows(const Node &node, const Integers &of_kernel)
        : kernel(of_kernel), strides(node.integers_or_none("strides")),
          dilations(node.integers_or_none("dilations")), pads(node.integers_or_none("pads")),
          auto_pad(node.text_or("auto_pad", "NOTSET")),
          is_last(node.integer_or("channels_last", 0) != 0) {
        for (Integers *each : {&strides, &dilations})
            if (each->empty())
                each->assign(kernel.size(), 1);
        if (pads.empty())
            pads.assign(2 * kernel.size(), 0);
        if (strides.size() != kernel.size() || dilations.size() != kernel.size() ||
            pads.size() != 2 * kernel.size() || kernel.empty())
            fail("a window has not one number for each axis");
        for (int64_t size : kernel) {
            must_be_from(size, 1, MOST_CELLS / cells, "the cells of a window");
            cells *= size;
        }
        for (const Integers *each : {&strides, &dilations})
            for (int64_t number : *each)
                must_be_from(number, 1, LARGEST, "a number of a window");
        for (int64_t number : pads)
            must_be_from(number, 0, LARGEST, "a padding");
    }

    size_t first_axis() const { return is_last ? 1 : 2; }

    WindowAxis axis(size_t k, int64_t size) const {
        WindowAxis found = {size,         kernel[k], strides[k],
                            dilations[k], pads[k],   pads[k + kernel.size()], 0};
        if (auto_pad == "VALID")
            found.before = found.after = 0;
        else if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER")
            found.keep_size(auto_pad == "SAME_UPPER");
        must_be_from(found.padded(), 0, LARGEST, "a padded size");
        if (found.padded() >= found.reach(1))
            found.out = (found.padded() - found.reach(1)) / found.stride + 1;
        return found;
    }

    /* The axes of windows over a tensor of this shape. */
    std::vector<WindowAxis> axes(const Shape &shape) const {
        if (shape.size() != kernel.size() + 2)
            fail("a window has not as many axes as the picture");
        std::vector<WindowAxis> found;
        for (size_t k = 0; k < kernel.size(); k++)
            found.push_back(axis(k, shape[first_axis() + k]));
        return found;
    }

    /* Of what is known of the result. */
    static void shape(const Inference &given, Sizes &sizes) { Windows(given).turn(sizes); }

    void turn(Sizes &sizes) const {
        if (sizes.rank != kernel.size() + 2)
            return;
        for (size_t k = 0; k < kernel.size(); k++) {
            int64_t &size = sizes.numbers[first_axis() + k];
            size = size < 0 ? -1 : axis(k, size).out;
            sizes.names[first_axis() + k] = "";
        }
    }
};

} // namespace qpasses
