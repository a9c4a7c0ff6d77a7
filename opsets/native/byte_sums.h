/* Sums and products of bytes with 16 bits at a time: included for AVX2 and for AVX-512, which
   define the operations. Multipliers in halves of 15 bits: total = high * 2**15 + low, of which
   all but the last 15 bits are T; these matter in ties alone. */

/* T, shifted by so many bits less 15, is the nearest; one less where it is a tie that goes
   down: no bits are behind T, and the next is even (or T is negative). */
static inline VECTOR rounded(VECTOR high, VECTOR low, const ByteSums &given) {
    const VECTOR whole = ADD_32(high, SHIFT_32(low, 15));
    const VECTOR rest = AND(low, ALL_32(0x7fff));
    VECTOR other = ALL_32(1);
    if (given.rounding == Rounding::HALF_TO_EVEN)
        other = AND(SHIFT_32(whole, given.shift), other);
    else if (given.rounding == Rounding::HALF_AWAY)
        other = ANDNOT(SHIFT_32(whole, 31), other);
    const VECTOR down = IS_ZERO_32(OR(rest, other)); /* -1 where it is */
    return SHIFT_32(ADD_32(ADD_32(whole, ALL_32(given.half)), down), given.shift);
}

template <typename T>
void byte_sums(const ByteSums &numbers, const T *a, const T *b, T *y, int64_t count) {
    const ByteSums given = numbers; /* which no write to y can change */
    const VECTOR a_zero = ALL_16(given.a_zero), b_zero = ALL_16(given.b_zero);
    const VECTOR high = ALL_32(given.high), low = ALL_32(given.low);
    const VECTOR zero = ALL_16(given.zero);
    const VECTOR least = ALL_16(given.least), most = ALL_16(given.most);
    int64_t k = 0;
    for (; k + WIDTH <= count; k += WIDTH) {
        const VECTOR first = SUB_16(WIDENED<T>(a + k), a_zero);
        const VECTOR second = SUB_16(WIDENED<T>(b + k), b_zero);
        const VECTOR left = LEFT_16(first, second), right = RIGHT_16(first, second);
        const VECTOR found =
            PACK_32(rounded(MADD(left, high), MADD(left, low), given),
                    rounded(MADD(right, high), MADD(right, low), given));
        NARROWED<T>(y + k, MIN_16(MAX_16(ADD_16(found, zero), least), most));
    }
    if (k < count)
        sums<T>(given.steps, a + k, b + k, y + k, count - k);
}

template <typename T>
void byte_products(const ByteSums &numbers, const T *a, const T *b, T *y, int64_t count) {
    const ByteSums given = numbers;
    const VECTOR a_zero = ALL_16(given.a_zero), b_zero = ALL_16(given.b_zero);
    const VECTOR high = ALL_32(given.high), low = ALL_32(given.low);
    const VECTOR zero = ALL_16(given.zero);
    const VECTOR least = ALL_16(given.least), most = ALL_16(given.most);
    int64_t k = 0;
    for (; k + WIDTH <= count; k += WIDTH) {
        const VECTOR first = SUB_16(WIDENED<T>(a + k), a_zero);
        const VECTOR second = SUB_16(WIDENED<T>(b + k), b_zero);
        const VECTOR left = MADD(LEFT_16(first, ZEROS), LEFT_16(second, ZEROS));
        const VECTOR right = MADD(RIGHT_16(first, ZEROS), RIGHT_16(second, ZEROS));
        const VECTOR found =
            PACK_32(rounded(MULTIPLY_32(left, high), MULTIPLY_32(left, low), given),
                    rounded(MULTIPLY_32(right, high), MULTIPLY_32(right, low), given));
        NARROWED<T>(y + k, MIN_16(MAX_16(ADD_16(found, zero), least), most));
    }
    if (k < count)
        products<T>(given.steps, a + k, b + k, y + k, count - k);
}
