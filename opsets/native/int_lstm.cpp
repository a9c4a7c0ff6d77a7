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
    bool sees, saturates;
    WordTable f_table, g_table, h_table;
    Scales old_part, new_part, shown;
    int32_t c_low, c_high;
    Ends ends;
    Type type;

    /* ``how`` sums are rounded, and products of gates; ``alone``: what a state gives saturates. */
    LstmNumbers(const Inputs &given, const Requantization &how, const Requantization &products,
                bool alone)
        : AllGates(given, GATES, 4, given(Y_ZERO), std::nullopt, how),
          holes(scales_of_gates(how, given(HOLES), given(HOLES + 1), 3, states.units())),
          sees(holes.any()), saturates(alone), f_table(given(F_TABLE)), g_table(given(G_TABLE)),
          h_table(given(H_TABLE)),
          old_part(scales_of(products, given(CELL_SCALES), given(CELL_SCALES + 1), 0,
                             f_table.largest() * LARGEST_WORD)),
          new_part(scales_of(products, given(CELL_SCALES), given(CELL_SCALES + 1), 1,
                             f_table.largest() * g_table.largest())),
          shown(scales_of(products, given(Y_SCALE), given(Y_SCALE + 1), 0,
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

    /* How the loop for whole rows finds levels; IN_LONG where there is none. */
    Way way() const {
        const Way found = both(states.scales().way(), both(cells_way(), shown.way()));
        return sees || saturates || states.are_long() || found == IN_DOUBLE ? IN_LONG : found;
    }

    Way cells_way() const { return both(old_part.way(), new_part.way()); }

    static int32_t word(const Tensor &given) {
        must_be_from(given.number(), -0x8000, 0x7fff, "an end of cells");
        return static_cast<int32_t>(given.number());
    }
};

class LstmChunk : public Chunk {
  public:
    LstmChunk(const LstmNumbers &by, int64_t rows, const FirstState &h, const FirstState &c,
              void *y_h, void *y_c)
        : Chunk(by, rows, LINES + rows), by_(by), h_(h), c_(c), y_h_(y_h), y_c_(y_c),
          row_(by.row()), nothing_(by.saturates ? 4 * wide : 0),
          way_(by.way()), gates_(way_ == IN_LONG ? 0 : 4 * rows * wide) {
        std::fill_n(line(ZERO), wide, row_.zero);
    }

    void begin(int64_t row, int64_t sequence) override {
        h_.row(sequence, codes(row));
        c_.row(sequence, cells(row));
    }

    void step(const int32_t *more, const std::vector<int64_t> &rows) override {
        multiply(0, 4);
        if (way_ != IN_LONG)
            return loops.lstm_rows[way_](row_, sums.shorts.data(), more, gates_.data(), cells(0),
                                         codes(0), rows.data(), static_cast<int64_t>(rows.size()));
        for (int64_t row : rows)
            of_any(row, more + 4 * row * wide);
    }

    void end(int64_t row, int64_t sequence) override {
        const int64_t units = states.units();
        store_codes(codes(row), units, by_.type, y_h_, sequence * units);
        store_codes(cells(row), units, INT16, y_c_, sequence * units);
    }

  private:
    enum { PLACES, OPENED = PLACES + 4, NEW = OPENED + 4, SQUASHED, ZERO, LINES };

    const LstmNumbers &by_;
    const FirstState &h_, &c_;
    void *y_h_, *y_c_;
    LstmRow row_;
    std::vector<int32_t> nothing_;
    Way way_;
    std::vector<int32_t> gates_; /* of all rows */

    int32_t *cells(int64_t row) { return line(LINES + row); }

    /* Any row, loop by loop. */
    void of_any(int64_t row, const int32_t *more) {
        if (by_.sees) {
            see(I, row, more, cells(row));
            see(F, row, more, cells(row));
            states.places(sums, row, more + G * wide, G * wide, 1, line(PLACES + G));
        } else {
            places(row, more);
            by_.f_table.look_up(line(PLACES), 3 * wide, line(OPENED));
        }
        by_.g_table.look_up(line(PLACES + G), wide, line(OPENED + G));
        loops.two[by_.cells_way()](row_.old_part, row_.new_part, line(OPENED + F), cells(row),
                                   line(OPENED + I), line(OPENED + G), row_.c_low, row_.c_high,
                                   wide, line(NEW));
        std::copy_n(line(NEW), wide, cells(row));
        if (by_.sees)
            see(O, row, more, line(NEW));
        by_.h_table.look_up(line(NEW), wide, line(SQUASHED));
        loops.one[by_.shown.way()](row_.shown, line(OPENED + O), line(SQUASHED), line(ZERO),
                                   row_.low, row_.high, wide, codes(row));
    }

    /* Those of all gates. */
    void places(int64_t row, const int32_t *more) {
        int32_t *found = line(PLACES);
        if (!by_.saturates)
            return states.places(sums, row, more, 0, 4, found);
        states.places(sums, row, nothing_.data(), 0, 4, found);
        for (int64_t k = 0; k < 4 * wide; k++)
            found[k] = std::clamp(found[k] + more[k], -0x8000, 0x7fff);
    }

    /* A gate that sees cells through its peephole. */
    void see(int64_t gate, int64_t row, const int32_t *more, const int32_t *cells) {
        const int64_t column = gate * wide;
        states.places_seen(sums, row, more + column, column, by_.holes, column, cells,
                           line(PLACES + gate));
        by_.f_table.look_up(line(PLACES + gate), wide, line(OPENED + gate));
    }
};

struct IntLstm {
    Prepared<std::shared_ptr<const LstmNumbers>> prepared;

    explicit IntLstm(const Attributes &given)
        : prepared(
              given, ALL,
              [how = Requantization(given.text("rounding")),
               products = Requantization(
                   given.text_or("product_rounding", given.text("rounding").c_str())),
               alone = given.integer_or("saturates_state", 0) != 0](const Inputs &inputs) {
                  return std::make_shared<const LstmNumbers>(inputs, how, products, alone);
              },
              0, GATES) {}

    static void shape(const Inference &given, Sizes &sizes) {
        recurrent_shape(given, sizes, GATES + 2);
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const LstmNumbers &by = **known;
        const Sequences all(context.input(X), context.input(LENGTHS), by.inputs);
        const FirstState h(context.input(INITIAL_H), by.type, by.ends.zero, all,
                           "IntLstm: initial_h");
        const FirstState c(context.input(INITIAL_C), INT16, 0, all, "IntLstm: initial_c");
        void *y = context.output(0, all.all());
        void *y_h = context.output(1, all.last()), *y_c = context.output(2, all.last());
        run_steps(context, by, all, by.type, by.ends.zero, y,
                  [&](int64_t rows, std::unique_ptr<Chunk> &made) {
                      made = std::make_unique<LstmChunk>(by, rows, h, c, y_h, y_c);
                  });
    }
};

} // namespace

const Kernel INT_LSTM = recurrent<IntLstm>("IntLstm", ALL, Y_ZERO, Y_ZERO, INITIAL_C);

} // namespace qpasses
