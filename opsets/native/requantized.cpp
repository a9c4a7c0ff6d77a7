/* Multipliers and shifts as factors of float32 or double, where these give the same codes. */

#include "requantized.h"

namespace qpasses {

constexpr int64_t LARGEST_REST = 1 << 30; /* half of a multiplier of 31 bits */

std::vector<int64_t> numbers_of(const Tensor &given, int64_t columns) {
    const int64_t count = static_cast<int64_t>(given.size());
    if (given.type != INT32 || (count != 1 && count != columns))
        fail("multipliers or shifts that are neither one nor one a column");
    const int32_t *numbers = given.as<int32_t>();
    if (count == 1)
        return std::vector<int64_t>(columns, numbers[0]);
    return {numbers, numbers + count};
}

Requantized::Requantized(const Requantization &how, std::vector<int64_t> multipliers,
                         std::vector<int64_t> shifts, Integers added, int64_t y_zero, int64_t y_least,
                         int64_t y_most, const std::vector<Span> &sums)
    : rounding(how), multiplier(std::move(multipliers)), shift(std::move(shifts)),
      rests(std::move(added)), zero(y_zero), least(y_least), most(y_most),
      in_double(!how.is_twice) {
    const size_t columns = sums.size();
    for (int64_t each : {zero, least, most})
        must_be_from(each, -128, 255, "an end of codes");
    if (rests.empty())
        rests.resize(columns);
    else if (rests.size() != columns)
        fail("rests of biases that are not one a column");
    factor.assign(padded(columns, LANES), 0.0F); /* which vectors read to their ends */
    in_float.assign(factor.size() / LANES, true);
    for (size_t n = 0; n < columns; n++) {
        const int64_t m = multiplier[n], s = shift[n], more = rests[n];
        must_be_from(s, how.is_twice ? 0 : 1, 62, "a shift");
        must_be_from(more, -LARGEST_REST, LARGEST_REST, "a rest of a bias");
        const double unit = std::ldexp(1.0, static_cast<int>(-s));
        scale.push_back(m * unit);
        rest.push_back(more * unit + (how.last == Rounding::HALF_UP ? unit / 2 : 0));
        away.push_back(how.last == Rounding::HALF_AWAY ? unit / 2 : 0);
        const double bound = sums[n].size() * std::fabs(m) + std::fabs(more);
        in_double &= bound < 4503599627370496.0; /* 2**52 */
        are_small &= bound * unit < 1073741824.0 && how.last != Rounding::HALF_AWAY;
        const bool is_as_before = n && in_float[(n - 1) / LANES] && m == multiplier[n - 1] &&
                                  s == shift[n - 1] && sums[n] == sums[n - 1];
        if (is_as_before)
            factor[n] = factor[n - 1];
        else if (in_float[n / LANES])
            factor[n] = found_factor(static_cast<int64_t>(n), sums[n]);
        if (factor[n] < 0 || more != 0)
            in_float[n / LANES] = false;
    }
    are_small &= in_double;
    scale.resize(factor.size());
    rest.resize(factor.size());
    for (std::vector<int64_t> *numbers : {&multiplier, &shift, &rests})
        numbers->resize(factor.size());
}

int64_t Requantized::level(int64_t column, int64_t sum) const {
    const int64_t m = multiplier[column], s = shift[column];
    if (rounding.is_twice)
        return Twice{m, s, rounding.last, 0, INT32_MIN, INT32_MAX}(sum);
    return shifted(sum * m + rests[column], s, rounding.last);
}

Requantized Requantized::repeated(int64_t columns) const {
    const size_t count = columns;
    Requantized found = *this;
    const auto repeat = [&](auto &numbers) {
        if (!numbers.empty())
            numbers.assign(padded(count, LANES), numbers[0]);
    };
    repeat(found.multiplier);
    repeat(found.shift);
    repeat(found.rests);
    repeat(found.factor);
    found.in_float.assign(found.factor.size() / LANES, in_float[0]);
    repeat(found.scale);
    repeat(found.rest);
    repeat(found.away);
    return found;
}

/* The first sum of each level from ``low`` on, or what is behind the last; nothing where they
   are not next to where real numbers have them. */
std::vector<int64_t> Requantized::first_sums(int64_t column, int64_t low, int64_t high,
                                             const Span &sums) const {
    const double inverse = std::ldexp(1.0 / static_cast<double>(multiplier[column]),
                                      static_cast<int>(shift[column]));
    const double lowest = static_cast<double>(sums.low), highest = static_cast<double>(sums.high);
    std::vector<int64_t> found;
    for (int64_t step = low; step <= high; step++) {
        const double middle = (static_cast<double>(step) - 0.5) * inverse;
        const int64_t near = std::lrint(std::min(std::max(middle, lowest), highest));
        int64_t sum = std::max(near - 2, sums.low);
        while (sum <= std::min(near + 2, sums.high) && level(column, sum) < step)
            sum++;
        const bool is_first = sum > near - 2 || sum == sums.low;
        if (!is_first || (sum > near + 2 && sum <= sums.high))
            return {};
        found.push_back(sum);
    }
    return found;
}

/* One that in float32 is right for all sums, if it is right on both sides of where each level
   begins; else -1. The multiplier over its power of two, or what is amidst all these. */
float Requantized::found_factor(int64_t column, const Span &sums) const {
    const double real = std::ldexp(static_cast<double>(multiplier[column]),
                                   static_cast<int>(-shift[column]));
    if (real == 0)
        return 0;
    /* doubled roundings fall where what is shifted to the left leaves int32 */
    const double lifted = rounding.is_twice && shift[column] < 31
                              ? std::ldexp(1.0, static_cast<int>(31 - shift[column])) : 1;
    const double most_level = std::max(real, lifted) * sums.size();
    if (real < 0 || most_level >= 1073741824.0 || sums.size() > INT32_MAX)
        return -1;
    const int64_t low = least - zero + 1;
    const std::vector<int64_t> firsts = first_sums(column, low, most - zero, sums);
    if (firsts.empty() && least < most)
        return -1;
    const auto is_right = [&](float factor) {
        for (size_t k = 0; k < firsts.size(); k++)
            for (const int64_t sum : {firsts[k] - 1, firsts[k]}) {
                const float found = std::nearbyint(static_cast<float>(sum) * factor);
                const bool is_reached = found >= static_cast<float>(low + static_cast<int64_t>(k));
                if (sum >= sums.low && sum <= sums.high && is_reached != (sum == firsts[k]))
                    return false;
            }
        return true;
    };
    const float nearest = static_cast<float>(real);
    if (is_right(nearest))
        return nearest;
    double least_factor = real / 2, most_factor = real * 2;
    for (size_t k = 0; k < firsts.size(); k++) {
        const double middle = static_cast<double>(low + static_cast<int64_t>(k)) - 0.5;
        for (const int64_t sum : {firsts[k] - 1, firsts[k]}) {
            if (sum < sums.low || sum > sums.high || sum == 0)
                continue;
            const double factor = middle / static_cast<double>(sum);
            /* that it is reached asks for more of positive sums, for less of negative ones */
            if ((sum == firsts[k]) == (sum > 0))
                least_factor = std::max(least_factor, factor);
            else
                most_factor = std::min(most_factor, factor);
        }
    }
    const float amidst = static_cast<float>((least_factor + most_factor) / 2);
    return is_right(amidst) ? amidst : -1;
}

} // namespace qpasses
