/* Sums of codes, for one instruction set. */

template <typename T> int32_t sum_of(const T *codes, int64_t count) {
    int32_t found = 0;
    for (int64_t k = 0; k < count; k++)
        found += codes[k];
    return found;
}

/* Sums of some rows, which are all there are, or come to those that are there. */
template <typename X, typename Sum, int ROWS, bool IS_FIRST>
void add_rows(const X *const *rows, Sum start, int64_t count, Sum *__restrict sums) {
    const X *x[ROWS];
    for (int row = 0; row < ROWS; row++)
        x[row] = rows[row];
    constexpr int64_t STEP = 32, SHORT = 8;
    const auto add = [&](int64_t k) {
        Sum sum = static_cast<Sum>(IS_FIRST ? start : sums[k]);
        for (int row = 0; row < ROWS; row++)
            sum = static_cast<Sum>(sum + x[row][k]);
        sums[k] = sum;
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
    int64_t row = number >= 8 ? 8 : number >= 3 ? 3 : number;
    if (row == 8)
        add_rows<X, Sum, 8, true>(rows, start, count, sums);
    else if (row == 3)
        add_rows<X, Sum, 3, true>(rows, start, count, sums);
    else if (row == 2)
        add_rows<X, Sum, 2, true>(rows, start, count, sums);
    else if (row == 1)
        add_rows<X, Sum, 1, true>(rows, start, count, sums);
    else
        for (int64_t k = 0; k < count; k++)
            sums[k] = start;
    for (; row + 8 <= number; row += 8)
        add_rows<X, Sum, 8, false>(rows + row, 0, count, sums);
    for (; row + 3 <= number; row += 3)
        add_rows<X, Sum, 3, false>(rows + row, 0, count, sums);
    for (; row < number; row++)
        add_rows<X, Sum, 1, false>(rows + row, 0, count, sums);
}
