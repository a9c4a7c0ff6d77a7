/* The loops of TableSoftmax and TableSoftmax16, for one instruction set: see
   table_softmax.cpp. */

/* The levels of quotients by the total: by a reciprocal, which is off by one at most. */
__attribute__((noinline)) void levels_of(const Quotients &common,
                                         const int64_t *__restrict dividends, int64_t count,
                                         int16_t *__restrict levels) {
    const Quotients given = common; /* which no write to levels can change */
    const double inverse = 1.0 / static_cast<double>(given.total);
    for (int64_t k = 0; k < count; k++) {
        const int64_t dividend = dividends[k];
        int64_t low = static_cast<int64_t>(static_cast<double>(dividend) * inverse);
        int64_t rest = dividend - low * given.total;
        low += (rest >= given.total) - (rest < 0);
        rest = dividend - low * given.total;
        const int64_t more = given.is_even ? low & 1 : 1;
        const int64_t up = 2 * rest - given.total + more > 0;
        int64_t level = low + (given.is_floored ? 0 : up) + given.zero;
        level = level < given.low ? given.low : level;
        levels[k] = static_cast<int16_t>(level > given.high ? given.high : level);
    }
}

/* The same in double, which holds all dividends: what is left of one by a quotient is exact. */
__attribute__((noinline)) void levels_in_double(const Quotients &given, const double *dividends,
                                                int64_t count, int16_t *levels) {
    double found[CODES];
    const double total = static_cast<double>(given.total), inverse = 1.0 / total;
    const double low = static_cast<double>(given.low - given.zero);
    const double high = static_cast<double>(given.high - given.zero);
    for (int64_t k = 0; k < count; k++) {
        double level = dividends[k] * inverse + MAGIC - MAGIC; /* one off at most */
        const double twice = 2.0 * (dividends[k] - level * total);
        level += twice > total ? 1.0 : 0.0;
        level -= twice < -total ? 1.0 : 0.0;
        /* a tie goes to the even one of the two that it lies between */
        const double half = level * 0.5;
        const double odd = half == half + MAGIC - MAGIC ? 0.0 : 1.0;
        level += twice == total ? odd : 0.0;
        level -= twice == -total ? odd : 0.0;
        level = level < low ? low : level;
        found[k] = level > high ? high : level;
    }
    const int32_t zero = static_cast<int32_t>(given.zero);
    for (int64_t k = 0; k < count; k++)
        levels[k] = static_cast<int16_t>(static_cast<int32_t>(found[k]) + zero);
}

/* The same in float32, unless a quotient is so near to a tie that this cannot say: false then. */
__attribute__((noinline)) bool levels_in_float(const Quotients &given,
                                               const float *__restrict dividends, int64_t count,
                                               int16_t *__restrict levels) {
    const float inverse = 1.0F / static_cast<float>(given.total);
    const float low = static_cast<float>(given.low - given.zero);
    const float high = static_cast<float>(given.high - given.zero);
    const int32_t zero = static_cast<int32_t>(given.zero);
    int32_t doubts = 0;
    for (int64_t k = 0; k < count; k++) {
        const float quotient = dividends[k] * inverse;
        float level = quotient + NEAR - NEAR;
        doubts += __builtin_fabsf(quotient - level) >= 0.5F - DOUBT;
        level = level < low ? low : level;
        level = level > high ? high : level;
        levels[k] = static_cast<int16_t>(static_cast<int32_t>(level) + zero);
    }
    return doubts == 0;
}

/* The level of each distance from the largest code, of so many. */
inline void levels_by_distance(const Quotients &given, int64_t count, int16_t *levels) {
    if (given.floats && levels_in_float(given, given.floats, count, levels))
        return;
    if (given.reals)
        levels_in_double(given, given.reals, count, levels);
    else
        levels_of(given, given.numerators, count, levels);
}

/* Of fewer cells than there are distances; false if float32 cannot say. */
template <typename S, typename T>
bool few_in_float(const Quotients &given, int32_t first, const S *x, int64_t cells, T *y) {
    float dividends[CODES];
    int16_t levels[CODES];
    for (int64_t k = 0; k < cells; k++)
        dividends[k] = given.floats[first - x[k]];
    if (!levels_in_float(given, dividends, cells, levels))
        return false;
    for (int64_t k = 0; k < cells; k++)
        y[k] = static_cast<T>(levels[k]);
    return true;
}

/* One row, of codes that lie side by side. */
template <typename S, typename T>
void softmax_row(const Quotients &common, const S *x, T *y, int64_t cells) {
    S top = x[0], least = x[0];
    for (int64_t k = 1; k < cells; k++) {
        top = x[k] > top ? x[k] : top;
        least = x[k] < least ? x[k] : least;
    }
    const int32_t first = top;
    int64_t total = 0;
    for (int64_t k = 0; k < cells; k++)
        total += common.denominators[first - x[k]];
    Quotients given = common;
    given.total = total > 1 ? total : 1;
    if (cells < first - least && given.floats && few_in_float(given, first, x, cells, y))
        return;
    int16_t levels[CODES];
    levels_by_distance(given, first - least + 1, levels);
    for (int64_t k = 0; k < cells; k++)
        y[k] = static_cast<T>(levels[first - x[k]]);
}

/* The exponentials of so many codes, CODES at most, and their sum. */
__attribute__((noinline)) double terms_of(const TwoTables &tables, int32_t top,
                                          const int16_t *__restrict x, int64_t count,
                                          double *__restrict terms) {
    double sum = 0;
    for (int64_t k = 0; k < count; k++) {
        const int32_t distance = top - x[k];
        terms[k] = __builtin_floor(tables.high[distance >> 8] * tables.low[distance & 255] + 0.5);
    }
    for (int64_t k = 0; k < count; k++)
        sum += terms[k];
    return sum;
}

/* One row of codes of 16 bits that lie side by side. */
template <typename T>
void softmax16_row(const Quotients &common, const TwoTables &tables, int64_t multiplier,
                   int64_t shift, const int16_t *x, int64_t cells, T *y) {
    double terms[CODES], total = 0;
    int64_t wide[CODES];
    int16_t levels[CODES], top = x[0];
    for (int64_t k = 1; k < cells; k++)
        top = x[k] > top ? x[k] : top;
    for (int64_t begin = 0; begin < cells; begin += CODES)
        total += terms_of(tables, top, x + begin, std::min(CODES, cells - begin), terms);
    if (total >= static_cast<double>(int64_t{1} << (62 - shift)))
        fail("TableSoftmax16: a sum of exponentials whose quotients leave int64");
    Quotients given = common;
    given.total = static_cast<int64_t>(total > 1 ? total : 1) << shift;
    for (int64_t begin = 0; begin < cells; begin += CODES) {
        const int64_t count = std::min(CODES, cells - begin);
        if (cells > CODES)
            terms_of(tables, top, x + begin, count, terms);
        if (common.ratio > 0) {
            for (int64_t k = 0; k < count; k++)
                terms[k] *= static_cast<double>(multiplier);
            levels_in_double(given, terms, count, levels);
        } else {
            for (int64_t k = 0; k < count; k++)
                wide[k] = static_cast<int64_t>(terms[k]) * multiplier;
            levels_of(given, wide, count, levels);
        }
        for (int64_t k = 0; k < count; k++)
            y[begin + k] = static_cast<T>(levels[k]);
    }
}
