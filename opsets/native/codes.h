/* Stored numbers of any type, one at a time. */

#pragma once

#include "kernel.h"

namespace qpasses {

inline bool is_byte(Type type) { return type == UINT8 || type == INT8; }

inline void store(Type type, int64_t level, void *y, int64_t place) {
    if (type == INT16)
        static_cast<int16_t *>(y)[place] = static_cast<int16_t>(level);
    else
        static_cast<uint8_t *>(y)[place] = static_cast<uint8_t>(level);
}

} // namespace qpasses
