/* IntCountedAveragePool: rows of windows, summed along all axes but the last, then along that. */

#include "instruction_sets.h"
#include "kernels.h"
#include "pool_rows.h"
#include "rescaling.h"
#include "transposed.h"

#include <type_traits>

namespace qpasses {
namespace {

constexpr int64_t WORK = 1 << 17, BLOCK = 2048;
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */
constexpr int64_t EXACT = int64_t{1} << 52;

/* The ends are less the zero point. */
struct Quotients {
    const double *divisors;
    double multiplier, low, high;
    int32_t zero;
};

#define LOOPS "pool_loops.h"
#include "each_set.h"

/* Sums of codes less their zero point, of rows of windows: along all axes but the last, with
   zeros for the padding, then along that. */
template <typename T> class RowSums {
  public:
    RowSums(const PoolRows &pool, const T *x, int64_t zero)
        : pool_(pool), last_(pool.axes.back()), x_(x), zero_(zero),
          columns_(last_.padded() * pool.inner) {}

    void add(int64_t row, int32_t *sums) {
        const int64_t inner = pool_.inner;
        codes_.clear();
        pool_.find(row % pool_.rows, windows_);
        pool_.covered(windows_, 0, row / pool_.rows, [&](int64_t each) {
            codes_.push_back(x_ + each * pool_.width());
        });
        const int64_t number = static_cast<int64_t>(codes_.size());
        BEST(sum_rows<T>)(codes_.data(), number, static_cast<int32_t>(-number * zero_),
                          pool_.width(), columns_.data() + last_.before * inner);
        shifted_.clear();
        for (int64_t k = 0; k < last_.kernel; k++)
            shifted_.push_back(columns_.data() + k * last_.dilation * inner);
        BEST(sum_windows)(shifted_, last_.stride * inner, inner, last_.out, sums);
    }

  private:
    const PoolRows &pool_;
    const WindowAxis &last_;
    const T *x_;
    int64_t zero_;
    Shape windows_;
    std::vector<const T *> codes_;
    std::vector<const int32_t *> shifted_;
    std::vector<int32_t> columns_;
};

/* Calls work(sums, first row, how many) for rows of windows, on the session's threads. */
template <typename T, typename Work>
void each_rows(const Context &context, const PoolRows &pool, const T *x, int64_t zero, Work work) {
    const int64_t all = pool.outer * pool.rows, size = pool.row_size();
    if (all == 0 || size == 0)
        return;
    const int64_t cost = (pool.width() + size) * (pool.cells / pool.axes.back().kernel);
    const int64_t few = BLOCK / size + 1;
    const int64_t least = (WORK / std::max<int64_t>(cost, 1) / few + 1) * few;
    context.parallel((all + least - 1) / least, [&](size_t part) {
        RowSums<T> rows(pool, x, zero);
        std::vector<int32_t> sums(few * size);
        const int64_t begin = static_cast<int64_t>(part) * least;
        const int64_t end = std::min(all, begin + least);
        for (int64_t row = begin; row < end; row += few) {
            const int64_t some = std::min(few, end - row);
            for (int64_t k = 0; k < some; k++)
                rows.add(row + k, sums.data() + k * size);
            work(static_cast<const int32_t *>(sums.data()), row, some);
        }
    });
}

template <typename Work>
void each_rows(const Context &context, const PoolRows &pool, const Tensor &x, int64_t zero,
               Work work) {
    must_be_from(zero, -32768, 32767, "a zero point");
    of_stored(x.type, "a pool", [&](auto code) {
        using T = decltype(code);
        each_rows<T>(context, pool, x.as<T>(), zero, work);
    });
}

/* How many cells there are in the windows along each axis. */
struct Counted {
    const PoolRows &pool;
    std::vector<Integers> along;

    Counted(const PoolRows &given, const Integers &uncounted) : pool(given) {
        const size_t count = pool.axes.size();
        for (size_t k = 0; k < count; k++) {
            Integers cells;
            for (int64_t window = 0; window < pool.axes[k].out; window++)
                cells.push_back(
                    pool.axes[k].cells(window, uncounted[k], uncounted[k + count]));
            along.push_back(std::move(cells));
        }
    }

    /* Of each sum of a row, at least one cell. */
    void row(int64_t place, int64_t *found) const {
        Shape windows;
        pool.find(place % pool.rows, windows);
        int64_t others = 1;
        for (size_t k = 0; k < windows.size(); k++)
            others *= along[k][windows[k]];
        for (int64_t each : along.back())
            found = std::fill_n(found, pool.inner, std::max<int64_t>(others * each, 1));
    }
};

struct IntCountedAveragePool {
    int64_t channels;
    Windows windows;
    Integers uncounted;
    Rounding rounding;
    Constants numbers;

    explicit IntCountedAveragePool(const Attributes &given)
        : channels(given.integer("channels")), windows(given),
          uncounted(given.integers("uncounted_pads")),
          rounding(rounding_of(given.text("rounding"))), numbers(given, 7) {
        for (int64_t each : uncounted)
            must_be_from(each, 0, Windows::LARGEST, "a padding that is not counted");
        if (uncounted.size() != windows.pads.size())
            fail("IntCountedAveragePool: its pads are not all counted or not");
    }

    static void shape(const Inference &given, Sizes &sizes) { Windows::shape(given, sizes); }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const PoolRows pool(windows, channels, x.shape);
        void *y = context.output(0, pool.shape);
        if (numbers.type(context, 4) == INT16)
            return run(context, pool, x, static_cast<int16_t *>(y));
        of_codes(numbers.type(context, 4), "IntCountedAveragePool: y_zero",
                 [&](auto) { to_bytes(context, pool, x, static_cast<uint8_t *>(y)); });
    }

    void to_bytes(const Context &context, const PoolRows &pool, const Tensor &x, uint8_t *y) const {
        if (windows.is_last || channels < 8 || x.size() == 0 || x.type == INT16)
            return run(context, pool, x, y);
        /* many channels are quicker side by side */
        const int64_t pictures = x.shape[0], size = static_cast<int64_t>(x.size());
        const int64_t plane = size / pictures / channels, out = pool.rows * pool.axes.back().out;
        Windows last = windows;
        last.is_last = true;
        Shape shape = {pictures};
        for (size_t k = 2; k < x.shape.size(); k++)
            shape.push_back(x.shape[k]);
        shape.push_back(channels);
        std::vector<uint8_t> turned(size), found(pictures * channels * out);
        for (int64_t k = 0; k < pictures; k++)
            transpose(x.as<uint8_t>() + k * channels * plane, plane, channels, plane,
                      turned.data() + k * channels * plane, channels, 0);
        run(context, PoolRows(last, channels, shape), {turned.data(), x.type, shape}, found.data());
        for (int64_t k = 0; k < pictures; k++)
            transpose(found.data() + k * channels * out, channels, out, channels,
                      y + k * channels * out, out, 0);
    }

    template <typename Y>
    void run(const Context &context, const PoolRows &pool, const Tensor &x, Y *y) const {
        const auto number = [&](size_t place) { return numbers(context, place); };
        if (numbers.type(context, 1) != x.type)
            fail("IntCountedAveragePool: its numbers are not those of x");
        must_be_ends(x.type, numbers.type(context, 4), "IntCountedAveragePool");
        const Counted counted(pool, uncounted);
        const int64_t shift = number(3);
        must_be_from(number(2), -0x80000000LL, 0x7fffffff, "a multiplier");
        must_be_from(shift, 0, 61, "a shift");
        must_be_from(pool.cells, 1, (int64_t{1} << 61) >> shift, "a divisor");
        const Ends ends = {number(4), number(5), number(6)};
        const int64_t m = number(2), size = pool.row_size();
        const int64_t widest = x.type == INT16 ? 65535 : 255;
        must_be_from(pool.cells, 1, 0x7fffffff / widest, "the cells of a window");
        const bool is_exact = widest * pool.cells <= EXACT / std::max<int64_t>(std::abs(m), 1);
        const Divide<Y> divide = divide_of<Y>();
        each_rows(context, pool, x, number(1), [&](const int32_t *sums, int64_t row,
                                                   int64_t count) {
            Y *found = y + row * size;
            std::vector<int64_t> cells(count * size);
            for (int64_t k = 0; k < count; k++)
                counted.row(row + k, cells.data() + k * size);
            if (is_exact) {
                std::vector<double> divisors(cells.begin(), cells.end());
                divide({divisors.data(), std::ldexp(m, -static_cast<int>(shift)),
                        static_cast<double>(ends.low - ends.zero),
                        static_cast<double>(ends.high - ends.zero),
                        static_cast<int32_t>(ends.zero)},
                       sums, count * size, found);
            } else {
                for (int64_t k = 0; k < count * size; k++)
                    found[k] = static_cast<Y>(
                        ends(divided(sums[k] * m, cells[k] << shift, rounding)));
            }
        });
    }

    template <typename Y>
    using Divide = void (*)(const Quotients &, const int32_t *, int64_t, Y *);

    template <typename Y> Divide<Y> divide_of() const {
        switch (rounding) {
        case Rounding::HALF_TO_EVEN:
            return BEST(divided_sums<Rounding::HALF_TO_EVEN, Y>);
        case Rounding::HALF_UP:
            return BEST(divided_sums<Rounding::HALF_UP, Y>);
        default:
            return BEST(divided_sums<Rounding::HALF_AWAY, Y>);
        }
    }
};

} // namespace

const Kernel INT_COUNTED_AVERAGE_POOL =
    shaping<IntCountedAveragePool>("IntCountedAveragePool", 7, 4);

} // namespace qpasses
