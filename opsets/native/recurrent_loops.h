/* Loops of recurrent kernels, for one instruction set, which says how ``add`` joins products and
   what ``look_up`` does: see recurrent.cpp. */

/* Levels where double holds all products, and int32 the sum of some levels. */
struct InDouble {
    using Number = int32_t;

    static int32_t level(int32_t value, const Scaling &by, int64_t k) {
        double found = value * by.factor[k], half = by.half[k];
        int64_t bits, sign;
        __builtin_memcpy(&bits, &half, sizeof bits);
        __builtin_memcpy(&sign, &found, sizeof sign);
        bits |= sign & by.sign;
        __builtin_memcpy(&half, &bits, sizeof half);
        return __builtin_irint(found + half);
    }
};

/* The same where halves go up. */
struct Upward {
    using Number = int32_t;

    static int32_t level(int32_t value, const Scaling &by, int64_t k) {
        return __builtin_irint(value * by.factor[k] + by.half[k]);
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

template <typename Number> inline int32_t within(Number level, int32_t low, int32_t high) {
    level = level < low ? low : level;
    return static_cast<int32_t>(level > high ? high : level);
}

/* Loops go on by so many numbers that need no rest. */
#define EACH_COLUMN                                                                            \
    for (int64_t first = 0; first < count; first += COLUMNS)                                   \
        for (int64_t n = 0, k = first; n < COLUMNS; n++, k++)

template <typename By, typename Sum>
void places(const Scaling &scaling, const Sum *__restrict sums, const int32_t *__restrict more,
            int64_t count, int32_t *__restrict found) {
    const Scaling by = scaling; /* which no write to found can change */
    EACH_COLUMN {
        const auto level = By::level(sums[k], by, k);
        found[k] = within<typename By::Number>(level + more[k], -0x8000, 0x7fff);
    }
}

template <typename By, typename Sum>
void places_seen(const Scaling &scaling, const Scaling &holes, const Sum *__restrict sums,
                 const int32_t *__restrict more, const int32_t *__restrict cells, int64_t count,
                 int32_t *__restrict found) {
    const Scaling by = scaling, other = holes;
    EACH_COLUMN {
        const auto level = By::level(sums[k], by, k);
        const auto seen = By::level(cells[k], other, k);
        found[k] = within<typename By::Number>(level + seen + more[k], -0x8000, 0x7fff);
    }
}

inline int32_t product(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b));
}

template <typename By>
void one_product(const Scaling &scaling, const int32_t *__restrict a, const int32_t *__restrict b,
                 const int32_t *__restrict more, int32_t low, int32_t high, int64_t count,
                 int32_t *__restrict found) {
    const Scaling by = scaling;
    EACH_COLUMN {
        const auto level = By::level(product(a[k], b[k]), by, 0);
        found[k] = within<typename By::Number>(level + more[k], low, high);
    }
}

template <typename By>
void two_products(const Scaling &scaling, const Scaling &another, const int32_t *__restrict a,
                  const int32_t *__restrict b, const int32_t *__restrict c,
                  const int32_t *__restrict d, int32_t low, int32_t high, int64_t count,
                  int32_t *__restrict found) {
    const Scaling by = scaling, other = another;
    EACH_COLUMN {
        const auto one = By::level(product(a[k], b[k]), by, 0);
        const auto two = By::level(product(c[k], d[k]), other, 0);
        found[k] = within<typename By::Number>(one + two, low, high);
    }
}

/* What a step of an LSTM without peepholes makes of sums: each loop's blocks do not wait for each
   other. ``gates``: memory for the gates i, o, f, g. */
template <typename By>
void lstm_row(const LstmRow &given, const int32_t *sums, const int32_t *more, int32_t *gates,
              int32_t *cells, int32_t *codes) {
    const int64_t wide = given.wide;
    const int32_t c_low = given.c_low, c_high = given.c_high; /* which no write can change */
    const int32_t zero = given.zero, low = given.low, high = given.high;
    int32_t found[COLUMNS];
    for (int64_t first = 0; first < 4 * wide; first += COLUMNS) {
        const TableView &table = first < 3 * wide ? given.f_table : given.g_table;
        for (int64_t n = 0, k = first; n < COLUMNS; n++, k++)
            found[n] = within<typename By::Number>(By::level(sums[k], given.gates, k) + more[k],
                                                   -0x8000, 0x7fff);
        look_up(table.middle, table.lift, found, COLUMNS, gates + first);
    }
    const int32_t *i = gates, *f = gates + 2 * wide, *g = gates + 3 * wide;
    for (int64_t first = 0; first < wide; first += COLUMNS) {
        for (int64_t n = 0, k = first; n < COLUMNS; n++, k++) {
            const auto old = By::level(product(f[k], cells[k]), given.old_part, 0);
            const auto fresh = By::level(product(i[k], g[k]), given.new_part, 0);
            found[n] = within<typename By::Number>(old + fresh, c_low, c_high);
        }
        __builtin_memcpy(cells + first, found, sizeof found);
        look_up(given.h_table.middle, given.h_table.lift, found, COLUMNS, codes + first);
    }
    const int32_t *o = gates + wide;
    for (int64_t first = 0; first < wide; first += COLUMNS) {
        for (int64_t n = 0, k = first; n < COLUMNS; n++, k++) {
            const auto level = By::level(product(o[k], codes[k]), given.shown, 0);
            found[n] = within<typename By::Number>(level + zero, low, high);
        }
        __builtin_memcpy(codes + first, found, sizeof found);
    }
}

/* So many codes; more can be read. */
template <typename Code>
void narrowed(const int32_t *__restrict codes, int32_t base, int64_t count, Code *__restrict to) {
    for (int64_t first = 0; first < count; first += COLUMNS) {
        Code some[COLUMNS];
        for (int64_t k = 0; k < COLUMNS; k++)
            some[k] = static_cast<Code>(codes[first + k] - base);
        if (count - first >= COLUMNS)
            __builtin_memcpy(to + first, some, sizeof some);
        else
            __builtin_memcpy(to + first, some, (count - first) * sizeof *some);
    }
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

const RecurrentLoops LOOPS_OF_SET = {
    {places<InLong, int32_t>, places<InDouble, int32_t>, places<Upward, int32_t>},
    {places_seen<InLong, int32_t>, places_seen<InDouble, int32_t>},
    {one_product<InLong>, one_product<InDouble>},
    {two_products<InLong>, two_products<InDouble>},
    lstm_row<Upward>,
    look_up,
    narrowed<uint8_t>,
    narrowed<int16_t>,
    products<false>,
};
