/* IntMatMul: products of stored matrices, the right ones packed as they come. */

#include "codes.h"
#include "kernels.h"
#include "matrices.h"
#include "word_matrices.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace qpasses {
namespace {

constexpr size_t MOST_KNOWN = 64;
constexpr int64_t MOST_PRODUCTS = 1 << 30; /* more of words are beyond double all the same */

/* Matrices of two operands that are broadcast together: where each begins. */
struct Batches {
    Shape shape;
    std::vector<int64_t> a, b;
};

Batches batches_of(const Shape &a, const Shape &b) {
    const size_t rank = std::max(a.size(), b.size()) - 2;
    const auto size_of = [&](const Shape &each, size_t axis) -> int64_t {
        const size_t more = rank + 2 - each.size();
        return axis < more ? 1 : each[axis - more];
    };
    Batches found;
    int64_t count = 1;
    for (size_t k = 0; k < rank; k++) {
        const int64_t one = size_of(a, k), other = size_of(b, k);
        if (one != other && one != 1 && other != 1)
            fail("IntMatMul: operands that do not broadcast together");
        found.shape.push_back(one == 1 ? other : one);
        count *= found.shape.back();
    }
    found.a.reserve(count);
    found.b.reserve(count);
    for (int64_t place = 0; place < count; place++) {
        int64_t rest = place, from_a = 0, from_b = 0, a_step = 1, b_step = 1;
        for (size_t k = rank; k-- > 0;) {
            const int64_t at = rest % found.shape[k];
            rest /= found.shape[k];
            from_a += size_of(a, k) == 1 ? 0 : at * a_step;
            from_b += size_of(b, k) == 1 ? 0 : at * b_step;
            a_step *= size_of(a, k);
            b_step *= size_of(b, k);
        }
        found.a.push_back(from_a);
        found.b.push_back(from_b);
    }
    return found;
}

struct IntMatMul {
    Requantization rounding;
    Constants constants;
    mutable std::mutex one_at_a_time;
    mutable std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const Requantized>> known;

    explicit IntMatMul(const Attributes &given)
        : rounding(given.text("rounding")), constants(given, 9) {}

    /* Columns of sums of so many products: made once for each number of these. */
    std::shared_ptr<const Requantized> after(const Context &context, int64_t inner,
                                             int64_t columns) const {
        const bool is_constant = constants.are_known(1, 1) && constants.are_known(4, 8);
        const std::lock_guard<std::mutex> alone(one_at_a_time);
        const std::pair<int64_t, int64_t> key(inner, columns);
        if (const auto found = known.find(key); is_constant && found != known.end())
            return found->second;
        const auto tensor = [&](size_t place) { return constants.tensor(context, place); };
        must_be_codes(tensor(1), "IntMatMul: a_zero");
        const int64_t zero = tensor(1).number() + (tensor(1).type == INT8 ? 128 : 0);
        must_be_from(inner, 0, INT32_MAX, "IntMatMul: its products");
        const int64_t reach = std::max(zero, 255 - zero) * 255 * inner;
        const Requantized one(rounding, numbers_of(tensor(4), 1), numbers_of(tensor(5), 1),
                              Integers(), tensor(6).number(), tensor(7).number(),
                              tensor(8).number(), std::vector<Span>{{-reach, reach}});
        const auto made = std::make_shared<const Requantized>(one.repeated(columns));
        if (known.size() >= MOST_KNOWN)
            known.clear();
        if (is_constant)
            known[key] = made;
        return made;
    }

    static void shape(const Inference &given, Sizes &sizes) {
        Sizes other = given.input(2);
        sizes.is_known = sizes.is_known && other.is_known;
        if (sizes.rank < 2 || other.rank < 2)
            return;
        const size_t last = other.rank - 1;
        const int64_t columns = other.numbers[last], rows = sizes.numbers[sizes.rank - 2];
        const char *named = other.names[last], *rows_named = sizes.names[sizes.rank - 2];
        sizes.rank -= 2;
        other.rank -= 2;
        sizes.join(other);
        sizes.numbers[sizes.rank] = rows;
        sizes.names[sizes.rank++] = rows_named;
        sizes.numbers[sizes.rank] = columns;
        sizes.names[sizes.rank++] = named;
    }

    void run(const Context &context) const {
        const auto number = [&](size_t place) { return constants(context, place); };
        const auto tensor = [&](size_t place) { return context.input(place); };
        const Tensor a = tensor(0), b = tensor(2);
        const Type type = constants.type(context, 6);
        if (constants.type(context, 1) != a.type || constants.type(context, 3) != b.type)
            fail("IntMatMul: an operand has not the type of its zero point");
        const bool has_words = a.type == INT16 || b.type == INT16 || type == INT16;
        if (!has_words) {
            must_be_codes(a, "IntMatMul: a");
            must_be_codes(b, "IntMatMul: b");
        }
        if (a.shape.size() < 2 || b.shape.size() < 2 ||
            a.shape.back() != b.shape[b.shape.size() - 2])
            fail("IntMatMul: operands that do not multiply");
        const int64_t count = a.shape[a.shape.size() - 2], inner = a.shape.back();
        const int64_t columns = b.shape.back();
        const Batches batches = batches_of(a.shape, b.shape);
        Shape shape = batches.shape;
        shape.push_back(count);
        shape.push_back(columns);
        if (has_words) {
            words(context, batches, context.output(0, shape), count, inner, columns);
            return;
        }
        uint8_t *y = static_cast<uint8_t *>(context.output(0, shape));
        const bool a_signed = a.type == INT8, b_signed = b.type == INT8;
        const int64_t a_zero = number(1) + (a_signed ? 128 : 0);
        const int64_t b_zero = number(3) - (b_signed ? 0 : 128);
        const auto of_sums = after(context, inner, columns);
        const int64_t all = static_cast<int64_t>(batches.a.size());
        const int64_t least = WORK / (count * columns * (inner + OUTPUT) + 1) + 1;
        context.parallel((all + least - 1) / least, [&](size_t part) {
            RightMatrix right;
            std::vector<int32_t> of_columns(padded(columns, LANES)), of_rows(b_zero ? count : 0);
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t batch = begin; batch < std::min(all, begin + least); batch++) {
                right.pack(b.as<uint8_t>() + batches.b[batch] * inner * columns, b_signed, 1,
                           inner, columns);
                for (int64_t n = 0; n < columns; n++)
                    of_columns[n] = static_cast<int32_t>(-a_zero * right.sums[n]);
                const LeftMatrix rows(a.as<uint8_t>() + batches.a[batch] * count * inner,
                                      a_signed, count, inner);
                for (size_t r = 0; r < of_rows.size(); r++)
                    of_rows[r] = static_cast<int32_t>(b_zero * (inner * a_zero - rows.sum(r)));
                multiply(rows.rows(), right, *of_sums,
                         {of_columns.data(), b_zero ? of_rows.data() : nullptr},
                         y + batch * count * columns, columns);
            }
        });
    }

    /* The same where one of the types has 16 bits. */
    void words(const Context &context, const Batches &batches, void *y, int64_t count,
               int64_t inner, int64_t columns) const {
        const auto code_at = [&](size_t place) { return constants.code(context, place); };
        const auto first_of = [&](size_t place) {
            return numbers_of(constants.tensor(context, place), 1)[0];
        };
        const Tensor a = context.input(0), b = context.input(2);
        const int64_t a_zero = code_at(1), b_zero = code_at(3);
        must_be_from(inner, 0, INT32_MAX, "IntMatMul: its products");
        const int64_t largest = furthest(a.type, a_zero) * furthest(b.type, b_zero);
        const WordCodes codes(rounding, first_of(4), first_of(5),
                              {code_at(6), code_at(7), code_at(8)}, constants.type(context, 6),
                              largest * std::min<int64_t>(inner, MOST_PRODUCTS));
        const int64_t all = static_cast<int64_t>(batches.a.size());
        const int64_t least = WORK / (count * columns * (inner + OUTPUT) + 1) + 1;
        context.parallel((all + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t batch = begin; batch < std::min(all, begin + least); batch++) {
                const int64_t from_a = batches.a[batch] * count * inner;
                const int64_t from_b = batches.b[batch] * inner * columns;
                multiply(left_levels(a, from_a, a_zero, count, inner),
                         right_levels(b, from_b, b_zero, inner, columns), count, inner, columns,
                         codes, y, batch * count * columns);
            }
        });
    }
};

} // namespace

const Kernel INT_MAT_MUL = shaping<IntMatMul>("IntMatMul", 9, 6);

} // namespace qpasses
