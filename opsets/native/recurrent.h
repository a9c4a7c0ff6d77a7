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
    int64_t sign;       /* the sign bit where halves go away from zero */
    int64_t even, away; /* all bits, or none */
    bool is_twice;
};

/* How levels are found where double holds all products, and int32 the sum of some levels: halves
   go up, to even, or away from zero too. Else in int64, one after another. */
enum Way { IN_DOUBLE, UPWARD, NEAREST, WAYS, IN_LONG = WAYS };

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

/* Sixteen columns of a matrix: four bytes or two words of each. */
struct Line {
    alignas(64) int8_t bytes[64];
};

/* ``start`` and sums [count, wide] of rows ``step`` bytes apart: ``some`` quads of those that a
   panel of weights has. Of planes two rows have one sum, 256 times the first with the other. */
struct Products {
    const uint8_t *rows;
    int64_t count, step;
    const Line *weights;
    int64_t quads, some, panels;
    const int32_t *start;
    int32_t *found;
    int64_t wide;
    bool are_planes;
};

/* Loops on so many numbers, a multiple of COLUMNS, in each way; for IN_LONG those of all sets. */
struct RecurrentLoops {
    /* Levels of sums and ``more`` as words. */
    using Places = void (*)(const Scaling &, const int32_t *sums, const int32_t *more,
                            int64_t count, int32_t *found);
    Places places[WAYS + 1];

    /* And levels of ``cells``. */
    using Seen = void (*)(const Scaling &, const Scaling &, const int32_t *sums,
                          const int32_t *more, const int32_t *cells, int64_t count,
                          int32_t *found);
    Seen places_seen[WAYS + 1];

    /* Levels of a * b and ``more``, from ``low`` to ``high``. */
    using One = void (*)(const Scaling &, const int32_t *a, const int32_t *b, const int32_t *more,
                         int32_t low, int32_t high, int64_t count, int32_t *found);
    One one[WAYS + 1];

    /* Those of a * b and of c * d. */
    using Two = void (*)(const Scaling &, const Scaling &, const int32_t *a, const int32_t *b,
                         const int32_t *c, const int32_t *d, int32_t low, int32_t high,
                         int64_t count, int32_t *found);
    Two two[WAYS + 1];

    /* A step of an LSTM, all of it UPWARD or NEAREST, of so many ``rows`` among those in memory. */
    using Rows = void (*)(const LstmRow &, const int32_t *sums, const int32_t *more,
                          int32_t *gates, int32_t *cells, int32_t *codes, const int64_t *rows,
                          int64_t count);
    Rows lstm_rows[WAYS];

    /* Entries of 16 bits and ``lift``; ``middle``: that of nothing. */
    void (*look_up)(const int16_t *middle, int32_t lift, const int32_t *places, int64_t count,
                    int32_t *found);

    /* Numbers less ``base``, without so many bits, of any count. */
    void (*to_bytes)(const int32_t *numbers, int32_t base, int32_t bits, int64_t count,
                     uint8_t *to);
    void (*to_words)(const int32_t *numbers, int32_t base, int32_t bits, int64_t count,
                     int16_t *to);

    void (*products)(const Products &);
};

/* Those of the instruction set that runs. */
const RecurrentLoops &recurrent_loops();

/* Multipliers and shifts of columns, filled up, or of one product for all. */
class Scales {
  public:
    Scales();
    Scales(Scales &&);
    Scales &operator=(Scales &&);
    ~Scales();

    /* ``largest``: of what is multiplied with each. */
    Scales(const Requantization &how, const std::vector<int64_t> &multipliers,
           const std::vector<int64_t> &shifts, const std::vector<int64_t> &largest);

    Way way() const { return way_; }
    bool any() const; /* whether one is not nothing */
    Scaling from(int64_t column) const;

  private:
    Way way_ = IN_LONG;
    Rounding last_ = Rounding::HALF_TO_EVEN;
    bool is_twice_ = false;
    std::vector<double> factors_, halves_;
    std::vector<int32_t> multipliers_, lefts_, rights_;
};

/* A way that does for both. */
inline Way both(Way one, Way other) { return one == other ? one : IN_LONG; }

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
    ~WordTable();

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

/* How codes are rows for GateSums: in AVX-512 unsigned bytes, words as two planes of them, the
   high ones first; else words. */
class LeftCodes {
  public:
    LeftCodes(Type type, int64_t zero, int64_t length);

    Type type() const { return type_; }
    bool are_bytes() const { return are_bytes_; }
    int64_t planes() const { return planes_; }
    int64_t length() const { return length_; }
    int64_t zero() const { return zero_ - base_; } /* of what rows hold */
    int64_t furthest() const;                      /* the largest level */
    int64_t quads() const { return quads_; }       /* of a plane: four bytes each */
    int64_t plane() const { return 4 * padded(quads_); }
    int64_t bytes() const { return planes_ * plane(); }

    /* Whether codes as they lie in a tensor are rows, as far apart as they are long. */
    bool are_rows() const { return are_bytes_ && type_ == UINT8 && length_ % 4 == 0; }

    /* A row of codes, some more than the length. */
    void store(const int32_t *codes, uint8_t *row) const;

  private:
    const RecurrentLoops &loops_ = recurrent_loops();
    Type type_;
    bool are_bytes_;
    int64_t planes_, zero_, base_, length_, quads_;
};

/* So many codes of a tensor, which lie ``step`` apart. */
void codes_of(const Tensor &from, int64_t first, int64_t count, int64_t step, int32_t *to);

/* Sums [rows, columns] in int32, behind which is more memory, or in int64. */
struct Sums {
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
    ~GateSums();

    const LeftCodes &left() const { return left_; }
    int64_t columns() const { return columns_; }
    int64_t wide() const { return wide_; }
    int64_t units() const { return units_; }

    Sums room(int64_t rows) const;

    /* Sums of rows, whose planes lie ``step`` bytes apart, of so many gates from a column on. */
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
    std::unique_ptr<int32_t[]> gates_; /* not filled before it is */
    std::vector<int32_t> none_;

    void fill(int64_t from, int64_t to);
};

/* Some sequences, as they go through the steps. */
class Chunk {
  public:
    /* ``lines``: of memory for a kernel, each as wide as a gate. */
    Chunk(const AllGates &by, int64_t rows, int64_t lines);
    virtual ~Chunk();

    /* What a row is before the first step: its codes, and what else a kernel has. */
    virtual void begin(int64_t row, int64_t sequence) = 0;

    /* The codes of these rows; ``more``: the gates of inputs, of all rows. */
    virtual void step(const int32_t *more, const std::vector<int64_t> &rows) = 0;

    /* The last states of a row. */
    virtual void end(int64_t row, int64_t sequence) = 0;

    /* Codes of a row for products with the weights of the state. */
    void keep(int64_t row);

    /* Those of all rows, ``step`` bytes apart: what ``keep`` makes of them. */
    void kept(const uint8_t *rows, int64_t step);

    int32_t *codes(int64_t row) { return numbers_.data() + row * wide; }

  protected:
    const RecurrentLoops &loops = recurrent_loops();
    const GateSums &states;
    int64_t rows_, wide;

    int32_t *line(int64_t place) { return codes(rows_ + place); }

    /* The sums of all rows with so many gates from a column on. */
    void multiply(int64_t column, int64_t gates);

    Sums sums;

  private:
    std::vector<int32_t> numbers_; /* codes, then lines */
    std::vector<uint8_t> left_;
    const uint8_t *multiplied_ = nullptr;
    int64_t step_ = 0;
};

/* All steps of all sequences, on the session's threads. ``y``: codes of a type, ``zero`` where a
   sequence has ended; ``make``: a chunk of so many rows. */
void run_steps(const Context &context, const AllGates &by, const Sequences &all, Type type,
               int64_t zero, void *y, Call<int64_t, std::unique_ptr<Chunk> &> make);

/* The shape of y [steps, 1, batch, units] by x and r [units, ...], an input at a place. */
void recurrent_shape(const Inference &given, Sizes &sizes, size_t r);

} // namespace qpasses
