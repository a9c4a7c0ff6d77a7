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
        : Chunk(by, rows, LINES + 3 * rows), by_(by), initial_(initial), y_h_(y_h) {
        std::fill_n(line(UNITS), wide, 1);
        std::fill_n(line(ZERO), wide, static_cast<int32_t>(by.ends.zero));
    }

    void begin(int64_t row, int64_t sequence) override {
        initial_.row(sequence, state(row));
        show(row);
    }

    void step(const int32_t *more, const std::vector<int64_t> &rows) override {
        multiply(0, by_.resets_last ? 3 : 2);
        for (int64_t row : rows) {
            states.places(sums, row, more + 3 * row * wide, 0, 2, line(PLACES));
            by_.f_table.look_up(line(PLACES), 2 * wide, opened(row));
            if (!by_.resets_last) {
                level(by_.reset, opened(row) + R * wide, state(row), codes(row));
                keep(row);
            }
        }
        if (!by_.resets_last)
            multiply(N * wide, 1);
        for (int64_t row : rows)
            blend(row, more + (3 * row + N) * wide);
    }

    void end(int64_t row, int64_t sequence) override {
        store_codes(state(row), states.units(), INT16, y_h_, sequence * states.units());
    }

  private:
    enum { PLACES, NEW = PLACES + 2, REST, BLEND, NONE, UNITS, ZERO, LINES };

    const GruNumbers &by_;
    const FirstState &initial_;
    void *y_h_;

    int32_t *state(int64_t row) { return line(LINES + row); }
    int32_t *opened(int64_t row) { return line(LINES + rows_ + 2 * row); } /* z and r */

    /* Codes of products. */
    void level(const Scales &by, const int32_t *a, const int32_t *b, int32_t *found) {
        loops.one[by.way()](by.from(0), a, b, line(ZERO), static_cast<int32_t>(by_.ends.low),
                            static_cast<int32_t>(by_.ends.high), wide, found);
    }

    void show(int64_t row) { level(by_.shown, state(row), line(UNITS), codes(row)); }

    /* The new state of a row; ``more``: the gate n of its input. */
    void blend(int64_t row, const int32_t *more) {
        const int32_t *z = opened(row), *reset = z + R * wide;
        int32_t *places = line(PLACES), *rest = line(REST);
        if (by_.resets_last) {
            states.places(sums, row, line(NONE), N * wide, 1, line(PLACES + 1));
            loops.one[by_.reset.way()](by_.reset.from(0), reset, line(PLACES + 1), more, -0x8000,
                                       0x7fff, wide, places);
        } else {
            states.places(sums, row, more, N * wide, 1, places);
        }
        by_.g_table.look_up(places, wide, line(NEW));
        for (int64_t k = 0; k < wide; k++)
            rest[k] = by_.one - z[k];
        loops.two[both(by_.new_part.way(), by_.old_part.way())](
            by_.new_part.from(0), by_.old_part.from(0), rest, line(NEW), z, state(row), -0x8000,
            0x7fff, wide, line(BLEND));
        std::copy_n(line(BLEND), wide, state(row));
        show(row);
    }
};

struct IntGru {
    Prepared<std::shared_ptr<const GruNumbers>> prepared;

    explicit IntGru(const Attributes &given)
        : prepared(
              given, ALL,
              [how = Requantization(given.text("rounding")),
               last = given.integer("linear_before_reset") != 0](const Inputs &inputs) {
                  return std::make_shared<const GruNumbers>(inputs, how, last);
              },
              0, GATES) {}

    static void shape(const Inference &given, Sizes &sizes) {
        recurrent_shape(given, sizes, GATES + 2);
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const GruNumbers &by = **known;
        const Sequences all(context.input(X), context.input(LENGTHS), by.inputs);
        const FirstState initial(context.input(INITIAL), INT16, 0, all, "IntGru: initial_h");
        void *y = context.output(0, all.all()), *y_h = context.output(1, all.last());
        run_steps(context, by, all, by.type, by.ends.zero, y,
                  [&](int64_t rows, std::unique_ptr<Chunk> &made) {
                      made = std::make_unique<GruChunk>(by, rows, initial, y_h);
                  });
    }
};

} // namespace

const Kernel INT_GRU = recurrent<IntGru>("IntGru", ALL, Y_ZERO, INITIAL);

} // namespace qpasses
