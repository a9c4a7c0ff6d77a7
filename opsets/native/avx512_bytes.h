/* 32 numbers of 16 bits in AVX-512. */

using VECTOR = __m512i;
constexpr int64_t WIDTH = 32;

#define ALL_16 _mm512_set1_epi16
#define ALL_32 _mm512_set1_epi32
#define ADD_16 _mm512_adds_epi16
#define SUB_16 _mm512_sub_epi16
#define MIN_16 _mm512_min_epi16
#define MAX_16 _mm512_max_epi16
#define LEFT_16 _mm512_unpacklo_epi16
#define RIGHT_16 _mm512_unpackhi_epi16
#define MADD _mm512_madd_epi16
#define MULTIPLY_32 _mm512_mullo_epi32
#define ZEROS _mm512_setzero_si512()
#define ADD_32 _mm512_add_epi32
#define SHIFT_32 _mm512_srai_epi32
#define PACK_32 _mm512_packs_epi32
#define AND _mm512_and_si512
#define ANDNOT _mm512_andnot_si512
#define OR _mm512_or_si512
#define IS_ZERO_32(given) _mm512_movm_epi32(_mm512_testn_epi32_mask(given, given))

template <typename T> inline __m512i WIDENED(const T *from) {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
    return T(-1) < 0 ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
}

/* What lies between the ends of T. */
template <typename T> inline void NARROWED(T *to, __m512i given) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm512_cvtepi16_epi8(given));
}
