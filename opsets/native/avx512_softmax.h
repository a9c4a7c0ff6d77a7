/* Rows of bytes of TableSoftmax by AVX-512, where numerators are nearly a multiple of
   denominators: see table_softmax.cpp. */

inline uint8_t largest_of(__m512i codes) {
    const __m256i half = _mm256_max_epu8(_mm512_castsi512_si256(codes),
                                         _mm512_extracti64x4_epi64(codes, 1));
    __m128i found = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    found = _mm_max_epu8(found, _mm_srli_si128(found, 8));
    found = _mm_max_epu8(found, _mm_srli_si128(found, 4));
    found = _mm_max_epu8(found, _mm_srli_si128(found, 2));
    found = _mm_max_epu8(found, _mm_srli_si128(found, 1));
    return static_cast<uint8_t>(_mm_extract_epi8(found, 0));
}

/* The largest of so many codes, which ``turn`` makes unsigned. */
inline uint8_t largest_of(const uint8_t *x, int64_t cells, __m512i turn) {
    __m512i found = _mm512_setzero_si512();
    for (int64_t k = 0; k < cells; k += 64) {
        const __mmask64 some = first_of(cells - k);
        const __m512i codes = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, x + k), turn);
        found = _mm512_max_epu8(found, _mm512_maskz_mov_epi8(some, codes));
    }
    return largest_of(found);
}

/* Four bytes of each denominator become one number; ``packed`` takes these back into order. */
inline void joined(const __m512i *bytes, __m512i *found) {
    const __m512i low = _mm512_unpacklo_epi8(bytes[0], bytes[1]);
    const __m512i more = _mm512_unpacklo_epi8(bytes[2], bytes[3]);
    const __m512i high = _mm512_unpackhi_epi8(bytes[0], bytes[1]);
    const __m512i most = _mm512_unpackhi_epi8(bytes[2], bytes[3]);
    found[0] = _mm512_unpacklo_epi16(low, more);
    found[1] = _mm512_unpackhi_epi16(low, more);
    found[2] = _mm512_unpacklo_epi16(high, most);
    found[3] = _mm512_unpackhi_epi16(high, most);
}

inline __m512i packed(const __m512i *numbers) {
    const __m512i byte = _mm512_set1_epi16(0xff);
    const __m512i low = _mm512_packs_epi32(numbers[0], numbers[1]);
    const __m512i high = _mm512_packs_epi32(numbers[2], numbers[3]);
    return _mm512_packus_epi16(_mm512_and_si512(low, byte), _mm512_and_si512(high, byte));
}

/* The codes of 64 denominators, and which of them are too near to a tie to say. */
inline __m512i codes_of(const Quotients &given, float factor, const __m512i *numbers,
                        __mmask64 *doubts) {
    const __m512 low = _mm512_set1_ps(static_cast<float>(given.low - given.zero));
    const __m512 high = _mm512_set1_ps(static_cast<float>(given.high - given.zero));
    const __m512 sure = _mm512_set1_ps(0.5F - NEAR_DOUBT);
    const __m512i zero = _mm512_set1_epi32(static_cast<int32_t>(given.zero));
    __m512i found[4];
    __mmask16 doubtful[4];
    _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) {
        const __m512 level = _mm512_mul_ps(_mm512_cvtepi32_ps(numbers[n]), _mm512_set1_ps(factor));
        const __m512 nearest = _mm512_roundscale_ps(level, 0);
        const __m512 beyond = _mm512_abs_ps(_mm512_sub_ps(level, nearest));
        doubtful[n] = _mm512_cmp_ps_mask(beyond, sure, _CMP_GE_OQ);
        const __m512 within = _mm512_min_ps(_mm512_max_ps(nearest, low), high);
        found[n] = _mm512_add_epi32(_mm512_cvtps_epi32(within), zero);
    }
    *doubts = 0;
    if (doubtful[0] | doubtful[1] | doubtful[2] | doubtful[3]) {
        const __m512i all[4] = {_mm512_movm_epi32(doubtful[0]), _mm512_movm_epi32(doubtful[1]),
                                _mm512_movm_epi32(doubtful[2]), _mm512_movm_epi32(doubtful[3])};
        *doubts = _mm512_movepi8_mask(packed(all));
    }
    return packed(found);
}

/* A row: its distances from the largest code twice, for their sum and for their codes. */
void near_softmax_row(const Quotients &common, uint8_t turn, const uint8_t *x, uint8_t *y,
                      int64_t cells) {
    const __m512i turned = _mm512_set1_epi8(static_cast<char>(turn));
    const uint8_t largest = largest_of(x, cells, turned);
    const __m512i top = _mm512_set1_epi8(static_cast<char>(largest));
    const auto look = [&](int64_t k, __mmask64 some, __m512i *bytes) {
        const __m512i codes = _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, x + k), turned);
        const __m512i distance = _mm512_sub_epi8(top, codes);
        _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++)
            bytes[n] = _mm512_maskz_mov_epi8(some, looked_up(common.bytes[n], distance));
    };
    __m512i bytes[4], numbers[4], total = _mm512_setzero_si512();
    for (int64_t k = 0; k < cells; k += 64) {
        look(k, first_of(cells - k), bytes);
        _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) {
            const __m512i sums = _mm512_sad_epu8(bytes[n], _mm512_setzero_si512());
            total = _mm512_add_epi64(total, _mm512_slli_epi64(sums, 8 * n));
        }
    }
    const int64_t sum = std::max<int64_t>(_mm512_reduce_add_epi64(total), 1);
    const float factor = static_cast<float>(common.ratio / static_cast<double>(sum));
    for (int64_t k = 0; k < cells; k += 64) {
        const __mmask64 some = first_of(cells - k);
        if (cells > 64)
            look(k, some, bytes);
        joined(bytes, numbers);
        __mmask64 doubts;
        _mm512_mask_storeu_epi8(y + k, some, codes_of(common, factor, numbers, &doubts));
        for (doubts &= some; doubts; doubts &= doubts - 1) {
            const int64_t at = k + __builtin_ctzll(doubts);
            int16_t level;
            Quotients given = common;
            given.total = sum;
            levels_of(given, given.numerators + (largest - (x[at] ^ turn)), 1, &level);
            y[at] = static_cast<uint8_t>(level);
        }
    }
}
