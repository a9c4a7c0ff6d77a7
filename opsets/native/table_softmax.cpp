/* TableSoftmax: a row has at most 256 distances from its largest code, and as many levels. */

#include "instruction_sets.h"
#include "kernel.h"
#include "kernels.h"
#include "prepared.h"
#include "rows.h"
#include "rounding.h"

#include <algorithm>
#include <cmath>
#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

constexpr int64_t CODES = 256;
constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */
constexpr float NEAR = 12582912.0F;         /* 3 * 2**22, likewise */
constexpr int64_t SMALL = 512;               /* levels: float32 has them to 2**-13, half of */
constexpr float DOUBT = 0.000244140625F, NEAR_DOUBT = 2 * DOUBT;
constexpr int64_t FARTHEST = 1 << 21;        /* levels that NEAR rounds; all become codes */
constexpr int64_t EXACT = int64_t{1} << 51;  /* doubles hold twice as much */

struct Quotients {
    const int32_t *denominators;
    const int64_t *numerators;
    const double *reals; /* the numerators in double, if it holds them and ties go to even */
    const float *floats; /* and in float32, if the levels of codes are small */
    const uint8_t (*bytes)[CODES]; /* of denominators */
    double ratio;                  /* of which numerators are nearly a multiple, or 0 */
    int64_t total, zero, low, high;
    bool is_even, is_floored;
};

#define LOOPS "softmax_loops.h"
#include "each_set.h"
#if QPASSES_SETS > 1
BEGIN_AVX512
namespace avx512 {
#include "avx512_lookup.h"
#include "avx512_softmax.h"
}
END_SET
#endif

/* Indexed by the bytes of codes, and truncated. */
template <typename S, typename T>
void published_row(const Quotients &common, const S *x, T *y, int64_t cells) {
    int64_t total = 0;
    for (int64_t k = 0; k < cells; k++)
        total += common.denominators[static_cast<uint8_t>(x[k])];
    Quotients given = common;
    given.total = total > 1 ? total : 1;
    int16_t levels[CODES];
    plain::levels_of(given, given.numerators, CODES, levels);
    for (int64_t k = 0; k < cells; k++)
        y[k] = static_cast<T>(levels[static_cast<uint8_t>(x[k])]);
}

/* The tables of a node, by distance from the largest code. */
struct SoftmaxTables {
    std::vector<int32_t> denominators;
    std::vector<int64_t> numerators;
    std::vector<double> reals;
    std::vector<float> floats;
    uint8_t bytes[4][CODES];
    double ratio = 0;
    int64_t zero, low, high;
    Type type;

    SoftmaxTables(const Inputs &inputs, Rounding rounding, bool is_published)
        : zero(inputs(3).number()), low(inputs(4).number()), high(inputs(5).number()),
          type(inputs(3).type) {
        const Tensor below = inputs(1), above = inputs(2);
        if (below.type != INT32 || below.size() != CODES || above.type != INT64 ||
            above.size() != CODES)
            fail("TableSoftmax: its tables have not 256 numbers each");
        denominators.assign(below.as<int32_t>(), below.as<int32_t>() + CODES);
        numerators.assign(above.as<int64_t>(), above.as<int64_t>() + CODES);
        for (int64_t each : {zero, low, high})
            must_be_from(each, -0x8000, 0x7fff, "a zero point or an end of codes");
        for (int64_t each : numerators)
            must_be_from(each, -EXACT, EXACT - 1, "TableSoftmax: a numerator");
        const auto [smallest, largest] = std::minmax_element(numerators.begin(), numerators.end());
        const int64_t least_total = std::max(denominators[0], 1);
        if (is_published || *smallest < 0)
            return;
        if (rounding == Rounding::HALF_TO_EVEN)
            reals.assign(numerators.begin(), numerators.end());
        if (high - zero >= SMALL || *largest / least_total >= FARTHEST)
            return;
        floats.assign(numerators.begin(), numerators.end());
        find_ratio(static_cast<double>(least_total));
    }

    /* A level by it is as near as float32 has the denominator, the ratio, the total and two
       products, and as the numerator is to a multiple. */
    void find_ratio(double least_total) {
        if (*std::min_element(denominators.begin(), denominators.end()) < 0)
            return;
        const double found = static_cast<double>(numerators[0]) / least_total;
        double farthest = 0;
        for (int64_t k = 0; k < CODES; k++) {
            const double multiple = found * denominators[k];
            farthest = std::max(farthest, std::abs(numerators[k] - multiple));
            for (int n = 0; n < 4; n++)
                bytes[n][k] = static_cast<uint8_t>(denominators[k] >> 8 * n);
        }
        ratio = farthest / least_total <= DOUBT ? found : 0;
    }

    Quotients quotients(Rounding rounding, bool is_published) const {
        return {denominators.data(),
                numerators.data(),
                reals.empty() ? nullptr : reals.data(),
                floats.empty() ? nullptr : floats.data(),
                bytes,
                ratio,
                1,
                zero,
                low,
                high,
                rounding == Rounding::HALF_TO_EVEN,
                is_published};
    }
};

struct TableSoftmax {
    int64_t axis, published;
    Rounding rounding;
    Prepared<SoftmaxTables> prepared;

    explicit TableSoftmax(const Attributes &given)
        : axis(given.integer("axis")), published(given.integer("published")),
          rounding(rounding_of(given.text("rounding"))),
          prepared(given, 6, [this](const Inputs &inputs) {
              return SoftmaxTables(inputs, rounding, published != 0);
          }) {}

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        void *y = context.output(0, x.shape);
        const auto tables = prepared.of(context);
        const Quotients common = tables->quotients(rounding, published != 0);
        of_bits(tables->type, "TableSoftmax: y_zero", [&](auto t) {
            using T = decltype(t);
            each_row(context, x, axis, static_cast<T *>(y),
                     [&](const auto *from, int64_t cells, T *to) { row(common, from, to, cells); });
        });
    }

    template <typename S, typename T>
    void row(const Quotients &common, const S *x, T *y, int64_t cells) const {
        if (published)
            return published_row(common, x, y, cells);
#if QPASSES_SETS > 1
        if constexpr (sizeof(T) == 1)
            if (common.ratio > 0 && chosen_set() == AVX512)
                return avx512::near_softmax_row(common, S(-1) < 0 ? 0x80 : 0,
                                                reinterpret_cast<const uint8_t *>(x), y, cells);
        if (chosen_set() != PLAIN) /* other rows have no loop of their own in AVX-512 */
            return avx2::softmax_row(common, x, y, cells);
#endif
        plain::softmax_row(common, x, y, cells);
    }
};

} // namespace

const Kernel TABLE_SOFTMAX = kernel<TableSoftmax>("TableSoftmax", 6, 3);

} // namespace qpasses
