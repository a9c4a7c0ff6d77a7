/* Filters that read one channel each. */

#include "depthwise.h"
#include "instruction_sets.h"

#include <algorithm>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

constexpr int64_t ROWS = 4; /* which AVX-512 adds at once */

namespace plain {
#include "requantized_loops.h"
#include "depthwise_loops.h"
}
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
#include "requantized_loops.h"
#include "depthwise_loops.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
#include "avx512_codes.h"

/* So many bytes of up to four rows, side by side; what fills 64 is written too. */
void interleave(const uint8_t *x, int64_t step, int64_t rows, int64_t count, int32_t *to) {
    /* four bytes each, so that halves of lanes stay in order */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int64_t k = 0; k < count; k += 64) {
        const __mmask64 some = lanes(std::min<int64_t>(count - k, 64));
        __m512i row[ROWS];
        _Pragma("GCC unroll 4") for (int64_t r = 0; r < ROWS; r++)
            row[r] = r < rows ? _mm512_permutexvar_epi32(
                                    order, _mm512_maskz_loadu_epi8(some, x + r * step + k))
                              : _mm512_setzero_si512();
        const __m512i low = _mm512_unpacklo_epi8(row[0], row[1]);
        const __m512i more = _mm512_unpacklo_epi8(row[2], row[3]);
        const __m512i high = _mm512_unpackhi_epi8(row[0], row[1]);
        const __m512i most = _mm512_unpackhi_epi8(row[2], row[3]);
        _mm512_storeu_si512(to + k, _mm512_unpacklo_epi16(low, more));
        _mm512_storeu_si512(to + k + 16, _mm512_unpackhi_epi16(low, more));
        _mm512_storeu_si512(to + k + 32, _mm512_unpacklo_epi16(high, most));
        _mm512_storeu_si512(to + k + 48, _mm512_unpackhi_epi16(high, most));
    }
}

/* Filters over interleaved rows: ``fours`` of them, each ``four_step`` behind the other. */
struct Filters {
    const Geometry &given;
    const Requantized &after;
    const int32_t *offset;
    const int8_t *bytes;
    const int32_t *rows;
    int64_t fours, four_step, channels, first;
    uint8_t *y;
};

template <int WINDOWS, int VECTORS> void tile(const Filters &at, int64_t window) {
    const int64_t wide = padded(at.channels, 16), step = at.given.width().stride * at.channels;
    __m512i found[WINDOWS][VECTORS];
    _Pragma("GCC unroll 4") for (int w = 0; w < WINDOWS; w++)
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
            found[w][v] = _mm512_setzero_si512();
    const int8_t *bytes = at.bytes + ROWS * at.first;
    for (int64_t four = 0; four < at.fours; four++) {
        const int32_t *x = at.rows + four * at.four_step + window * step + at.first;
        for (int64_t cell = 0; cell < at.given.width().kernel; cell++) {
            _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++) {
                const __m512i right = _mm512_loadu_si512(bytes + 64 * v);
                _Pragma("GCC unroll 4") for (int w = 0; w < WINDOWS; w++)
                    found[w][v] = _mm512_dpbusd_epi32(
                        found[w][v], _mm512_loadu_si512(x + w * step + 16 * v), right);
            }
            x += at.given.width().dilation * at.channels;
            bytes += ROWS * wide;
        }
    }
    const int64_t some = std::min<int64_t>(16 * VECTORS, at.channels - at.first);
    store_rows(at.after, at.first, some, found, {at.offset, nullptr},
               at.y + window * at.channels + at.first, at.channels);
}

template <int VECTORS> void tiles(const Filters &at) {
    int64_t window = 0;
    for (; window + 4 <= at.given.width().out; window += 4)
        tile<4, VECTORS>(at, window);
    for (; window + 2 <= at.given.width().out; window += 2)
        tile<2, VECTORS>(at, window);
    for (; window < at.given.width().out; window++)
        tile<1, VECTORS>(at, window);
}

void filtered(Filters at) {
    for (; at.first < at.channels; at.first += 64) {
        const int64_t vectors = (at.channels - at.first + 15) / 16;
        const auto some = vectors == 1   ? tiles<1>
                          : vectors == 2 ? tiles<2>
                          : vectors == 3 ? tiles<3>
                                         : tiles<4>;
        some(at);
    }
}
}
END_SET
#endif

} // namespace

void Depthwise::pack(const uint8_t *from, bool is_signed, int64_t high, int64_t wide,
                     int64_t count) {
    height = high;
    width = wide;
    channels = count;
    const uint8_t turn = is_signed ? 0 : 0x80;
    const int64_t step = padded(channels, 16);
    if (chosen_set() == AVX512)
        bytes.assign(padded(height, ROWS) * width * step, 0);
    else
        words.assign(height * width * channels, 0);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < channels; c++) {
                const int64_t at = (y * width + x) * channels + c;
                const int8_t code = static_cast<int8_t>(from[at] ^ turn);
                if (chosen_set() == AVX512)
                    bytes[((y / ROWS * width + x) * step + c) * ROWS + y % ROWS] = code;
                else
                    words[at] = code;
            }
}

void Depthwise::run(const Geometry &given, const Requantized &after, const int32_t *offset,
                    const uint8_t *x, int64_t step, uint8_t *y) const {
#if QPASSES_SETS > 1
    if (chosen_set() == AVX512) {
        const int64_t bytes_of_row = given.width().reach(given.width().out) * channels;
        const int64_t row_step = given.height().dilation * step;
        const int64_t fours = padded(height, ROWS) / ROWS;
        const int64_t four_step = padded(bytes_of_row, 64) + 16; /* which vectors read beyond */
        static thread_local std::vector<int32_t> rows;
        if (rows.size() < static_cast<size_t>(fours * four_step))
            rows.resize(fours * four_step);
        for (int64_t four = 0; four < fours; four++)
            avx512::interleave(x + ROWS * four * row_step, row_step,
                               std::min(ROWS, height - ROWS * four), bytes_of_row,
                               rows.data() + four * four_step);
        avx512::filtered({given, after, offset, bytes.data(), rows.data(), fours, four_step,
                          channels, 0, y});
        return;
    }
    if (chosen_set() == AVX2)
        return avx2::filtered(given, after, offset, words.data(), channels, x, step, y);
#endif
    plain::filtered(given, after, offset, words.data(), channels, x, step, y);
}

} // namespace qpasses
