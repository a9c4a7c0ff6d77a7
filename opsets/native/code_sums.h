/* Sums of codes, for one instruction set. */

template <typename T> int32_t sum_of(const T *codes, int64_t count) {
    int32_t found = 0;
    for (int64_t k = 0; k < count; k++)
        found += codes[k];
    return found;
}

/* Sums of up to three rows, which are all there are, or come to those that are there. */
template <typename X, typename Sum, int ROWS, bool IS_FIRST>
void add_rows(const X *const *rows, Sum start, int64_t count, Sum *__restrict sums) {
    const X *first = rows[0], *second = rows[ROWS > 1 ? 1 : 0], *third = rows[ROWS > 2 ? 2 : 0];
    constexpr int64_t STEP = 32, SHORT = 8;
    const auto add = [&](int64_t k) {
        Sum sum = static_cast<Sum>(IS_FIRST ? start : sums[k]);
        sum = static_cast<Sum>(sum + first[k]);
        sum = static_cast<Sum>(ROWS > 1 ? sum + second[k] : sum);
        sums[k] = static_cast<Sum>(ROWS > 2 ? sum + third[k] : sum);
    };
    int64_t k = 0;
    for (; k + STEP <= count; k += STEP)
        for (int64_t more = 0; more < STEP; more++)
            add(k + more);
    for (; k + SHORT <= count; k += SHORT)
        for (int64_t more = 0; more < SHORT; more++)
            add(k + more);
    for (; k < count; k++)
        add(k);
}

/* Of any number of rows, none too. */
template <typename X, typename Sum>
void sum_rows(const X *const *rows, int64_t number, Sum start, int64_t count, Sum *sums) {
    if (number >= 3)
        add_rows<X, Sum, 3, true>(rows, start, count, sums);
    else if (number == 2)
        add_rows<X, Sum, 2, true>(rows, start, count, sums);
    else if (number == 1)
        add_rows<X, Sum, 1, true>(rows, start, count, sums);
    else
        for (int64_t k = 0; k < count; k++)
            sums[k] = start;
    for (int64_t row = 3; row < number; row += 3)
        if (number - row >= 3)
            add_rows<X, Sum, 3, false>(rows + row, 0, count, sums);
        else if (number - row == 2)
            add_rows<X, Sum, 2, false>(rows + row, 0, count, sums);
        else
            add_rows<X, Sum, 1, false>(rows + row, 0, count, sums);
}
