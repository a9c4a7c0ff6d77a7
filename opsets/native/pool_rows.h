/* Rows of windows of a pool: where they lie, and which rows of a picture they cover. */

#pragma once

#include "windows.h"

namespace qpasses {

/* The windows of one call: ``outer`` pictures of rows whose cells have ``inner`` channels. */
struct PoolRows {
    std::vector<WindowAxis> axes;
    int64_t outer, inner, cells, rows = 1;
    Shape shape;

    PoolRows(const Windows &windows, int64_t channels, const Shape &x)
        : axes(windows.axes(x)), outer(windows.is_last ? x[0] : x[0] * x[1]),
          inner(windows.is_last ? channels : 1), cells(windows.cells), shape(x) {
        if (x[windows.is_last ? x.size() - 1 : 1] != channels)
            fail("a pool has not the channels of its picture");
        for (size_t k = 0; k < axes.size(); k++) {
            shape[windows.first_axis() + k] = axes[k].out;
            rows *= k + 1 < axes.size() ? axes[k].out : 1;
        }
    }

    int64_t width() const { return axes.back().size * inner; }
    int64_t row_size() const { return axes.back().out * inner; }

    /* The coordinates of a row of windows along all axes but the last. */
    void find(int64_t row, Shape &windows) const {
        windows = Shape(axes.size() - 1);
        for (size_t k = windows.size(); k-- > 0;) {
            windows[k] = row % axes[k].out;
            row /= axes[k].out;
        }
    }

    /* Calls work(row) for the rows of x that a row of windows covers; ``row``: the picture, then
       one of fewer axes. */
    template <typename Work>
    void covered(const Shape &windows, size_t axis, int64_t row, Work work) const {
        if (axis == windows.size()) {
            work(row);
            return;
        }
        for (int64_t k = 0; k < axes[axis].kernel; k++) {
            const int64_t at = axes[axis].place_of(windows[axis], k);
            if (at >= 0 && at < axes[axis].size)
                covered(windows, axis + 1, row * axes[axis].size + at, work);
        }
    }
};

} // namespace qpasses
