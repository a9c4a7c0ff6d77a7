/* Extremes and histograms of float32 arrays: counting.py says what each function does.

   A histogram's cost is its increments, about one a cycle: four tables in turn keep an
   increment from waiting for the one before it, which is often of the same bin (zero). */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BINS 4096
#define TABLES 4
#define BLOCK 2048 /* floats that stay in the first cache with their bins */
#define LANES 32
#define SMALL 16384 /* fewer values than this are not worth clearing the tables for */

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORIZED __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define VECTORIZED
#endif

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED
#endif

EXPORTED void *PyInit__counting(void) { return NULL; } /* loaded by ctypes, not imported */

static uint32_t exponent_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7f800000u; /* all set: NaN or infinity */
}

VECTORIZED
static void extremes_of(const float *values, size_t size, float *low, float *high,
                        uint32_t *largest) {
    float lows[LANES], highs[LANES];
    uint32_t bits[LANES];
    size_t i = 0;
    for (int k = 0; k < LANES; k++) {
        lows[k] = INFINITY;
        highs[k] = -INFINITY;
        bits[k] = 0;
    }
    for (; i + LANES <= size; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float value = values[i + k];
            uint32_t own = exponent_bits(value);
            lows[k] = value < lows[k] ? value : lows[k];
            highs[k] = value > highs[k] ? value : highs[k];
            bits[k] = own > bits[k] ? own : bits[k];
        }
    for (int k = 0; i < size; i++, k++) {
        float value = values[i];
        uint32_t own = exponent_bits(value);
        lows[k] = value < lows[k] ? value : lows[k];
        highs[k] = value > highs[k] ? value : highs[k];
        bits[k] = own > bits[k] ? own : bits[k];
    }
    *low = INFINITY;
    *high = -INFINITY;
    *largest = 0;
    for (int k = 0; k < LANES; k++) {
        *low = lows[k] < *low ? lows[k] : *low;
        *high = highs[k] > *high ? highs[k] : *high;
        *largest = bits[k] > *largest ? bits[k] : *largest;
    }
}

/* floor(value * scale) - first, exactly: a product that underflows keeps its sign's bin. */
VECTORIZED
static int bins_of(const float *values, int size, float scale, int32_t first, int32_t *bins) {
    int zeros = 0;
    for (int i = 0; i < size; i++) {
        float scaled = values[i] * scale;
        bins[i] = (int32_t)floorf(scaled) - ((scaled == 0) & (values[i] < 0)) - first;
        zeros += values[i] == 0;
    }
    return zeros;
}

EXPORTED void extremes(size_t arrays, const uint64_t *addresses, const int64_t *sizes,
                       float *lows, float *highs, uint8_t *finite) {
    for (size_t k = 0; k < arrays; k++) {
        uint32_t largest;
        extremes_of((const float *)(uintptr_t)addresses[k], (size_t)sizes[k], lows + k,
                    highs + k, &largest);
        finite[k] = largest != 0x7f800000u;
    }
}

static int64_t count_one(const float *values, size_t size, float scale, int32_t first,
                         int64_t *counts) {
    int32_t bins[BLOCK];
    uint32_t tables[TABLES][BINS];
    int64_t zeros = 0;
    int large = size >= SMALL;
    if (large)
        memset(tables, 0, sizeof tables);
    for (size_t start = 0; start < size; start += BLOCK) {
        int length = size - start < BLOCK ? (int)(size - start) : BLOCK, i = 0;
        zeros += bins_of(values + start, length, scale, first, bins);
        if (large)
            for (; i + TABLES <= length; i += TABLES) {
                tables[0][bins[i]]++;
                tables[1][bins[i + 1]]++;
                tables[2][bins[i + 2]]++;
                tables[3][bins[i + 3]]++;
            }
        for (; i < length; i++)
            counts[bins[i]]++;
    }
    if (large)
        for (int i = 0; i < BINS; i++)
            counts[i] += (int64_t)tables[0][i] + tables[1][i] + tables[2][i] + tables[3][i];
    return zeros;
}

EXPORTED void count(size_t arrays, const uint64_t *addresses, const int64_t *sizes,
                    const float *scales, const int32_t *firsts, const uint64_t *counts,
                    int64_t *zeros) {
    for (size_t k = 0; k < arrays; k++)
        zeros[k] = count_one((const float *)(uintptr_t)addresses[k], (size_t)sizes[k],
                             scales[k], firsts[k], (int64_t *)(uintptr_t)counts[k]);
}
