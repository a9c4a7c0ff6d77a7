/* Extremes and histograms of float32 arrays, as counting.py describes them.

   A histogram's cost is its increments, about one a cycle: four tables in turn keep an
   increment from waiting for the one before it, which is often of the same bin (zero). */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BINS 4096
#define TABLES 4
#define BLOCK 2048 /* floats that stay in the first cache */
#define CHUNK 256  /* bins that are found while those before them are counted */
#define LANES 32
#define MOST_DRAFTED (TABLES * 0xff00) /* values, all of which may be in one bin */
#define LEAST_EXPONENT -126
#define MANTISSA_BITS 24
#define NO_WINDOW INT32_MIN /* of an exponent: nothing was counted yet */
#define NOT_FINITE 0x7f800000u /* the exponent bits of NaN and infinity */

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
    return bits & NOT_FINITE;
}

/* Of each of `block` (a divisor of LANES) interleaved rows: `low` and `high` hold so many. */
VECTORIZED
static void extremes_of(const float *values, size_t size, int block, float *low, float *high,
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
    *largest = 0;
    for (int k = 0; k < LANES; k++) {
        int row = k % block;
        low[row] = k < block || lows[k] < low[row] ? lows[k] : low[row];
        high[row] = k < block || highs[k] > high[row] ? highs[k] : high[row];
        *largest = bits[k] > *largest ? bits[k] : *largest;
    }
}

/* floor(value * scale) - first, exactly: a product that underflows keeps its sign's bin. */
VECTORIZED
static int bins_of(const float *values, int size, float scale, int32_t first, int32_t *bins) {
    int zeros = 0;
    if (scale >= 1) { /* nothing underflows */
        for (int i = 0; i < size; i++) {
            bins[i] = (int32_t)floorf(values[i] * scale) - first;
            zeros += values[i] == 0;
        }
        return zeros;
    }
    for (int i = 0; i < size; i++) {
        float scaled = values[i] * scale;
        bins[i] = (int32_t)floorf(scaled) - ((scaled == 0) & (values[i] < 0)) - first;
        zeros += values[i] == 0;
    }
    return zeros;
}

/* The arrays of tally.py's Tally: its desk, one word a field. */
typedef struct {
    int64_t batch, rows, slot, all_channels;
    int32_t *exponents, *firsts;
    int64_t *places;  /* in counts, below 0 for extremes alone */
    uint32_t *counts; /* [][BINS] */
    float *lows, *highs;
    float *sample_lows, *sample_highs; /* [slots][rows] */
    int64_t *values, *zeros;
    uint8_t *finite;
    int64_t *channel_counts, *channel_places; /* of a row, and where they are */
    float *channel_lows, *channel_highs; /* [groups][all_channels] */
    uint8_t *groups; /* [slots] */
} Desk;

typedef struct {
    float low, high;
    uint32_t largest; /* exponent bits */
} Seen;

typedef struct {
    float scale; /* 2**-exponent */
    int32_t first;
    double bottom, top; /* real: the window's ends */
    uint32_t *counts;
} Window;

static const Seen NOTHING = {INFINITY, -INFINITY, 0};

static Seen look(const float *values, size_t size) {
    Seen seen;
    extremes_of(values, size, 1, &seen.low, &seen.high, &seen.largest);
    return seen;
}

static void join(Seen *all, Seen one) {
    all->low = one.low < all->low ? one.low : all->low;
    all->high = one.high > all->high ? one.high : all->high;
    all->largest = one.largest > all->largest ? one.largest : all->largest;
}

static int64_t bin_of(double value, int exponent) {
    return (int64_t)floor(ldexp(value, -exponent));
}

/* histogram.py's least_exponent. */
static int least_exponent(double low, double high) {
    int exponent = LEAST_EXPONENT, largest, width;
    if (low != 0 || high != 0) {
        frexp(-low > high ? -low : high, &largest);
        if (largest - MANTISSA_BITS > exponent)
            exponent = largest - MANTISSA_BITS;
    }
    if (high > low) {
        frexp(high - low, &width);
        if (width - 13 > exponent) /* more than BINS - 1 bins below this one */
            exponent = width - 13;
    }
    while (bin_of(high, exponent) - bin_of(low, exponent) >= BINS)
        exponent++;
    return exponent;
}

static Window window_of(const Desk *desk, int64_t row) {
    int exponent = desk->exponents[row];
    Window window = {0, desk->firsts[row], 0, 0, desk->counts + desk->places[row] * BINS};
    if (exponent != NO_WINDOW) {
        window.scale = (float)ldexp(1, -exponent);
        window.bottom = ldexp(window.first, exponent);
        window.top = ldexp((double)window.first + BINS, exponent);
    }
    return window;
}

static int fits(Window window, Seen seen) {
    return seen.low >= window.bottom && seen.high < window.top;
}

/* Move the window of a row so that it holds what is seen beside what was counted. */
static Window widen(const Desk *desk, int64_t row, Seen seen) {
    uint32_t moved[BINS], *counts = desk->counts + desk->places[row] * BINS;
    int32_t before = desk->exponents[row], *first = desk->firsts + row;
    int held = desk->lows[row] <= desk->highs[row];
    if (held)
        join(&seen, (Seen){desk->lows[row], desk->highs[row], 0});
    int exponent = least_exponent(seen.low, seen.high);
    if (held && before > exponent)
        exponent = before;
    int64_t bottom = bin_of(seen.low, exponent), top = bin_of(seen.high, exponent);
    int64_t start = bottom - (BINS - 1 - (top - bottom)) / 2;
    if (held) {
        int steps = exponent - before < 62 ? exponent - before : 62;
        memset(moved, 0, sizeof moved);
        for (int64_t i = 0; i < BINS; i++)
            if (counts[i])
                moved[((*first + i) >> steps) - start] += counts[i];
        memcpy(counts, moved, sizeof moved);
    }
    desk->exponents[row] = exponent;
    *first = (int32_t)start;
    return window_of(desk, row);
}

static void hold(const Desk *desk, int64_t row, Seen seen) {
    if (seen.low < desk->lows[row])
        desk->lows[row] = seen.low;
    if (seen.high > desk->highs[row])
        desk->highs[row] = seen.high;
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

/* Counts of some values of one window, in the first cache: a tensor's own rarely are there. */
typedef struct {
    Seen counted;
    size_t size;
    uint16_t tables[TABLES][BINS];
} Drafts;

static void clear(Drafts *drafts) {
    drafts->counted = NOTHING;
    drafts->size = 0;
    memset(drafts->tables, 0, sizeof drafts->tables);
}

VECTORIZED
static void add(const uint16_t tables[TABLES][BINS], Span used, uint32_t *counts) {
    for (int i = used.bottom; i <= used.top; i++)
        counts[i] += (uint32_t)tables[0][i] + tables[1][i] + tables[2][i] + tables[3][i];
}

static void count_chunk(const float *values, int size, Window window, Drafts *drafts,
                        int64_t *zeros) {
    int32_t bins[CHUNK];
    int i = 0;
    *zeros += bins_of(values, size, window.scale, window.first, bins);
    for (; i + TABLES <= size; i += TABLES) {
        drafts->tables[0][bins[i]]++;
        drafts->tables[1][bins[i + 1]]++;
        drafts->tables[2][bins[i + 2]]++;
        drafts->tables[3][bins[i + 3]]++;
    }
    for (; i < size; i++)
        drafts->tables[0][bins[i]]++;
}

/* Block by block, so that each is read from memory once. */
static Seen count(const Desk *desk, int64_t row, const float *values, size_t size) {
    Drafts drafts;
    Seen all = NOTHING;
    Window window = window_of(desk, row);
    if (desk->exponents[row] == NO_WINDOW && size) { /* found at once, not block by block */
        all = look(values, size);
        if (all.largest == NOT_FINITE)
            return all;
        window = widen(desk, row, all);
    }
    clear(&drafts);
    for (size_t start = 0; start < size; start += BLOCK) {
        int length = size - start < BLOCK ? (int)(size - start) : BLOCK;
        Seen seen = look(values + start, (size_t)length);
        join(&all, seen);
        if (seen.largest == NOT_FINITE)
            return all;
        int fitting = fits(window, seen);
        if (!fitting || drafts.size + BLOCK > MOST_DRAFTED) {
            add(drafts.tables, span_of(drafts.counted, window), window.counts);
            clear(&drafts);
        }
        if (!fitting)
            window = widen(desk, row, seen);
        hold(desk, row, seen);
        join(&drafts.counted, seen);
        drafts.size += (size_t)length;
        for (int done = 0; done < length; done += CHUNK)
            count_chunk(values + start + done, length - done < CHUNK ? length - done : CHUNK,
                        window, &drafts, desk->zeros + row);
    }
    add(drafts.tables, span_of(drafts.counted, window), window.counts);
    return all;
}

/* Take in the values of a tensor: `batch` samples of the same size, from `slot` on. */
EXPORTED void observe(const int64_t *words, int64_t row, const float *values, size_t size) {
    const Desk *desk = (const Desk *)words;
    Seen all = NOTHING;
    int counted = desk->places[row] >= 0;
    if (!counted || desk->batch > 1)
        for (int64_t k = 0; k < desk->batch; k++) {
            size_t part = size / (size_t)desk->batch;
            int64_t place = (desk->slot + k) * desk->rows + row;
            Seen seen = look(values + (size_t)k * part, part);
            desk->sample_lows[place] = seen.low;
            desk->sample_highs[place] = seen.high;
            join(&all, seen);
        }
    if (!counted)
        hold(desk, row, all);
    else
        all = count(desk, row, values, size);
    if (desk->batch == 1) {
        desk->sample_lows[desk->slot * desk->rows + row] = all.low;
        desk->sample_highs[desk->slot * desk->rows + row] = all.high;
    }
    desk->values[row] += (int64_t)size;
    if (all.largest == NOT_FINITE)
        desk->finite[row] = 0;
}

/* Take in the extremes of the channels of what was observed: [shape[0]][shape[1]][shape[2]],
   the values of `block` channels in turns. */
EXPORTED void observe_channels(const int64_t *words, int64_t row, const float *values,
                               const int64_t *shape, int block) {
    const Desk *desk = (const Desk *)words;
    int64_t channels = desk->channel_counts[row];
    size_t size = (size_t)shape[2] * (size_t)block;
    for (int64_t n = 0; channels && n < shape[0]; n++) {
        int64_t group = desk->groups[desk->slot + n * desk->batch / shape[0]];
        int64_t place = group * desk->all_channels + desk->channel_places[row];
        float *lows = desk->channel_lows + place, *highs = desk->channel_highs + place;
        if (shape[1] != channels) /* it is not what it was said to be: nothing is known */
            lows[0] = NAN;
        else
            for (int64_t c = 0; c < channels; c += block, values += size) {
                float low[LANES], high[LANES];
                uint32_t largest;
                extremes_of(values, size, block, low, high, &largest);
                for (int k = 0; k < block; k++) {
                    lows[c + k] = low[k] < lows[c + k] ? low[k] : lows[c + k];
                    highs[c + k] = high[k] > highs[c + k] ? high[k] : highs[c + k];
                }
            }
    }
}
