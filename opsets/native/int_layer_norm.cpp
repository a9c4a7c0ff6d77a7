/* IntLayerNorm: two sums of a row, its root and factor, then one pass over the row. */

#include "instruction_sets.h"
#include "kernel.h"
#include "kernels.h"
#include "lookups.h"
#include "rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace qpasses {
namespace {

constexpr int64_t CODES = 256, LONG = 1024, BLOCK = 64;
constexpr float NEAR = 12582912.0F; /* 3 * 2**22: adding it rounds to an integer */
constexpr double LARGEST = 4.6e18;  /* of 64 bits, and less than 2**62 */

struct Row {
    const int16_t *x; /* codes, of whatever type they are, */
    int16_t *y;       /* and become */
    int64_t cells, times, less, factor, drop_bits;
    const int64_t *multiplier, *bias;
    int64_t shift, zero, low, high;
};

/* ``low`` and ``high``: less the zero point. A level that is ``sure`` or farther from an integer
   may be that of another one. */
struct FloatRow {
    float times, less, factor, sure, low, high;
    int32_t zero;
};

#define LOOPS "layer_norm_loops.h"
#include "each_set.h"

__extension__ typedef unsigned __int128 Wide;

/* A radicand of up to 62 bits, and how often a quarter of it was taken to get it. */
struct Radicand {
    uint64_t value;
    int64_t left_out;

    explicit Radicand(Wide all) : left_out(0) {
        while (all >> (62 + 2 * left_out))
            left_out++;
        value = static_cast<uint64_t>(all >> (2 * left_out));
    }
};

uint64_t size_of(int64_t number) { return static_cast<uint64_t>(std::abs(number)); }

uint64_t root_of(uint64_t radicand) {
    uint64_t root = static_cast<uint64_t>(std::sqrt(static_cast<double>(radicand)));
    while (root * root > radicand)
        root--;
    while ((root + 1) * (root + 1) <= radicand)
        root++;
    return root ? root : 1;
}

template <typename S> using Sums = void (*)(const S *, int64_t, int64_t *, int64_t *);
using Normalize = void (*)(const Row &);

template <typename S> Sums<S> sums_of(InstructionSet set) {
#if QPASSES_SETS > 1
    if (set == AVX512)
        return avx512::sums<S>;
    if (set == AVX2)
        return avx2::sums<S>;
#endif
    return plain::sums<S>;
}

/* Of so many cells that have numbers of their own, or all one: a level is its distance, as far
   as it is normal, times ``slope``, and ``start``. */
struct Scales {
    Integers multiplier, bias;
    std::vector<float> slope, start; /* of whole blocks */
    double largest_slope = 0, largest_start = 0;

    Scales(Integers multipliers, Integers biases, int64_t shift, int64_t cells)
        : multiplier(std::move(multipliers)), bias(std::move(biases)) {
        const double step = std::ldexp(1.0, -static_cast<int>(shift));
        for (int64_t each : multiplier)
            largest_slope = std::max(largest_slope, std::abs(static_cast<double>(each)) * step);
        for (int64_t each : bias)
            largest_start = std::max(largest_start, std::abs(static_cast<double>(each)) * step);
        for (int64_t each : multiplier)
            slope.push_back(static_cast<float>(static_cast<double>(each) * step));
        for (int64_t each : bias)
            start.push_back(static_cast<float>(static_cast<double>(each) * step));
        const size_t whole = (cells + BLOCK - 1) / BLOCK * BLOCK;
        const auto fill = [&](auto &numbers) {
            numbers.resize(whole, numbers.size() == 1 ? numbers[0] : 0);
        };
        fill(multiplier);
        fill(bias);
        fill(slope);
        fill(start);
    }
};

/* Powers of two of a node, and the largest level that shifts of 64 bits hold. */
struct Powers {
    int64_t drop_bits;
    double norm, largest;

    Powers(int64_t drop, int64_t shift)
        : drop_bits(drop), norm(std::ldexp(1.0, -static_cast<int>(drop))),
          largest(std::ldexp(LARGEST, -static_cast<int>(shift))) {}
};

/* Sets what float32 needs of a row, of which ``farthest`` is the largest distance; false if it
   does not hold this, or integers of 64 bits would wrap. */
inline bool fits_float(const Row &row, const Scales &scales, const Powers &powers,
                       int64_t farthest, FloatRow *found) {
    constexpr double EXACT = 1 << 24, WHOLE = 1 << 21, DOUBT = 0.03125;
    const double distance = static_cast<double>(farthest);
    const double factor = static_cast<double>(row.factor), each = factor * powers.norm;
    const double reach = distance * each * scales.largest_slope, start = scales.largest_start;
    /* the norm is rounded by a half; two factors, three products, the start and two sums by as
       much as float32 does, if none are fused */
    const double error = 0.5 * scales.largest_slope + (7 * reach + 3 * start) / EXACT;
    found->times = static_cast<float>(row.times);
    found->less = static_cast<float>(row.less);
    found->factor = static_cast<float>(each);
    found->sure = static_cast<float>(0.5 - error);
    return distance < EXACT && std::abs(row.less) < EXACT && reach + start < WHOLE &&
           error < DOUBT && distance * factor < LARGEST && reach + start + 1 < powers.largest;
}

template <Rounding ROUNDING> Normalize loop_of(InstructionSet set) {
#if QPASSES_SETS > 1
    if (set == AVX512)
        return avx512::normalize<ROUNDING>;
    if (set == AVX2)
        return avx2::normalize<ROUNDING>;
#endif
    return plain::normalize<ROUNDING>;
}

inline Normalize rounding_loop(Rounding rounding) {
    switch (rounding) {
    case Rounding::HALF_TO_EVEN:
        return loop_of<Rounding::HALF_TO_EVEN>(chosen_set());
    case Rounding::HALF_UP:
        return loop_of<Rounding::HALF_UP>(chosen_set());
    default:
        return loop_of<Rounding::HALF_AWAY>(chosen_set());
    }
}

/* Numbers that broadcast to x, of one row after another. */
class Factors {
  public:
    Factors(const Tensor &given, const Shape &shape, size_t axis, int64_t cells)
        : given_(given), strides_(shape.size()), shape_(shape), axis_(axis), row_(cells) {
        if (given.type != INT32 && given.type != INT64)
            fail("IntLayerNorm: factors of a type that it has not");
        must_broadcast(given.shape, shape);
        const size_t more = shape.size() - given.shape.size();
        int64_t step = 1;
        for (size_t k = given.shape.size(); k-- > 0;) {
            strides_[k + more] = given.shape[k] == 1 ? 0 : step;
            step *= given.shape[k];
        }
        for (size_t k = axis; k < shape.size(); k++)
            is_one_ &= strides_[k] == 0;
    }

    static void must_broadcast(const Shape &given, const Shape &shape) {
        const size_t more = shape.size() - given.size();
        for (size_t k = 0; k < given.size(); k++)
            if (given.size() > shape.size() || (given[k] != 1 && given[k] != shape[k + more]))
                fail("IntLayerNorm: factors that do not broadcast to x");
    }

    /* Whether all cells of a row have one number. */
    bool is_one() const { return is_one_; }

    /* Goes to a row: whether it has other numbers than the one before. */
    bool move(int64_t place) {
        int64_t start = 0;
        for (size_t axis = axis_; axis-- > 0;) {
            start += place % shape_[axis] * strides_[axis];
            place /= shape_[axis];
        }
        if (start == known_)
            return false;
        known_ = start;
        for (size_t k = 0; k < row_.size(); k++) {
            int64_t rest = static_cast<int64_t>(k), where = start;
            for (size_t axis = shape_.size(); !is_one_ && axis-- > axis_;) {
                where += rest % shape_[axis] * strides_[axis];
                rest /= shape_[axis];
            }
            row_[k] = at(where);
        }
        return true;
    }

    const Integers &row() const { return row_; }

  private:
    int64_t at(int64_t where) const {
        return given_.type == INT32 ? given_.as<int32_t>()[where] : given_.as<int64_t>()[where];
    }

    bool is_one_ = true;
    const Tensor &given_;
    Shape strides_;
    const Shape &shape_;
    size_t axis_;
    Integers row_;
    int64_t known_ = -1;
};

/* The numbers of a row, if there is one for each cell and they are those of all rows. */
std::optional<Integers> shared_row(const Tensor &given, int64_t axis, int64_t cells) {
    const int64_t others = static_cast<int64_t>(given.shape.size()) + axis;
    for (int64_t k = 0; k < others; k++)
        if (given.shape[k] != 1)
            return {};
    if (static_cast<int64_t>(given.size()) != cells)
        return {};
    if (given.type == INT32)
        return Integers(given.as<int32_t>(), given.as<int32_t>() + cells);
    if (given.type == INT64)
        return Integers(given.as<int64_t>(), given.as<int64_t>() + cells);
    return {};
}

struct IntLayerNorm {
    int64_t axis, cells, centered, root_bits, factor_bits, norm_bits;
    Rounding rounding;
    Constants constants;
    std::optional<Scales> shared; /* by all rows */

    explicit IntLayerNorm(const Attributes &given)
        : axis(given.integer("axis")), cells(given.integer("cells")),
          centered(given.integer("centered")), root_bits(given.integer("root_bits")),
          factor_bits(given.integer("factor_bits")), norm_bits(given.integer("norm_bits")),
          rounding(rounding_of(given.text("rounding"))), constants(given, 9) {
        if (!constants.are_known(2, 4) || axis < -16 || axis > -1)
            return;
        auto multiplier = shared_row(constants.at(2), axis, cells);
        auto bias = shared_row(constants.at(3), axis, cells);
        if (multiplier && bias)
            shared.emplace(std::move(*multiplier), std::move(*bias), constants.at(4).number(),
                           cells);
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const size_t place = axis_of(axis, x.shape);
        must_be_from(axis, -16, -1, "IntLayerNorm: its axis");
        must_be_from(root_bits, 0, 31, "IntLayerNorm: root_bits");
        must_be_from(factor_bits, 0, 62, "IntLayerNorm: factor_bits");
        must_be_from(norm_bits, 0, factor_bits - root_bits, "IntLayerNorm: norm_bits");
        must_be_from(constants(context, 4), 0, 62, "IntLayerNorm: its shift");
        const Tensor epsilon = constants.tensor(context, 5);
        Factors::must_broadcast(epsilon.shape, x.shape);
        for (size_t k = 0; k < epsilon.shape.size(); k++)
            if (k + x.shape.size() - epsilon.shape.size() >= place && epsilon.shape[k] != 1)
                fail("IntLayerNorm: an epsilon that differs along a row");
        if (epsilon.type != INT64)
            fail("IntLayerNorm: an epsilon of another type");
        void *y = context.output(0, x.shape);
        int64_t row = 1;
        for (size_t k = x.shape.size() + axis; k < x.shape.size(); k++)
            row *= x.shape[k];
        if (row != cells)
            fail("IntLayerNorm: rows of x have not so many cells");
        if (x.size() == 0)
            return;
        of_stored(x.type, "IntLayerNorm: x", [&](auto s) {
            of_bits(constants.type(context, 6), "IntLayerNorm: y_zero", [&](auto t) {
                rows<decltype(s), decltype(t)>(context, x, y);
            });
        });
    }

    template <typename S, typename T>
    void rows(const Context &context, const Tensor &x, void *y) const {
        const size_t start = x.shape.size() + axis;
        const Tensor multiplier = constants.tensor(context, 2), bias = constants.tensor(context, 3);
        const Tensor epsilon = constants.tensor(context, 5);
        const int64_t x_zero = constants.code(context, 1);
        const Row common = {nullptr, nullptr, cells, cells, 0, 0,
                            factor_bits - root_bits - norm_bits, nullptr, nullptr,
                            constants(context, 4), constants.code(context, 6),
                            constants.code(context, 7), constants.code(context, 8)};
        const int64_t count = static_cast<int64_t>(x.size()) / cells;
        const Powers powers(common.drop_bits, common.shift);
        const Sums<S> sums = sums_of<S>(chosen_set());
        const Normalize loop = rounding_loop(rounding);
        const int64_t least = 4096 / cells + 1, parts = (count + least - 1) / least;
        const bool is_one = Factors(multiplier, x.shape, start, 0).is_one() &&
                            Factors(bias, x.shape, start, 0).is_one();
        /* where nothing differs along long rows of bytes, a row is a table of its codes */
        const bool is_table = is_one && sizeof(S) == 1 && sizeof(T) == 1 && cells >= LONG;
        const int64_t width = is_table ? CODES : is_one ? BLOCK : cells;
        const Look look = look_of(chosen_set());
        context.parallel(static_cast<size_t>(parts), [&](size_t part) {
            const bool is_shared = shared && !is_table;
            const int64_t numbers = is_shared ? 0 : is_one ? 1 : width;
            Factors factors(multiplier, x.shape, start, numbers);
            Factors offsets(bias, x.shape, start, numbers);
            std::optional<Scales> own;
            uint8_t table[CODES];
            S all[CODES];
            for (int64_t k = 0; k < CODES; k++)
                all[k] = static_cast<S>(k);
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t r = begin; r < count && r < begin + least; r++) {
                Row row = common;
                const S *codes = x.as<S>() + r * cells;
                T *found = static_cast<T *>(y) + r * cells;
                int64_t total, squares;
                sums(codes, cells, &total, &squares);
                const int64_t level = total - cells * x_zero; /* of codes less their zero */
                squares += -2 * x_zero * total + cells * x_zero * x_zero;
                const int64_t sum = centered ? level : 0;
                const Wide variance = static_cast<Wide>(cells) * static_cast<uint64_t>(squares) -
                                      static_cast<Wide>(size_of(sum)) * size_of(sum);
                const Radicand radicand((variance << 2 * root_bits) +
                                        static_cast<uint64_t>(of_row(epsilon, x, start, r)));
                row.less = cells * x_zero + sum;
                row.factor =
                    static_cast<int64_t>((uint64_t{1} << factor_bits) / root_of(radicand.value));
                row.drop_bits += radicand.left_out;
                if (!is_shared && (factors.move(r) | offsets.move(r)))
                    own.emplace(factors.row(), offsets.row(), row.shift, width);
                const Scales &scales = is_shared ? *shared : *own;
                if (!is_table) {
                    levels(row, scales, powers, loop, codes, cells, found);
                    continue;
                }
                levels(row, scales, powers, loop, all, CODES, reinterpret_cast<T *>(table));
                look(table, reinterpret_cast<const uint8_t *>(codes),
                     reinterpret_cast<uint8_t *>(found), cells);
            }
        });
    }

    /* Of so many cells from the one at a place on. */
    template <typename S, typename T>
    static void block(Row row, const Scales &scales, Normalize exact, int64_t place,
                      int64_t count, const S *x, T *y) {
        int16_t codes[BLOCK], found[BLOCK];
        std::copy(x, x + count, codes);
        row.x = codes;
        row.y = found;
        row.cells = count;
        row.multiplier = &scales.multiplier[place];
        row.bias = &scales.bias[place];
        exact(row);
        for (int64_t k = 0; k < count; k++)
            y[k] = static_cast<T>(found[k]);
    }

    /* By float32; false if that is not sure. */
    template <typename S, typename T>
    static bool block(const FloatRow &row, const Scales &scales, int64_t place, int64_t count,
                      const S *x, T *y) {
        if constexpr (sizeof(S) == 1) {
            const float *slope = &scales.slope[place], *start = &scales.start[place];
            const auto loop = BEST(normalize_in_float<S, T>);
            if (count == BLOCK)
                return loop(row, x, slope, start, y);
            S codes[BLOCK] = {};
            T found[BLOCK];
            std::copy(x, x + count, codes);
            const bool is_sure = loop(row, codes, slope, start, found);
            std::copy(found, found + count, y);
            return is_sure;
        }
        return false;
    }

    /* Of a row, by float32 where that is sure. */
    template <typename S, typename T>
    __attribute__((noinline)) static void
    levels(Row row, const Scales &scales, const Powers &powers, Normalize exact, const S *x,
           int64_t count, T *y) {
        FloatRow in_float = {0, 0, 0, 0, static_cast<float>(row.low - row.zero),
                             static_cast<float>(row.high - row.zero),
                             static_cast<int32_t>(row.zero)};
        using Limits = std::numeric_limits<S>;
        const int64_t farthest = std::max(std::abs(row.times * Limits::max() - row.less),
                                          std::abs(row.times * Limits::min() - row.less));
        const bool fits = sizeof(S) == 1 && row.drop_bits == powers.drop_bits &&
                          fits_float(row, scales, powers, farthest, &in_float);
        const bool is_one = scales.multiplier.size() == BLOCK;
        for (int64_t k = 0; k < count; k += BLOCK) {
            const int64_t some = std::min(BLOCK, count - k), place = is_one ? 0 : k;
            if (!fits || !block(in_float, scales, place, some, x + k, y + k))
                block(row, scales, exact, place, some, x + k, y + k);
        }
    }

    /* One number for all rows, or one for each of those that have factors of their own. */
    static int64_t of_row(const Tensor &epsilon, const Tensor &x, size_t axis, int64_t row) {
        if (epsilon.shape.empty())
            return *epsilon.as<int64_t>();
        int64_t where = 0, step = 1;
        const size_t more = x.shape.size() - epsilon.shape.size();
        for (size_t k = axis; k-- > 0;) {
            const int64_t place = row % x.shape[k];
            row /= x.shape[k];
            if (k >= more) {
                where += epsilon.shape[k - more] == 1 ? 0 : place * step;
                step *= epsilon.shape[k - more];
            }
        }
        return epsilon.as<int64_t>()[where];
    }
};

} // namespace

const Kernel INT_LAYER_NORM = kernel<IntLayerNorm>("IntLayerNorm", 9, 6);

} // namespace qpasses
