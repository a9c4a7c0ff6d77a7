/* Lut16 and LutInterpolated: what a table holds for each code of 16 bits. */

#include "codes.h"
#include "kernels.h"
#include "prepared.h"
#include "rescaling.h"

namespace qpasses {
namespace {

constexpr int64_t CODES = 1 << 16, KNOTS = 513, SEGMENT = 128, PART = 1 << 14;

template <typename T>
void look_up_words(const Context &context, const T *table, const Tensor &x, void *y) {
    const int64_t count = static_cast<int64_t>(x.size());
    context.parallel((count + PART - 1) / PART, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * PART;
        const uint16_t *codes = x.as<uint16_t>();
        for (int64_t k = begin; k < std::min(count, begin + PART); k++)
            static_cast<T *>(y)[k] = table[codes[k]];
    });
}

/* ``table``: an entry of ``type`` for each code, by its bits. */
void look_up_words(const Context &context, const void *table, Type type) {
    const Tensor x = context.input(0);
    if (x.type != INT16)
        fail("a table of words for other codes");
    void *y = context.output(0, x.shape);
    if (is_byte(type))
        look_up_words(context, static_cast<const uint8_t *>(table), x, y);
    else
        look_up_words(context, static_cast<const uint16_t *>(table), x, y);
}

struct Lut16 {
    explicit Lut16(const Attributes &) {}

    void run(const Context &context) const {
        const Tensor table = context.input(1);
        of_stored(table.type, "Lut16: its table", [](auto) {});
        if (table.size() != CODES)
            fail("Lut16: its table has not 65,536 entries");
        look_up_words(context, table.data, table.type);
    }
};

/* Of all codes, as many bytes for each as the type has. */
struct Interpolated {
    Type type;
    std::vector<uint8_t> table;
};

struct LutInterpolated {
    Rounding rounding;
    Prepared<Interpolated> prepared;

    explicit LutInterpolated(const Attributes &given)
        : rounding(rounding_of(given.text("rounding"))),
          prepared(given, 6, [this](const Inputs &inputs) { return interpolated(inputs); }) {}

    Interpolated interpolated(const Inputs &inputs) const {
        const Tensor knots = inputs(1);
        if (knots.type != INT16 || knots.shape != Shape{KNOTS})
            fail("LutInterpolated: its table has not 513 entries");
        const int64_t shift = inputs(2).number();
        must_be_from(shift, 1, 62, "LutInterpolated: its shift");
        const Ends ends = {inputs(3).number(), inputs(4).number(), inputs(5).number()};
        Interpolated found = {inputs(3).type, {}};
        of_stored(found.type, "LutInterpolated: y_zero", [&](auto code) {
            found.table.resize(CODES * sizeof code);
        });
        for (int64_t place = 0; place < CODES; place++) {
            const int16_t *from = knots.as<int16_t>() + place / SEGMENT;
            const int64_t total = from[0] * SEGMENT + (from[1] - from[0]) * (place % SEGMENT);
            const int64_t bits = static_cast<uint16_t>(place - CODES / 2);
            store(found.type, ends(shifted(total, shift, rounding)), found.table.data(), bits);
        }
        return found;
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        look_up_words(context, known->table.data(), known->type);
    }
};

} // namespace

const Kernel LUT16 = kernel<Lut16>("Lut16", 2, 1);
const Kernel LUT_INTERPOLATED = kernel<LutInterpolated>("LutInterpolated", 6, 3);

} // namespace qpasses
