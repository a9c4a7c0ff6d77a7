/* TableSoftmax: a row has at most 256 distances from its largest code, and as many levels. */

#include "instruction_sets.h"
#include "kernel.h"
#include "kernels.h"
#include "rounding.h"

#include <algorithm>

namespace qpasses {
namespace {

constexpr int64_t CODES = 256;
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */
constexpr float NEAR = 12582912.0F;         /* 3 * 2**22, likewise */
constexpr int64_t SMALL = 512;               /* levels: float32 has them to 2**-13, half of */
constexpr float DOUBT = 0.000244140625F;
constexpr int64_t EXACT = int64_t{1} << 51;  /* doubles hold twice as much */

struct Quotients {
    const int64_t *numerators;
    int64_t total, zero, low, high;
    bool is_even, is_floored;
    const double *reals; /* the numerators in double, if it holds them and ties go to even */
    const float *floats; /* and in float32, if levels are small */
};

#define LOOPS "softmax_loops.h"
#include "each_set.h"

template <typename S, typename T>
using Row = void (*)(const Quotients &, const int32_t *, const S *, T *, int64_t);

template <typename S, typename T> Row<S, T> row_of(InstructionSet set) {
#if QPASSES_SETS > 1
    if (set == AVX512)
        return avx512::softmax_row<S, T>;
    if (set == AVX2)
        return avx2::softmax_row<S, T>;
#endif
    return plain::softmax_row<S, T>;
}

/* Indexed by the bytes of codes, and truncated. */
template <typename S, typename T>
void published_row(const Quotients &common, const int32_t *denominators, const S *x, T *y,
                   int64_t cells) {
    int64_t total = 0;
    for (int64_t k = 0; k < cells; k++)
        total += denominators[static_cast<uint8_t>(x[k])];
    Quotients given = common;
    given.total = total > 1 ? total : 1;
    int16_t levels[CODES];
    plain::levels_of(given, given.numerators, CODES, levels);
    for (int64_t k = 0; k < cells; k++)
        y[k] = static_cast<T>(levels[static_cast<uint8_t>(x[k])]);
}

struct TableSoftmax {
    int64_t axis, published;
    Rounding rounding;
    Constants constants;

    explicit TableSoftmax(const Attributes &given)
        : axis(given.integer("axis")), published(given.integer("published")),
          rounding(rounding_of(given.text("rounding"))), constants(given, 6) {}

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        void *y = context.output(0, x.shape);
        if (x.size() == 0)
            return;
        of_codes(x.type, "TableSoftmax: x", [&](auto s) {
            of_bits(constants.type(context, 3), "TableSoftmax: y_zero", [&](auto t) {
                using T = decltype(t);
                rows<decltype(s), T>(context, x, static_cast<T *>(y));
            });
        });
    }

    template <typename S, typename T>
    void rows(const Context &context, const Tensor &x, T *y) const {
        const Tensor denominators = constants.tensor(context, 1);
        const Tensor numerators = constants.tensor(context, 2);
        const size_t place = axis_of(axis, x.shape);
        if (denominators.type != INT32 || denominators.size() != CODES ||
            numerators.type != INT64 || numerators.size() != CODES)
            throw std::runtime_error("TableSoftmax: its tables have not 256 numbers each");
        const int64_t *first = numerators.as<int64_t>();
        const auto [smallest, largest] = std::minmax_element(first, first + CODES);
        must_be_from(*smallest, -EXACT, EXACT - 1, "TableSoftmax: a numerator");
        must_be_from(*largest, -EXACT, EXACT - 1, "TableSoftmax: a numerator");
        const int64_t cells = x.shape[place];
        int64_t inner = 1;
        for (size_t k = place + 1; k < x.shape.size(); k++)
            inner *= x.shape[k];
        std::vector<double> reals;
        if (rounding == Rounding::HALF_TO_EVEN && !published && *smallest >= 0)
            reals.assign(first, first + CODES);
        std::vector<float> floats;
        const int64_t least_total = std::max(denominators.as<int32_t>()[0], 1);
        if (!published && *smallest >= 0 && *largest / least_total < SMALL)
            floats.assign(first, first + CODES);
        const Quotients common = {first,
                                  1,
                                  constants.code(context, 3),
                                  constants.code(context, 4),
                                  constants.code(context, 5),
                                  rounding == Rounding::HALF_TO_EVEN,
                                  published != 0,
                                  reals.empty() ? nullptr : reals.data(),
                                  floats.empty() ? nullptr : floats.data()};
        const Row<S, T> row = published ? published_row<S, T> : row_of<S, T>(chosen_set());
        const int64_t count = static_cast<int64_t>(x.size()) / cells;
        const int64_t least = 4096 / cells + 1, parts = (count + least - 1) / least;
        context.parallel(static_cast<size_t>(parts), [&](size_t part) {
            std::vector<S> codes(inner > 1 ? cells : 0);
            std::vector<T> levels(codes.size());
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t r = begin; r < count && r < begin + least; r++) {
                const int64_t start = r / inner * cells * inner + r % inner;
                const S *given = x.as<S>() + start;
                T *found = y + start;
                if (inner == 1) {
                    row(common, denominators.as<int32_t>(), given, found, cells);
                    continue;
                }
                for (int64_t k = 0; k < cells; k++)
                    codes[k] = given[k * inner];
                row(common, denominators.as<int32_t>(), codes.data(), levels.data(), cells);
                for (int64_t k = 0; k < cells; k++)
                    found[k * inner] = levels[k];
            }
        });
    }
};

} // namespace

const Kernel TABLE_SOFTMAX = kernel<TableSoftmax>("TableSoftmax", 6, 3);

} // namespace qpasses
