/* The loops of depthwise.cpp, for one instruction set. */

constexpr int64_t CHANNELS = 32; /* whose sums stay in registers */

inline void some_channels(const Geometry &given, const int16_t *words, int64_t channels,
                          int64_t count, const uint8_t *x, int64_t step, int32_t *sums) {
    uint32_t found[CHANNELS] = {}; /* which may wrap until the offsets are added */
    for (int64_t row = 0; row < given.height().kernel; row++, x += given.height().dilation * step)
        for (int64_t cell = 0; cell < given.width().kernel; cell++, words += channels) {
            const uint8_t *codes = x + cell * given.width().dilation * channels;
            if (count == CHANNELS)
                for (int64_t c = 0; c < CHANNELS; c++)
                    found[c] += static_cast<int16_t>(codes[c] * words[c]);
            else
                for (int64_t c = 0; c < count; c++)
                    found[c] += static_cast<int16_t>(codes[c] * words[c]);
        }
    std::copy(found, found + count, sums);
}

inline void filtered(const Geometry &given, const Requantized &after, const int32_t *offset,
                     const int16_t *words, int64_t channels, const uint8_t *x, int64_t step,
                     uint8_t *y) {
    int32_t sums[CHANNELS];
    for (int64_t window = 0; window < given.width().out; window++, y += channels)
        for (int64_t c = 0; c < channels; c += CHANNELS) {
            const int64_t count = std::min(CHANNELS, channels - c);
            some_channels(given, words + c, channels, count,
                          x + window * given.width().stride * channels + c, step, sums);
            store(after, c, count, sums, offset + c, 0, y + c);
        }
}
