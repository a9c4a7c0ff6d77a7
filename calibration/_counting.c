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
#define SMALL 8192 /* fewer values than this need one table of 16 bits only */
#define NOT_FINITE 0x7f800000u /* the exponent bits of NaN and infinity */

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORIZED __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define VECTORIZED
#endif

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address)
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
    return bits & NOT_FINITE;
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
        finite[k] = largest != NOT_FINITE;
    }
}

typedef struct {
    float scale;
    int32_t first;
    double bottom, top; /* real: the window's ends */
    int64_t *counts;
} Window;

typedef struct {
    float low, high;
    uint32_t largest;
    int64_t zeros;
    int fits;
} Seen;

static void look(const float *values, size_t size, Window window, Seen *seen) {
    float low, high;
    uint32_t largest;
    extremes_of(values, size, &low, &high, &largest);
    seen->low = low < seen->low ? low : seen->low;
    seen->high = high > seen->high ? high : seen->high;
    seen->largest = largest > seen->largest ? largest : seen->largest;
    if (largest == NOT_FINITE || (size && (low < window.bottom || high >= window.top)))
        seen->fits = 0;
}

typedef struct {
    int32_t bottom, top;
} Span;

/* The bins that values may be in; none for no values. */
static Span span_of(Seen seen, Window window) {
    Span used = {0, -1};
    if (seen.low <= seen.high) {
        bins_of(&seen.low, 1, window.scale, window.first, &used.bottom);
        bins_of(&seen.high, 1, window.scale, window.first, &used.top);
    }
    return used;
}

/* Its table is filled in the first cache: a tensor's own counts rarely are there. */
static Seen count_small(const float *values, size_t size, Window window) {
    int32_t bins[SMALL];
    uint16_t table[BINS];
    Seen seen = {INFINITY, -INFINITY, 0, 0, 1};
    look(values, size, window, &seen);
    if (!seen.fits)
        return seen;
    memset(table, 0, sizeof table);
    seen.zeros = bins_of(values, (int)size, window.scale, window.first, bins);
    for (size_t i = 0; i < size; i++)
        table[bins[i]]++;
    Span used = span_of(seen, window);
    for (int i = used.bottom; i <= used.top; i++)
        window.counts[i] += table[i];
    return seen;
}

/* Block by block, so that each is read from memory once. When one does not fit into the
   window, nothing is added and only the extremes of the rest are found. */
static Seen count_large(const float *values, size_t size, Window window) {
    int32_t bins[BLOCK];
    uint32_t tables[TABLES][BINS];
    Seen seen = {INFINITY, -INFINITY, 0, 0, 1};
    memset(tables, 0, sizeof tables);
    for (size_t start = 0; start < size; start += BLOCK) {
        int length = size - start < BLOCK ? (int)(size - start) : BLOCK, i = 0;
        look(values + start, (size_t)length, window, &seen);
        if (!seen.fits)
            continue;
        seen.zeros += bins_of(values + start, length, window.scale, window.first, bins);
        for (; i + TABLES <= length; i += TABLES) {
            if (i % 16 == 0)
                PREFETCH(values + start + BLOCK + i);
            tables[0][bins[i]]++;
            tables[1][bins[i + 1]]++;
            tables[2][bins[i + 2]]++;
            tables[3][bins[i + 3]]++;
        }
        for (; i < length; i++)
            tables[0][bins[i]]++;
    }
    if (!seen.fits)
        return seen;
    Span used = span_of(seen, window);
    for (int i = used.bottom; i <= used.top; i++)
        window.counts[i] +=
            (int64_t)tables[0][i] + tables[1][i] + tables[2][i] + tables[3][i];
    return seen;
}

EXPORTED void count(size_t arrays, const uint64_t *addresses, const int64_t *sizes,
                    const float *scales, const int32_t *firsts, const double *edges,
                    const uint64_t *counts, float *lows, float *highs, uint8_t *finite,
                    uint8_t *fits, int64_t *zeros) {
    for (size_t k = 0; k < arrays; k++) {
        Window window = {scales[k], firsts[k], edges[k], edges[arrays + k],
                         (int64_t *)(uintptr_t)counts[k]};
        const float *values = (const float *)(uintptr_t)addresses[k];
        size_t size = (size_t)sizes[k];
        Seen seen = size < SMALL ? count_small(values, size, window)
                                 : count_large(values, size, window);
        lows[k] = seen.low;
        highs[k] = seen.high;
        finite[k] = seen.largest != NOT_FINITE;
        fits[k] = (uint8_t)seen.fits;
        zeros[k] = seen.fits ? seen.zeros : 0;
    }
}
