/* IntPad: for each place along an axis, the one whose code it has, or none. */

#include "kernels.h"

#include <algorithm>

namespace qpasses {
namespace {

constexpr int64_t LARGEST = 0x7fffffff;
constexpr int64_t NONE = -1;

struct IntPad {
    Integers pads;
    std::string mode;
    Constants numbers;

    explicit IntPad(const Attributes &given)
        : pads(given.integers("pads")), mode(given.text("mode")), numbers(given, 2) {
        if (mode != "constant" && mode != "edge" && mode != "reflect")
            fail("IntPad: its mode is none");
        for (int64_t each : pads)
            must_be_from(each, 0, LARGEST, "a padding");
    }

    static void shape(const Inference &given, Sizes &sizes) {
        const Integers pads = given.integers("pads");
        if (pads.size() != 2 * sizes.rank)
            return;
        for (size_t k = 0; k < sizes.rank; k++) {
            const int64_t more = pads[k] + pads[k + sizes.rank];
            if (more != 0)
                sizes.names[k] = "";
            if (sizes.numbers[k] >= 0)
                sizes.numbers[k] += more;
        }
    }

    /* By place of y along an axis, that of x. */
    Integers places(int64_t size, int64_t before, int64_t behind) const {
        const bool reflects = mode == "reflect";
        if (mode != "constant" && size <= (reflects ? std::max(before, behind) : 0) &&
            before + behind > 0)
            fail("IntPad: x has not the codes that it is padded with");
        must_be_from(before + size + behind, 0, LARGEST, "a padded size");
        Integers found;
        for (int64_t at = -before; at < size + behind; at++) {
            int64_t place = at;
            if (at < 0)
                place = mode == "constant" ? NONE : reflects ? -at : 0;
            else if (at >= size)
                place = mode == "constant" ? NONE : reflects ? 2 * (size - 1) - at : size - 1;
            found.push_back(place);
        }
        return found;
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        if (x.type != INT16 || numbers.type(context, 1) != INT16)
            fail("IntPad: x or fill has a type that the kernel has not");
        const size_t rank = x.shape.size();
        if (pads.size() != 2 * rank)
            fail("IntPad: its pads are not of all axes");
        std::vector<Integers> along;
        Shape shape = x.shape;
        for (size_t k = 0; k < rank; k++) {
            along.push_back(places(x.shape[k], pads[k], pads[k + rank]));
            shape[k] = static_cast<int64_t>(along[k].size());
        }
        const int16_t fill = static_cast<int16_t>(numbers(context, 1));
        int16_t *y = static_cast<int16_t *>(context.output(0, shape));
        std::vector<int64_t> steps(rank, 1), sizes(rank, 1); /* of x and of y */
        for (size_t k = rank; k-- > 1;) {
            steps[k - 1] = steps[k] * x.shape[k];
            sizes[k - 1] = sizes[k] * shape[k];
        }
        copy({along, steps, sizes, fill}, 0, x.as<int16_t>(), y);
    }

    struct Plan {
        const std::vector<Integers> &along;
        const std::vector<int64_t> &steps, &sizes;
        int16_t fill;
    };

    static void copy(const Plan &plan, size_t axis, const int16_t *x, int16_t *y) {
        if (axis == plan.along.size()) {
            *y = *x;
            return;
        }
        const Integers &places = plan.along[axis];
        const bool is_last = axis + 1 == plan.along.size();
        const int64_t count = static_cast<int64_t>(places.size());
        for (int64_t k = 0; k < count;) {
            int64_t end = k + 1; /* of what lies side by side in x, and so in y */
            while (is_last && places[k] != NONE && end < count &&
                   places[end] == places[k] + end - k)
                end++;
            if (places[k] == NONE)
                std::fill_n(y + k * plan.sizes[axis], plan.sizes[axis], plan.fill);
            else if (is_last)
                std::copy_n(x + places[k], end - k, y + k);
            else
                copy(plan, axis + 1, x + places[k] * plan.steps[axis], y + k * plan.sizes[axis]);
            k = end;
        }
    }
};

} // namespace

const Kernel INT_PAD = shaping<IntPad>("IntPad", 2, 0);

} // namespace qpasses
