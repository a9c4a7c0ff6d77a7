/* Tables of 256 bytes in AVX-512. */

/* As many lanes of 64 as are left. */
inline __mmask64 first_of(int64_t count) {
    return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

/* What a table has for 64 codes, of which the two highest bits say in which quarter. */
inline __m512i looked_up(__m512i first, __m512i second, __m512i third, __m512i fourth,
                         __m512i code) {
    const __mmask64 is_odd = _mm512_test_epi8_mask(code, _mm512_set1_epi8(64));
    const __m512i low = _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(code, first), is_odd,
                                                     code, second);
    const __m512i high = _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(code, third), is_odd,
                                                      code, fourth);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), low, high);
}

inline __m512i looked_up(const uint8_t *table, __m512i code) {
    return looked_up(_mm512_loadu_si512(table), _mm512_loadu_si512(table + 64),
                     _mm512_loadu_si512(table + 128), _mm512_loadu_si512(table + 192), code);
}
