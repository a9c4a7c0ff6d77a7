/* Lut, LutPerChannel and LutPair: what a table holds for each code. */

#include "broadcast.h"
#include "codes.h"
#include "kernel.h"
#include "kernels.h"
#include "lookups.h"

#include <cstring>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif
#ifdef QPASSES_NEON
#include <arm_neon.h>
#endif

namespace qpasses {
namespace {

void plain_look(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t count) {
    for (int64_t k = 0; k < count; k++)
        y[k] = table[x[k]];
}

#if QPASSES_SETS > 1
BEGIN_AVX2
/* Sixteen rows of sixteen entries: a row answers for the codes that lie in it, with zero for
   others. */
void avx2_look(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t count) {
    __m256i rows[16];
    for (int row = 0; row < 16; row++)
        rows[row] = _mm256_broadcastsi128_si256(
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(table + 16 * row)));
    const __m256i sixteen = _mm256_set1_epi8(16), beyond = _mm256_set1_epi8(0x70);
    int64_t k = 0;
    for (; k + 32 <= count; k += 32) {
        __m256i code = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(x + k));
        __m256i found = _mm256_setzero_si256();
        for (int row = 0; row < 16; row++) {
            const __m256i place = _mm256_adds_epu8(code, beyond);
            found = _mm256_or_si256(found, _mm256_shuffle_epi8(rows[row], place));
            code = _mm256_sub_epi8(code, sixteen);
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(y + k), found);
    }
    for (; k < count; k++)
        y[k] = table[x[k]];
}
END_SET
BEGIN_AVX512
#include "avx512_lookup.h"

void avx512_look(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t count) {
    const __m512i first = _mm512_loadu_si512(table), second = _mm512_loadu_si512(table + 64);
    const __m512i third = _mm512_loadu_si512(table + 128);
    const __m512i fourth = _mm512_loadu_si512(table + 192);
    for (int64_t k = 0; k < count; k += 64) {
        const __mmask64 some = first_of(count - k);
        const __m512i code = _mm512_maskz_loadu_epi8(some, x + k);
        _mm512_mask_storeu_epi8(y + k, some, looked_up(first, second, third, fourth, code));
    }
}

/* Each row with the one eight behind it, byte by byte. */
inline void interleave(const __m512i *rows, __m512i *found) {
    for (int k = 0; k < 8; k++) {
        found[2 * k] = _mm512_unpacklo_epi8(rows[k], rows[k + 8]);
        found[2 * k + 1] = _mm512_unpackhi_epi8(rows[k], rows[k + 8]);
    }
}

/* Sixteen rows of sixteen bytes in each lane become columns: four halvings of a step. */
inline void transpose(__m512i *rows) {
    __m512i other[16];
    interleave(rows, other);
    interleave(other, rows);
    interleave(rows, other);
    interleave(other, rows);
}

/* Sixteen channels at 64 places: each row has one channel at four places, then a lane has a
   channel at sixteen, so that a register is all there is of a channel. */
void avx512_columns(const uint8_t *tables, const uint8_t *x, uint8_t *y, int64_t step, int count) {
    const __mmask16 some = static_cast<__mmask16>((1 << count) - 1);
    __m512i rows[16];
    for (int k = 0; k < 16; k++) {
        const uint8_t *from = x + 4 * k * step;
        __m512i row = _mm512_castsi128_si512(_mm_maskz_loadu_epi8(some, from));
        row = _mm512_inserti32x4(row, _mm_maskz_loadu_epi8(some, from + step), 1);
        row = _mm512_inserti32x4(row, _mm_maskz_loadu_epi8(some, from + 2 * step), 2);
        rows[k] = _mm512_inserti32x4(row, _mm_maskz_loadu_epi8(some, from + 3 * step), 3);
    }
    transpose(rows);
    for (int channel = 0; channel < count; channel++)
        rows[channel] = looked_up(tables + 256 * channel, rows[channel]);
    transpose(rows);
    for (int k = 0; k < 16; k++) {
        uint8_t *to = y + 4 * k * step;
        _mm_mask_storeu_epi8(to, some, _mm512_castsi512_si128(rows[k]));
        _mm_mask_storeu_epi8(to + step, some, _mm512_extracti32x4_epi32(rows[k], 1));
        _mm_mask_storeu_epi8(to + 2 * step, some, _mm512_extracti32x4_epi32(rows[k], 2));
        _mm_mask_storeu_epi8(to + 3 * step, some, _mm512_extracti32x4_epi32(rows[k], 3));
    }
}
END_SET
#endif

#ifdef QPASSES_NEON
/* Four parts of 64 entries: a part answers for the codes that lie in it, and leaves others. */
void neon_look(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t count) {
    uint8x16x4_t parts[4];
    for (int part = 0; part < 4; part++)
        parts[part] = vld1q_u8_x4(table + 64 * part);
    int64_t k = 0;
    for (; k + 16 <= count; k += 16) {
        uint8x16_t code = vld1q_u8(x + k);
        uint8x16_t found = vqtbl4q_u8(parts[0], code);
        for (int part = 1; part < 4; part++) {
            code = vsubq_u8(code, vdupq_n_u8(64));
            found = vqtbx4q_u8(found, parts[part], code);
        }
        vst1q_u8(y + k, found);
    }
    for (; k < count; k++)
        y[k] = table[x[k]];
}
#endif

} // namespace

Look look_of(InstructionSet set) {
#if QPASSES_SETS > 1
    if (set == AVX512)
        return avx512_look;
    if (set == AVX2)
        return avx2_look;
#endif
#ifdef QPASSES_NEON
    if (set != PLAIN)
        return neon_look;
#endif
    (void)set;
    return plain_look;
}

namespace {

constexpr int64_t ENTRIES = 256, PART = 1 << 15;

/* Channels first: one table for a row. */
void look_up_rows(const Context &context, const uint8_t *tables, int64_t channels,
                  const Tensor &x, int64_t inner, uint8_t *y) {
    const Look look = look_of(chosen_set());
    const int64_t count = static_cast<int64_t>(x.size()) / inner, least = PART / inner + 1;
    context.parallel((count + least - 1) / least, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * least;
        for (int64_t row = begin; row < count && row < begin + least; row++)
            look(tables + row % channels * ENTRIES, x.as<uint8_t>() + row * inner,
                 y + row * inner, inner);
    });
}

/* Channels last: the columns of a few places at a time go through the table of each. */
void look_up_places(const Context &context, const uint8_t *tables, int64_t channels,
                    const Tensor &x, uint8_t *y) {
    const int64_t count = static_cast<int64_t>(x.size()) / channels;
    const int64_t least = (PART / channels + 64) / 64 * 64;
    context.parallel((count + least - 1) / least, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * least;
        const int64_t end = std::min(count, begin + least);
        int64_t place = begin;
#if QPASSES_SETS > 1
        for (; chosen_set() == AVX512 && place + 64 <= end; place += 64)
            for (int64_t c = 0; c < channels; c += 16)
                avx512_columns(tables + c * ENTRIES, x.as<uint8_t>() + place * channels + c,
                               y + place * channels + c, channels,
                               static_cast<int>(std::min(channels - c, int64_t{16})));
#endif
        for (; place < end; place++) {
            const uint8_t *given = x.as<uint8_t>() + place * channels;
            uint8_t *found = y + place * channels;
            for (int64_t c = 0; c < channels; c++)
                found[c] = tables[c * ENTRIES + given[c]];
        }
    });
}

} // namespace

void look_up(const Context &context, const uint8_t *table, const Tensor &x, uint8_t *y) {
    const Look look = look_of(chosen_set());
    const int64_t count = static_cast<int64_t>(x.size());
    context.parallel((count + PART - 1) / PART, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * PART;
        look(table, x.as<uint8_t>() + begin, y + begin, std::min(PART, count - begin));
    });
}

void look_up_by_channel(const Context &context, const uint8_t *tables, size_t axis,
                        const Tensor &x, uint8_t *y) {
    const int64_t inner = inner_of(x.shape, axis);
    if (x.size() == 0)
        return;
    if (inner == 1)
        look_up_places(context, tables, x.shape[axis], x, y);
    else
        look_up_rows(context, tables, x.shape[axis], x, inner, y);
}

namespace {

/* Entries of 16 bits: their low bytes are one table, their high bytes another. */
struct Halves {
    uint8_t low[ENTRIES], high[ENTRIES];

    explicit Halves(const uint16_t *table) {
        for (int64_t code = 0; code < ENTRIES; code++) {
            low[code] = static_cast<uint8_t>(table[code]);
            high[code] = static_cast<uint8_t>(table[code] >> 8);
        }
    }

    void look_up(Look look, const uint8_t *x, uint16_t *y, int64_t count) const {
        constexpr int64_t BLOCK = 1024;
        uint8_t lower[BLOCK], higher[BLOCK];
        for (int64_t from = 0; from < count; from += BLOCK) {
            const int64_t some = std::min(BLOCK, count - from);
            look(low, x + from, lower, some);
            look(high, x + from, higher, some);
            for (int64_t k = 0; k < some; k++)
                y[from + k] = static_cast<uint16_t>(lower[k] | higher[k] << 8);
        }
    }
};

std::vector<Halves> halves_of(const uint16_t *tables, int64_t count) {
    std::vector<Halves> found;
    for (int64_t channel = 0; channel < count; channel++)
        found.emplace_back(tables + channel * ENTRIES);
    return found;
}

void look_up(const Context &context, const uint16_t *table, const Tensor &x, uint16_t *y) {
    const Halves halves(table);
    const Look look = look_of(chosen_set());
    const int64_t count = static_cast<int64_t>(x.size());
    context.parallel((count + PART - 1) / PART, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * PART;
        halves.look_up(look, x.as<uint8_t>() + begin, y + begin, std::min(PART, count - begin));
    });
}

/* The same with a table for each channel: of ``inner`` codes in a row, or of one each. */
void look_up_by_channel(const Context &context, const uint16_t *tables, int64_t channels,
                        int64_t inner, const Tensor &x, uint16_t *y) {
    const std::vector<Halves> halves = halves_of(tables, inner > 1 ? channels : 0);
    const Look look = look_of(chosen_set());
    const int64_t length = inner > 1 ? inner : channels, least = PART / length + 1;
    const int64_t count = static_cast<int64_t>(x.size()) / length;
    context.parallel((count + least - 1) / least, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * least;
        for (int64_t row = begin; row < count && row < begin + least; row++) {
            const uint8_t *given = x.as<uint8_t>() + row * length;
            uint16_t *found = y + row * length;
            if (inner > 1)
                halves[row % channels].look_up(look, given, found, length);
            else
                for (int64_t c = 0; c < channels; c++)
                    found[c] = tables[c * ENTRIES + given[c]];
        }
    });
}

struct Lut {
    explicit Lut(const Attributes &) {}

    void run(const Context &context) const {
        const Tensor x = context.input(0), table = context.input(1);
        void *y = context.output(0, x.shape);
        must_be_codes(x, "Lut: x");
        of_stored(table.type, "Lut: its table", [](auto) {});
        if (table.size() != ENTRIES)
            fail("Lut: its table has not 256 entries");
        if (is_byte(table.type))
            look_up(context, table.as<uint8_t>(), x, static_cast<uint8_t *>(y));
        else
            look_up(context, table.as<uint16_t>(), x, static_cast<uint16_t *>(y));
    }
};

struct LutPerChannel {
    int64_t axis;

    explicit LutPerChannel(const Attributes &given) : axis(given.integer("axis")) {}

    void run(const Context &context) const {
        const Tensor x = context.input(0), tables = context.input(1);
        void *y = context.output(0, x.shape);
        must_be_codes(x, "LutPerChannel: x");
        of_stored(tables.type, "LutPerChannel: its tables", [](auto) {});
        const size_t place = axis_of(axis, x.shape);
        if (tables.shape != Shape{x.shape[place], ENTRIES})
            fail("LutPerChannel: there is not one table for each channel");
        if (is_byte(tables.type))
            look_up_by_channel(context, tables.as<uint8_t>(), place, x, static_cast<uint8_t *>(y));
        else if (x.size())
            look_up_by_channel(context, tables.as<uint16_t>(), x.shape[place],
                               inner_of(x.shape, place), x, static_cast<uint16_t *>(y));
    }
};

struct LutPair {
    explicit LutPair(const Attributes &) {}

    void run(const Context &context) const {
        const Tensor a = context.input(0), b = context.input(1), table = context.input(2);
        must_be_codes(a, "LutPair: a");
        must_be_codes(b, "LutPair: b");
        must_be_codes(table, "LutPair: its table");
        const Broadcast both(a.shape, b.shape);
        uint8_t *y = static_cast<uint8_t *>(context.output(0, both.shape));
        if (table.size() != ENTRIES * ENTRIES)
            fail("LutPair: its table has not 65,536 entries");
        const uint8_t *entries = table.as<uint8_t>();
        both.runs(context, [&](const Run &run) {
            const uint8_t *first = a.as<uint8_t>() + run.a, *second = b.as<uint8_t>() + run.b;
            for (int64_t k = 0; k < run.count; k++)
                y[run.y + k] = entries[ENTRIES * first[k * run.a_step] + second[k * run.b_step]];
        });
    }
};

} // namespace

const Kernel LUT = kernel<Lut>("Lut", 2, 1);
const Kernel LUT_PER_CHANNEL = kernel<LutPerChannel>("LutPerChannel", 2, 1);
const Kernel LUT_PAIR = broadcasting<LutPair>("LutPair", 3, 0, 1);

} // namespace qpasses
