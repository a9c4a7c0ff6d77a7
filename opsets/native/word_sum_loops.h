/* Sums of products of words, for one instruction set, which says how ``add`` joins pairs of
   products, and how many ``MOST_ROWS`` have their sums in registers. */

/* The sums of some rows with some panels of weights, [ROWS, PANELS, PANEL]: int32 holds what
   lanes come to in so many pairs. */
template <int ROWS, int PANELS>
void sums_of(const int16_t *rows, int64_t deep, const int16_t *weights, int64_t *found) {
    constexpr int64_t MOST = 128;
    const int64_t pairs = deep / 2, step = 2 * PANEL * pairs;
    for (int64_t n = 0; n < ROWS * PANELS * PANEL; n++)
        found[n] = 0;
    for (int64_t begin = 0; begin < pairs; begin += MOST) {
        const int64_t end = begin + MOST < pairs ? begin + MOST : pairs;
        Lanes sums[ROWS][PANELS] = {};
        for (int64_t k = begin; k < end; k++) {
            Lanes right[PANELS];
            _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++)
                __builtin_memcpy(&right[p], weights + p * step + 2 * PANEL * k, sizeof right[p]);
            _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) {
                int32_t pair;
                __builtin_memcpy(&pair, rows + r * deep + 2 * k, sizeof pair);
                _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++)
                    add(sums[r][p], right[p], pair);
            }
        }
        for (int r = 0; r < ROWS; r++)
            for (int p = 0; p < PANELS; p++)
                for (int64_t lane = 0; lane < PANEL; lane++)
                    found[(r * PANELS + p) * PANEL + lane] += sums[r][p][lane];
    }
}

/* Some rows, as many at once as there are registers for. */
template <int PANELS>
int64_t some_rows(const int16_t *rows, int64_t count, int64_t deep, const int16_t *weights,
                  int64_t *found) {
    if (count >= MOST_ROWS)
        return sums_of<MOST_ROWS, PANELS>(rows, deep, weights, found), MOST_ROWS;
    return sums_of<1, PANELS>(rows, deep, weights, found), 1;
}

/* Levels of sums, to the nearest: of what lies in the middle as the rounding says. */
template <typename Y>
void store_levels(const Levels &to, const int64_t *sums, int64_t first, int64_t count, Y *y) {
    const double least = to.low - 1, most = to.high + 1;
    for (int64_t n = 0; n < count; n++) {
        double value = static_cast<double>(sums[n] + to.bias[first + n]) * to.scale[first + n];
        value = value < least ? least : value > most ? most : value;
        double found = value + MAGIC - MAGIC;
        const double rest = value - found;
        found += to.up * (rest == 0.5) + to.away * ((rest == 0.5) & (value > 0)) -
                 to.away * ((rest == -0.5) & (value < 0));
        found = found < to.low ? to.low : found > to.high ? to.high : found;
        y[first + n] = static_cast<Y>(static_cast<int32_t>(found) + to.zero);
    }
}

/* What the channels of one window come to, each with weights of its own. */
inline void add_cell(const int16_t *__restrict x, const int16_t *__restrict w, int64_t count,
                     int32_t *__restrict sums) {
    for (int64_t c = 0; c < count; c++)
        sums[c] += static_cast<int32_t>(x[c]) * w[c];
}
