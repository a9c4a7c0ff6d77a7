/* What a kernel makes of the numbers of its node: once where these are constant. */

#pragma once

#include "kernel.h"

#include <functional>
#include <memory>

namespace qpasses {

/* An input by its place. */
using Inputs = std::function<Tensor(size_t)>;

template <typename Made> class Prepared {
  public:
    using Make = std::function<Made(const Inputs &)>;

    /* ``make`` reads all of so many inputs from ``first`` on, but ``other`` if it is another one.
     */
    Prepared(const Attributes &given, size_t count, Make make, size_t other = 0, size_t first = 1)
        : make_(std::move(make)) {
        const Constants constants(given, count);
        for (size_t k = first; k < count; k++)
            if (k != other && !constants.are_known(k, k))
                return;
        known_ = made([&](size_t place) { return constants.at(place); });
    }

    std::shared_ptr<const Made> of(const Context &context) const {
        if (known_)
            return known_;
        return made([&](size_t place) { return context.input(place); });
    }

  private:
    Make make_;
    std::shared_ptr<const Made> known_;

    std::shared_ptr<const Made> made(const Inputs &inputs) const {
        return std::make_shared<const Made>(make_(inputs));
    }
};

} // namespace qpasses
