/* Quotients by powers of two in loops, for one instruction set. */

/* value / 2**bits, for bits up to 62. */
template <Rounding ROUNDING> inline int64_t rounded(int64_t value, int64_t bits) {
    const int64_t half = bits ? int64_t{1} << (bits - 1) : 0;
    if constexpr (ROUNDING == Rounding::HALF_UP)
        return wrapping_sum(value, half) >> bits;
    const int64_t low = value >> bits, rest = value & ((int64_t{1} << bits) - 1);
    const int64_t more = ROUNDING == Rounding::HALF_TO_EVEN ? low & 1 : value >= 0;
    return low + (rest + more > half + !bits);
}
