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

/* Sums of columns of so many rows, which are ``step`` apart: 32 at a time in registers, the last
   ones with some of those before. */
template <typename X>
void sum_columns(const X *x, int64_t rows, int64_t step, int32_t start, int64_t count,
                 int32_t *sums) {
    constexpr int64_t WIDE = 32, MOST = 128; /* rows whose sums 16 bits hold */
    for (int64_t k = 0; k < count; k++)
        sums[k] = start;
    if constexpr (sizeof(X) > 1) {
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < count; k++)
                sums[k] += x[row * step + k];
        return;
    }
    typedef uint8_t Bytes __attribute__((vector_size(WIDE)));
    typedef int8_t SignedBytes __attribute__((vector_size(WIDE)));
    using Codes = std::conditional_t<std::is_signed_v<X>, SignedBytes, Bytes>;
    typedef int16_t Words __attribute__((vector_size(2 * WIDE)));
    if (count < WIDE)
        for (int64_t row = 0; row < rows; row++)
            for (int64_t k = 0; k < count; k++)
                sums[k] += x[row * step + k];
    for (int64_t done = 0; count >= WIDE && done < count;) {
        const int64_t first = done + WIDE > count ? count - WIDE : done;
        int32_t found[WIDE] = {};
        for (int64_t row = 0; row < rows; row += MOST) {
            Words some = {};
            for (int64_t k = row; k < rows && k < row + MOST; k++) {
                Codes codes;
                __builtin_memcpy(&codes, x + k * step + first, WIDE);
                some += __builtin_convertvector(codes, Words);
            }
            for (int64_t k = 0; k < WIDE; k++)
                found[k] += some[k];
        }
        for (int64_t k = 0; k < WIDE; k++)
            sums[first + k] = start + found[k];
        done = first + WIDE;
    }
}
