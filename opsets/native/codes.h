/* Stored numbers of any type, one at a time. */

#pragma once

#include "kernel.h"

#include <algorithm>

namespace qpasses {

inline bool is_byte(Type type) { return type == UINT8 || type == INT8; }

/* The size of the largest level, or code, of a type with this zero point. */
inline int64_t furthest(Type type, int64_t zero) {
    const int64_t low = type == INT16 ? -0x8000 : type == INT8 ? -0x80 : 0;
    const int64_t high = type == INT16 ? 0x7fff : type == INT8 ? 0x7f : 0xff;
    return std::max({high - zero, zero - low, high, -low});
}

inline void store(Type type, int64_t level, void *y, int64_t place) {
    if (type == INT16)
        static_cast<int16_t *>(y)[place] = static_cast<int16_t>(level);
    else
        static_cast<uint8_t *>(y)[place] = static_cast<uint8_t>(level);
}

} // namespace qpasses
