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

/* Multipliers and shifts of columns, filled up, or of one product for all. */
class Scales {
  public:
    Scales() = default;

    /* ``largest``: of what is multiplied with each. */
    Scales(const Requantization &how, const std::vector<int64_t> &multipliers,
           const std::vector<int64_t> &shifts, const std::vector<int64_t> &largest);

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

/* Loops on so many numbers, a multiple of COLUMNS; in double, or in int64. */
struct StateLoops {
    /* One product as levels, and ``more``, from ``low`` to ``high``. */
    void (*one)(const Scaling &, const int32_t *a, const int32_t *b, const int32_t *more,
                int32_t low, int32_t high, int64_t count, int32_t *found);

    /* The sum of two. */
    void (*two)(const Scaling &, const Scaling &, const int32_t *a, const int32_t *b,
                const int32_t *c, const int32_t *d, int32_t low, int32_t high, int64_t count,
                int32_t *found);

    static StateLoops in(bool is_double);
};

/* A table by 16 bits: entries in order of what is looked up. */
class WordTable {
  public:
    /* Of entries of 16 bits, or of bytes. */
    explicit WordTable(const Tensor &given);

    void look_up(const int32_t *places, int64_t count, int32_t *found) const;

    /* The size of the largest entry. */
    int64_t largest() const;

  private:
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

    /* A row of codes as they lie in a tensor; or of numbers, some more than the length. */
    void of_tensor(const Tensor &from, int64_t first, uint8_t *row) const;
    void of_numbers(const int32_t *codes, uint8_t *row) const;

  private:
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

    /* Sums of rows that lie ``left().bytes()`` apart, of so many gates from a column on. */
    void add(const uint8_t *rows, int64_t count, int64_t column, int64_t gates, Sums &found) const;

    /* Levels of sums of one row and ``more``, as words, of so many gates from a column on. */
    void places(const Sums &sums, int64_t row, const int32_t *more, int64_t column, int64_t gates,
                int32_t *found) const;

    /* The same of one gate and of levels of ``cells``, by ``holes``. */
    void places_seen(const Sums &sums, int64_t row, const int32_t *more, int64_t column,
                     const Scales &holes, int64_t hole, const int32_t *cells,
                     int32_t *found) const;

  private:
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
