/* Rows of bytes as columns, eight by eight. */

#pragma once

#include <cstdint>
#include <cstring>

namespace qpasses {

/* What two rows have of each other's, so many bits apart. */
inline void exchange(uint64_t &low, uint64_t &high, int bits, uint64_t mask) {
    const uint64_t change = ((low >> bits) ^ high) & mask;
    high ^= change;
    low ^= change << bits;
}

/* Eight rows of eight bytes, the first in the lowest bits. */
inline void transpose(uint64_t (&rows)[8]) {
    _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
        exchange(rows[k], rows[k + 4], 32, 0x00000000ffffffffULL);
    _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
        exchange(rows[k + (k & 2)], rows[k + (k & 2) + 2], 16, 0x0000ffff0000ffffULL);
    _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++)
        exchange(rows[2 * k], rows[2 * k + 1], 8, 0x00ff00ff00ff00ffULL);
}

/* Rows that are so far from each other become columns of others; each byte changes by ``turn``. */
inline void transpose(const uint8_t *from, int64_t from_step, int64_t rows, int64_t columns,
                      uint8_t *to, int64_t to_step, uint8_t turn) {
    const uint64_t turned = 0x0101010101010101ULL * turn;
    int64_t row = 0;
    for (; row + 8 <= rows; row += 8, from += 8 * from_step, to += 8) {
        int64_t column = 0;
        for (; column + 8 <= columns; column += 8) {
            uint64_t block[8];
            _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++)
                std::memcpy(&block[k], from + k * from_step + column, 8);
            transpose(block);
            _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) {
                block[k] ^= turned;
                std::memcpy(to + (column + k) * to_step, &block[k], 8);
            }
        }
        for (; column < columns; column++)
            for (int k = 0; k < 8; k++)
                to[column * to_step + k] = from[k * from_step + column] ^ turn;
    }
    for (; row < rows; row++, from += from_step, to++)
        for (int64_t column = 0; column < columns; column++)
            to[column * to_step] = from[column] ^ turn;
}

} // namespace qpasses
