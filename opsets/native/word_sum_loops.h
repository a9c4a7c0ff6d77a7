/* Sums of products of words, for one instruction set, which says how ``add`` joins pairs of
   products, and how many ``MOST_ROWS`` have their sums in registers. */

constexpr int64_t MOST = 128; /* pairs of products, of whose sum int32 holds all */

/* ``found`` and what lanes come to. */
inline void take(const Lanes &sums, double *found) {
    for (int64_t lane = 0; lane < PANEL; lane++)
        found[lane] += sums[lane];
}

/* The sums of some rows with some panels of weights, [ROWS, PANELS, PANEL]. */
template <int ROWS, int PANELS>
void sums_of(const int16_t *rows, int64_t deep, const int16_t *weights, double *found) {
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
                const Lanes left = Lanes{} + pair;
                _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++)
                    add(sums[r][p], right[p], left);
            }
        }
        for (int r = 0; r < ROWS; r++)
            for (int p = 0; p < PANELS; p++)
                take(sums[r][p], found + (r * PANELS + p) * PANEL);
    }
}

/* Some rows, as many at once as there are registers for. */
template <int PANELS>
int64_t some_rows(const int16_t *rows, int64_t count, int64_t deep, const int16_t *weights,
                  double *found) {
    if (count >= MOST_ROWS)
        return sums_of<MOST_ROWS, PANELS>(rows, deep, weights, found), MOST_ROWS;
    return sums_of<1, PANELS>(rows, deep, weights, found), 1;
}

/* The sums of the cells of one window, each channel with weights of its own: ``x`` at each of
   ``places``; weights [cells, PANEL * panels] stand in pairs with nothing. */
inline void sums_of_cells(const int16_t *x, const int64_t *places, int64_t cells,
                          const int32_t *w, int64_t channels, double *found) {
    const int64_t step = (channels + PANEL - 1) / PANEL * PANEL;
    for (int64_t first = 0; first < step; first += PANEL) {
        for (int64_t lane = 0; lane < PANEL; lane++)
            found[first + lane] = 0;
        for (int64_t begin = 0; begin < cells; begin += 2 * MOST) {
            const int64_t end = begin + 2 * MOST < cells ? begin + 2 * MOST : cells;
            Lanes sums = {};
            for (int64_t k = begin; k < end; k++) {
                Words words;
                Lanes weights;
                __builtin_memcpy(&words, x + places[k] + first, sizeof words);
                __builtin_memcpy(&weights, w + k * step + first, sizeof weights);
                add(sums, weights, __builtin_convertvector(words, Lanes));
            }
            take(sums, found + first);
        }
    }
}

/* Levels of sums, to the nearest: of what lies in the middle as the rounding says. */
template <typename Y>
void store_levels(const Levels &to, const double *__restrict sums, int64_t first, int64_t count,
                  Y *__restrict y) {
    const double low = to.low, high = to.high, up = to.up, away = to.away;
    const double *__restrict bias = to.bias.data() + first, *__restrict scale =
                                                                to.scale.data() + first;
    const int32_t zero = to.zero;
    for (int64_t n = 0; n < count; n++) {
        double value = (sums[n] + bias[n]) * scale[n];
        value = value < low - 1 ? low - 1 : value;
        value = value > high + 1 ? high + 1 : value;
        double found = value + MAGIC - MAGIC;
        const double rest = value - found;
        found += rest == 0.5 ? up + (value > 0 ? away : 0.0) : 0.0;
        found -= rest == -0.5 && value < 0 ? away : 0.0;
        found = found < low ? low : found;
        found = found > high ? high : found;
        y[first + n] = static_cast<Y>(static_cast<int32_t>(found) + zero);
    }
}
