/* Sums of codes, for one instruction set. */

template <typename T> int32_t sum_of(const T *codes, int64_t count) {
    int32_t found = 0;
    for (int64_t k = 0; k < count; k++)
        found += codes[k];
    return found;
}

/* Sums of some rows, which are all there are, or come to those that are there. */
template <typename X, int ROWS>
void add_rows(const X *const *rows, int64_t count, int32_t *__restrict sums) {
    const X *x[ROWS];
    for (int row = 0; row < ROWS; row++)
        x[row] = rows[row];
    for (int64_t k = 0; k < count; k++) {
        int32_t sum = sums[k];
        for (int row = 0; row < ROWS; row++)
            sum += x[row][k];
        sums[k] = sum;
    }
}

/* Of any number of rows, none too. */
template <typename X>
void sum_rows(const X *const *rows, int64_t number, int32_t start, int64_t count, int32_t *sums) {
    for (int64_t k = 0; k < count; k++)
        sums[k] = start;
    int64_t row = 0;
    for (; row + 4 <= number; row += 4)
        add_rows<X, 4>(rows + row, count, sums);
    for (; row < number; row++)
        add_rows<X, 1>(rows + row, count, sums);
}
