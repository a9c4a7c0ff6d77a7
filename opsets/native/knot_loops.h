/* Lines between knots, for one instruction set: see knots.cpp. */

constexpr float ROUNDS = 12582912.0f; /* 3 * 2**22: adding it rounds to an integer */

/* Of a code and the knots of its channel, which begin at ``first``. */
template <typename Y>
inline Y on_line(const Lines &given, const float *starts, const float *rises, int32_t first,
                 int32_t code) {
    const int32_t knot = first + (code >> 7) + 256;
    float level = starts[knot] + rises[knot] * static_cast<float>(code & 127);
    level = level < given.low ? given.low : level;
    level = level > given.high ? given.high : level;
    level += given.lift + __builtin_copysignf(given.away, level);
    return static_cast<Y>(static_cast<int32_t>(level + ROUNDS - ROUNDS) + given.zero);
}

/* So many codes of one channel. */
template <typename Y>
void row_on_lines(const Lines &lines, const float *starts, const float *rises,
                  const int16_t *__restrict x, Y *__restrict y, int64_t count) {
    const Lines given = lines; /* which no write to y can change */
    for (int64_t k = 0; k < count; k++)
        y[k] = on_line<Y>(given, starts, rises, 0, x[k]);
}

/* One code of each channel. */
template <typename Y>
void place_on_lines(const Lines &lines, const float *starts, const float *rises,
                    const int16_t *__restrict x, Y *__restrict y, int32_t channels) {
    const Lines given = lines;
    for (int32_t c = 0; c < channels; c++)
        y[c] = on_line<Y>(given, starts, rises, c * SEGMENTS, x[c]);
}
