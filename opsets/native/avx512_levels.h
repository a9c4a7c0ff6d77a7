/* Sums and products of bytes in float32, 64 at a time; where a level is too near to a tie to say,
   as byte_sums.h has them. */

/* What float32 needs of a node. */
struct Levels {
    __m512 a, b, start, a_zero, b_zero, sure;
    __m512i least, most;

    Levels(const Steps &steps, const ByteSums &ends)
        : a(_mm512_set1_ps(static_cast<float>(steps.a))),
          b(_mm512_set1_ps(static_cast<float>(steps.b))),
          start(_mm512_set1_ps(static_cast<float>(steps.offset + steps.zero))),
          a_zero(_mm512_set1_ps(static_cast<float>(steps.a_zero))),
          b_zero(_mm512_set1_ps(static_cast<float>(steps.b_zero))),
          sure(_mm512_set1_ps(ends.sure)), least(_mm512_set1_epi16(ends.least)),
          most(_mm512_set1_epi16(ends.most)) {}
};

template <typename T> inline __m512 in_float(const T *from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    return _mm512_cvtepi32_ps(T(-1) < 0 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

/* False if it cannot say. */
template <typename T, bool IS_SUM>
inline bool near_codes(const Levels &given, const T *a, const T *b, T *y) {
    __m512i level[4];
    __mmask16 doubts = 0;
    _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) {
        const __m512 first = in_float(a + 16 * n), second = in_float(b + 16 * n);
        const __m512 found =
            IS_SUM ? _mm512_fmadd_ps(first, given.a,
                                     _mm512_fmadd_ps(second, given.b, given.start))
                   : _mm512_fmadd_ps(_mm512_mul_ps(_mm512_sub_ps(first, given.a_zero),
                                                   _mm512_sub_ps(second, given.b_zero)),
                                     given.a, given.start);
        level[n] = _mm512_cvtps_epi32(found);
        const __m512 beyond = _mm512_abs_ps(_mm512_reduce_ps(found, 0));
        doubts |= _mm512_cmp_ps_mask(beyond, given.sure, _CMP_GE_OQ);
    }
    if (doubts)
        return false;
    const auto within = [&](__m512i one, __m512i other) {
        const __m512i both = _mm512_packs_epi32(one, other);
        return _mm512_min_epi16(_mm512_max_epi16(both, given.least), given.most);
    };
    const __m512i low = within(level[0], level[1]), high = within(level[2], level[3]);
    const __m512i codes = T(-1) < 0 ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(y, _mm512_permutexvar_epi32(order, codes));
    return true;
}

template <typename T, bool IS_SUM>
void near_bytes(const ByteSums &numbers, const T *a, const T *b, T *y, int64_t count) {
    const auto exact = IS_SUM ? byte_sums<T> : byte_products<T>;
    const Levels given(numbers.steps, numbers);
    int64_t k = 0;
    for (; numbers.sure > 0 && k + 64 <= count; k += 64)
        if (!near_codes<T, IS_SUM>(given, a + k, b + k, y + k))
            exact(numbers, a + k, b + k, y + k, 64);
    exact(numbers, a + k, b + k, y + k, count - k);
}
