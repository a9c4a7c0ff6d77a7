/* ShiftGelu and IBertGelu: tables of all codes, of the one for each largest code of a row. */

#include "instruction_sets.h"
#include "kernels.h"
#include "lookups.h"
#include "prepared.h"
#include "published.h"
#include "rows.h"

namespace qpasses {
namespace {

constexpr int64_t CODES = 256;

#define LOOPS "largest_code.h"
#include "each_set.h"

/* What stands on a node, in its inputs from 1 on: a product becomes a code. */
struct Products {
    int64_t x_zero, first; /* the least code */
    Rescaling scale;
    Ends ends;
    Type type;
    std::vector<uint8_t> table;

    Products(const Requantization &rounding, const Inputs &inputs)
        : x_zero(inputs(1).number()), first(inputs(1).type == INT8 ? -128 : 0),
          scale(AnyRounding(rounding), inputs(2).number(), inputs(3).number()),
          ends{inputs(4).number(), inputs(5).number(), inputs(6).number()},
          type(inputs(4).type) {
        must_be_codes(inputs(1), "a zero point");
        if (inputs(1).type != type)
            fail("a Gelu whose results have another type");
    }

    uint8_t of(Wide product) const { return static_cast<uint8_t>(ends(scale(product))); }
};

Tensor checked(const Context &context, const Products &given) {
    const Tensor x = context.input(0);
    if (x.type != given.type)
        fail("a Gelu of codes of another type");
    return x;
}

struct ShiftGelu {
    int64_t axis, output_bits;
    Exponential exponential;
    Requantization rounding;
    Prepared<Products> prepared;

    explicit ShiftGelu(const Attributes &given)
        : axis(given.integer("axis")), output_bits(output_bits_of(given)), exponential(given),
          rounding(given.text("rounding")),
          prepared(given, 7, [this](const Inputs &inputs) { return products(inputs); }) {}

    /* A row for each largest code, of all codes by their bytes: those up to it. */
    Products products(const Inputs &inputs) const {
        Products found(rounding, inputs);
        int64_t terms[CODES];
        for (int64_t distance = 0; distance < CODES; distance++)
            terms[distance] = exponential.by_shifts(-distance);
        found.table.resize(CODES * CODES);
        for (int64_t top = 0; top < CODES; top++) {
            const int64_t other = exponential.by_shifts(found.x_zero - found.first - top);
            for (int64_t each = 0; each <= top; each++) {
                const int64_t term = terms[top - each], code = found.first + each;
                const int64_t share = LARGEST_SUM / std::min(term + other, LARGEST_SUM);
                found.table[top * CODES + static_cast<uint8_t>(code)] =
                    found.of(Wide{code - found.x_zero} * (term * share >> (32 - output_bits)));
            }
        }
        return found;
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const Products &given = *known;
        const Tensor x = checked(context, given);
        const Look look = look_of(chosen_set());
        each_row(context, x, axis, static_cast<uint8_t *>(context.output(0, x.shape)),
                 [&](const auto *codes, int64_t cells, uint8_t *found) {
                     using S = std::decay_t<decltype(*codes)>;
                     const int64_t top = BEST(largest<S>)(codes, cells);
                     look(given.table.data() + (top - given.first) * CODES,
                          reinterpret_cast<const uint8_t *>(codes), found, cells);
                 });
    }
};

struct IBertGelu {
    static constexpr int64_t MANY = int64_t{1} << 31;
    int64_t b, c, one, bits;
    Requantization rounding;
    Prepared<Products> prepared;

    explicit IBertGelu(const Attributes &given)
        : b(given.integer("b")), c(given.integer("c")), one(given.integer("one")),
          bits(given.integer("fraction_bits")), rounding(given.text("rounding")),
          prepared(given, 7, [this](const Inputs &inputs) { return products(inputs); }) {}

    Products products(const Inputs &inputs) const {
        must_be_from(b, -MANY, -1, "b");
        must_be_from(c, 1 - MANY, -1, "c");
        must_be_from(one, -MANY, MANY - 1, "one");
        must_be_from(bits, 1, 30, "fraction_bits");
        Products found(rounding, inputs);
        found.table.resize(CODES);
        for (int64_t code = found.first; code < found.first + CODES; code++) {
            const int64_t level = code - found.x_zero;
            const int64_t nearer = std::min(std::abs(level), -b) + b;
            const int64_t polynomial = nearer * nearer + c;
            const int64_t sign = (level > 0) - (level < 0);
            const int64_t erf = (sign * polynomial) >> bits;
            found.table[static_cast<uint8_t>(code)] = found.of(-Wide{level} * (erf + one));
        }
        return found;
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const Tensor x = checked(context, *known);
        void *y = context.output(0, x.shape);
        look_up(context, known->table.data(), x, static_cast<uint8_t *>(y));
    }
};

} // namespace

const Kernel SHIFT_GELU = kernel<ShiftGelu>("ShiftGelu", 7, 4);
const Kernel I_BERT_GELU = kernel<IBertGelu>("IBertGelu", 7, 4);

} // namespace qpasses
