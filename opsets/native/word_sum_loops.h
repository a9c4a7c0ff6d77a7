/* Sums of products of words, for one instruction set, which says how ``add`` joins pairs of
   products, and how many sums of PANEL, ``MOST_SUMS``, registers hold. */

constexpr int64_t MOST = 128; /* pairs of products, of whose sum int32 holds all */

constexpr int64_t SOME = 8; /* numbers whose levels are found at once */

/* ``found`` and what lanes come to. */
inline void take(const Lanes &sums, double *found) {
    for (int64_t lane = 0; lane < PANEL; lane++)
        found[lane] += sums[lane];
}

/* The sums of some rows with some panels of weights, [ROWS, PANELS, PANEL]. */
template <int ROWS, int PANELS>
void sums_of(const int16_t *const *rows, const WordRuns &runs, const int16_t *weights,
             double *found) {
    const int64_t step = 2 * PANEL * runs.count * runs.pairs;
    Lanes sums[ROWS][PANELS] = {};
    const auto take_all = [&] {
        _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++)
            _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++) {
                take(sums[r][p], found + (r * PANELS + p) * PANEL);
                sums[r][p] = Lanes{};
            }
    };
    for (int64_t n = 0; n < ROWS * PANELS * PANEL; n++)
        found[n] = 0;
    int64_t held = 0;
    for (int64_t run = 0; run < runs.count; run++)
        for (int64_t k = 0; k < runs.pairs;) {
            const int64_t some = runs.pairs - k < MOST - held ? runs.pairs - k : MOST - held;
            const int64_t place = runs.places[run];
            for (const int64_t end = k + some; k < end; k++, weights += 2 * PANEL) {
                Lanes right[PANELS];
                _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++)
                    __builtin_memcpy(&right[p], weights + p * step, sizeof right[p]);
                _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {
                    int32_t pair;
                    __builtin_memcpy(&pair, rows[r] + place + 2 * k, sizeof pair);
                    const Lanes left = Lanes{} + pair;
                    _Pragma("GCC unroll 2") for (int p = 0; p < PANELS; p++)
                        add(sums[r][p], right[p], left);
                }
            }
            held += some;
            if (held == MOST) {
                take_all();
                held = 0;
            }
        }
    if (held)
        take_all();
}

/* Some rows, as many at once as there are registers for. */
template <int PANELS>
int64_t some_rows(const int16_t *const *rows, int64_t count, const WordRuns &runs,
                  const int16_t *weights, double *found) {
    constexpr int ALL = MOST_SUMS / PANELS, SOME = ALL / 3;
    if (count >= ALL)
        return sums_of<ALL, PANELS>(rows, runs, weights, found), ALL;
    if constexpr (SOME > 1)
        if (count >= SOME)
            return sums_of<SOME, PANELS>(rows, runs, weights, found), SOME;
    return sums_of<1, PANELS>(rows, runs, weights, found), 1;
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

/* Levels of the sums of some rows, to the nearest: of what lies in the middle as the rounding
   says. Sums, biases and scales are filled up to whole panels; results lie ``y_step`` bytes
   apart. */
template <typename Y>
void store_levels(const Levels &to, const double *sums, int64_t rows, int64_t wide, int64_t first,
                  int64_t count, char *y, int64_t y_step) {
    typedef double Some __attribute__((vector_size(8 * SOME)));
    typedef int32_t Numbers __attribute__((vector_size(4 * SOME)));
    typedef Y Codes __attribute__((vector_size(sizeof(Y) * SOME)));
    const Some low = Some{} + to.low, high = Some{} + to.high, none = {};
    const Some up = Some{} + to.up, away = Some{} + to.away, magic = Some{} + MAGIC;
    const Some least = low - 1, most = high + 1;
    const Numbers zero = Numbers{} + to.zero;
    const bool is_even = to.up == 0 && to.away == 0;
    for (int64_t n = 0; n < count; n += SOME) {
        Some biases, scales;
        __builtin_memcpy(&biases, to.bias.data() + first + n, sizeof biases);
        __builtin_memcpy(&scales, to.scale.data() + first + n, sizeof scales);
        const size_t bytes = (count - n < SOME ? count - n : SOME) * sizeof(Y);
        char *place = y + (first + n) * sizeof(Y);
        for (int64_t row = 0; row < rows; row++, place += y_step) {
            Some value;
            __builtin_memcpy(&value, sums + row * wide + n, sizeof value);
            value = (value + biases) * scales;
            value = value < least ? least : value;
            value = value > most ? most : value;
            Some found = value + magic - magic;
            if (!is_even) {
                const Some rest = value - found;
                found += rest == 0.5 ? up + (value > none ? away : none) : none;
                found -= rest == -0.5 ? (value < none ? away : none) : none;
            }
            found = found < low ? low : found;
            found = found > high ? high : found;
            const Codes codes =
                __builtin_convertvector(__builtin_convertvector(found, Numbers) + zero, Codes);
            if (bytes == sizeof codes)
                __builtin_memcpy(place, &codes, sizeof codes);
            else
                __builtin_memcpy(place, &codes, bytes);
        }
    }
}
