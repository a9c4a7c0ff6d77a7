/* TableSoftmax: a row has at most 256 distances from its largest code, and as many levels.
   TableSoftmax16: 65,536, whose exponentials are products of those of two bytes. */

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

/* The tables of TableSoftmax16, by the bytes of a distance; low ones in parts of 2**22. */
struct TwoTables {
    double high[CODES], low[CODES];
};

constexpr int FRACTION_BITS = 22;

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

/* What TableSoftmax16 makes of the numbers of its node. */
struct Softmax16Tables {
    TwoTables tables;
    int64_t largest, multiplier, shift, zero, low, high;
    Type type;

    explicit Softmax16Tables(const Inputs &inputs)
        : multiplier(inputs(3).number()), shift(inputs(4).number()), zero(inputs(5).number()),
          low(inputs(6).number()), high(inputs(7).number()), type(inputs(5).type) {
        filled(tables.high, inputs(1), INT32_MAX, 1);
        filled(tables.low, inputs(2), 1 << FRACTION_BITS, 1.0 / (1 << FRACTION_BITS));
        largest = static_cast<int64_t>(*std::max_element(tables.high, tables.high + CODES));
        must_be_from(multiplier, 0, (1 << 30) - 1, "TableSoftmax16: its multiplier");
        must_be_from(shift, 1, 30, "TableSoftmax16: its shift");
        for (int64_t each : {zero, low, high})
            must_be_from(each, -0x8000, 0x7fff, "a zero point or an end of codes");
    }

    static void filled(double *table, const Tensor &given, int64_t most, double part) {
        if (given.type != INT32 || given.size() != CODES)
            fail("TableSoftmax16: its tables have not 256 numbers each");
        for (int64_t k = 0; k < CODES; k++) {
            const int64_t entry = given.as<int32_t>()[k];
            must_be_from(entry, 0, most, "TableSoftmax16: an entry of its tables");
            table[k] = static_cast<double>(entry) * part;
        }
    }

    Quotients quotients(Rounding rounding) const {
        Quotients made{};
        made.total = 1;
        made.zero = zero;
        made.low = low;
        made.high = high;
        /* dividends are below 2**51 then, and doubles hold what is left of them */
        made.is_even = rounding == Rounding::HALF_TO_EVEN;
        made.ratio = largest * multiplier < EXACT && made.is_even ? 1 : 0;
        return made;
    }
};

struct TableSoftmax16 {
    int64_t axis;
    Rounding rounding;
    Prepared<Softmax16Tables> prepared;

    explicit TableSoftmax16(const Attributes &given)
        : axis(given.integer("axis")), rounding(rounding_of(given.text("rounding"))),
          prepared(given, 8, [](const Inputs &inputs) { return Softmax16Tables(inputs); }) {}

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        if (x.type != INT16)
            fail("TableSoftmax16: codes that are not of 16 bits");
        void *y = context.output(0, x.shape);
        const auto tables = prepared.of(context);
        const Quotients common = tables->quotients(rounding);
        of_bits(tables->type, "TableSoftmax16: y_zero", [&](auto t) {
            using T = decltype(t);
            each_row_of<int16_t>(context, x, axis, static_cast<T *>(y),
                                 [&](const int16_t *from, int64_t cells, T *to) {
                                     row(common, *tables, from, cells, to);
                                 });
        });
    }

    template <typename T>
    static void row(const Quotients &common, const Softmax16Tables &tables, const int16_t *x,
                    int64_t cells, T *y) {
        const int64_t m = tables.multiplier, shift = tables.shift;
#if QPASSES_SETS > 1
        if (chosen_set() == AVX512)
            return avx512::softmax16_row(common, tables.tables, m, shift, x, cells, y);
        if (chosen_set() == AVX2)
            return avx2::softmax16_row(common, tables.tables, m, shift, x, cells, y);
#endif
        plain::softmax16_row(common, tables.tables, m, shift, x, cells, y);
    }
};

} // namespace

const Kernel TABLE_SOFTMAX = kernel<TableSoftmax>("TableSoftmax", 6, 3);
const Kernel TABLE_SOFTMAX16 = kernel<TableSoftmax16>("TableSoftmax16", 8, 5);

} // namespace qpasses
