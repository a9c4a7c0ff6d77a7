/* The loop of IntLogSoftmax, for one instruction set: see int_log_softmax.cpp. */

#include "shift_loops.h"

template <typename T, Rounding ROUNDING>
void levels_of(const Depths &depths, int64_t logarithm, int64_t count, uint8_t *levels) {
    const Depths given = depths; /* which no write to levels can change */
    const int64_t *__restrict distances = given.distances;
    T *__restrict y = reinterpret_cast<T *>(levels);
    for (int64_t k = 0; k < count; k++) {
        int64_t level = rounded<ROUNDING>(-(distances[k] + logarithm), given.bits);
        level += given.zero;
        level = level < given.low ? given.low : level;
        y[k] = static_cast<T>(level > given.high ? given.high : level);
    }
}
