/* IntRescaledAdd and IntRescaledSub: each operand is rounded before both are added, so that
   there is a table of the terms of all codes; their sum is rounded again. */

#include "broadcast.h"
#include "codes.h"
#include "instruction_sets.h"
#include "kernels.h"
#include "requantize.h"

#include <optional>

namespace qpasses {
namespace {

constexpr int64_t BLOCK = 512, LARGEST_TERM = (1 << 30) - 1; /* int32 holds the sum of two */

#define LOOPS "term_loops.h"
#include "each_set.h"

/* What is added for a code, by its bits. */
struct Terms {
    Type type;
    std::vector<int64_t> exact;
    std::vector<int32_t> narrow; /* the same, where all are small */
    int64_t largest = 0;

    template <typename Term> Terms(Type given, Term term) : type(given) {
        of_stored(type, "an operand", [&](auto code) {
            using T = decltype(code);
            for (int64_t bits = 0; bits < int64_t{1} << 8 * sizeof(T); bits++) {
                exact.push_back(term(static_cast<T>(bits)));
                largest = std::max(largest, std::abs(exact.back()));
            }
        });
        if (largest <= LARGEST_TERM)
            narrow.assign(exact.begin(), exact.end());
    }

    int64_t of(const Tensor &x, int64_t place) const {
        return exact[is_byte(type) ? x.as<uint8_t>()[place] : x.as<uint16_t>()[place]];
    }

    void add(const Tensor &x, int64_t from, int64_t count, int32_t *totals) const {
        if (is_byte(type))
            BEST(add_terms<uint8_t>)(narrow.data(), x.as<uint8_t>() + from, count, totals);
        else
            BEST(add_terms<uint16_t>)(narrow.data(), x.as<uint16_t>() + from, count, totals);
    }
};

/* What stands on a node. ``quick``: of sums in int32, where they are that small. */
struct Numbers {
    Terms a, b;
    Rescaling scale;
    Ends ends;
    Type type;
    std::optional<Requantizer> quick;
};

/* Of a and b, or with sign -1 their difference. */
struct RescaledSum {
    int64_t sign;
    AnyRounding rounding;
    Prepared<Numbers> prepared;

    explicit RescaledSum(const Attributes &given, int64_t sign_of_b = 1)
        : sign(sign_of_b), rounding(given.text("rounding")),
          prepared(given, 14, [this](const Inputs &inputs) { return numbers(inputs); }, 2) {}

    Numbers numbers(const Inputs &inputs) const {
        const auto number = [&](size_t place) { return inputs(place).number(); };
        const int64_t left = number(4);
        must_be_from(left, 0, 31, "a left shift");
        of_stored(inputs(11).type, "a sum", [](auto) {});
        const auto terms = [&](size_t zero, size_t scale, int64_t with) {
            const int64_t x_zero = inputs(zero).number();
            const Rescaling scaled = {rounding, number(scale), number(scale + 1)};
            return Terms(inputs(zero).type, [&](int64_t code) {
                return with * scaled((code - x_zero) * (int64_t{1} << left));
            });
        };
        Numbers found = {terms(1, 5, 1), terms(3, 7, sign), {rounding, number(9), number(10)},
                         {number(11), number(12), number(13)}, inputs(11).type, {}};
        const int64_t largest = found.a.largest + found.b.largest;
        const double product = std::ldexp(static_cast<double>(found.scale.multiplier), -52) *
                               static_cast<double>(largest);
        const bool is_exact = !rounding.is_in_double || std::abs(product) < 1;
        if (!found.a.narrow.empty() && !found.b.narrow.empty() && is_exact)
            found.quick.emplace(rounding.usual,
                                std::vector<int32_t>{static_cast<int32_t>(number(9))},
                                std::vector<int32_t>{static_cast<int32_t>(number(10))},
                                found.ends, found.type, largest);
        return found;
    }

    void run(const Context &context) const {
        const Tensor a = context.input(0), b = context.input(2);
        const auto known = prepared.of(context);
        const Numbers &given = *known;
        if (a.type != given.a.type || b.type != given.b.type)
            fail("an operand has not the type of its zero point");
        const Broadcast both(a.shape, b.shape);
        void *y = context.output(0, both.shape);
        both.runs(context, [&](const Run &run) {
            if (given.quick)
                blocks(given, a, b, run, y);
            else
                exactly(given, a, b, run, y);
        });
    }

    static void blocks(const Numbers &given, const Tensor &a, const Tensor &b, const Run &run,
                       void *y) {
        int32_t totals[BLOCK];
        for (int64_t k = 0; k < run.count; k += BLOCK) {
            const int64_t some = std::min(BLOCK, run.count - k);
            const int64_t alike = (run.a_step ? 0 : given.a.of(a, run.a)) +
                                  (run.b_step ? 0 : given.b.of(b, run.b));
            std::fill(totals, totals + some, static_cast<int32_t>(alike));
            if (run.a_step)
                given.a.add(a, run.a + k, some, totals);
            if (run.b_step)
                given.b.add(b, run.b + k, some, totals);
            given.quick->of_one(0, totals, some, y, run.y + k);
        }
    }

    static void exactly(const Numbers &given, const Tensor &a, const Tensor &b, const Run &run,
                        void *y) {
        for (int64_t k = 0; k < run.count; k++) {
            const int64_t total = given.a.of(a, run.a + k * run.a_step) +
                                  given.b.of(b, run.b + k * run.b_step);
            store(given.type, given.ends(given.scale(total)), y, run.y + k);
        }
    }
};

struct RescaledDifference : RescaledSum {
    explicit RescaledDifference(const Attributes &given) : RescaledSum(given, -1) {}
};

} // namespace

const Kernel INT_RESCALED_ADD = broadcasting<RescaledSum>("IntRescaledAdd", 14, 11, 2);
const Kernel INT_RESCALED_SUB = broadcasting<RescaledDifference>("IntRescaledSub", 14, 11, 2);

} // namespace qpasses
