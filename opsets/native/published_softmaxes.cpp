/* Shiftmax and IBertSoftmax: a term for each distance from the largest code, and a quotient for
   the sum of a row. */

#include "distance_rows.h"
#include "kernels.h"
#include "published.h"
#include "requantize.h"

namespace qpasses {
namespace {

constexpr int64_t CODES = 256;

/* What stands on a node. ``summed``: terms that a sum beyond all that matters may lack of. */
struct Shares {
    std::vector<int64_t> terms, summed;
    Rescaling scale;
    Ends ends;
    Requantizer quick; /* of shares that int32 holds */

    Shares(const Requantization &rounding, const Inputs &inputs, size_t first,
           std::vector<int64_t> exponentials, int64_t most)
        : terms(std::move(exponentials)),
          scale(AnyRounding(rounding), inputs(first).number(), inputs(first + 1).number()),
          ends{inputs(first + 2).number(), inputs(first + 3).number(),
               inputs(first + 4).number()},
          quick(Requantizer::of_node(rounding, inputs, first, int64_t{1} << 31)) {
        for (int64_t term : terms) {
            must_be_from(term, 0, FARTHEST, "an exponential");
            summed.push_back(std::min(term, most));
        }
        if (quick.channels() != 1)
            fail("a Softmax with more than one multiplier");
    }

    void levels(int64_t quotient, int64_t drop, int64_t count, uint8_t *found) const {
        int64_t shares[CODES];
        int32_t narrow[CODES];
        int64_t largest = 0;
        for (int64_t k = 0; k < count; k++) {
            shares[k] = terms[k] * quotient >> drop;
            narrow[k] = static_cast<int32_t>(shares[k]);
            largest = std::max(largest, shares[k]);
        }
        if (largest <= 0x7fffffff)
            quick.of_one(0, narrow, count, found, 0);
        else
            for (int64_t k = 0; k < count; k++)
                found[k] = static_cast<uint8_t>(ends(scale(shares[k])));
    }
};

/* What both have. */
struct PublishedSoftmax {
    int64_t axis, output_bits;
    Exponential exponential;
    Requantization rounding;

    explicit PublishedSoftmax(const Attributes &given)
        : axis(given.integer("axis")), output_bits(output_bits_of(given)), exponential(given),
          rounding(given.text("rounding")) {}

    void apply(const Context &context, const Shares &shares, int64_t (*quotient)(int64_t)) const {
        const Tensor x = context.input(0);
        must_be_codes(x, "a Softmax");
        if (shares.quick.type() != x.type)
            fail("a Softmax whose results have another type");
        void *y = context.output(0, x.shape);
        by_distance(context, x, axis, shares.summed.data(),
                    [&](int64_t sum, int64_t count, uint8_t *levels) {
                        shares.levels(quotient(sum), 32 - output_bits, count, levels);
                    },
                    static_cast<uint8_t *>(y));
    }
};

struct Shiftmax : PublishedSoftmax {
    Prepared<Shares> prepared;

    explicit Shiftmax(const Attributes &given)
        : PublishedSoftmax(given), prepared(given, 6, [this](const Inputs &inputs) {
              std::vector<int64_t> terms;
              for (int64_t distance = 0; distance < CODES; distance++)
                  terms.push_back(exponential.by_shifts(-distance));
              return Shares(rounding, inputs, 1, std::move(terms), LARGEST_SUM);
          }) {}

    void run(const Context &context) const {
        apply(context, *prepared.of(context), [](int64_t sum) {
            return LARGEST_SUM / std::min(std::max<int64_t>(sum, 1), LARGEST_SUM);
        });
    }
};

struct IBertSoftmax : PublishedSoftmax {
    static constexpr int64_t UNIT = int64_t{1} << 32;
    int64_t b, c;
    Prepared<Shares> prepared;

    explicit IBertSoftmax(const Attributes &given)
        : PublishedSoftmax(given), b(given.integer("b")), c(given.integer("c")),
          prepared(given, 8, [this](const Inputs &inputs) {
              must_be_from(b, 0, (1 << 20) - 1, "b");
              must_be_from(c, 1, (1 << 30) - 1, "c");
              const Rescaling scale(AnyRounding("half_to_even"), inputs(1).number(),
                                    inputs(2).number());
              std::vector<int64_t> terms;
              for (int64_t distance = 0; distance < CODES; distance++)
                  terms.push_back(scale(exponential.by_polynomial(-distance, b, c)));
              return Shares(rounding, inputs, 3, std::move(terms), 2 * UNIT);
          }) {}

    void run(const Context &context) const {
        apply(context, *prepared.of(context),
              [](int64_t sum) { return UNIT / std::max<int64_t>(sum, 1); });
    }
};

} // namespace

const Kernel SHIFTMAX = kernel<Shiftmax>("Shiftmax", 6, 3);
const Kernel I_BERT_SOFTMAX = kernel<IBertSoftmax>("IBertSoftmax", 8, 5);

} // namespace qpasses
