/* Codes on lines between knots, for one instruction set: see knots.cpp. */

/* So many codes, each beside a table that begins ``step`` behind that of the one before: 0 where
   all are of one channel. */
template <typename Y>
void on_lines(const Lines &lines, const int16_t *table, int32_t step, const int16_t *x, Y *y,
              int64_t count) {
    typedef Y Codes __attribute__((vector_size(sizeof(Y) * LANES)));
    const Floats unit = Floats{} + lines.unit, lift = Floats{} + lines.lift;
    const Floats low = Floats{} + lines.low, high = Floats{} + lines.high;
    const Floats away = Floats{} + lines.away, magic = Floats{} + ROUNDS, none = {};
    const Numbers zero = Numbers{} + lines.zero;
    Numbers lane;
    for (int n = 0; n < LANES; n++)
        lane[n] = n;
    for (int64_t k = 0; k < count; k += LANES) {
        const int64_t some = count - k < LANES ? count - k : LANES;
        Words words = {};
        if (some == LANES)
            __builtin_memcpy(&words, x + k, sizeof words);
        else
            __builtin_memcpy(&words, x + k, some * sizeof *x);
        const Numbers last = Numbers{} + static_cast<int32_t>(some - 1);
        const Numbers code = __builtin_convertvector(words, Numbers), part = code & 127;
        const Numbers place = (code >> 7) + 256 + (lane < last ? lane : last) * step;
        const Numbers total = on_line(table + k * step, place, (part << 16) | (128 - part));
        Floats level = __builtin_convertvector(total, Floats) * unit;
        level = level < low ? low : level;
        level = level > high ? high : level;
        level += lift + (level < none ? -away : away);
        level = level + magic - magic;
        const Codes codes =
            __builtin_convertvector(__builtin_convertvector(level, Numbers) + zero, Codes);
        if (some == LANES)
            __builtin_memcpy(y + k, &codes, sizeof codes);
        else
            __builtin_memcpy(y + k, &codes, some * sizeof *y);
    }
}
