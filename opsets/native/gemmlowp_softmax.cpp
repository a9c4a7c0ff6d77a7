/* GemmlowpSoftmax: an exponential for each distance from the largest code, and a reciprocal for
   the sum of a row, in gemmlowp's fixed point: see opsets/gemmlowp.py. */

#include "distance_rows.h"
#include "kernels.h"
#include "prepared.h"
#include "rescaling.h"

namespace qpasses {
namespace {

constexpr int64_t CODES = 256, ONE = 0x7fffffff, ONE_OF_2 = int64_t{1} << 29;
constexpr int64_t ONE_OF_SUM = int64_t{1} << 19, LARGEST = (int64_t{1} << 28) - 1;
constexpr int64_t START = 1515870810, SLOPE = 1010580540; /* 48 / 17 and 32 / 17 */

/* The high half of a doubled product; ties go up, of negatives too. */
int64_t high(int64_t a, int64_t b) { return (a * b + (int64_t{1} << 30)) >> 31; }

/* About 1 / total, of a sum from 1 to less than 512, and by how many places it is too large. */
struct Reciprocal {
    int64_t share, places = 0;

    explicit Reciprocal(int64_t total) {
        while (total >> places >= 2 * ONE_OF_SUM)
            places++;
        const int64_t half = (total << (12 - places)) >> 1;
        int64_t x = START + high(half, -SLOPE);
        for (int step = 0; step < 3; step++)
            x += high(x, ONE_OF_2 - high(half, x)) * 4;
        share = std::min(2 * x, ONE);
    }
};

/* What stands on a node. */
struct Shares {
    std::vector<int64_t> terms, summed;
    Ends ends;
    Type type;

    explicit Shares(const Inputs &inputs)
        : ends{inputs(2).number(), inputs(3).number(), inputs(4).number()},
          type(inputs(2).type) {
        const Tensor exponentials = inputs(1);
        if (exponentials.type != INT32 || exponentials.size() != CODES)
            fail("a Softmax without 256 exponentials");
        for (int64_t k = 0; k < CODES; k++) {
            const int64_t term = exponentials.as<int32_t>()[k];
            must_be_from(term, 0, ONE, "an exponential");
            terms.push_back(term);
            summed.push_back((term + 2048) >> 12);
        }
    }

    void levels(int64_t sum, int64_t count, uint8_t *found) const {
        const Reciprocal one_over(std::min(std::max(sum, ONE_OF_SUM), LARGEST));
        const int64_t half_step = int64_t{1} << (22 + one_over.places);
        for (int64_t k = 0; k < count; k++) {
            const int64_t wanted = high(one_over.share, terms[k]) + half_step;
            found[k] = static_cast<uint8_t>(ends(wanted >> (23 + one_over.places)));
        }
    }
};

struct GemmlowpSoftmax {
    int64_t axis;
    Prepared<Shares> prepared;

    explicit GemmlowpSoftmax(const Attributes &given)
        : axis(given.integer("axis")),
          prepared(given, 5, [](const Inputs &inputs) { return Shares(inputs); }) {}

    void run(const Context &context) const {
        const Tensor x = context.input(0);
        must_be_codes(x, "a Softmax");
        const auto shares = prepared.of(context);
        if (shares->type != x.type)
            fail("a Softmax whose results have another type");
        void *y = context.output(0, x.shape);
        by_distance(context, x, axis, shares->summed.data(),
                    [&](int64_t sum, int64_t count, uint8_t *levels) {
                        shares->levels(sum, count, levels);
                    },
                    static_cast<uint8_t *>(y));
    }
};

} // namespace

const Kernel GEMMLOWP_SOFTMAX = kernel<GemmlowpSoftmax>("GemmlowpSoftmax", 5, 3);

} // namespace qpasses
