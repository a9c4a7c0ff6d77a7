/* Sums in registers of AVX-512 as codes: exact on int64 as requantized.h says. */

/* What all columns share: int8 codes are unsigned ones, 128 higher, until they are stored. */
struct Ends {
    __m512i zero, least, most, turn;

    explicit Ends(const Requantized &after) {
        const int higher = std::min(after.least, after.most) < 0 ? 128 : 0;
        zero = _mm512_set1_epi16(static_cast<int16_t>(after.zero + higher));
        least = _mm512_set1_epi8(static_cast<char>(after.least + higher));
        most = _mm512_set1_epi8(static_cast<char>(after.most + higher));
        turn = _mm512_set1_epi8(static_cast<char>(higher));
    }
};

/* Four vectors of levels below 2**31 as codes. */
inline void store_levels(const Ends &ends, __mmask64 some, const __m512i *level, uint8_t *y) {
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(level[0], level[1]), ends.zero);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(level[2], level[3]), ends.zero);
    __m512i codes = _mm512_packus_epi16(low, high);
    codes = _mm512_min_epu8(_mm512_max_epu8(codes, ends.least), ends.most);
    codes = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        _mm512_xor_si512(codes, ends.turn));
    _mm512_mask_storeu_epi8(y, some, codes);
}

inline __m512i moved(__m512i sums, const int32_t *offset, int32_t row_offset) {
    return _mm512_add_epi32(_mm512_add_epi32(sums, _mm512_loadu_si512(offset)),
                            _mm512_set1_epi32(row_offset));
}

inline __mmask64 lanes(int64_t width) { return ~__mmask64{0} >> (64 - width); }

/* Sums of up to 64 columns from ``first`` on, whose levels are found in float32. */
template <int VECTORS>
inline void store_in_float(const Requantized &after, const Ends &ends, int64_t first, int64_t width,
                           const __m512i *sums, const int32_t *offset, int32_t row_offset,
                           uint8_t *y) {
    __m512i level[4];
    _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) {
        if (v >= VECTORS) {
            level[v] = _mm512_setzero_si512();
            continue;
        }
        const int64_t at = first + 16 * v;
        const __m512i sum = moved(sums[v], offset + 16 * v, row_offset);
        level[v] = _mm512_cvtps_epi32(
            _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_loadu_ps(after.factor.data() + at)));
    }
    store_levels(ends, lanes(width), level, y);
}

inline __m256i levels_of_eight(const Requantized &after, int64_t first, __m256i sums) {
    return _mm512_cvtpd_epi32(_mm512_fmadd_pd(_mm512_cvtepi32_pd(sums),
                                              _mm512_loadu_pd(after.scale.data() + first),
                                              _mm512_loadu_pd(after.rest.data() + first)));
}

/* The same in double. */
__attribute__((noinline)) void store_in_double(const Requantized &after, int64_t first,
                                               int64_t width, const int32_t *sums,
                                               const int32_t *offset, int32_t row_offset,
                                               uint8_t *y) {
    __m512i level[4];
    for (int64_t v = 0; v < 4; v++) {
        level[v] = _mm512_setzero_si512();
        if (16 * v >= width)
            continue;
        const int64_t at = first + 16 * v;
        const __m512i sum =
            moved(_mm512_loadu_si512(sums + 16 * v), offset + 16 * v, row_offset);
        const __m256i low = levels_of_eight(after, at, _mm512_castsi512_si256(sum));
        const __m256i high = levels_of_eight(after, at + 8, _mm512_extracti64x4_epi64(sum, 1));
        level[v] = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    }
    store_levels(Ends(after), lanes(width), level, y);
}

/* Products over 2**shift. */
inline __m512i shifted(__m512i products, __m512i shift, Rounding rounding) {
    const __m512i one = _mm512_set1_epi64(1);
    __m512i half = _mm512_sllv_epi64(one, _mm512_sub_epi64(shift, one));
    if (rounding == Rounding::HALF_TO_EVEN) {
        const __m512i odd = _mm512_and_si512(_mm512_srav_epi64(products, shift), one);
        half = _mm512_add_epi64(half, _mm512_sub_epi64(odd, one));
    } else if (rounding == Rounding::HALF_AWAY) {
        half = _mm512_add_epi64(half, _mm512_srai_epi64(products, 63));
    }
    return _mm512_srav_epi64(_mm512_add_epi64(products, half), shift);
}

/* Eight levels of sums in int64, as Requantized::level finds them. */
inline __m512i levels(const Requantized &after, int64_t first, __m512i sums) {
    const __m512i multiplier = _mm512_loadu_si512(after.multiplier.data() + first);
    const __m512i shift = _mm512_loadu_si512(after.shift.data() + first);
    if (!after.rounding.is_twice) {
        const __m512i rest = _mm512_loadu_si512(after.rests.data() + first);
        return shifted(_mm512_add_epi64(_mm512_mul_epi32(sums, multiplier), rest), shift,
                       after.rounding.last);
    }
    const __m512i middle = _mm512_set1_epi64(31), zero = _mm512_setzero_si512();
    const __m512i left = _mm512_max_epi64(_mm512_sub_epi64(middle, shift), zero);
    const __m512i right = _mm512_max_epi64(_mm512_sub_epi64(shift, middle), zero);
    /* of what is shifted to the left the low half is multiplied */
    __m512i found = _mm512_mul_epi32(_mm512_sllv_epi64(sums, left), multiplier);
    found = _mm512_srai_epi64(_mm512_add_epi64(found, _mm512_set1_epi64(1 << 30)), 31);
    found = _mm512_min_epi64(found, _mm512_set1_epi64(0x7fffffff));
    return _mm512_mask_mov_epi64(found, _mm512_cmpgt_epi64_mask(right, zero),
                                 shifted(found, right, after.rounding.last));
}

/* The same for all that is left. */
__attribute__((noinline)) void store_in_int64(const Requantized &after, int64_t first,
                                              int64_t width, const int32_t *sums,
                                              const int32_t *offset, int32_t row_offset,
                                              uint8_t *y) {
    const __m512i low = _mm512_set1_epi64(after.least - after.zero);
    const __m512i high = _mm512_set1_epi64(after.most - after.zero);
    const __m512i zero = _mm512_set1_epi64(after.zero);
    for (int64_t n = 0; n < width; n += 8) {
        const __mmask8 some = static_cast<__mmask8>(0xff >> (width - n < 8 ? 8 - (width - n) : 0));
        const __m256i column = _mm256_maskz_loadu_epi32(some, offset + n);
        const __m256i sum = _mm256_add_epi32(
            _mm256_add_epi32(_mm256_maskz_loadu_epi32(some, sums + n), column),
            _mm256_set1_epi32(row_offset));
        __m512i level = levels(after, first + n, _mm512_cvtepi32_epi64(sum));
        level = _mm512_add_epi64(_mm512_min_epi64(_mm512_max_epi64(level, low), high), zero);
        _mm_mask_storeu_epi8(y + n, some, _mm512_cvtepi64_epi8(level));
    }
}

/* Rows of sums, whose codes are so far from each other. */
template <int ROWS, int VECTORS>
__attribute__((always_inline)) inline void
store_rows(const Requantized &after, int64_t first, int64_t width,
           const __m512i (&sums)[ROWS][VECTORS], const Offsets &offsets, uint8_t *y, int64_t step) {
    const int32_t *columns = offsets.columns + first;
    if (after.in_float[first / LANES]) {
        const Ends ends(after);
        _Pragma("GCC unroll 12") for (int r = 0; r < ROWS; r++)
            store_in_float<VECTORS>(after, ends, first, width, sums[r], columns, offsets.row(r),
                                    y + r * step);
        return;
    }
    const auto store = after.are_small ? store_in_double : store_in_int64;
    _Pragma("GCC unroll 12") for (int r = 0; r < ROWS; r++) {
        int32_t stored[16 * VECTORS];
        _Pragma("GCC unroll 4") for (int v = 0; v < VECTORS; v++)
            _mm512_storeu_si512(stored + 16 * v, sums[r][v]);
        store(after, first, width, stored, columns, offsets.row(r), y + r * step);
    }
}
