/* IntLstm: an LSTM over whole sequences, whose gates are looked up. */

#include "kernels.h"
#include "recurrent.h"
#include "rescaling.h"

namespace qpasses {
namespace {

enum {
    X, INITIAL_H, INITIAL_C, LENGTHS, GATES, HOLES = GATES + 8, F_TABLE = HOLES + 2, G_TABLE,
    H_TABLE, CELL_SCALES, C_MIN = CELL_SCALES + 2, C_MAX, Y_SCALE, Y_ZERO = Y_SCALE + 2, Y_MIN,
    Y_MAX, ALL
};

enum { I, O, F, G }; /* the gates, as their columns lie */

struct LstmNumbers : AllGates {
    Scales holes;
    bool sees;
    WordTable f_table, g_table, h_table;
    Scales old_part, new_part, shown;
    int32_t c_low, c_high;
    Ends ends;
    Type type;

    LstmNumbers(const Inputs &given, const Requantization &how)
        : AllGates(given, GATES, 4, given(Y_ZERO), std::nullopt, how),
          holes(scales_of_gates(how, given(HOLES), given(HOLES + 1), 3, states.units())),
          sees(holes.any()), f_table(given(F_TABLE)), g_table(given(G_TABLE)),
          h_table(given(H_TABLE)),
          old_part(scales_of(how, given(CELL_SCALES), given(CELL_SCALES + 1), 0,
                             f_table.largest() * LARGEST_WORD)),
          new_part(scales_of(how, given(CELL_SCALES), given(CELL_SCALES + 1), 1,
                             f_table.largest() * g_table.largest())),
          shown(scales_of(how, given(Y_SCALE), given(Y_SCALE + 1), 0,
                          f_table.largest() * h_table.largest())),
          c_low(word(given(C_MIN))), c_high(word(given(C_MAX))),
          ends(given(Y_ZERO).number(), given(Y_MIN).number(), given(Y_MAX).number()),
          type(given(Y_ZERO).type) {}

    LstmRow row() const {
        const auto number = [](int64_t each) { return static_cast<int32_t>(each); };
        return {states.scales().from(0), old_part.from(0), new_part.from(0), shown.from(0),
                f_table.view(), g_table.view(), h_table.view(), c_low, c_high, number(ends.zero),
                number(ends.low), number(ends.high), states.wide()};
    }

    /* Whether the loop for whole rows does. */
    bool is_simple() const {
        constexpr int UPWARD = 2;
        return !sees && !states.are_long() && states.scales().way() == UPWARD &&
               old_part.in_double() && new_part.in_double() && shown.in_double();
    }

    static int32_t word(const Tensor &given) {
        must_be_from(given.number(), -0x8000, 0x7fff, "an end of cells");
        return static_cast<int32_t>(given.number());
    }
};

class LstmChunk : public Chunk {
  public:
    LstmChunk(const LstmNumbers &by, int64_t rows, const FirstState &h, const FirstState &c,
              void *y_h, void *y_c)
        : Chunk(by, rows), by_(by), h_(h), c_(c), y_h_(y_h), y_c_(y_c), row_(by.row()),
          is_simple_(by.is_simple()),
          of_cells_(loops.two[by.old_part.in_double() && by.new_part.in_double()]),
          of_codes_(loops.one[by.shown.in_double()]), cells_(rows, wide), places_(4, wide),
          gates_(4, wide), new_(1, wide), squashed_(1, wide), zero_(1, wide, row_.zero) {}

    void begin(int64_t row, int64_t sequence) override {
        h_.row(sequence, codes.at(row));
        c_.row(sequence, cells_.at(row));
    }

    void step(const int32_t *more, const std::vector<int64_t> &rows) override {
        multiply(0, 4);
        for (int64_t row : rows)
            if (is_simple_)
                loops.lstm_row(row_, sums.shorts.data() + 4 * row * wide, more + 4 * row * wide,
                               gates_.at(0), cells_.at(row), codes.at(row));
            else
                of_row(row, more + 4 * row * wide);
    }

    void end(int64_t row, int64_t sequence) const override {
        const int64_t units = states.units();
        store_codes(codes.at(row), units, by_.type, y_h_, sequence * units);
        store_codes(cells_.at(row), units, INT16, y_c_, sequence * units);
    }

  private:
    const LstmNumbers &by_;
    const FirstState &h_, &c_;
    void *y_h_, *y_c_;
    LstmRow row_;
    bool is_simple_;
    RecurrentLoops::Two of_cells_;
    RecurrentLoops::One of_codes_;
    StateRows cells_, places_, gates_, new_, squashed_, zero_;

    /* Any row, loop by loop. */
    void of_row(int64_t row, const int32_t *more) {
        if (by_.sees) {
            see(I, row, more, cells_.at(row));
            see(F, row, more, cells_.at(row));
            states.places(sums, row, more + G * wide, G * wide, 1, places_.at(G));
        } else {
            states.places(sums, row, more, 0, 4, places_.at(0));
            by_.f_table.look_up(places_.at(0), 3 * wide, gates_.at(0));
        }
        by_.g_table.look_up(places_.at(G), wide, gates_.at(G));
        of_cells_(row_.old_part, row_.new_part, gates_.at(F), cells_.at(row), gates_.at(I),
                  gates_.at(G), row_.c_low, row_.c_high, wide, new_.at(0));
        std::copy_n(new_.at(0), wide, cells_.at(row));
        if (by_.sees)
            see(O, row, more, new_.at(0));
        by_.h_table.look_up(new_.at(0), wide, squashed_.at(0));
        of_codes_(row_.shown, gates_.at(O), squashed_.at(0), zero_.at(0), row_.low, row_.high, wide,
                  codes.at(row));
    }

    /* A gate that sees cells through its peephole. */
    void see(int64_t gate, int64_t row, const int32_t *more, const int32_t *cells) {
        states.places_seen(sums, row, more + gate * wide, gate * wide, by_.holes, gate * wide,
                           cells, places_.at(gate));
        by_.f_table.look_up(places_.at(gate), wide, gates_.at(gate));
    }
};

struct IntLstm {
    Prepared<LstmNumbers> prepared;

    explicit IntLstm(const Attributes &given)
        : prepared(
              given, ALL,
              [how = Requantization(given.text("rounding"))](const Inputs &inputs) {
                  return LstmNumbers(inputs, how);
              },
              0, GATES) {}

    static void shape(const Inference &given, Sizes &sizes) {
        recurrent_shape(given, sizes, GATES + 2);
    }

    void run(const Context &context) const {
        const auto by = prepared.of(context);
        const Sequences all(context.input(X), context.input(LENGTHS), by->inputs);
        const FirstState h(context.input(INITIAL_H), by->type, by->ends.zero, all,
                           "IntLstm: initial_h");
        const FirstState c(context.input(INITIAL_C), INT16, 0, all, "IntLstm: initial_c");
        void *y = context.output(0, all.all());
        void *y_h = context.output(1, all.last()), *y_c = context.output(2, all.last());
        run_steps(context, *by, all, by->type, by->ends.zero, y, [&](int64_t rows) {
            return std::make_unique<LstmChunk>(*by, rows, h, c, y_h, y_c);
        });
    }
};

} // namespace

const Kernel INT_LSTM = recurrent<IntLstm>("IntLstm", ALL, Y_ZERO, Y_ZERO, INITIAL_C);

} // namespace qpasses
