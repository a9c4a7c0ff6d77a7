/* IntMaxPool: rows of windows, the largest along all axes but the last, then along that. */

#include "instruction_sets.h"
#include "kernels.h"
#include "pool_rows.h"

namespace qpasses {
namespace {

constexpr int64_t WORK = 1 << 16;
constexpr int16_t LOWEST = -0x8000; /* of padding */

#define LOOPS "largest_loops.h"
#include "each_set.h"

struct IntMaxPool {
    Windows windows;

    explicit IntMaxPool(const Attributes &given) : windows(given) {}

    static void shape(const Inference &given, Sizes &sizes) { Windows::shape(given, sizes); }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        if (x.type != INT16)
            fail("IntMaxPool: x has a type that the kernel has not");
        if (x.shape.size() < 3)
            fail("IntMaxPool: x has no axis of windows");
        const PoolRows pool(windows, x.shape[windows.is_last ? x.shape.size() - 1 : 1], x.shape);
        int16_t *y = static_cast<int16_t *>(context.output(0, pool.shape));
        const int64_t all = pool.outer * pool.rows, size = pool.row_size();
        if (all == 0 || size == 0)
            return;
        const int64_t cost = (pool.width() + size) * (pool.cells / pool.axes.back().kernel);
        const int64_t least = WORK / std::max<int64_t>(cost, 1) + 1;
        context.parallel((all + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            rows(pool, x.as<int16_t>(), begin, std::min(all, begin + least), y);
        });
    }

    static void rows(const PoolRows &pool, const int16_t *x, int64_t begin, int64_t end,
                     int16_t *y) {
        const WindowAxis &last = pool.axes.back();
        const int64_t inner = pool.inner, width = pool.width(), size = pool.row_size();
        std::vector<int16_t> columns(last.padded() * inner, LOWEST);
        int16_t *inside = columns.data() + last.before * inner;
        std::vector<const int16_t *> codes;
        Shape place;
        for (int64_t row = begin; row < end; row++) {
            codes.clear();
            pool.find(row % pool.rows, place);
            pool.covered(place, 0, row / pool.rows,
                         [&](int64_t each) { codes.push_back(x + each * width); });
            BEST(largest_rows)(codes.data(), codes.size(), LOWEST, width, inside);
            codes.clear();
            for (int64_t k = 0; k < last.kernel; k++)
                codes.push_back(columns.data() + k * last.dilation * inner);
            BEST(largest_windows)(codes, LOWEST, last.stride * inner, inner, last.out,
                                  y + row * size);
        }
    }
};

} // namespace

const Kernel INT_MAX_POOL = shaping<IntMaxPool>("IntMaxPool", 1, 0);

} // namespace qpasses
