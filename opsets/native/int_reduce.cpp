/* IntReduce: sums over any axes, then one requantization for each. */

#include "instruction_sets.h"
#include "kernel.h"
#include "kernels.h"
#include "rounding.h"

#include <algorithm>
#include <type_traits>

namespace qpasses {
namespace {

constexpr int64_t DIVIDES = 1, MOST = 0x7fffffff / 255, MOST_WORDS = 0x7fffffff / 65535;

#define LOOPS "code_sums.h"
#include "each_set.h"

/* Axes that are summed, or kept, in a row: so many elements, and the step between sums. */
struct Group {
    int64_t size, step;
    bool is_summed;
};

struct IntReduce {
    Integers axes;
    int64_t keepdims, mean;
    Requantization rounding;
    Constants numbers;

    explicit IntReduce(const Attributes &given)
        : axes(given.integers("axes")), keepdims(given.integer("keepdims")),
          mean(given.integer("mean")), rounding(given.text("rounding")),
          numbers(given, 7) {}

    static bool is_summed(const Integers &axes, size_t axis, size_t rank) {
        const int64_t from_end = static_cast<int64_t>(axis) - static_cast<int64_t>(rank);
        return std::find(axes.begin(), axes.end(), from_end) != axes.end();
    }

    static void shape(const Inference &given, Sizes &sizes) {
        const Integers axes = given.integers("axes");
        const bool is_kept = given.integer("keepdims") != 0;
        const size_t rank = sizes.rank;
        sizes.rank = 0;
        for (size_t k = 0; k < rank; k++) {
            const bool goes = is_summed(axes, k, rank);
            if (goes && !is_kept)
                continue;
            sizes.numbers[sizes.rank] = goes ? 1 : sizes.numbers[k];
            sizes.names[sizes.rank++] = goes ? "" : sizes.names[k];
        }
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const size_t rank = x.shape.size();
        for (int64_t axis : axes)
            must_be_from(axis, -static_cast<int64_t>(rank), -1, "IntReduce: an axis");
        if (numbers.type(context, 1) != x.type)
            fail("IntReduce: its numbers are not those of x");
        must_be_ends(x.type, numbers.type(context, 4), "IntReduce");
        Shape found;
        for (size_t k = 0; k < rank; k++)
            if (keepdims || !is_summed(axes, k, rank))
                found.push_back(is_summed(axes, k, rank) ? 1 : x.shape[k]);
        std::vector<Group> groups; /* the innermost first */
        int64_t cells = 1, sums = 1;
        for (size_t k = rank; k-- > 0;) {
            const bool goes = is_summed(axes, k, rank);
            if (!groups.empty() && groups.back().is_summed == goes)
                groups.back().size *= x.shape[k];
            else
                groups.push_back({x.shape[k], goes ? 0 : sums, goes});
            (goes ? cells : sums) *= x.shape[k];
        }
        void *y = context.output(0, found);
        if (cells > (x.type == INT16 ? MOST_WORDS : MOST)) /* int32 does not hold the sum of so many */
            reduce<int64_t>(context, x, groups, cells, sums, y);
        else
            reduce<int32_t>(context, x, groups, cells, sums, y);
    }

    template <typename Sum>
    void reduce(const Context &context, const Tensor &x, const std::vector<Group> &groups,
                int64_t cells, int64_t sums, void *y) const {
        std::vector<Sum> totals(static_cast<size_t>(sums), 0);
        of_stored(x.type, "IntReduce: x", [&](auto code) {
            const auto *from = x.as<decltype(code)>();
            if (x.size())
                add(groups, groups.size(), from, totals.data());
        });
        of_stored(numbers.type(context, 4), "IntReduce: y_zero", [&](auto code) {
            round(context, totals, cells, static_cast<decltype(code) *>(y));
        });
    }

    /* The elements of so many groups, the outermost first; leaves ``from`` behind them. */
    template <typename T, typename Sum>
    static void add(const std::vector<Group> &groups, size_t count, const T *&from, Sum *to) {
        if (count == 0) {
            *to += *from++;
            return;
        }
        const Group &group = groups[count - 1];
        if constexpr (sizeof(Sum) == sizeof(int32_t))
            if (count == 2 && group.is_summed) { /* columns of what lies side by side */
                const int64_t columns = groups[0].size;
                std::vector<int32_t> sums(columns);
                BEST(sum_columns<T>)(from, group.size, columns, 0, columns, sums.data());
                for (int64_t k = 0; k < columns; k++)
                    to[k * groups[0].step] += sums[k];
                from += group.size * columns;
                return;
            }
        if (count > 1) {
            for (int64_t k = 0; k < group.size; k++)
                add(groups, count - 1, from, to + k * group.step);
        } else if (group.is_summed) {
            Sum total = 0;
            for (int64_t k = 0; k < group.size; k++)
                total += from[k];
            *to += total;
            from += group.size;
        } else {
            for (int64_t k = 0; k < group.size; k++)
                to[k] += from[k];
            from += group.size;
        }
    }

    template <typename T, typename Sum>
    void round(const Context &context, const std::vector<Sum> &totals, int64_t cells,
               T *y) const {
        const auto number = [&](size_t place) { return numbers(context, place); };
        const int64_t x_zero = number(1), m = number(2), shift = number(3), zero = number(4);
        const int64_t least = number(5), most = number(6);
        must_be_from(x_zero, -32768, 32767, "IntReduce: a zero point");
        must_be_from(shift, rounding.is_twice ? 0 : 1, 62, "IntReduce: a shift");
        const Twice twice = {m, shift, rounding.last, zero, least, most};
        if (mean == DIVIDES)
            must_be_from(cells, 0, (int64_t{1} << 62) >> shift, "IntReduce: its divisor");
        must_be_from(m, -0x80000000LL, 0x7fffffff, "IntReduce: its multiplier");
        const int64_t divisor = mean == DIVIDES ? std::max<int64_t>(cells, 1) << shift : 1;
        for (size_t k = 0; k < totals.size(); k++) {
            const int64_t acc = totals[k] - cells * x_zero;
            if (mean != DIVIDES && rounding.is_twice) {
                y[k] = static_cast<T>(twice(acc));
                continue;
            }
            const int64_t product = wrapping_product(acc, m);
            const int64_t level = mean == DIVIDES ? divided(product, divisor, rounding.last)
                                                  : shifted(product, shift, rounding.last);
            y[k] = static_cast<T>(std::min(std::max(level + zero, least), most));
        }
    }
};

} // namespace

const Kernel INT_REDUCE = shaping<IntReduce>("IntReduce", 7, 4);

} // namespace qpasses
