/* What recurrent kernels share: sums of gates, tables, and products of states as levels. */

#include "recurrent.h"
#include "codes.h"
#include "instruction_sets.h"
#include "requantized.h"

#include <cmath>

#if QPASSES_SETS > 1
#include <immintrin.h>
#endif

namespace qpasses {
namespace {

constexpr double EXACT = 4503599627370496.0; /* 2**52: double holds half of what is below it */
constexpr int64_t SOME_ROWS = 1 << 16;       /* of gates of inputs, so many numbers at once */
constexpr double LARGEST_LEVEL = 1 << 29;    /* some of them have a sum that int32 holds */
constexpr int64_t SAFE_BYTES = 1 << 13;      /* so many quads have sums that int32 holds */
constexpr int64_t SAFE_WORDS = 255;
constexpr int64_t WORTH = 1 << 21;           /* so many products are a part of their own */

BEGIN_PLAIN
namespace plain {
constexpr int MOST_ROWS = 1, SUMS = 4, ONE_ROW = 1;
typedef uint32_t Vector __attribute__((vector_size(16)));

/* Two products of words each. */
inline void add(Vector &sums, const Vector &right, const Vector &left) {
#ifdef __SSE2__
    sums += (Vector)_mm_madd_epi16((__m128i)right, (__m128i)left);
#else
    typedef int32_t Numbers __attribute__((vector_size(16)));
    const Numbers first = (Numbers)(right << 16) >> 16, other = (Numbers)(left << 16) >> 16;
    sums += (Vector)(first * other) + (Vector)(((Numbers)right >> 16) * ((Numbers)left >> 16));
#endif
}

void look_up(const int16_t *middle, int32_t lift, const int32_t *places, int64_t count,
             int32_t *found) {
    for (int64_t k = 0; k < count; k++)
        found[k] = middle[places[k]] + lift;
}
#include "recurrent_loops.h"
}
END_PLAIN
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
constexpr int MOST_ROWS = 2, SUMS = 4, ONE_ROW = 4;
typedef uint32_t Vector __attribute__((vector_size(32)));

/* Two products of words each. */
inline void add(Vector &sums, const Vector &right, const Vector &left) {
    sums += (Vector)_mm256_madd_epi16((__m256i)right, (__m256i)left);
}

void look_up(const int16_t *middle, int32_t lift, const int32_t *places, int64_t count,
             int32_t *found) {
    const __m256i more = _mm256_set1_epi32(lift);
    for (int64_t k = 0; k < count; k += 8) {
        const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(places + k));
        const __m256i entry =
            _mm256_i32gather_epi32(reinterpret_cast<const int *>(middle), at, 2);
        const __m256i word = _mm256_srai_epi32(_mm256_slli_epi32(entry, 16), 16);
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(found + k), _mm256_add_epi32(word, more));
    }
}
#include "recurrent_loops.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
constexpr int MOST_ROWS = 4, SUMS = 16, ONE_ROW = 8;
typedef uint32_t Vector __attribute__((vector_size(64)));

/* Four products of bytes each. */
inline void add(Vector &sums, const Vector &right, const Vector &left) {
    sums = (Vector)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)left, (__m512i)right);
}

void look_up(const int16_t *middle, int32_t lift, const int32_t *places, int64_t count,
             int32_t *found) {
    const __m512i more = _mm512_set1_epi32(lift);
    for (int64_t k = 0; k < count; k += 16) {
        const __m512i entry = _mm512_i32gather_epi32(_mm512_loadu_si512(places + k), middle, 2);
        const __m512i word = _mm512_srai_epi32(_mm512_slli_epi32(entry, 16), 16);
        _mm512_storeu_si512(found + k, _mm512_add_epi32(word, more));
    }
}
#include "recurrent_loops.h"
}
END_SET
#endif

/* Numbers of gates, of which each is filled up with nothing. */
std::vector<int64_t> filled_up(const std::vector<int64_t> &numbers, int64_t units) {
    const int64_t wide = padded(units), gates = static_cast<int64_t>(numbers.size()) / units;
    std::vector<int64_t> found(gates * wide);
    for (int64_t n = 0; n < gates * units; n++)
        found[n / units * wide + n % units] = numbers[n];
    return found;
}

} // namespace

const RecurrentLoops &recurrent_loops() { return BEST(LOOPS_OF_SET); }

Scales::Scales() = default;
Scales::Scales(Scales &&) = default;
Scales &Scales::operator=(Scales &&) = default;
Scales::~Scales() = default;
WordTable::~WordTable() = default;
GateSums::~GateSums() = default;
Chunk::~Chunk() = default;

Scales::Scales(const Requantization &how, const std::vector<int64_t> &multipliers,
               const std::vector<int64_t> &shifts, const std::vector<int64_t> &largest)
    : last_(how.last), is_twice_(how.is_twice) {
    bool is_small = !is_twice_;
    for (size_t k = 0; k < multipliers.size(); k++) {
        const int64_t m = multipliers[k], s = m || shifts[k] ? shifts[k] : 1;
        must_be_from(s, is_twice_ ? 0 : 1, 62, "a shift");
        const double product = std::fabs(static_cast<double>(m)) * static_cast<double>(largest[k]);
        is_small &= product < EXACT && std::ldexp(product, static_cast<int>(-s)) < LARGEST_LEVEL;
        factors_.push_back(std::ldexp(static_cast<double>(m), static_cast<int>(-s)));
        halves_.push_back(last_ == Rounding::HALF_TO_EVEN ? 0
                                                          : std::ldexp(0.5, static_cast<int>(-s)));
        multipliers_.push_back(static_cast<int32_t>(m));
        lefts_.push_back(static_cast<int32_t>(is_twice_ && s < 31 ? 31 - s : 0));
        rights_.push_back(static_cast<int32_t>(!is_twice_ ? s : s > 31 ? s - 31 : 0));
    }
    if (is_small)
        way_ = last_ == Rounding::HALF_AWAY ? IN_DOUBLE
               : last_ == Rounding::HALF_UP ? UPWARD
                                            : NEAREST;
}

bool Scales::any() const {
    return std::any_of(multipliers_.begin(), multipliers_.end(), [](int32_t each) { return each; });
}

Scaling Scales::from(int64_t column) const {
    const bool is_away = last_ == Rounding::HALF_AWAY;
    return {factors_.data() + column,
            halves_.data() + column,
            multipliers_.data() + column,
            lefts_.data() + column,
            rights_.data() + column,
            is_away ? INT64_MIN : 0,
            last_ == Rounding::HALF_TO_EVEN ? -1 : 0,
            is_away ? -1 : 0,
            is_twice_};
}

Scales scales_of(const Requantization &how, const Tensor &multiplier, const Tensor &shift,
                 int64_t place, int64_t largest) {
    const int64_t count = static_cast<int64_t>(multiplier.size());
    if (place >= count)
        fail("a multiplier is missing");
    const int64_t m = numbers_of(multiplier, count)[place], s = numbers_of(shift, count)[place];
    return Scales(how, {m}, {s}, {largest});
}

Scales scales_of_gates(const Requantization &how, const Tensor &multiplier, const Tensor &shift,
                       int64_t gates, int64_t units) {
    const std::vector<int64_t> largest(gates * padded(units), LARGEST_WORD);
    return Scales(how, filled_up(numbers_of(multiplier, gates * units), units),
                  filled_up(numbers_of(shift, gates * units), units), largest);
}

WordTable::WordTable(const Tensor &given) : entries_(WHOLE_WORD + 1), lift_(0) {
    if (given.size() != WHOLE_WORD)
        fail("a table that has not 65,536 entries");
    const auto fill = [&](auto entry, int32_t lift) {
        lift_ = lift;
        for (int64_t k = 0; k < WHOLE_WORD; k++)
            entries_[k ^ 0x8000] = static_cast<int16_t>(given.as<decltype(entry)>()[k] - lift);
    };
    if (given.type == UINT16)
        fill(uint16_t{}, 0x8000);
    else
        of_stored(given.type, "a table", [&](auto entry) { fill(entry, 0); });
}

int64_t WordTable::largest() const {
    const auto ends = std::minmax_element(entries_.begin(), entries_.end());
    return std::max(std::abs(*ends.first + lift_), std::abs(*ends.second + lift_));
}

LeftCodes::LeftCodes(Type type, int64_t zero, int64_t length)
    : type_(type), are_bytes_(chosen_set() == AVX512),
      planes_(are_bytes_ && type == INT16 ? 2 : 1), zero_(zero), length_(length),
      quads_((length * (are_bytes_ ? 1 : 2) + 3) / 4) {
    of_stored(type, "codes", [](auto) {});
    if (are_bytes_)
        base_ = type == INT16 ? -0x8000 : type == INT8 ? -0x80 : 0;
    else
        base_ = type == INT16 ? 0 : zero;
}

int64_t LeftCodes::furthest() const {
    const int64_t low = type_ == INT16 ? -0x8000 : type_ == INT8 ? -0x80 : 0;
    const int64_t high = type_ == INT16 ? 0x7fff : type_ == INT8 ? 0x7f : 0xff;
    return std::max(high - zero_, zero_ - low);
}

void LeftCodes::store(const int32_t *codes, uint8_t *row) const {
    const int32_t base = static_cast<int32_t>(base_);
    const int64_t count = padded(length_);
    if (!are_bytes_) {
        loops_.to_words(codes, base, 0, count, reinterpret_cast<int16_t *>(row));
        return;
    }
    if (planes_ > 1)
        loops_.to_bytes(codes, base, 8, count, row);
    loops_.to_bytes(codes, base, 0, count, row + (planes_ - 1) * plane());
}

void codes_of(const Tensor &from, int64_t first, int64_t count, int64_t step, int32_t *to) {
    of_stored(from.type, "codes", [&](auto code) {
        const auto *codes = from.as<decltype(code)>() + first;
        for (int64_t k = 0; k < count; k++)
            to[k] = codes[k * step];
    });
}

AllGates::AllGates(const Inputs &given, size_t first, int64_t gates, const Tensor &state_zero,
                   const std::optional<Tensor> &state_bias, const Requantization &how)
    : inputs(given(first), given(first + 1), gates, given(first + 3), given(first + 4),
             given(first + 5), how),
      states(state_zero, given(first + 2), gates, state_bias, given(first + 6), given(first + 7),
             how) {
    if (inputs.units() != states.units() || states.left().length() != states.units())
        fail("weights of a state that are not those of its units");
}

GateSums::GateSums(const Tensor &zero, const Tensor &weights, int64_t gates,
                   const std::optional<Tensor> &bias, const Tensor &multiplier,
                   const Tensor &shift, const Requantization &how)
    : left_(zero.type, zero.number(), weights.shape.empty() ? 0 : weights.shape[0]) {
    const LeftCodes &left = left_;
    const int64_t length = left.length();
    if (weights.type != INT8 || weights.shape.size() != 2 || weights.shape[1] % gates)
        fail("weights of gates have another type or shape");
    const int64_t count = weights.shape[1];
    units_ = count / gates;
    must_be_from(units_, 1, INT32_MAX, "the units of a state");
    wide_ = padded(units_);
    columns_ = gates * wide_;
    if (bias && (bias->type != INT32 || static_cast<int64_t>(bias->size()) != count))
        fail("a bias that is not one of each column");
    std::vector<int64_t> sum(count), size(count), start(count);
    const int64_t quad = left.are_bytes() ? 4 : 2;
    weights_.assign(columns_ / COLUMNS * left.quads(), Line{});
    const int8_t *from = weights.as<int8_t>();
    for (int64_t k = 0; k < length; k++)
        for (int64_t n = 0; n < count; n++) {
            const int8_t weight = from[k * count + n];
            const int64_t column = n / units_ * wide_ + n % units_;
            int8_t *to = weights_[column / COLUMNS * left.quads() + k / quad].bytes +
                         column % COLUMNS * 4;
            if (left.are_bytes())
                to[k % 4] = weight;
            else
                reinterpret_cast<int16_t *>(to)[k % 2] = weight;
            sum[n] += weight;
            size[n] += std::abs(weight);
        }
    for (int64_t n = 0; n < count; n++) {
        const int64_t more = bias ? bias->as<int32_t>()[n] : 0;
        start[n] = more - left.zero() * sum[n];
        size[n] = size[n] * left.furthest() + std::abs(more);
        are_long_ |= size[n] > INT32_MAX;
    }
    start_ = filled_up(start, units_);
    for (int64_t each : start_)
        short_start_.push_back(static_cast<int32_t>(static_cast<uint32_t>(each)));
    scales_ = Scales(how, filled_up(numbers_of(multiplier, count), units_),
                     filled_up(numbers_of(shift, count), units_), filled_up(size, units_));
}

Sums GateSums::room(int64_t rows) const {
    const size_t count = rows * columns_;
    return {std::vector<int32_t>(are_long_ ? count * left_.planes() : count),
            std::vector<int64_t>(are_long_ ? count : 0)};
}

void GateSums::add(const uint8_t *rows, int64_t step, int64_t count, int64_t column,
                   int64_t gates, Sums &found) const {
    const int64_t quads = left_.quads(), planes = left_.planes();
    int32_t *shorts = found.shorts.data() + column;
    Products of = {rows, planes * count, step, weights_.data() + column / COLUMNS * quads, quads,
                   quads, gates * wide_ / COLUMNS, short_start_.data() + column, shorts, columns_,
                   planes > 1};
    if (!are_long_)
        return loops_.products(of);
    const std::vector<int32_t> none(columns_);
    of.start = none.data();
    of.are_planes = false;
    int64_t *longs = found.longs.data() + column;
    for (int64_t r = 0; r < count; r++)
        std::copy_n(start_.data() + column, gates * wide_, longs + r * columns_);
    const int64_t safe = left_.are_bytes() ? SAFE_BYTES : SAFE_WORDS;
    for (int64_t k = 0; k < quads; k += safe, of.rows += 4 * safe, of.weights += safe) {
        of.some = std::min(safe, quads - k);
        loops_.products(of);
        for (int64_t r = 0; r < planes * count; r++)
            for (int64_t n = 0; n < gates * wide_; n++)
                longs[r / planes * columns_ + n] +=
                    int64_t{shorts[r * columns_ + n]} * (r % planes < planes - 1 ? 0x100 : 1);
    }
}

void GateSums::places(const Sums &sums, int64_t row, const int32_t *more, int64_t column,
                      int64_t gates, int32_t *found) const {
    const int64_t from = row * columns_ + column, count = gates * wide_;
    const Scaling by = scales_.from(column);
    if (are_long_)
        plain::places<plain::InLong, int64_t>(by, sums.longs.data() + from, more, count, found);
    else
        loops_.places[scales_.way()](by, sums.shorts.data() + from, more, count, found);
}

void GateSums::places_seen(const Sums &sums, int64_t row, const int32_t *more, int64_t column,
                           const Scales &holes, int64_t hole, const int32_t *cells,
                           int32_t *found) const {
    const int64_t from = row * columns_ + column;
    const Scaling by = scales_.from(column), other = holes.from(hole);
    if (are_long_)
        plain::places_seen<plain::InLong, int64_t>(by, other, sums.longs.data() + from, more, cells, wide_,
                                          found);
    else
        loops_.places_seen[both(scales_.way(), holes.way())](
            by, other, sums.shorts.data() + from, more, cells, wide_, found);
}

Sequences::Sequences(const Tensor &given, const Tensor &lens, const GateSums &inputs)
    : x(given), units(inputs.units()) {
    if (x.shape.size() != 3 || x.type != inputs.left().type() ||
        x.shape[2] != inputs.left().length())
        fail("sequences of another type or shape than weights take");
    steps = x.shape[0];
    batch = x.shape[1];
    const int64_t count = static_cast<int64_t>(lens.size());
    if (lens.type != INT32 || lens.shape.size() > 1 || (count != 1 && count != batch))
        fail("lengths that are not those of the sequences");
    lengths = lens.as<int32_t>();
    lengths_step = count == 1 ? 0 : 1;
}

FirstState::FirstState(const Tensor &given, Type type, int64_t zero, const Sequences &sequences,
                       const char *what)
    : given_(given), sequences_(sequences), zero_(static_cast<int32_t>(zero)) {
    const auto fits = [&](size_t axis, int64_t size) {
        return given.shape[axis] == 1 || given.shape[axis] == size;
    };
    if (given.type != type || given.shape.size() != 3 || given.shape[0] != 1 ||
        !fits(1, sequences.batch) || !fits(2, sequences.units))
        fail(what, " has another type or shape");
    unit_step_ = given.shape[2] == 1 ? 0 : 1;
    row_step_ = given.shape[1] == 1 ? 0 : given.shape[2];
}

void FirstState::row(int64_t place, int32_t *to) const {
    if (!sequences_.has(0, place)) {
        std::fill_n(to, sequences_.units, zero_);
        return;
    }
    codes_of(given_, place * row_step_, sequences_.units, unit_step_, to);
}

void store_codes(const int32_t *codes, int64_t count, Type type, void *y, int64_t to) {
    const RecurrentLoops &loops = recurrent_loops();
    if (type == INT16)
        loops.to_words(codes, 0, 0, count, static_cast<int16_t *>(y) + to);
    else
        loops.to_bytes(codes, 0, 0, count, static_cast<uint8_t *>(y) + to);
}

InputGates::InputGates(const Context &context, const GateSums &sums, const Sequences &sequences,
                       int64_t first, int64_t rows, bool alone)
    : context_(context), sums_(sums), sequences_(sequences), first_(first), rows_(rows),
      alone_(alone), none_(sums.columns()) {
    const int64_t some = SOME_ROWS * (alone ? 8 : 1); /* which threads share */
    block_ = std::min(std::max<int64_t>(some / (rows * sums.columns()), 1), sequences.steps);
    gates_.reset(new int32_t[block_ * rows * sums.columns()]);
}

const int32_t *InputGates::of(int64_t step) {
    if (step >= end_) {
        begin_ = step;
        end_ = std::min(step + block_, sequences_.steps);
        const int64_t count = (end_ - begin_) * rows_;
        const int64_t products = sums_.columns() * (sums_.left().length() + COLUMNS);
        const int64_t least = alone_ ? padded(WORTH / products + 1) : count;
        context_.parallel((count + least - 1) / least, [&](size_t part) {
            const int64_t from = static_cast<int64_t>(part) * least;
            fill(from, std::min(count, from + least));
        });
    }
    return gates_.get() + (step - begin_) * rows_ * sums_.columns();
}

void InputGates::fill(int64_t from, int64_t to) {
    const LeftCodes &left = sums_.left();
    const int64_t length = left.length(), gates = sums_.columns() / sums_.wide();
    Sums sums = sums_.room(TALLEST);
    std::vector<uint8_t> copied(left.are_rows() ? 0 : TALLEST * left.bytes());
    std::vector<int32_t> codes(padded(length));
    for (int64_t k = from; k < to;) {
        /* rows side by side in x: of several steps where these are all of a step */
        const int64_t step = begin_ + k / rows_, row = first_ + k % rows_;
        const int64_t side = rows_ == sequences_.batch ? to - k : std::min(rows_ - k % rows_, to - k);
        const int64_t some = std::min(TALLEST, side), at = (step * sequences_.batch + row) * length;
        for (int64_t r = 0; r < some && !left.are_rows(); r++) {
            codes_of(sequences_.x, at + r * length, length, 1, codes.data());
            left.store(codes.data(), copied.data() + r * left.bytes());
        }
        if (left.are_rows())
            sums_.add(sequences_.x.as<uint8_t>() + at, length, some, 0, gates, sums);
        else
            sums_.add(copied.data(), left.plane(), some, 0, gates, sums);
        for (int64_t r = 0; r < some; r++, k++)
            sums_.places(sums, r, none_.data(), 0, gates, gates_.get() + k * sums_.columns());
    }
}

Chunk::Chunk(const AllGates &by, int64_t rows, int64_t lines)
    : states(by.states), rows_(rows), wide(states.wide()), sums(states.room(rows)),
      numbers_((rows + lines) * wide), left_(rows * states.left().bytes()) {}

void Chunk::keep(int64_t row) {
    const LeftCodes &left = states.left();
    left.store(codes(row), left_.data() + row * left.bytes());
    kept(left_.data(), left.plane());
}

void Chunk::kept(const uint8_t *rows, int64_t step) {
    multiplied_ = rows;
    step_ = step;
}

void Chunk::multiply(int64_t column, int64_t gates) {
    states.add(multiplied_, step_, rows_, column, gates, sums);
}

void run_steps(const Context &context, const AllGates &by, const Sequences &all, Type type,
               int64_t zero, void *y, Call<int64_t, std::unique_ptr<Chunk> &> make) {
    const int64_t chunks = (all.batch + TALLEST - 1) / TALLEST;
    const std::vector<int32_t> none(by.states.wide(), static_cast<int32_t>(zero));
    const bool are_dense = by.states.wide() == all.units; /* rows in memory, as in y */
    context.parallel(chunks, [&](size_t part) {
        const int64_t first = static_cast<int64_t>(part) * TALLEST;
        const int64_t count = std::min(TALLEST, all.batch - first);
        InputGates gates(context, by.inputs, all, first, count, chunks == 1);
        std::unique_ptr<Chunk> chunk;
        make(count, chunk);
        for (int64_t r = 0; r < count; r++) {
            chunk->begin(r, first + r);
            chunk->keep(r);
        }
        std::vector<int64_t> live;
        for (int64_t step = 0; step < all.steps; step++) {
            live.clear();
            for (int64_t r = 0; r < count; r++)
                if (all.has(step, first + r))
                    live.push_back(r);
            if (!live.empty())
                chunk->step(gates.of(step), live);
            const int64_t at = (step * all.batch + first) * all.units;
            if (are_dense && static_cast<int64_t>(live.size()) == count)
                store_codes(chunk->codes(0), count * all.units, type, y, at);
            else
                for (int64_t r = 0; r < count; r++)
                    store_codes(all.has(step, first + r) ? chunk->codes(r) : none.data(),
                                all.units, type, y, at + r * all.units);
            if (by.states.left().are_rows())
                chunk->kept(static_cast<const uint8_t *>(y) + at, all.units);
            else
                for (int64_t r : live)
                    chunk->keep(r);
        }
        for (int64_t r = 0; r < count; r++)
            chunk->end(r, first + r);
    });
}

void recurrent_shape(const Inference &given, Sizes &sizes, size_t r) {
    const Sizes weights = given.input(r), x = sizes;
    const auto copy = [&](size_t axis, const Sizes &from, size_t rank, size_t place) {
        sizes.numbers[axis] = from.rank == rank ? from.numbers[place] : -1;
        sizes.names[axis] = from.rank == rank ? from.names[place] : nullptr;
    };
    sizes.rank = 4; /* whatever is known of x */
    sizes.is_known = true;
    copy(0, x, 3, 0);
    sizes.numbers[1] = 1;
    sizes.names[1] = nullptr;
    copy(2, x, 3, 1);
    copy(3, weights, 2, 0);
}

} // namespace qpasses
