/* IntLayerNorm: two sums of a row, its root and factor, then one pass over the row. */

#include "instruction_sets.h"
#include "kernel.h"
#include "kernels.h"
#include "lookups.h"
#include "rounding.h"

#include <algorithm>
#include <cmath>

namespace qpasses {
namespace {

constexpr int64_t CODES = 256, LONG = 1024;

struct Row {
    const int16_t *x; /* codes, of whatever type they are, */
    int16_t *y;       /* and become */
    int64_t cells, times, less, factor, drop_bits;
    const int64_t *multiplier, *bias;
    int64_t shift, zero, low, high;
};

#define LOOPS "layer_norm_loops.h"
#include "each_set.h"

/* Of what int64 holds; more, of no legal node, is taken as the most. */
uint64_t root_of(uint64_t radicand) {
    radicand = std::min(radicand, static_cast<uint64_t>(INT64_MAX));
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
            throw std::runtime_error("IntLayerNorm: factors of a type that it has not");
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
                throw std::runtime_error("IntLayerNorm: factors that do not broadcast to x");
    }

    /* Whether all cells of a row have one number. */
    bool is_one() const { return is_one_; }

    const int64_t *row(int64_t place) {
        int64_t start = 0;
        for (size_t axis = axis_; axis-- > 0;) {
            start += place % shape_[axis] * strides_[axis];
            place /= shape_[axis];
        }
        if (start == known_)
            return row_.data();
        known_ = start;
        if (is_one_) {
            std::fill(row_.begin(), row_.end(), at(start));
            return row_.data();
        }
        for (size_t k = 0; k < row_.size(); k++) {
            int64_t rest = static_cast<int64_t>(k), where = start;
            for (size_t axis = shape_.size(); axis-- > axis_;) {
                where += rest % shape_[axis] * strides_[axis];
                rest /= shape_[axis];
            }
            row_[k] = at(where);
        }
        return row_.data();
    }

  private:
    int64_t at(int64_t where) const {
        return given_.type == INT32 ? given_.as<int32_t>()[where] : given_.as<int64_t>()[where];
    }

    bool is_one_ = true;
    const Tensor &given_;
    Shape strides_;
    const Shape &shape_;
    size_t axis_;
    std::vector<int64_t> row_;
    int64_t known_ = -1;
};

struct IntLayerNorm {
    int64_t axis, cells, centered, root_bits, factor_bits, norm_bits;
    Rounding rounding;
    Constants constants;

    explicit IntLayerNorm(const Attributes &given)
        : axis(given.integer("axis")), cells(given.integer("cells")),
          centered(given.integer("centered")), root_bits(given.integer("root_bits")),
          factor_bits(given.integer("factor_bits")), norm_bits(given.integer("norm_bits")),
          rounding(rounding_of(given.text("rounding"))), constants(given, 9) {}

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
                throw std::runtime_error("IntLayerNorm: an epsilon that differs along a row");
        if (epsilon.type != INT64)
            throw std::runtime_error("IntLayerNorm: an epsilon of another type");
        void *y = context.output(0, x.shape);
        int64_t row = 1;
        for (size_t k = x.shape.size() + axis; k < x.shape.size(); k++)
            row *= x.shape[k];
        if (row != cells)
            throw std::runtime_error("IntLayerNorm: rows of x have not so many cells");
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
        const Sums<S> sums = sums_of<S>(chosen_set());
        const Normalize loop = rounding_loop(rounding);
        const int64_t least = 4096 / cells + 1, parts = (count + least - 1) / least;
        /* where nothing differs along long rows of bytes, a row is a table of its codes */
        const bool is_table = sizeof(S) == 1 && sizeof(T) == 1 && cells >= LONG &&
                              Factors(multiplier, x.shape, start, 0).is_one() &&
                              Factors(bias, x.shape, start, 0).is_one();
        const int64_t width = is_table ? CODES : cells;
        const Look look = look_of(chosen_set());
        context.parallel(static_cast<size_t>(parts), [&](size_t part) {
            Factors factors(multiplier, x.shape, start, width);
            Factors offsets(bias, x.shape, start, width);
            std::vector<int16_t> given(width), found(width);
            uint8_t table[CODES];
            for (int64_t k = 0; is_table && k < CODES; k++)
                given[k] = static_cast<S>(k);
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t r = begin; r < count && r < begin + least; r++) {
                Row row = common;
                const S *codes = x.as<S>() + r * cells;
                int64_t total, squares;
                sums(codes, cells, &total, &squares);
                const int64_t level = total - cells * x_zero; /* of codes less their zero */
                squares += -2 * x_zero * total + cells * x_zero * x_zero;
                const int64_t sum = centered ? level : 0;
                /* modulo 2**64: it may fit where the two that differ by it do not */
                const uint64_t variance =
                    static_cast<uint64_t>(cells) * static_cast<uint64_t>(squares) -
                    static_cast<uint64_t>(sum) * static_cast<uint64_t>(sum);
                const uint64_t radicand = (variance << 2 * root_bits) +
                                          static_cast<uint64_t>(of_row(epsilon, x, start, r));
                if (!is_table)
                    std::copy(codes, codes + cells, given.begin());
                row.x = given.data();
                row.y = found.data();
                row.cells = width;
                row.less = cells * x_zero + sum;
                row.factor = static_cast<int64_t>((uint64_t{1} << factor_bits) / root_of(radicand));
                row.multiplier = factors.row(r);
                row.bias = offsets.row(r);
                loop(row);
                T *to = is_table ? reinterpret_cast<T *>(table) : static_cast<T *>(y) + r * cells;
                for (int64_t k = 0; k < width; k++)
                    to[k] = static_cast<T>(found[k]);
                if (is_table)
                    look(table, static_cast<const uint8_t *>(x.data) + r * cells,
                         static_cast<uint8_t *>(y) + r * cells, cells);
            }
        });
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
