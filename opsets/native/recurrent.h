/* What recurrent kernels share: sums of gates, tables, and products of states as levels. */

#pragma once

#include "prepared.h"
#include "rounding.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace qpasses {

constexpr int64_t WHOLE_WORD = 1 << 16;   /* entries of a table */
constexpr int64_t LARGEST_WORD = 1 << 15;

/* So many columns lie side by side; what a unit has is filled up to so many. */
constexpr int64_t COLUMNS = 16;

inline int64_t padded(int64_t size) { return (size + COLUMNS - 1) / COLUMNS * COLUMNS; }

/* Rows whose sums are made at once. */
constexpr int64_t TALLEST = 4;

/* Multipliers over powers of two for loops: as doubles and half of their last bits, or as
   integers, of which ``left`` shifts what is multiplied, ``right`` the product. */
struct Scaling {
    const double *factor, *half;
    const int32_t *multiplier, *left, *right;
    int64_t sign;               /* the sign bit where halves go away from zero */
    int64_t even, away;         /* all bits, or none */
    int64_t first_half, most;   /* of the first of two roundings */
    int32_t first_shift;
};

/* A table by 16 bits: its middle is the entry of nothing; ``lift`` is what entries lack. */
struct TableView {
    const int16_t *middle;
    int32_t lift;
};

/* What a step of an LSTM is. */
struct LstmRow {
    Scaling gates, old_part, new_part, shown;
    TableView f_table, g_table, h_table;
    int32_t c_low, c_high, zero, low, high;
    int64_t wide;
};

struct Line;

/* Loops on so many numbers, a multiple of COLUMNS: in int64, or in double where that does. */
struct RecurrentLoops {
    /* Levels of sums and ``more`` as words; in double, where halves go up too. */
    void (*places[3])(const Scaling &, const int32_t *sums, const int32_t *more, int64_t count,
                      int32_t *found);

    /* And levels of ``cells``. */
    void (*places_seen[2])(const Scaling &, const Scaling &, const int32_t *sums,
                           const int32_t *more, const int32_t *cells, int64_t count,
                           int32_t *found);

    /* Levels of a * b and ``more``, from ``low`` to ``high``. */
    using One = void (*)(const Scaling &, const int32_t *a, const int32_t *b, const int32_t *more,
                         int32_t low, int32_t high, int64_t count, int32_t *found);
    One one[2];

    /* Those of a * b and of c * d. */
    using Two = void (*)(const Scaling &, const Scaling &, const int32_t *a, const int32_t *b,
                         const int32_t *c, const int32_t *d, int32_t low, int32_t high,
                         int64_t count, int32_t *found);
    Two two[2];

    /* A step of an LSTM in double, where halves go up. */
    void (*lstm_row)(const LstmRow &, const int32_t *sums, const int32_t *more, int32_t *gates,
                     int32_t *cells, int32_t *codes);

    /* Entries of 16 bits and ``lift``; ``middle``: that of nothing. */
    void (*look_up)(const int16_t *middle, int32_t lift, const int32_t *places, int64_t count,
                    int32_t *found);

    /* Numbers less ``base``, of any count. */
    void (*to_bytes)(const int32_t *numbers, int32_t base, int64_t count, uint8_t *to);
    void (*to_words)(const int32_t *numbers, int32_t base, int64_t count, int16_t *to);

    /* [count, wide]: ``start`` and sums of rows, ``step`` bytes apart, with panels of weights:
       ``some`` quads of all that a panel has. */
    void (*products)(const uint8_t *rows, int64_t count, int64_t step, const Line *weights,
                     int64_t quads, int64_t some, int64_t panels, const int32_t *start,
                     int32_t *found, int64_t wide);
};

/* Those of the instruction set that runs. */
const RecurrentLoops &recurrent_loops();

/* Multipliers and shifts of columns, filled up, or of one product for all. */
class Scales {
  public:
    Scales() = default;

    /* ``largest``: of what is multiplied with each. */
    Scales(const Requantization &how, const std::vector<int64_t> &multipliers,
           const std::vector<int64_t> &shifts, const std::vector<int64_t> &largest);

    /* Which loops do: in int64, in double, in double with halves that go up. */
    int way() const { return !in_double_ ? 0 : how_.last == Rounding::HALF_AWAY ? 1 : 2; }
    bool in_double() const { return in_double_; }
    bool any() const; /* whether one is not nothing */
    Scaling from(int64_t column) const;

  private:
    bool in_double_ = true;
    Requantization how_{"half_to_even"};
    std::vector<double> factors_, halves_;
    std::vector<int32_t> multipliers_, lefts_, rights_;
};

/* One number of a node and its shift as Scales, of products up to a size. */
Scales scales_of(const Requantization &how, const Tensor &multiplier, const Tensor &shift,
                 int64_t place, int64_t largest);

/* Those of gates of so many units, for words. */
Scales scales_of_gates(const Requantization &how, const Tensor &multiplier, const Tensor &shift,
                       int64_t gates, int64_t units);

/* A table by 16 bits: entries in order of what is looked up. */
class WordTable {
  public:
    /* Of entries of 16 bits, or of bytes. */
    explicit WordTable(const Tensor &given);

    void look_up(const int32_t *places, int64_t count, int32_t *found) const {
        loops_.look_up(view().middle, lift_, places, count, found);
    }

    TableView view() const { return {entries_.data() + WHOLE_WORD / 2, lift_}; }

    /* The size of the largest entry. */
    int64_t largest() const;

  private:
    const RecurrentLoops &loops_ = recurrent_loops();
    std::vector<int16_t> entries_; /* and one behind them */
    int32_t lift_;                 /* what entries lack */
};

/* Sixteen columns of a matrix: four bytes or two words of each. */
struct Line {
    alignas(64) int8_t bytes[64];
};

/* Codes as rows for GateSums. */
class LeftCodes {
  public:
    LeftCodes(Type type, int64_t zero, int64_t length);

    Type type() const { return type_; }
    bool are_bytes() const { return are_bytes_; }
    int64_t length() const { return length_; }
    int64_t zero() const { return zero_ - base_; } /* of what rows hold */
    int64_t furthest() const;                      /* the largest level */
    int64_t quads() const { return quads_; }       /* of a row: four bytes each */
    int64_t bytes() const { return 4 * padded(quads_); }

    /* Whether codes as they lie in a tensor are rows, as far apart as they are long. */
    bool are_rows() const { return are_bytes_ && base_ == 0 && length_ % 4 == 0; }

    /* A row of codes as they lie in a tensor; or of numbers, some more than the length. */
    void of_tensor(const Tensor &from, int64_t first, uint8_t *row) const;
    void of_numbers(const int32_t *codes, uint8_t *row) const;

  private:
    const RecurrentLoops &loops_ = recurrent_loops();
    Type type_;
    bool are_bytes_;
    int64_t zero_, base_, length_, quads_;
};

/* Sums [rows, columns] in int32, or in int64 where that does not hold them. */
struct Sums {
    int64_t columns;
    std::vector<int32_t> shorts;
    std::vector<int64_t> longs;
};

/* Weights [length, gates * units] and what their sums become. Columns of a gate are filled up:
   there are gates * wide. */
class GateSums {
  public:
    GateSums(const Tensor &zero, const Tensor &weights, int64_t gates,
             const std::optional<Tensor> &bias, const Tensor &multiplier, const Tensor &shift,
             const Requantization &how);

    const LeftCodes &left() const { return left_; }
    int64_t columns() const { return columns_; }
    int64_t wide() const { return wide_; }
    int64_t units() const { return units_; }

    Sums room(int64_t rows) const;

    /* Sums of rows that lie so many bytes apart, of so many gates from a column on. */
    void add(const uint8_t *rows, int64_t step, int64_t count, int64_t column, int64_t gates,
             Sums &found) const;

    /* Levels of sums of one row and ``more``, as words, of so many gates from a column on. */
    void places(const Sums &sums, int64_t row, const int32_t *more, int64_t column, int64_t gates,
                int32_t *found) const;

    /* The same of one gate and of levels of ``cells``, by ``holes``. */
    void places_seen(const Sums &sums, int64_t row, const int32_t *more, int64_t column,
                     const Scales &holes, int64_t hole, const int32_t *cells,
                     int32_t *found) const;

    /* How these are made levels, and whether sums are in int32. */
    const Scales &scales() const { return scales_; }
    bool are_long() const { return are_long_; }

  private:
    const RecurrentLoops &loops_ = recurrent_loops();
    LeftCodes left_;
    int64_t units_, wide_, columns_;
    bool are_long_ = false; /* sums, which int32 does not hold */
    std::vector<Line> weights_; /* [panels, quads] */
    std::vector<int64_t> start_;
    std::vector<int32_t> short_start_;
    Scales scales_;
};

/* What the gates of a node are sums of: inputs from ``first`` on are the zero point of x, the
   weights of x and of the state, a bias, and multipliers and shifts of both. */
struct AllGates {
    GateSums inputs, states;

    AllGates(const Inputs &given, size_t first, int64_t gates, const Tensor &state_zero,
             const std::optional<Tensor> &state_bias, const Requantization &how);
};

/* Sequences of a node: x [steps, batch, inputs]. */
struct Sequences {
    Tensor x;
    int64_t steps, batch, units;
    const int32_t *lengths;
    int64_t lengths_step;

    Sequences(const Tensor &given, const Tensor &lens, const GateSums &inputs);

    bool has(int64_t step, int64_t row) const { return step < lengths[row * lengths_step]; }

    Shape all() const { return {steps, 1, batch, units}; }
    Shape last() const { return {1, batch, units}; }
};

/* A state before the first step: [1, batch or 1, units or 1] of a type, ``zero`` of a sequence
   that has no steps. */
class FirstState {
  public:
    FirstState(const Tensor &given, Type type, int64_t zero, const Sequences &sequences,
               const char *what);

    void row(int64_t place, int32_t *to) const;

  private:
    Tensor given_;
    const Sequences &sequences_;
    int32_t zero_;
    int64_t row_step_, unit_step_;
};

/* So many codes from a place on. */
void store_codes(const int32_t *codes, int64_t count, Type type, void *y, int64_t to);

/* Numbers of some rows, each filled up. */
class StateRows {
  public:
    StateRows(int64_t rows, int64_t wide, int32_t number = 0)
        : wide_(wide), numbers_(rows * wide, number) {}

    int32_t *at(int64_t row) { return numbers_.data() + row * wide_; }
    const int32_t *at(int64_t row) const { return numbers_.data() + row * wide_; }

  private:
    int64_t wide_;
    std::vector<int32_t> numbers_;
};

/* Gates of inputs for a chunk of sequences, from ``first`` on: of so many steps at once. */
class InputGates {
  public:
    InputGates(const Context &context, const GateSums &sums, const Sequences &sequences,
               int64_t first, int64_t rows, bool alone);

    /* [rows, columns] of a step; steps come one after another. */
    const int32_t *of(int64_t step);

  private:
    const Context &context_;
    const GateSums &sums_;
    const Sequences &sequences_;
    int64_t first_, rows_, block_, begin_ = 0, end_ = 0;
    bool alone_;
    std::vector<int32_t> gates_, none_;

    void fill(int64_t from, int64_t to);
};

/* Some sequences, as they go through the steps. */
class Chunk {
  public:
    Chunk(const AllGates &by, int64_t rows);
    virtual ~Chunk() = default;

    /* What a row is before the first step: its codes, and what else a kernel has. */
    virtual void begin(int64_t row, int64_t sequence) = 0;

    /* The codes of these rows; ``more``: the gates of inputs, of all rows. */
    virtual void step(const int32_t *more, const std::vector<int64_t> &rows) = 0;

    /* The last states of a row. */
    virtual void end(int64_t row, int64_t sequence) const = 0;

    /* Codes of a row for products with the weights of the state. */
    void keep(int64_t row);

    StateRows codes;

  protected:
    const RecurrentLoops &loops = recurrent_loops();
    const GateSums &states;
    int64_t wide;

    /* The sums of all rows with so many gates from a column on. */
    void multiply(int64_t column, int64_t gates);

    Sums sums;

  private:
    int64_t rows_;
    std::vector<uint8_t> left_;
};

/* All steps of all sequences, on the session's threads. ``y``: codes of a type, ``zero`` where a
   sequence has ended; ``make``: a chunk of so many rows. */
void run_steps(const Context &context, const AllGates &by, const Sequences &all, Type type,
               int64_t zero, void *y, const std::function<std::unique_ptr<Chunk>(int64_t)> &make);

/* The shape of y [steps, 1, batch, units] by x and r [units, ...], an input at a place. */
void recurrent_shape(const Inference &given, Sizes &sizes, size_t r);

} // namespace qpasses
