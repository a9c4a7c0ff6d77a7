/* IntGru: a GRU over whole sequences, whose gates are looked up. */

#include "kernels.h"
#include "recurrent.h"
#include "rescaling.h"

namespace qpasses {
namespace {

enum {
    X, INITIAL, LENGTHS, GATES, R_BIAS = GATES + 8, F_TABLE, G_TABLE, ONE, RESET_SCALE,
    BLEND_SCALES = RESET_SCALE + 2, Y_SCALE = BLEND_SCALES + 2, Y_ZERO = Y_SCALE + 2, Y_MIN, Y_MAX,
    ALL
};

enum { Z, R, N }; /* the gates, as their columns lie */

struct GruNumbers : AllGates {
    bool resets_last;
    WordTable f_table, g_table;
    int32_t one;
    Scales reset, new_part, old_part, shown;
    Ends ends;
    Type type;

    GruNumbers(const Inputs &given, const Requantization &how, bool is_last)
        : AllGates(given, GATES, 3, given(Y_ZERO), given(R_BIAS), how), resets_last(is_last),
          f_table(given(F_TABLE)), g_table(given(G_TABLE)), one(of_one(given(ONE))),
          reset(scales_of(how, given(RESET_SCALE), given(RESET_SCALE + 1), 0,
                          f_table.largest() * LARGEST_WORD)),
          new_part(scales_of(how, given(BLEND_SCALES), given(BLEND_SCALES + 1), 0,
                             (one + f_table.largest()) * g_table.largest())),
          old_part(scales_of(how, given(BLEND_SCALES), given(BLEND_SCALES + 1), 1,
                             f_table.largest() * LARGEST_WORD)),
          shown(scales_of(how, given(Y_SCALE), given(Y_SCALE + 1), 0, LARGEST_WORD)),
          ends(given(Y_ZERO).number(), given(Y_MIN).number(), given(Y_MAX).number()),
          type(given(Y_ZERO).type) {}

    static int32_t of_one(const Tensor &given) {
        must_be_from(given.number(), 0, WHOLE_WORD, "one");
        return static_cast<int32_t>(given.number());
    }
};

class GruChunk : public Chunk {
  public:
    GruChunk(const GruNumbers &by, int64_t rows, const FirstState &initial, void *y_h)
        : Chunk(by, rows), by_(by), initial_(initial), y_h_(y_h), reset_(by.reset.from(0)),
          new_(by.new_part.from(0)), old_(by.old_part.from(0)), shown_(by.shown.from(0)),
          of_resets_(loops.one[by.reset.in_double()]),
          of_states_(loops.two[by.new_part.in_double() && by.old_part.in_double()]),
          of_codes_(loops.one[by.shown.in_double()]), memory_(rows + 1, wide),
          gates_(rows * 2, wide), places_(2, wide), n_(1, wide), rest_(1, wide), none_(1, wide), units_(1, wide, 1), zero_(1, wide, static_cast<int32_t>(by.ends.zero)) {
        for (int64_t row = 0; row <= rows; row++)
            states_.push_back(memory_.at(row));
    }

    void begin(int64_t row, int64_t sequence) override {
        initial_.row(sequence, states_[row]);
        show(row);
    }

    void step(const int32_t *more, const std::vector<int64_t> &rows) override {
        multiply(0, by_.resets_last ? 3 : 2);
        for (int64_t row : rows) {
            int32_t *gates = gates_.at(2 * row);
            states.places(sums, row, more + 3 * row * wide, 0, 2, places_.at(0));
            by_.f_table.look_up(places_.at(0), 2 * wide, gates);
            if (!by_.resets_last) {
                level(of_resets_, reset_, gates + R * wide, states_[row], codes.at(row));
                keep(row);
            }
        }
        if (!by_.resets_last)
            multiply(N * wide, 1);
        for (int64_t row : rows)
            blend(row, more + (3 * row + N) * wide);
    }

    void end(int64_t row, int64_t sequence) const override {
        store_codes(states_[row], states.units(), INT16, y_h_, sequence * states.units());
    }

  private:
    const GruNumbers &by_;
    const FirstState &initial_;
    void *y_h_;
    Scaling reset_, new_, old_, shown_;
    RecurrentLoops::One of_resets_;
    RecurrentLoops::Two of_states_;
    RecurrentLoops::One of_codes_;
    StateRows memory_, gates_, places_, n_, rest_, none_, units_, zero_;
    std::vector<int32_t *> states_; /* of each row, and memory for new ones */

    /* Codes of products. */
    void level(RecurrentLoops::One loop, const Scaling &by, const int32_t *a,
               const int32_t *b, int32_t *found) const {
        loop(by, a, b, zero_.at(0), static_cast<int32_t>(by_.ends.low),
                  static_cast<int32_t>(by_.ends.high), wide, found);
    }

    void show(int64_t row) {
        level(of_codes_, shown_, states_[row], units_.at(0), codes.at(row));
    }

    /* The new state of a row; ``more``: the gate n of its input. */
    void blend(int64_t row, const int32_t *more) {
        const int32_t *z = gates_.at(2 * row), *reset = z + wide;
        if (by_.resets_last) {
            states.places(sums, row, none_.at(0), N * wide, 1, places_.at(0));
            of_resets_(reset_, reset, places_.at(0), more, -0x8000, 0x7fff, wide, places_.at(1));
        } else {
            states.places(sums, row, more, N * wide, 1, places_.at(1));
        }
        by_.g_table.look_up(places_.at(1), wide, n_.at(0));
        int32_t *rest = rest_.at(0);
        for (int64_t k = 0; k < wide; k++)
            rest[k] = by_.one - z[k];
        of_states_(new_, old_, rest, n_.at(0), z, states_[row], -0x8000, 0x7fff, wide,
                   states_.back());
        std::swap(states_[row], states_.back());
        show(row);
    }
};

struct IntGru {
    Prepared<GruNumbers> prepared;

    explicit IntGru(const Attributes &given)
        : prepared(
              given, ALL,
              [how = Requantization(given.text("rounding")),
               last = given.integer("linear_before_reset") != 0](const Inputs &inputs) {
                  return GruNumbers(inputs, how, last);
              },
              0, GATES) {}

    static void shape(const Inference &given, Sizes &sizes) {
        recurrent_shape(given, sizes, GATES + 2);
    }

    void run(const Context &context) const {
        const auto by = prepared.of(context);
        const Sequences all(context.input(X), context.input(LENGTHS), by->inputs);
        const FirstState initial(context.input(INITIAL), INT16, 0, all, "IntGru: initial_h");
        void *y = context.output(0, all.all()), *y_h = context.output(1, all.last());
        run_steps(context, *by, all, by->type, by->ends.zero, y, [&](int64_t rows) {
            return std::make_unique<GruChunk>(*by, rows, initial, y_h);
        });
    }
};

} // namespace

const Kernel INT_GRU = recurrent<IntGru>("IntGru", ALL, Y_ZERO, INITIAL);

} // namespace qpasses
