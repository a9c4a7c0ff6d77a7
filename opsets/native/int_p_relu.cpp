/* IntPRelu and IntCodedPRelu: for each slope a table of what becomes of all codes. */

#include "broadcast.h"
#include "codes.h"
#include "kernels.h"
#include "lookups.h"
#include "prepared.h"
#include "rescaling.h"

namespace qpasses {
namespace {

constexpr int64_t ENTRIES = 256, MOST_TABLES = 1024;

/* What is below zero becomes sign * scale(level * code). */
struct Slope {
    Rescaling scale;
    int64_t code, sign;
};

/* What stands on a node; slopes that are many have no tables. */
struct Slopes {
    Type type;
    int64_t x_zero;
    Rescaling above;
    Ends ends;
    Shape shape;
    std::vector<Slope> all;
    std::vector<uint8_t> tables;

    uint8_t of(const Slope &slope, uint8_t byte) const {
        const int64_t code = type == INT8 ? static_cast<int8_t>(byte) : byte;
        const int64_t level = code - x_zero;
        const Wide below = Wide{level} * slope.code;
        return static_cast<uint8_t>(
            ends(level < 0 ? slope.sign * slope.scale(below) : above(level)));
    }

    uint8_t at(int64_t slope, uint8_t byte) const {
        return tables.empty() ? of(all[slope], byte) : tables[slope * ENTRIES + byte];
    }
};

/* The number at a place of a tensor that is broadcast to a shape. */
int64_t number_at(const Tensor &given, const Shape &shape, int64_t place) {
    if (given.type != INT32)
        throw std::runtime_error("slopes that are not of int32");
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
        must_be_codes(inputs(1), "a zero point");
        Slopes found = {inputs(1).type, number(1), {rounding, number(2), number(3)},
                        {number(END), number(END + 1), number(END + 2)}, {}, {}, {}};
        if (inputs(END).type != found.type)
            throw std::runtime_error("a slope changes the type of codes");
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
        for (int64_t k = 0; k < count && count <= MOST_TABLES; k++)
            for (int64_t byte = 0; byte < ENTRIES; byte++)
                found.tables.push_back(found.of(found.all[k], static_cast<uint8_t>(byte)));
        return found;
    }

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        const auto known = prepared.of(context);
        const Slopes &given = *known;
        must_be_codes(x, "a slope");
        const Broadcast both(x.shape, given.shape);
        if (x.type != given.type || both.shape != x.shape)
            throw std::runtime_error("slopes that are not of x");
        uint8_t *y = static_cast<uint8_t *>(context.output(0, x.shape));
        size_t wide = 0, axis = 0; /* axes along which slopes differ */
        for (size_t k = 0; k < given.shape.size(); k++)
            if (given.shape[k] != 1) {
                wide++;
                axis = x.shape.size() - given.shape.size() + k;
            }
        if (given.tables.empty() || wide > 1)
            both.runs(context, [&](const Run &run) {
                for (int64_t k = 0; k < run.count; k++)
                    y[run.y + k] = given.at(run.b + k * run.b_step,
                                            x.as<uint8_t>()[run.a + k * run.a_step]);
            });
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
