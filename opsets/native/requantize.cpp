/* Requantize: sums of int32 as codes. */

#include "requantize.h"
#include "instruction_sets.h"
#include "kernels.h"

#include <algorithm>

namespace qpasses {
namespace {

constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */

#define LOOPS "requantize_loops.h"
#include "each_set.h"

using Loop = void (*)(const Factors &, const int32_t *, int64_t, int16_t *);
enum class Way { OF_SMALL, IN_DOUBLE, IN_64_BITS, TWICE };

template <Rounding ROUNDING, bool IS_ONE> Loop loop_of(Way way) {
    if (way == Way::OF_SMALL)
        return BEST(of_small<ROUNDING, IS_ONE>);
    if (way == Way::IN_DOUBLE)
        return BEST(in_double<ROUNDING, IS_ONE>);
    if constexpr (ROUNDING != Rounding::HALF_TO_EVEN)
        if (way == Way::TWICE)
            return BEST(twice<ROUNDING, IS_ONE>);
    return BEST(in_64_bits<ROUNDING, IS_ONE>);
}

template <bool IS_ONE> Loop loop_of(Way way, Rounding rounding) {
    switch (rounding) {
    case Rounding::HALF_TO_EVEN:
        return loop_of<Rounding::HALF_TO_EVEN, IS_ONE>(way);
    case Rounding::HALF_UP:
        return loop_of<Rounding::HALF_UP, IS_ONE>(way);
    default:
        return loop_of<Rounding::HALF_AWAY, IS_ONE>(way);
    }
}

constexpr double LARGEST_LEVEL = 1 << 30;
constexpr int64_t BITS = 51; /* of products that doubles hold beside a half */

/* Whether doubles hold the products, or these are, once they do not, levels of more bits than
   codes and their zero points have. */
bool fits_double(int64_t multiplier, int64_t shift, int64_t largest, int64_t bits_of_codes) {
    const int64_t size = multiplier < 0 ? -multiplier : multiplier;
    return size <= (int64_t{1} << BITS) / std::max<int64_t>(largest, 1) ||
           shift + bits_of_codes + 2 <= BITS;
}

} // namespace

Requantizer::Requantizer(const Requantization &rounding, std::vector<int32_t> multipliers,
                         std::vector<int32_t> shifts, const Ends &ends, Type type,
                         int64_t largest)
    : multipliers_(std::move(multipliers)), shifts_(std::move(shifts)), ends_(ends), type_(type) {
    Way way = rounding.is_twice ? Way::TWICE : Way::OF_SMALL;
    for (size_t k = 0; k < channels(); k++) {
        must_be_from(shifts_[k], 0, 62, "a shift");
        must_be_from(multipliers_[k], -0x7fffffff, 0x7fffffff, "a multiplier");
        scales_.push_back(std::ldexp(multipliers_[k], -shifts_[k]));
        if (way != Way::TWICE) {
            if (!fits_double(multipliers_[k], shifts_[k], largest, 8 * size_of(type)))
                way = Way::IN_64_BITS;
            else if (std::abs(scales_[k]) * static_cast<double>(largest) >= LARGEST_LEVEL)
                way = std::max(way, Way::IN_DOUBLE);
        }
        halves_.push_back(std::ldexp(0.5, -shifts_[k]));
    }
    if (type != INT16)
        of_codes(type, "a zero point", [](auto) {});
    one_ = loop_of<true>(way, rounding.last);
    each_ = loop_of<false>(way, rounding.last);
}

void Requantizer::run(Loop loop, size_t channel, const int32_t *sums, int64_t count, void *y,
                      int64_t to) const {
    Factors given = {&multipliers_[channel], &shifts_[channel], &scales_[channel],
                     &halves_[channel], static_cast<int32_t>(ends_.zero),
                     static_cast<int32_t>(ends_.low - ends_.zero),
                     static_cast<int32_t>(ends_.high - ends_.zero)};
    if (type_ == INT16)
        return loop(given, sums, count, static_cast<int16_t *>(y) + to);
    constexpr int64_t BLOCK = 256;
    int16_t codes[BLOCK];
    const int64_t step = loop == each_ ? BLOCK : 0; /* of multipliers */
    for (int64_t k = 0; k < count; k += BLOCK) {
        const int64_t some = std::min(BLOCK, count - k);
        loop(given, sums + k, some, codes);
        uint8_t *found = static_cast<uint8_t *>(y) + to + k;
        for (int64_t n = 0; n < some; n++)
            found[n] = static_cast<uint8_t>(codes[n]);
        given = {given.multiplier + step, given.shift + step, given.scale + step,
                 given.half + step, given.zero, given.low, given.high};
    }
}

Requantizer Requantizer::of_node(const Requantization &rounding, const Inputs &inputs,
                                 size_t first, int64_t largest, bool may_be_words) {
    const Tensor multiplier = inputs(first), shift = inputs(first + 1), zero = inputs(first + 2);
    const size_t count = std::max(multiplier.size(), shift.size());
    const auto of_channels = [&](const Tensor &given) {
        if (given.type != INT32 || given.size() == 0 ||
            (given.size() != 1 && given.size() != count))
            fail("multipliers and shifts are not those of channels");
        const int32_t *from = given.as<int32_t>();
        return given.size() == 1 ? std::vector<int32_t>(count, *from)
                                 : std::vector<int32_t>(from, from + count);
    };
    if (!may_be_words || zero.type != INT16)
        must_be_codes(zero, "a zero point");
    return Requantizer(rounding, of_channels(multiplier), of_channels(shift),
                       {zero.number(), inputs(first + 3).number(), inputs(first + 4).number()},
                       zero.type, largest);
}

namespace {

constexpr int64_t PART = 1 << 14;

struct Requantize {
    int64_t axis;
    Requantization rounding;
    Prepared<Requantizer> prepared;

    explicit Requantize(const Attributes &given)
        : axis(given.integer("axis")), rounding(given.text("rounding")),
          prepared(given, 6, [this](const Inputs &inputs) {
              return Requantizer::of_node(rounding, inputs, 1, int64_t{1} << 31);
          }) {}

    void run(const Context &context) const {
        const Tensor acc = context.input(0);
        if (acc.type != INT32)
            fail("Requantize: its sums are not of int32");
        const auto known = prepared.of(context);
        const Requantizer &after = *known;
        const size_t place = axis_of(axis, acc.shape);
        const int64_t channels = static_cast<int64_t>(after.channels());
        if (channels != 1 && channels != acc.shape[place])
            fail("Requantize: there is not one multiplier for each channel");
        void *y = context.output(0, acc.shape);
        const int64_t count = static_cast<int64_t>(acc.size());
        if (count == 0)
            return;
        int64_t row = channels == 1 ? PART : 1; /* of one channel */
        for (size_t k = place + 1; channels != 1 && k < acc.shape.size(); k++)
            row *= acc.shape[k];
        rows(context, after, acc.as<int32_t>(), count, row, y);
    }

    /* Rows of one channel each, or, where channels are last, of all of them. */
    static void rows(const Context &context, const Requantizer &after, const int32_t *sums,
                     int64_t count, int64_t row, void *y) {
        const int64_t channels = static_cast<int64_t>(after.channels());
        const int64_t size = row == 1 ? channels : row, all = (count + size - 1) / size;
        const int64_t least = PART / size + 1;
        context.parallel((all + least - 1) / least, [&](size_t part) {
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t r = begin; r < all && r < begin + least; r++)
                if (row == 1)
                    after.of_each(sums + r * size, y, r * size);
                else
                    after.of_one(r % channels, sums + r * size, std::min(size, count - r * size),
                                 y, r * size);
        });
    }
};

} // namespace

const Kernel REQUANTIZE = kernel<Requantize>("Requantize", 6, 3);

} // namespace qpasses
