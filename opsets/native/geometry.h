/* Windows over a picture, as depth, height and width. */

#pragma once

#include "windows.h"

#include <array>

namespace qpasses {

/* Of which a signal has the height alone, a picture the last two; an axis that is not there has
   one cell. */
class Geometry {
  public:
    using Axes = std::array<WindowAxis, 3>;

    Geometry(const Windows &windows, const Shape &shape) {
        std::vector<WindowAxis> given = windows.axes(shape);
        for (const WindowAxis &each : given)
            out_.push_back(each.out);
        axes_.fill({1, 1, 1, 1, 0, 0, 1});
        while (given.size() > axes_.size())
            join_two(given);
        std::copy(given.begin(), given.end(), axes_.begin() + first(given.size()));
    }

    const WindowAxis &depth() const { return axes_[0]; }
    const WindowAxis &height() const { return axes_[1]; }
    const WindowAxis &width() const { return axes_[2]; }

    bool is_padded() const {
        return std::any_of(axes_.begin(), axes_.end(),
                           [](const WindowAxis &each) { return each.before || each.after; });
    }

    int64_t cells() const { return depth().kernel * height().kernel * width().kernel; }
    int64_t windows() const { return depth().out * height().out * width().out; }

    /* The outputs along each axis. */
    const std::vector<int64_t> &out() const { return out_; }

  private:
    /* Axes side by side of which a window has one cell, and each cell a window, are one. */
    static void join_two(std::vector<WindowAxis> &given) {
        const auto joins = [](const WindowAxis &one, const WindowAxis &other) {
            return one.is_every_cell() && other.is_every_cell();
        };
        const auto found = std::adjacent_find(given.begin(), given.end(), joins);
        if (found == given.end())
            fail("a window has more than three axes");
        found->size *= found[1].size;
        found->out = found->size;
        given.erase(found + 1);
    }

    static size_t first(size_t count) { return count == 1 ? 1 : 3 - count; }

    Axes axes_;
    std::vector<int64_t> out_;
};

} // namespace qpasses
