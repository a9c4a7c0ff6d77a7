/* Two operands broadcast together, as runs in which each goes on by one element or stays. */

#pragma once

#include "kernel.h"

#include <algorithm>

namespace qpasses {

/* So many elements from these on; a step is 1, or 0 where the operand stays. */
struct Run {
    int64_t a, b, y, count, a_step, b_step;
};

class Broadcast {
  public:
    Shape shape;

    QPASSES_ONCE Broadcast(const Shape &a, const Shape &b) : shape(std::max(a.size(), b.size())) {
        for (size_t k = shape.size(); k-- > 0;)
            shape[k] = size_of(a, k) == 1 ? size_of(b, k) : size_of(a, k);
        for (size_t k = 0; k < shape.size(); k++)
            for (const Shape *each : {&a, &b})
                if (size_of(*each, k) != 1 && size_of(*each, k) != shape[k])
                    fail("operands that do not broadcast together");
        int64_t a_step = 1, b_step = 1;
        for (size_t k = shape.size(); k-- > 0;) {
            const int64_t from_a = size_of(a, k), from_b = size_of(b, k);
            add({shape[k], from_a == 1 ? 0 : a_step, from_b == 1 ? 0 : b_step});
            a_step *= from_a;
            b_step *= from_b;
            count_ *= shape[k];
        }
        if (axes_.empty())
            axes_.push_back({1, 0, 0});
    }

    /* The length of a short row of a that is the same for all of b, or the other way round: what
       is repeated until it is long enough makes runs as long. 0 where there is none. */
    int64_t row_of_a() const { return is_short() && axes_[1].a == 0 ? axes_[0].size : 0; }
    int64_t row_of_b() const { return is_short() && axes_[1].b == 0 ? axes_[0].size : 0; }
    int64_t count() const { return count_; }

    /* Calls work(run) for runs that cover the result, on the threads of the session. */
    QPASSES_ONCE void runs(const Context &context, Call<const Run &> work) const {
        const Axis inner = axes_.front();
        context.parallel((count_ + PART - 1) / PART, [&](size_t part) {
            int64_t place = static_cast<int64_t>(part) * PART;
            const int64_t end = std::min(count_, place + PART);
            int64_t rest = place / inner.size, within = place % inner.size, a = 0, b = 0;
            std::vector<int64_t> at(axes_.size(), 0); /* behind the innermost, counted on */
            for (size_t k = 1; k < axes_.size(); k++) {
                at[k] = rest % axes_[k].size;
                a += at[k] * axes_[k].a;
                b += at[k] * axes_[k].b;
                rest /= axes_[k].size;
            }
            while (place < end) {
                const int64_t some = std::min(end - place, inner.size - within);
                work(Run{a + within * inner.a, b + within * inner.b, place, some, inner.a,
                         inner.b});
                place += some;
                within = 0;
                for (size_t k = 1; k < axes_.size(); k++) {
                    a += axes_[k].a;
                    b += axes_[k].b;
                    if (++at[k] < axes_[k].size)
                        break;
                    a -= at[k] * axes_[k].a;
                    b -= at[k] * axes_[k].b;
                    at[k] = 0;
                }
            }
        });
    }

  private:
    struct Axis {
        int64_t size, a, b; /* steps */
    };

    static constexpr int64_t PART = 1 << 14, SHORT = 512;
    std::vector<Axis> axes_; /* the innermost first, those that go on alike joined */
    int64_t count_ = 1;

    bool is_short() const {
        return axes_.size() == 2 && axes_[0].a && axes_[0].b && axes_[0].size <= SHORT &&
               axes_[1].size > 1;
    }

    int64_t size_of(const Shape &each, size_t axis) const {
        const size_t more = shape.size() - each.size();
        return axis < more ? 1 : each[axis - more];
    }

    void add(Axis axis) {
        if (axis.size == 1)
            return;
        if (!axes_.empty()) {
            Axis &last = axes_.back();
            if (axis.a == last.a * last.size && axis.b == last.b * last.size) {
                last.size *= axis.size;
                return;
            }
        }
        axes_.push_back(axis);
    }
};

} // namespace qpasses
