/* Sums of products of words, for one instruction set, which says what ``Words`` and ``Sums`` are,
   and how ``add`` joins them. */

/* Of some rows with one row of weights: int32 holds what lanes come to in so many steps. */
template <int ROWS>
void dots(const int16_t *rows, const int16_t *weights, int64_t deep, int64_t *found) {
    constexpr int64_t MOST = 128, WIDE = sizeof(Words) / sizeof(int16_t);
    int64_t totals[ROWS] = {};
    for (int64_t begin = 0; begin < deep; begin += MOST * WIDE) {
        const int64_t end = begin + MOST * WIDE < deep ? begin + MOST * WIDE : deep;
        Sums sums[ROWS] = {};
        for (int64_t k = begin; k < end; k += WIDE) {
            Words right;
            __builtin_memcpy(&right, weights + k, sizeof right);
            _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++) {
                Words left;
                __builtin_memcpy(&left, rows + r * deep + k, sizeof left);
                sums[r] = add(sums[r], left, right);
            }
        }
        for (int r = 0; r < ROWS; r++) {
            int32_t lanes[sizeof(Sums) / sizeof(int32_t)];
            __builtin_memcpy(lanes, &sums[r], sizeof lanes);
            for (int32_t lane : lanes)
                totals[r] += lane;
        }
    }
    for (int r = 0; r < ROWS; r++)
        found[r] = totals[r];
}
