/* 16 numbers of 16 bits in AVX2. */

using VECTOR = __m256i;
constexpr int64_t WIDTH = 16;

#define ALL_16 _mm256_set1_epi16
#define ALL_32 _mm256_set1_epi32
#define ADD_16 _mm256_adds_epi16
#define SUB_16 _mm256_sub_epi16
#define MIN_16 _mm256_min_epi16
#define MAX_16 _mm256_max_epi16
#define LEFT_16 _mm256_unpacklo_epi16
#define RIGHT_16 _mm256_unpackhi_epi16
#define MADD _mm256_madd_epi16
#define MULTIPLY_32 _mm256_mullo_epi32
#define ZEROS _mm256_setzero_si256()
#define ADD_32 _mm256_add_epi32
#define SHIFT_32 _mm256_srai_epi32
#define PACK_32 _mm256_packs_epi32
#define AND _mm256_and_si256
#define ANDNOT _mm256_andnot_si256
#define OR _mm256_or_si256
#define IS_ZERO_32(given) _mm256_cmpeq_epi32(given, _mm256_setzero_si256())

template <typename T> inline __m256i WIDENED(const T *from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
    return T(-1) < 0 ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

/* What lies between the ends of T. */
template <typename T> inline void NARROWED(T *to, __m256i given) {
    const __m256i bytes = T(-1) < 0 ? _mm256_packs_epi16(given, given)
                                    : _mm256_packus_epi16(given, given);
    const __m256i ordered = _mm256_permute4x64_epi64(bytes, 8);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_castsi256_si128(ordered));
}
