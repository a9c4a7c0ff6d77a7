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

/* The same where halves go to even: beside 1.5 * 2**52 double holds whole numbers, its low bits
   are the level. */
struct Nearest {
    using Number = int32_t;

    static int32_t level(int32_t value, const Scaling &by, int64_t k) {
        const double found = value * by.factor[k] + 6755399441055744.0;
        int64_t bits;
        __builtin_memcpy(&bits, &found, sizeof bits);
        return static_cast<int32_t>(bits);
    }
};

/* All levels, in one rounding or two. */
struct InLong {
    using Number = int64_t;

    /* What is shifted to the left wraps to int32. */
    template <typename Sum> static int64_t level(Sum value, const Scaling &by, int64_t k) {
        const uint64_t moved = static_cast<uint64_t>(value) << by.left[k];
        int64_t found = wrapping_product(by.is_twice ? static_cast<int32_t>(moved) : value,
                                         by.multiplier[k]);
        if (by.is_twice)
            found = std::min<int64_t>((found + (1 << 30)) >> 31, INT32_MAX);
        const int64_t bits = by.right[k], half = (int64_t{1} << bits) >> 1;
        const int64_t odd = ((found >> bits) & 1) - 1;
        const int64_t down = (by.even & odd) | (half ? by.away & (found >> 63) : 0);
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

template <typename By, typename Sum = int32_t>
void places(const Scaling &scaling, const Sum *__restrict sums, const int32_t *__restrict more,
            int64_t count, int32_t *__restrict found) {
    const Scaling by = scaling; /* which no write to found can change */
    EACH_COLUMN {
        const auto level = By::level(sums[k], by, k);
        found[k] = within<typename By::Number>(level + more[k], -0x8000, 0x7fff);
    }
}

template <typename By, typename Sum = int32_t>
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
   other, nor do its rows. ``gates``: memory for the gates i, o, f, g of all rows. */
template <typename By>
void lstm_rows(const LstmRow &given, const int32_t *sums, const int32_t *more, int32_t *gates,
               int32_t *cells, int32_t *codes, const int64_t *rows, int64_t count) {
    const int64_t wide = given.wide, all = 4 * wide;
    const int32_t c_low = given.c_low, c_high = given.c_high; /* which no write can change */
    const int32_t zero = given.zero, low = given.low, high = given.high;
    int32_t found[COLUMNS];
    for (int64_t r = 0; r < count; r++)
        for (int64_t first = 0; first < all; first += COLUMNS) {
            const TableView &table = first < 3 * wide ? given.f_table : given.g_table;
            const int32_t *own = sums + rows[r] * all, *others = more + rows[r] * all;
            for (int64_t n = 0, k = first; n < COLUMNS; n++, k++)
                found[n] = within<int32_t>(By::level(own[k], given.gates, k) + others[k],
                                           -0x8000, 0x7fff);
            look_up(table.middle, table.lift, found, COLUMNS, gates + rows[r] * all + first);
        }
    for (int64_t r = 0; r < count; r++) {
        const int32_t *i = gates + rows[r] * all, *f = i + 2 * wide, *g = i + 3 * wide;
        int32_t *old_cells = cells + rows[r] * wide, *squashed = codes + rows[r] * wide;
        for (int64_t first = 0; first < wide; first += COLUMNS) {
            for (int64_t n = 0, k = first; n < COLUMNS; n++, k++) {
                const auto old = By::level(product(f[k], old_cells[k]), given.old_part, 0);
                const auto fresh = By::level(product(i[k], g[k]), given.new_part, 0);
                found[n] = within<int32_t>(old + fresh, c_low, c_high);
            }
            __builtin_memcpy(old_cells + first, found, sizeof found);
            look_up(given.h_table.middle, given.h_table.lift, found, COLUMNS, squashed + first);
        }
    }
    for (int64_t r = 0; r < count; r++) {
        const int32_t *o = gates + rows[r] * all + wide;
        int32_t *squashed = codes + rows[r] * wide;
        for (int64_t first = 0; first < wide; first += COLUMNS) {
            for (int64_t n = 0, k = first; n < COLUMNS; n++, k++) {
                const auto level = By::level(product(o[k], squashed[k]), given.shown, 0);
                found[n] = within<int32_t>(level + zero, low, high);
            }
            __builtin_memcpy(squashed + first, found, sizeof found);
        }
    }
}

/* So many codes; more can be read. */
template <typename Code>
void narrowed(const int32_t *__restrict codes, int32_t base, int32_t bits, int64_t count,
              Code *__restrict to) {
    for (int64_t first = 0; first < count; first += COLUMNS) {
        Code some[COLUMNS];
        for (int64_t k = 0; k < COLUMNS; k++)
            some[k] = static_cast<Code>((codes[first + k] - base) >> bits);
        if (count - first >= COLUMNS)
            __builtin_memcpy(to + first, some, sizeof some);
        else
            __builtin_memcpy(to + first, some, (count - first) * sizeof *some);
    }
}

/* Sums of some rows with some panels of weights. */
template <int TALL, int SIDE> void tile(const Products &of, int64_t panel, int64_t row) {
    constexpr int EACH = sizeof(Line) / sizeof(Vector), ALL = SIDE * EACH;
    const int64_t quads = of.quads, some = of.some, step = of.step;
    const uint8_t *rows = of.rows + row * step;
    const Line *weights = of.weights + panel * quads;
    Vector sums[TALL][ALL];
    _Pragma("GCC unroll 8") for (int v = 0; v < ALL; v++)
        _Pragma("GCC unroll 4") for (int r = 0; r < TALL; r++) {
            sums[r][v] = Vector{};
            if (!of.are_planes || r % 2)
                __builtin_memcpy(&sums[r][v], of.start + panel * COLUMNS + v * COLUMNS / EACH,
                                 sizeof(Vector));
        }
    for (int64_t k = 0; k < some; k++, weights++) {
        Vector left[TALL];
        _Pragma("GCC unroll 4") for (int r = 0; r < TALL; r++) {
            uint32_t four;
            __builtin_memcpy(&four, rows + r * step + 4 * k, sizeof four);
            left[r] = Vector{} + four;
        }
        _Pragma("GCC unroll 8") for (int v = 0; v < ALL; v++) {
            Vector right;
            __builtin_memcpy(&right, weights[v / EACH * quads].bytes + v % EACH * sizeof right,
                             sizeof right);
            _Pragma("GCC unroll 4") for (int r = 0; r < TALL; r++)
                add(sums[r][v], right, left[r]);
        }
    }
    int32_t *found = of.found + panel * COLUMNS + (of.are_planes ? row / 2 : row) * of.wide;
    if (TALL > 1 && of.are_planes) {
        _Pragma("GCC unroll 4") for (int r = 0; r < TALL / 2; r++)
            _Pragma("GCC unroll 8") for (int v = 0; v < ALL; v++)
                sums[r][v] = (sums[2 * r][v] << 8) + sums[2 * r + 1][v];
    }
    _Pragma("GCC unroll 4") for (int r = 0; r < TALL; r++)
        if (!of.are_planes || 2 * r < TALL)
            _Pragma("GCC unroll 8") for (int v = 0; v < ALL; v++)
                __builtin_memcpy(found + r * of.wide + v * COLUMNS / EACH, &sums[r][v],
                                 sizeof(Vector));
}

/* All panels of so many rows: SIDE at once, fewer at the end. */
template <int TALL, int SIDE> void in_tiles(const Products &of, int64_t panel, int64_t row) {
    for (; panel + SIDE <= of.panels; panel += SIDE)
        tile<TALL, SIDE>(of, panel, row);
    if constexpr (SIDE > 1)
        if (panel < of.panels)
            in_tiles<TALL, SIDE / 2>(of, panel, row);
}

void products(const Products &of) {
    int64_t row = 0;
    if constexpr (MOST_ROWS >= 4)
        for (; row + 4 <= of.count; row += 4)
            in_tiles<4, SUMS / 4>(of, 0, row);
    if constexpr (MOST_ROWS >= 2)
        for (; row + 2 <= of.count; row += 2)
            in_tiles<2, SUMS / 2>(of, 0, row);
    for (; row < of.count; row++)
        in_tiles<1, ONE_ROW>(of, 0, row);
}

const RecurrentLoops LOOPS_OF_SET = {
    {places<InDouble>, places<Upward>, places<Nearest>, plain::places<plain::InLong>},
    {places_seen<InDouble>, places_seen<InDouble>, places_seen<InDouble>,
     plain::places_seen<plain::InLong>},
    {one_product<InDouble>, one_product<InDouble>, one_product<Nearest>,
     plain::one_product<plain::InLong>},
    {two_products<InDouble>, two_products<InDouble>, two_products<Nearest>,
     plain::two_products<plain::InLong>},
    {nullptr, lstm_rows<Upward>, lstm_rows<Nearest>},
    look_up,
    narrowed<uint8_t>,
    narrowed<int16_t>,
    products,
};
