/* Loops of recurrent kernels, for one instruction set, which says how ``add`` joins products and
   what ``look_up`` does: see recurrent.cpp. */

/* Levels where double holds all products. */
struct InDouble {
    using Number = double;

    static double level(int32_t value, const Scaling &by, int64_t k) {
        double found = value * by.factor[k], half = by.half[k];
        int64_t bits, sign;
        __builtin_memcpy(&bits, &half, sizeof bits);
        __builtin_memcpy(&sign, &found, sizeof sign);
        bits |= sign & by.sign;
        __builtin_memcpy(&half, &bits, sizeof half);
        return found + half + MAGIC - MAGIC;
    }
};

/* All levels, in one rounding or two. */
struct InLong {
    using Number = int64_t;

    static int64_t level(int32_t value, const Scaling &by, int64_t k) {
        const int32_t moved = static_cast<int32_t>(static_cast<uint32_t>(value) << by.left[k]);
        return shifted(static_cast<int64_t>(moved) * by.multiplier[k], by, k);
    }

    /* Of sums that are no int32: what is shifted to the left wraps to one. */
    static int64_t level(int64_t value, const Scaling &by, int64_t k) {
        const int64_t moved =
            by.first_shift
                ? static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(value) << by.left[k]))
                : value;
        return shifted(wrapping_product(moved, by.multiplier[k]), by, k);
    }

    static int64_t shifted(int64_t product, const Scaling &by, int64_t k) {
        const int64_t bits = by.right[k], half = (int64_t{1} << bits) >> 1;
        int64_t found = wrapping_sum(product, by.first_half) >> by.first_shift;
        found = found > by.most ? by.most : found;
        const int64_t odd = ((found >> bits) & 1) - 1;
        const int64_t down = (by.even & odd) | (by.away & -(half != 0) & (found >> 63));
        return wrapping_sum(found, half + down) >> bits;
    }
};

template <bool IN_DOUBLE> using By = std::conditional_t<IN_DOUBLE, InDouble, InLong>;

template <typename Number> inline int32_t within(Number level, int32_t low, int32_t high) {
    level = level < low ? low : level;
    return static_cast<int32_t>(level > high ? high : level);
}

template <bool IN_DOUBLE, typename Sum>
void places(const Scaling &scaling, const Sum *__restrict sums, const int32_t *__restrict more,
            int64_t count, int32_t *__restrict found) {
    const Scaling by = scaling; /* which no write to found can change */
    for (int64_t k = 0; k < count; k++)
        found[k] = within<typename By<IN_DOUBLE>::Number>(By<IN_DOUBLE>::level(sums[k], by, k) + more[k], -0x8000, 0x7fff);
}

template <bool IN_DOUBLE, typename Sum>
void places_seen(const Scaling &scaling, const Scaling &holes, const Sum *__restrict sums,
                 const int32_t *__restrict more, const int32_t *__restrict cells, int64_t count,
                 int32_t *__restrict found) {
    const Scaling by = scaling, other = holes;
    for (int64_t k = 0; k < count; k++)
        found[k] = within<typename By<IN_DOUBLE>::Number>(
            By<IN_DOUBLE>::level(sums[k], by, k) + By<IN_DOUBLE>::level(cells[k], other, k) + more[k], -0x8000, 0x7fff);
}

inline int32_t product(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

template <bool IN_DOUBLE>
void one_product(const Scaling &scaling, const int32_t *__restrict a, const int32_t *__restrict b,
                 const int32_t *__restrict more, int32_t low, int32_t high, int64_t count,
                 int32_t *__restrict found) {
    const Scaling by = scaling;
    for (int64_t k = 0; k < count; k++)
        found[k] = within<typename By<IN_DOUBLE>::Number>(By<IN_DOUBLE>::level(product(a[k], b[k]), by, 0) + more[k], low,
                                               high);
}

template <bool IN_DOUBLE>
void two_products(const Scaling &scaling, const Scaling &another, const int32_t *__restrict a,
                  const int32_t *__restrict b, const int32_t *__restrict c,
                  const int32_t *__restrict d, int32_t low, int32_t high, int64_t count,
                  int32_t *__restrict found) {
    const Scaling by = scaling, other = another;
    for (int64_t k = 0; k < count; k++)
        found[k] = within<typename By<IN_DOUBLE>::Number>(By<IN_DOUBLE>::level(product(a[k], b[k]), by, 0) +
                                                   By<IN_DOUBLE>::level(product(c[k], d[k]), other, 0),
                                               low, high);
}

template <typename Code> void narrowed(const int32_t *__restrict codes, int32_t base, int64_t count,
                                       Code *__restrict to) {
    for (int64_t k = 0; k < count; k++)
        to[k] = static_cast<Code>(codes[k] - base);
}

/* Sums of some rows with some panels of weights. */
template <bool ARE_BYTES, int TALL, int SIDE>
void tile(const uint8_t *rows, int64_t step, const Line *weights, int64_t quads, int64_t some,
          const int32_t *start, int32_t *found, int64_t wide) {
    Lanes sums[TALL][SIDE];
    _Pragma("GCC unroll 8") for (int p = 0; p < SIDE; p++) {
        __builtin_memcpy(&sums[0][p], start + p * COLUMNS, sizeof(Lanes));
        _Pragma("GCC unroll 4") for (int r = 1; r < TALL; r++)
            sums[r][p] = sums[0][p];
    }
    for (int64_t k = 0; k < some; k++, weights++) {
        Lanes right[SIDE];
        _Pragma("GCC unroll 8") for (int p = 0; p < SIDE; p++)
            __builtin_memcpy(&right[p], weights + p * quads, sizeof right[p]);
        _Pragma("GCC unroll 4") for (int r = 0; r < TALL; r++) {
            uint32_t four;
            __builtin_memcpy(&four, rows + r * step + 4 * k, sizeof four);
            const Lanes left = Lanes{} + four;
            _Pragma("GCC unroll 8") for (int p = 0; p < SIDE; p++)
                add<ARE_BYTES>(sums[r][p], right[p], left);
        }
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < TALL; r++)
        _Pragma("GCC unroll 8") for (int p = 0; p < SIDE; p++)
            __builtin_memcpy(found + r * wide + p * COLUMNS, &sums[r][p], sizeof(Lanes));
}

/* All panels of so many rows: SIDE at once, fewer at the end. */
template <bool ARE_BYTES, int TALL, int SIDE>
void in_tiles(const uint8_t *rows, int64_t step, const Line *weights, int64_t quads, int64_t some,
              int64_t panels, const int32_t *start, int32_t *found, int64_t wide) {
    while (panels >= SIDE) {
        tile<ARE_BYTES, TALL, SIDE>(rows, step, weights, quads, some, start, found, wide);
        weights += SIDE * quads;
        start += SIDE * COLUMNS;
        found += SIDE * COLUMNS;
        panels -= SIDE;
    }
    if constexpr (SIDE > 1)
        if (panels)
            in_tiles<ARE_BYTES, TALL, SIDE / 2>(rows, step, weights, quads, some, panels, start,
                                                found, wide);
}

/* [count, wide] of rows: so many of the quads of each. */
template <bool ARE_BYTES>
void products(const uint8_t *rows, int64_t count, int64_t step, const Line *weights, int64_t quads,
              int64_t some, int64_t panels, const int32_t *start, int32_t *found, int64_t wide) {
    for (; count >= MOST_ROWS; count -= MOST_ROWS, rows += MOST_ROWS * step, found += MOST_ROWS * wide)
        in_tiles<ARE_BYTES, MOST_ROWS, MOST_SUMS / MOST_ROWS>(rows, step, weights, quads, some,
                                                              panels, start, found, wide);
    for (; count; count--, rows += step, found += wide)
        in_tiles<ARE_BYTES, 1, ONE_ROW>(rows, step, weights, quads, some, panels, start, found,
                                        wide);
}
