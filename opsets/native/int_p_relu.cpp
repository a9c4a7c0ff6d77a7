/* IntPRelu and IntCodedPRelu: for each slope a table of what becomes of all codes. */

#include "broadcast.h"
#include "codes.h"
#include "kernels.h"
#include "lookups.h"
#include "prepared.h"
#include "rescaling.h"

namespace qpasses {
namespace {

constexpr int64_t MOST_TABLES = 1024, MOST_ENTRIES = 1 << 20; /* of bytes, and of words */

/* What is below zero becomes sign * scale(level * code). */
struct Slope {
    Rescaling scale;
    int64_t code, sign;
};

/* What stands on a node; slopes that are many have no tables. */
struct Slopes {
    Type type, y_type;
    int64_t x_zero;
    Rescaling above;
    Ends ends;
    Shape shape;
    std::vector<Slope> all;
    std::vector<uint8_t> tables;
    std::vector<double> factors; /* of slopes without tables, if double holds their products */

    bool are_bytes() const { return is_byte(type) && is_byte(y_type); }

    int64_t entries() const { return is_byte(type) ? 1 << 8 : 1 << 16; }

    /* The code that becomes of the bits of another. */
    int64_t of(const Slope &slope, int64_t bits) const {
        const int64_t code = type == INT8    ? static_cast<int8_t>(bits)
                             : type == INT16 ? static_cast<int16_t>(bits)
                                             : bits;
        const int64_t level = code - x_zero;
        const Wide below = Wide{level} * slope.code;
        return ends(level < 0 ? slope.sign * slope.scale(below) : above(level));
    }

    /* Y: the bits of a code of y. */
    template <typename Y> Y at(int64_t slope, int64_t bits) const {
        if (tables.empty())
            return static_cast<Y>(of(all[slope], bits));
        return reinterpret_cast<const Y *>(tables.data())[slope * entries() + bits];
    }
};

/* Each code by its bits; a slope goes on or stays along a run. */
template <typename X, typename Y>
void look_up_each(const Context &context, const Slopes &given, const Broadcast &both,
                  const Tensor &x, void *y) {
    both.runs(context, [&](const Run &run) {
        for (int64_t k = 0; k < run.count; k++)
            static_cast<Y *>(y)[run.y + k] =
                given.at<Y>(run.b + k * run.b_step, x.as<X>()[run.a + k * run.a_step]);
    });
}

constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */

/* The nearest integer, of a number that is one of up to 48 bits over a power of two. */
inline double nearest(double value, Rounding rounding) {
    if (rounding == Rounding::HALF_TO_EVEN)
        return value + MAGIC - MAGIC;
    const bool is_turned = rounding == Rounding::HALF_AWAY && value < 0;
    const double raised = (is_turned ? -value : value) + 0.5, whole = raised + MAGIC - MAGIC;
    const double floor = whole > raised ? whole - 1.0 : whole;
    return is_turned ? -floor : floor;
}

/* By products in double: 17 bits by 31, whose quotients by powers of two are exact. */
template <typename X, typename Y>
void scale_each(const Context &context, const Slopes &given, const Broadcast &both,
                const Tensor &x, void *y) {
    const double zero = static_cast<double>(given.x_zero), above = given.above.factor();
    const double y_zero = static_cast<double>(given.ends.zero);
    const double low = static_cast<double>(given.ends.low), high = static_cast<double>(given.ends.high);
    const Rounding rounding = given.above.rounding.usual.last;
    both.runs(context, [&](const Run &run) {
        const X *from = x.as<X>() + run.a;
        const double *factors = given.factors.data() + run.b;
        Y *to = static_cast<Y *>(y) + run.y;
        for (int64_t k = 0; k < run.count; k++) {
            const double level = static_cast<double>(from[k * run.a_step]) - zero;
            const double factor = level < 0 ? factors[k * run.b_step] : above;
            const double stored = nearest(level * factor, rounding) + y_zero;
            const double raised = stored < low ? low : stored;
            to[k] = static_cast<Y>(static_cast<int32_t>(raised > high ? high : raised));
        }
    });
}

/* The same where an end has 16 bits. */
void look_up_words(const Context &context, const Slopes &given, const Broadcast &both,
                   const Tensor &x, void *y) {
    if (!given.factors.empty() && given.type == INT16)
        return of_bits(given.y_type, "y", [&](auto code) { /* bits of int8 are those of uint8 */
            scale_each<int16_t, decltype(code)>(context, given, both, x, y);
        });
    if (!given.factors.empty())
        return of_codes(given.type, "x", [&](auto code) {
            scale_each<decltype(code), int16_t>(context, given, both, x, y);
        });
    if (is_byte(given.type))
        look_up_each<uint8_t, uint16_t>(context, given, both, x, y);
    else if (is_byte(given.y_type))
        look_up_each<uint16_t, uint8_t>(context, given, both, x, y);
    else
        look_up_each<uint16_t, uint16_t>(context, given, both, x, y);
}

/* The number at a place of a tensor that is broadcast to a shape. */
int64_t number_at(const Tensor &given, const Shape &shape, int64_t place) {
    if (given.type != INT32)
        fail("slopes that are not of int32");
    int64_t found = 0, step = 1;
    for (size_t k = 1; k <= given.shape.size(); k++) {
        const int64_t size = given.shape[given.shape.size() - k];
        const int64_t whole = shape[shape.size() - k];
        found += size == 1 ? 0 : place % whole * step;
        place /= whole;
        step *= size;
    }
    return given.as<int32_t>()[found];
}

template <bool IS_CODED> struct PRelu {
    static constexpr size_t CODE = 4, SLOPE = IS_CODED ? 5 : 4, END = SLOPE + 2;
    AnyRounding rounding;
    Prepared<Slopes> prepared;

    explicit PRelu(const Attributes &given)
        : rounding(given.text("rounding")),
          prepared(given, END + 3, [this](const Inputs &inputs) { return slopes(inputs); }) {}

    Slopes slopes(const Inputs &inputs) const {
        const auto number = [&](size_t place) { return inputs(place).number(); };
        of_stored(inputs(1).type, "a zero point", [](auto) {});
        of_stored(inputs(END).type, "a zero point", [](auto) {});
        Slopes found = {inputs(1).type, inputs(END).type, number(1), {rounding, number(2), number(3)},
                        {number(END), number(END + 1), number(END + 2)}, {}, {}, {}, {}};
        if (found.y_type != found.type && (IS_CODED || found.are_bytes()))
            fail("a slope changes the type of codes");
        const Tensor m = inputs(SLOPE), shift = inputs(SLOPE + 1), code = inputs(CODE);
        found.shape = Broadcast(Broadcast(m.shape, shift.shape).shape, code.shape).shape;
        int64_t count = 1;
        for (int64_t size : found.shape)
            count *= size;
        for (int64_t k = 0; k < count; k++) {
            const int64_t multiplier = number_at(m, found.shape, k);
            const int64_t sign = IS_CODED ? (multiplier > 0) - (multiplier < 0) : 1;
            found.all.push_back({{rounding, IS_CODED ? std::abs(multiplier) : multiplier,
                                  number_at(shift, found.shape, k)},
                                 IS_CODED ? number_at(code, found.shape, k) : 1, sign});
        }
        const int64_t entries = found.entries();
        if (count > MOST_TABLES || (!found.are_bytes() && count * entries > MOST_ENTRIES)) {
            if (!IS_CODED && !rounding.is_in_double && !rounding.usual.is_twice)
                for (const Slope &each : found.all)
                    found.factors.push_back(each.scale.factor());
            return found;
        }
        found.tables.resize(count * entries * (is_byte(found.y_type) ? 1 : 2));
        for (int64_t place = 0; place < count * entries; place++)
            store(found.y_type, found.of(found.all[place / entries], place % entries),
                  found.tables.data(), place);
        return found;
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const auto known = prepared.of(context);
        const Slopes &given = *known;
        const Broadcast both(x.shape, given.shape);
        if (x.type != given.type || both.shape != x.shape)
            fail("slopes that are not of x");
        void *output = context.output(0, x.shape);
        if (!given.are_bytes())
            return look_up_words(context, given, both, x, output);
        uint8_t *y = static_cast<uint8_t *>(output);
        size_t wide = 0, axis = 0; /* axes along which slopes differ */
        for (size_t k = 0; k < given.shape.size(); k++)
            if (given.shape[k] != 1) {
                wide++;
                axis = x.shape.size() - given.shape.size() + k;
            }
        if (given.tables.empty() || wide > 1)
            look_up_each<uint8_t, uint8_t>(context, given, both, x, y);
        else if (wide == 1)
            look_up_by_channel(context, given.tables.data(), axis, x, y);
        else
            look_up(context, given.tables.data(), x, y);
    }
};

} // namespace

const Kernel INT_P_RELU = kernel<PRelu<false>>("IntPRelu", 9, 6);
const Kernel INT_CODED_P_RELU = kernel<PRelu<true>>("IntCodedPRelu", 10, 7);

} // namespace qpasses
