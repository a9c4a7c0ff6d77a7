/* Products of stored matrices: tiles of rows and columns in registers. */

#include "matrices.h"
#include "instruction_sets.h"

#include <algorithm>
#include <cmath>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

constexpr double MAGIC = 6755399441055744.0; /* 3 * 2**51: adding it rounds to an integer */
constexpr int64_t PANEL_512 = 64, PANEL = 16, TILE = 6;

int64_t padded(int64_t size, int64_t to) { return (size + to - 1) / to * to; }

uint8_t code_of(const Requantized &after, int64_t column, int32_t sum) {
    const int64_t m = after.multiplier[after.multiplier.size() > 1 ? column : 0];
    const int64_t shift = after.shift[after.shift.size() > 1 ? column : 0];
    const int64_t rest = after.rests.empty() ? 0 : after.rests[column];
    if (after.rounding.is_twice) {
        const Twice twice = {m, shift, after.rounding.last, after.zero, after.least, after.most};
        return static_cast<uint8_t>(twice(sum));
    }
    const int64_t level = shifted(sum * m + rest, shift, after.rounding.last) + after.zero;
    return static_cast<uint8_t>(std::min(std::max(level, after.least), after.most));
}

namespace plain {
#include "matrix_loops.h"
}
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
#include "matrix_loops.h"

/* Columns of one panel for one row: two products of words at a time. */
void row_sums(const int16_t *pairs, const uint8_t *x, int64_t rows, int32_t *sums) {
    __m256i low = _mm256_setzero_si256(), high = _mm256_setzero_si256();
    for (int64_t k = 0; k < rows; k += 2, pairs += 2 * PANEL) {
        const int32_t second = k + 1 < rows ? x[k + 1] : 0;
        const __m256i both = _mm256_set1_epi32(x[k] | second << 16);
        const __m256i *at = reinterpret_cast<const __m256i *>(pairs);
        low = _mm256_add_epi32(low, _mm256_madd_epi16(both, _mm256_loadu_si256(at)));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(both, _mm256_loadu_si256(at + 1)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(sums + 8), high);
}
}
END_SET
BEGIN_AVX512
namespace avx512 {
#include "matrix_loops.h"

/* Eight levels: what MAGIC leaves in the low half of a double is the integer. */
inline __m256i levels(__m256i sums, const double *scale, const double *rest) {
    const __m512d found = _mm512_fmadd_pd(_mm512_cvtepi32_pd(sums), _mm512_loadu_pd(scale),
                                          _mm512_loadu_pd(rest));
    return _mm512_cvtepi64_epi32(_mm512_castpd_si512(_mm512_add_pd(found, _mm512_set1_pd(MAGIC))));
}

/* The same as ``store`` where all levels fit int32: sixteen columns at a time. */
void store_small(const Requantized &after, int64_t first, int64_t width, const int32_t *sums,
                 int32_t row_offset, uint8_t *y) {
    const __m512i zero = _mm512_set1_epi32(static_cast<int32_t>(after.zero));
    const __m512i least = _mm512_set1_epi32(static_cast<int32_t>(after.least));
    const __m512i most = _mm512_set1_epi32(static_cast<int32_t>(after.most));
    const __m512i row = _mm512_set1_epi32(row_offset);
    int64_t n = 0;
    for (; n + 16 <= width; n += 16) {
        const int64_t column = first + n;
        const __m512i offset = _mm512_loadu_si512(after.offset.data() + column);
        const __m512i given = _mm512_loadu_si512(sums + n);
        const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(given, offset), row);
        const double *scale = after.scale.data() + column, *rest = after.rest.data() + column;
        const __m256i low = levels(_mm512_castsi512_si256(sum), scale, rest);
        const __m256i high = levels(_mm512_extracti64x4_epi64(sum, 1), scale + 8, rest + 8);
        __m512i level = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        level = _mm512_add_epi32(level, zero);
        level = _mm512_min_epi32(_mm512_max_epi32(level, least), most);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(y + n), _mm512_cvtepi32_epi8(level));
    }
    if (n < width)
        store(after, first + n, width - n, sums + n, row_offset, y + n);
}

/* A tile: so many rows by vectors of 16 columns, four products of bytes at a time. */
template <int ROWS, int VECTORS>
void tile(const int8_t *quads, const uint8_t *x, int64_t step, int64_t rows, int32_t *sums) {
    __m512i found[ROWS][VECTORS];
    _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++)
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
            found[r][v] = _mm512_setzero_si512();
    for (int64_t k = 0; k < rows; k += 4, quads += 4 * PANEL_512) {
        __m512i right[VECTORS];
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
            right[v] = _mm512_loadu_si512(quads + 64 * v);
        _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++) {
            int32_t four;
            __builtin_memcpy(&four, x + r * step + k, 4);
            const __m512i left = _mm512_set1_epi32(four);
            _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
                found[r][v] = _mm512_dpbusd_epi32(found[r][v], left, right[v]);
        }
    }
    _Pragma("GCC unroll 8") for (int r = 0; r < ROWS; r++)
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
            _mm512_storeu_si512(sums + r * PANEL_512 + 16 * v, found[r][v]);
}

template <int ROWS>
void tile_of(int64_t vectors, const int8_t *quads, const uint8_t *x, int64_t step, int64_t rows,
             int32_t *sums) {
    const auto found = vectors == 1   ? tile<ROWS, 1>
                       : vectors == 2 ? tile<ROWS, 2>
                       : vectors == 3 ? tile<ROWS, 3>
                                      : tile<ROWS, 4>;
    found(quads, x, step, rows, sums);
}

void tile_of(int64_t count, int64_t vectors, const int8_t *quads, const uint8_t *x, int64_t step,
             int64_t rows, int32_t *sums) {
    const auto found = count == 1   ? tile_of<1>
                       : count == 2 ? tile_of<2>
                       : count == 3 ? tile_of<3>
                       : count == 4 ? tile_of<4>
                       : count == 5 ? tile_of<5>
                                    : tile_of<6>;
    found(vectors, quads, x, step, rows, sums);
}
}
END_SET
#endif

} // namespace

/* So many rows at a time, so that what is in a column of them lies side by side. */
template <int DEEP, int64_t WIDE, typename T>
static void interleave(const uint8_t *from, uint8_t turn, int64_t rows, int64_t columns,
                       std::vector<T> &to) {
    const std::vector<uint8_t> none(columns, turn);
    to.assign(padded(rows, DEEP) * padded(columns, WIDE), 0);
    for (int64_t first = 0; first < columns; first += WIDE) {
        const int64_t width = std::min(WIDE, columns - first);
        T *__restrict panel = to.data() + first * padded(rows, DEEP);
        for (int64_t k = 0; k < rows; k += DEEP, panel += DEEP * WIDE) {
            const uint8_t *row[DEEP];
            for (int r = 0; r < DEEP; r++)
                row[r] = (k + r < rows ? from + (k + r) * columns : none.data()) + first;
            for (int64_t n = 0; n < width; n++)
                for (int r = 0; r < DEEP; r++)
                    panel[DEEP * n + r] = static_cast<int8_t>(row[r][n] ^ turn);
        }
    }
}

static std::vector<int64_t> numbers_of(const Tensor &given, int64_t columns) {
    const int64_t count = static_cast<int64_t>(given.size());
    if (given.type != INT32 || (count != 1 && count != columns))
        throw std::runtime_error("multipliers or shifts that are neither one nor one a column");
    return {given.as<int32_t>(), given.as<int32_t>() + count};
}

Requantized::Requantized(const Requantization &how, const Tensor &multipliers,
                         const Tensor &shifts, const Shape &added, int64_t y_zero, int64_t y_least,
                         int64_t y_most, const std::vector<int64_t> &largest)
    : multiplier(numbers_of(multipliers, largest.size())),
      shift(numbers_of(shifts, largest.size())), rests(added), rounding(how), zero(y_zero),
      least(y_least), most(y_most), low(static_cast<double>(y_least - y_zero)),
      high(static_cast<double>(y_most - y_zero)), in_double(!how.is_twice) {
    if (!rests.empty() && rests.size() != largest.size())
        throw std::runtime_error("rests of biases that are not one a column");
    for (size_t n = 0; n < largest.size(); n++) {
        const int64_t m = multiplier[multiplier.size() > 1 ? n : 0];
        const int64_t s = shift[shift.size() > 1 ? n : 0];
        const int64_t more = rests.empty() ? 0 : rests[n];
        if (s < (how.is_twice ? 0 : 1) || s > 62)
            throw std::runtime_error("a shift that is not from 1 to 62");
        const double unit = std::ldexp(1.0, static_cast<int>(-s));
        scale.push_back(m * unit);
        rest.push_back(more * unit + (how.last == Rounding::HALF_UP ? unit / 2 : 0));
        away.push_back(how.last == Rounding::HALF_AWAY ? unit / 2 : 0);
        const double bound = static_cast<double>(largest[n]) * std::fabs(m) + std::fabs(more);
        in_double &= bound < 4503599627370496.0; /* 2**52 */
        are_small &= bound * unit < 1073741824.0 && how.last != Rounding::HALF_AWAY;
    }
    are_small &= in_double;
}

void RightMatrix::pack(const uint8_t *from, bool is_signed, int64_t height, int64_t width) {
    rows = height;
    columns = width;
    const uint8_t turn = is_signed ? 0 : 0x80; /* unsigned ones less 128 */
    sums.assign(columns, 0);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t n = 0; n < columns; n++)
            sums[n] += static_cast<int8_t>(from[k * columns + n] ^ turn);
    if (chosen_set() == AVX512)
        interleave<4, PANEL_512>(from, turn, rows, columns, quads);
    else
        interleave<2, PANEL>(from, turn, rows, columns, pairs);
}

std::vector<int64_t> RightMatrix::sizes(const uint8_t *from, bool is_signed) const {
    std::vector<int64_t> found(columns, 0);
    for (int64_t k = 0; k < rows; k++)
        for (int64_t n = 0; n < columns; n++) {
            const int32_t code = static_cast<int8_t>(from[k * columns + n] ^ (is_signed ? 0 : 0x80));
            found[n] += code < 0 ? -code : code;
        }
    return found;
}

void multiply(const RightMatrix &right, const Requantized &after, const uint8_t *x, int64_t step,
              int64_t count, const int32_t *row_offsets, uint8_t *y, int64_t y_step) {
    const int64_t rows = right.rows;
    int32_t sums[TILE * PANEL_512];
#if QPASSES_SETS > 1
    if (chosen_set() == AVX512) {
        const int64_t deep = padded(rows, 4);
        std::vector<uint8_t> copied(rows % 4 ? TILE * deep : 0);
        for (int64_t r = 0; r < count; r += TILE) {
            const int64_t some = std::min(TILE, count - r);
            const uint8_t *from = x + r * step;
            int64_t from_step = step;
            if (!copied.empty()) { /* reading four must not go beyond a row */
                for (int64_t k = 0; k < some; k++)
                    std::copy(from + k * step, from + k * step + rows, copied.begin() + k * deep);
                from = copied.data();
                from_step = deep;
            }
            for (int64_t n = 0; n < right.columns; n += PANEL_512) {
                const int64_t width = std::min(PANEL_512, right.columns - n);
                avx512::tile_of(some, (width + 15) / 16, right.quads.data() + n * deep, from,
                                from_step, rows, sums);
                const auto store = after.are_small ? avx512::store_small : avx512::store;
                for (int64_t k = 0; k < some; k++)
                    store(after, n, width, sums + k * PANEL_512,
                          row_offsets ? row_offsets[r + k] : 0, y + (r + k) * y_step + n);
            }
        }
        return;
    }
#endif
    const int64_t deep = padded(rows, 2);
    for (int64_t r = 0; r < count; r++)
        for (int64_t n = 0; n < right.columns; n += PANEL) {
            const int64_t width = std::min(PANEL, right.columns - n);
            const int16_t *pairs = right.pairs.data() + n * deep;
            const int32_t offset = row_offsets ? row_offsets[r] : 0;
#if QPASSES_SETS > 1
            if (chosen_set() == AVX2) {
                avx2::row_sums(pairs, x + r * step, rows, sums);
                avx2::store(after, n, width, sums, offset, y + r * y_step + n);
                continue;
            }
#endif
            plain::plain_sums(pairs, x + r * step, rows, sums);
            plain::store(after, n, width, sums, offset, y + r * y_step + n);
        }
}

} // namespace qpasses
