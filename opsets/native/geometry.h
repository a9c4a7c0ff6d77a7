/* Windows over a picture of up to three axes, as depth, height and width. */

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
        const std::vector<WindowAxis> given = windows.axes(shape);
        axes_.fill({1, 1, 1, 1, 0, 0, 1});
        if (given.size() > axes_.size())
            fail("a window has more than three axes");
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

    /* The outputs along an axis, of so many. */
    int64_t out(size_t axis, size_t count) const { return axes_[first(count) + axis].out; }

  private:
    static size_t first(size_t count) { return count == 1 ? 1 : 3 - count; }

    Axes axes_;
};

} // namespace qpasses
