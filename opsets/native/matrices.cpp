/* Products of stored matrices: tiles of rows and columns in registers. */

#include "matrices.h"
#include "instruction_sets.h"

#include <algorithm>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif
#ifdef QPASSES_NEON
#include <arm_neon.h>
#endif

namespace qpasses {
namespace {

constexpr int64_t PANEL_512 = LANES, PANEL = 16; /* of AVX-512, and of others */

/* Some rows of ``multiply``, and a panel of columns. */
struct Panel {
    const RightMatrix &right;
    const Requantized &after;
    const uint8_t *const *rows;
    const int64_t *runs;
    Offsets offsets;
    uint8_t *y;
    int64_t y_step, first, width;
};

#define LOOPS "code_sums.h"
#include "each_set.h"

namespace plain {
#include "requantized_loops.h"

/* The sum of one row and column. */
inline int32_t column_sum(const int16_t *words, const Panel &at, const uint8_t *row) {
    const int64_t deep = padded(at.right.length, QUAD);
    uint32_t sum = 0; /* which may wrap until the offsets are added */
    for (int64_t run = 0; run < at.right.runs; run++, words += deep) {
        const uint8_t *x = row + at.runs[run];
        for (int64_t k = 0; k < deep; k++)
            sum += static_cast<int16_t>(x[k]) * words[k];
    }
    return static_cast<int32_t>(sum);
}

void products(const Panel &at, int64_t count) {
    const int64_t rows = at.right.rows();
    int32_t sums[PANEL];
    for (int64_t r = 0; r < count; r++) {
        const int16_t *words = at.right.words.data() + at.first * rows;
        for (int64_t n = 0; n < at.width; n++, words += rows)
            sums[n] = column_sum(words, at, at.rows[r]);
        store(at.after, at.first, at.width, sums, at.offsets.columns + at.first,
              at.offsets.row(r), at.y + r * at.y_step);
    }
}
}

/* Tile after tile: each says how many rows it had. */
inline void in_tiles(int64_t (*tile)(const Panel &, int64_t), Panel at, int64_t count) {
    for (int64_t done = 0; done < count;) {
        const int64_t more = tile(at, count - done);
        done += more;
        at.rows += more;
        at.y += more * at.y_step;
        at.offsets.rows += at.offsets.rows ? more : 0;
    }
}

#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
#include "requantized_loops.h"

/* A panel for some rows: four vectors of four columns each, of which every product has two
   sums. */
template <int ROWS> void tile(const Panel &at) {
    const int64_t length = at.right.length;
    const int16_t *words = at.right.words.data() + at.first * at.right.rows();
    __m256i found[ROWS][4];
    _Pragma("GCC unroll 2") for (int r = 0; r < ROWS; r++)
        _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++)
            found[r][v] = _mm256_setzero_si256();
    for (int64_t run = 0; run < at.right.runs; run++)
        for (int64_t k = 0; k < length; k += QUAD, words += QUAD * PANEL) {
            __m256i left[ROWS];
            _Pragma("GCC unroll 2") for (int r = 0; r < ROWS; r++) {
                int32_t four;
                __builtin_memcpy(&four, at.rows[r] + at.runs[run] + k, 4);
                left[r] = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
            }
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) {
                const __m256i right =
                    _mm256_loadu_si256(reinterpret_cast<const __m256i *>(words + 16 * v));
                _Pragma("GCC unroll 2") for (int r = 0; r < ROWS; r++)
                    found[r][v] = _mm256_add_epi32(found[r][v], _mm256_madd_epi16(left[r], right));
            }
        }
    for (int r = 0; r < ROWS; r++) {
        int32_t sums[PANEL];
        for (int v = 0; v < 4; v += 2) {
            const __m256i both = _mm256_hadd_epi32(found[r][v], found[r][v + 1]);
            _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + 4 * v),
                                _mm256_permute4x64_epi64(both, 0xd8));
        }
        store(at.after, at.first, at.width, sums, at.offsets.columns + at.first,
              at.offsets.row(r), at.y + r * at.y_step);
    }
}

int64_t tile_of(const Panel &at, int64_t count) {
    if (count >= 2)
        return tile<2>(at), 2;
    return tile<1>(at), 1;
}

void products(const Panel &at, int64_t count) { in_tiles(tile_of, at, count); }
}
END_SET
BEGIN_AVX512
namespace avx512 {
#include "avx512_codes.h"

/* Four numbers of each column side by side, 16 columns at a time. */
void interleave(const uint8_t *const *rows, uint8_t turn, int64_t width, int8_t *to) {
    const __m128i turned = _mm_set1_epi8(static_cast<char>(turn));
    for (int64_t n = 0; n < width; n += 16) {
        const int64_t missing = width - n < 16 ? 16 - (width - n) : 0;
        const __mmask16 some = static_cast<__mmask16>(0xffff >> missing);
        __m128i row[QUAD];
        for (int64_t r = 0; r < QUAD; r++)
            row[r] = _mm_maskz_mov_epi8(
                some, _mm_xor_si128(_mm_maskz_loadu_epi8(some, rows[r] + n), turned));
        const __m128i first = _mm_unpacklo_epi8(row[0], row[1]);
        const __m128i second = _mm_unpacklo_epi8(row[2], row[3]);
        const __m128i third = _mm_unpackhi_epi8(row[0], row[1]);
        const __m128i fourth = _mm_unpackhi_epi8(row[2], row[3]);
        __m128i *at = reinterpret_cast<__m128i *>(to + QUAD * n);
        _mm_storeu_si128(at, _mm_unpacklo_epi16(first, second));
        _mm_storeu_si128(at + 1, _mm_unpackhi_epi16(first, second));
        _mm_storeu_si128(at + 2, _mm_unpacklo_epi16(third, fourth));
        _mm_storeu_si128(at + 3, _mm_unpackhi_epi16(third, fourth));
    }
}

/* Adds four numbers of each column to their sums, of which vectors are filled. */
void add_columns(const int8_t *fours, int64_t width, int32_t *sums) {
    for (int64_t n = 0; n < width; n += 16)
        _mm512_storeu_si512(sums + n, _mm512_dpbusd_epi32(_mm512_loadu_si512(sums + n),
                                                          _mm512_set1_epi8(1),
                                                          _mm512_loadu_si512(fours + QUAD * n)));
}

/* A tile: so many rows by vectors of 16 columns, four products of bytes at a time. */
template <int ROWS, int VECTORS> void tile(const Panel &at) {
    const int64_t length = at.right.length;
    const int8_t *bytes = at.right.bytes.data() + at.first * at.right.rows();
    __m512i found[ROWS][VECTORS];
    _Pragma("GCC unroll 12") for (int r = 0; r < ROWS; r++)
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
            found[r][v] = _mm512_setzero_si512();
    for (int64_t run = 0; run < at.right.runs; run++)
        for (int64_t k = 0; k < length; k += QUAD, bytes += QUAD * PANEL_512) {
            __m512i right[VECTORS];
            _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
                right[v] = _mm512_loadu_si512(bytes + 64 * v);
            _Pragma("GCC unroll 12") for (int r = 0; r < ROWS; r++) {
                int32_t four;
                __builtin_memcpy(&four, at.rows[r] + at.runs[run] + k, 4);
                const __m512i left = _mm512_set1_epi32(four);
                _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
                    found[r][v] = _mm512_dpbusd_epi32(found[r][v], left, right[v]);
            }
        }
    store_rows(at.after, at.first, at.width, found, at.offsets, at.y, at.y_step);
}

/* Registers hold 24 sums: 12 rows where a panel has few columns. */
template <int VECTORS> int64_t tile_of(const Panel &at, int64_t count) {
    constexpr int MOST = VECTORS > 2 ? 6 : 12;
    if (count >= MOST)
        return tile<MOST, VECTORS>(at), MOST;
    if (count >= 6)
        return tile<6, VECTORS>(at), 6;
    if (count >= 4)
        return tile<4, VECTORS>(at), 4;
    if (count >= 2)
        return tile<2, VECTORS>(at), 2;
    return tile<1, VECTORS>(at), 1;
}

void products(const Panel &at, int64_t count) {
    const int64_t vectors = (at.width + 15) / 16;
    const auto some = vectors == 1   ? tile_of<1>
                      : vectors == 2 ? tile_of<2>
                      : vectors == 3 ? tile_of<3>
                                     : tile_of<4>;
    in_tiles(some, at, count);
}
}
END_SET
#endif

#ifdef QPASSES_NEON
BEGIN_DOTPROD
namespace dotprod {
/* A panel for some rows: four vectors of four columns each, four products of bytes at a time.
   Left bytes are signed here, 128 less, for which a sum begins with 128 times its column's. */
template <int ROWS> void tile(const Panel &at) {
    const int64_t length = at.right.length;
    const int8_t *bytes = at.right.bytes.data() + at.first * at.right.rows();
    int32x4_t found[ROWS][4];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < 4; v++)
            found[r][v] = vshlq_n_s32(vld1q_s32(at.right.sums.data() + at.first + 4 * v), 7);
    for (int64_t run = 0; run < at.right.runs; run++)
        for (int64_t k = 0; k < length; k += QUAD, bytes += QUAD * PANEL) {
            int8x16_t right[4];
            _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++)
                right[v] = vld1q_s8(bytes + 16 * v);
            _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++) {
                uint32_t four;
                __builtin_memcpy(&four, at.rows[r] + at.runs[run] + k, 4);
                const int8x16_t left = vreinterpretq_s8_u32(vdupq_n_u32(four ^ 0x80808080));
                _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++)
                    found[r][v] = vdotq_s32(found[r][v], left, right[v]);
            }
        }
    for (int r = 0; r < ROWS; r++) {
        int32_t sums[PANEL];
        for (int v = 0; v < 4; v++)
            vst1q_s32(sums + 4 * v, found[r][v]);
        plain::store(at.after, at.first, at.width, sums, at.offsets.columns + at.first,
                     at.offsets.row(r), at.y + r * at.y_step);
    }
}

int64_t tile_of(const Panel &at, int64_t count) {
    if (count >= 4)
        return tile<4>(at), 4;
    if (count >= 2)
        return tile<2>(at), 2;
    return tile<1>(at), 1;
}

void products(const Panel &at, int64_t count) { in_tiles(tile_of, at, count); }
}
END_SET
#endif

/* Four numbers of each column side by side. */
template <typename T>
void interleave(const uint8_t *const *rows, uint8_t turn, int64_t width, T *__restrict to) {
    for (int64_t n = 0; n < width; n++)
        for (int64_t r = 0; r < QUAD; r++)
            to[QUAD * n + r] = static_cast<int8_t>(rows[r][n] ^ turn);
}

/* Calls work(rows, where they go) for four rows after the other, of each panel of so many
   columns; what is not there are zeros. */
template <typename T, typename Work>
void each_four(const RightMatrix &matrix, const uint8_t *from, uint8_t turn, int64_t wide, T *to,
               Work work) {
    const std::vector<uint8_t> none(matrix.columns, turn);
    for (int64_t first = 0; first < matrix.columns; first += wide)
        for (int64_t run = 0; run < matrix.runs; run++)
            for (int64_t k = 0; k < matrix.length; k += QUAD, to += QUAD * wide) {
                const uint8_t *rows[QUAD];
                for (int64_t r = 0; r < QUAD; r++)
                    rows[r] = (k + r < matrix.length
                                   ? from + (run * matrix.length + k + r) * matrix.columns
                                   : none.data()) + first;
                work(rows, first, std::min(wide, matrix.columns - first), to);
            }
}

} // namespace

void RightMatrix::pack(const uint8_t *from, bool is_signed, int64_t count, int64_t size,
                       int64_t width) {
    must_be_from(count * size, 0, INT32_MAX / 128, "the products of a sum");
    runs = count;
    length = size;
    columns = width;
    const uint8_t turn = is_signed ? 0 : 0x80; /* unsigned ones less 128 */
    sums.assign(padded(columns, LANES), 0);
#if QPASSES_SETS > 1
    if (chosen_set() == AVX512) {
        bytes.assign(rows() * padded(columns, PANEL_512), 0);
        each_four(*this, from, turn, PANEL_512, bytes.data(),
                  [&](const uint8_t *const *four, int64_t first, int64_t some, int8_t *to) {
                      avx512::interleave(four, turn, some, to);
                      avx512::add_columns(to, some, sums.data() + first);
                  });
        return;
    }
#endif
    const auto work = [&](const uint8_t *const *four, int64_t first, int64_t some, auto *to) {
        interleave(four, turn, some, to);
        for (int64_t k = 0; k < QUAD * some; k++)
            sums[first + k / QUAD] += to[k];
    };
    if (chosen_set() == DOTPROD) {
        bytes.assign(rows() * padded(columns, PANEL), 0);
        each_four(*this, from, turn, PANEL, bytes.data(), work);
        return;
    }
    const int64_t wide = chosen_set() == AVX2 ? PANEL : 1;
    words.assign(rows() * padded(columns, wide), 0);
    each_four(*this, from, turn, wide, words.data(), work);
}

std::vector<Span> RightMatrix::spans(const uint8_t *from, bool is_signed, int64_t zero,
                                     const std::vector<int64_t> &x_zero,
                                     const std::vector<int64_t> &start) const {
    std::vector<Span> found;
    for (int64_t n = 0; n < columns; n++)
        found.push_back({start[n], start[n]});
    for (int64_t k = 0; k < runs * length; k++)
        for (int64_t n = 0; n < columns; n++) {
            const uint8_t code = from[k * columns + n] ^ (is_signed ? 0 : 0x80);
            const int64_t weight = static_cast<int8_t>(code) - zero;
            const int64_t none = -x_zero[n] * weight, all = (255 - x_zero[n]) * weight;
            found[n].low += std::min(none, all);
            found[n].high += std::max(none, all);
        }
    return found;
}

void multiply(const LeftRows &left, const RightMatrix &right, const Requantized &after,
              const Offsets &offsets, uint8_t *y, int64_t y_step) {
    const auto panel = [&](int64_t first, int64_t wide) {
        return Panel{right, after, left.rows, left.runs, offsets, y + first, y_step, first,
                     std::min(wide, right.columns - first)};
    };
#if QPASSES_SETS > 1
    if (chosen_set() == AVX512) {
        for (int64_t n = 0; n < right.columns; n += PANEL_512)
            avx512::products(panel(n, PANEL_512), left.count);
        return;
    }
    if (chosen_set() == AVX2) {
        for (int64_t n = 0; n < right.columns; n += PANEL)
            avx2::products(panel(n, PANEL), left.count);
        return;
    }
#endif
#ifdef QPASSES_NEON
    if (chosen_set() == DOTPROD) {
        for (int64_t n = 0; n < right.columns; n += PANEL)
            dotprod::products(panel(n, PANEL), left.count);
        return;
    }
#endif
    for (int64_t n = 0; n < right.columns; n += PANEL)
        plain::products(panel(n, PANEL), left.count);
}

LeftMatrix::LeftMatrix(const uint8_t *from, bool is_signed, int64_t count, int64_t size)
    : length(size) {
    const int64_t step = padded(length, QUAD);
    const bool is_copied = is_signed || step != length;
    const uint8_t turn = is_signed ? 0x80 : 0;
    starts.resize(count);
    copied.resize(is_copied ? count * step : 0);
    for (int64_t r = 0; r < count; r++) {
        if (is_copied)
            for (int64_t k = 0; k < length; k++)
                copied[r * step + k] = from[r * length + k] ^ turn;
        starts[r] = is_copied ? copied.data() + r * step : from + r * length;
    }
}

int64_t LeftMatrix::sum(int64_t row) const {
    constexpr int64_t MOST = 1 << 20; /* of which int32 holds the sum */
    int64_t total = 0;
    for (int64_t k = 0; k < length; k += MOST)
        total += BEST(sum_of<uint8_t>)(starts[row] + k, std::min(MOST, length - k));
    return total;
}

} // namespace qpasses
