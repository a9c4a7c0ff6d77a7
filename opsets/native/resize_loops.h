/* The loops of IntResize, for one instruction set: see int_resize.cpp. */

/* Up to four rows of codes, each times its coefficient. */
template <typename T, int ROWS>
void mix_rows(const T *const *rows, const int32_t *coefficients, int32_t start, int64_t count,
              int32_t *__restrict mixed) {
    const T *x[4];
    int32_t c[4];
    for (int row = 0; row < 4; row++) {
        x[row] = rows[row < ROWS ? row : 0];
        c[row] = row < ROWS ? coefficients[row] : 0;
    }
    for (int64_t k = 0; k < count; k++) {
        int32_t sum = start;
        for (int row = 0; row < ROWS; row++)
            sum += c[row] * x[row][k];
        mixed[k] = sum;
    }
}

template <typename T>
void mix(const T *const *rows, const int32_t *coefficients, int number, int32_t start,
         int64_t count, int32_t *mixed) {
    if (number > 2)
        mix_rows<T, 4>(rows, coefficients, start, count, mixed);
    else if (number == 2)
        mix_rows<T, 2>(rows, coefficients, start, count, mixed);
    else
        mix_rows<T, 1>(rows, coefficients, start, count, mixed);
}

/* Places of one channel. */
inline void mix_places(const Taps &given, const int32_t *__restrict mixed,
                       int32_t *__restrict sums) {
    const int32_t *__restrict low = given.low.data(), *__restrict high = given.high.data();
    const int32_t *__restrict low_c = given.low_c.data(), *__restrict high_c = given.high_c.data();
    const int64_t count = static_cast<int64_t>(given.low.size());
    for (int64_t k = 0; k < count; k++)
        sums[k] = low_c[k] * mixed[low[k]] + high_c[k] * mixed[high[k]];
}

/* The channels of one place. */
inline void mix_channels(const int32_t *__restrict low, const int32_t *__restrict high,
                         int32_t low_c, int32_t high_c, int64_t count, int32_t *__restrict sums) {
    for (int64_t k = 0; k < count; k++)
        sums[k] = low_c * low[k] + high_c * high[k];
}
