/* Sums of levels and their codes, for one instruction set: see word_matrices.cpp. */

#include "shift_loops.h"

/* Of ROWS rows and COLUMNS columns, a part of those that ``word_sums`` makes. */
inline void word_tile(const double *a, int64_t a_step, const double *b, int64_t length,
                      double *sums) {
    constexpr int64_t VECTORS = COLUMNS / LANES;
    typedef double Levels __attribute__((vector_size(LANES * sizeof(double))));
    Levels found[ROWS][VECTORS] = {};
    for (int64_t k = 0; k < length; k++, b += WIDE) {
        Levels columns[VECTORS];
#pragma GCC unroll 4
        for (int64_t n = 0; n < VECTORS; n++)
            __builtin_memcpy(&columns[n], b + n * LANES, sizeof columns[n]);
#pragma GCC unroll 8
        for (int64_t row = 0; row < ROWS; row++)
#pragma GCC unroll 4
            for (int64_t n = 0; n < VECTORS; n++)
                found[row][n] += a[row * a_step + k] * columns[n];
    }
#pragma GCC unroll 8
    for (int64_t row = 0; row < ROWS; row++)
#pragma GCC unroll 4
        for (int64_t n = 0; n < VECTORS; n++)
            __builtin_memcpy(sums + row * WIDE + n * LANES, &found[row][n], sizeof found[row][n]);
}

/* Of so many rows, or some more, and WIDE columns: so many products each. */
void word_sums(const double *a, int64_t a_step, const double *b, int64_t length, int64_t rows,
               double *sums) {
    for (int64_t row = 0; row < rows; row += ROWS)
        for (int64_t n = 0; n < WIDE; n += COLUMNS)
            word_tile(a + row * a_step, a_step, b + n, length, sums + row * WIDE + n);
}

/* Of sums whose products double holds; bytes are written without their sign. */
template <typename Y>
void word_codes(const LevelScaling &scaling, const double *__restrict sums, int64_t count,
                Y *__restrict y) {
    const LevelScaling given = scaling; /* which no write to y can change */
    for (int64_t k = 0; k < count; k++) {
        double level = sums[k] * given.scale;
        level = level < given.low ? given.low : level;
        level = level > given.high ? given.high : level;
        level += given.lift + __builtin_copysign(given.away, level);
        y[k] = static_cast<Y>(static_cast<int32_t>(level + MAGIC - MAGIC) + given.zero);
    }
}

/* Of sums whose products int64 holds. */
template <typename Y, Rounding ROUNDING>
void long_codes(const LongScaling &scaling, const double *__restrict sums, int64_t count,
                Y *__restrict y) {
    const LongScaling given = scaling;
    for (int64_t k = 0; k < count; k++) {
        const int64_t product = static_cast<int64_t>(sums[k]) * given.multiplier;
        int64_t level = rounded<ROUNDING>(product, given.shift) + given.zero;
        level = level < given.low ? given.low : level;
        y[k] = static_cast<Y>(level > given.high ? given.high : level);
    }
}
