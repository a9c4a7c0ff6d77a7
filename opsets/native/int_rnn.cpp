/* IntRnn: a plain recurrent layer over whole sequences, of which a table gives the state. */

#include "kernels.h"
#include "recurrent.h"

namespace qpasses {
namespace {

enum { X, INITIAL, LENGTHS, GATES, TABLE = GATES + 8, Y_ZERO, ALL };

struct RnnNumbers : AllGates {
    WordTable table;
    Type type;
    int64_t zero;

    RnnNumbers(const Inputs &given, const Requantization &how)
        : AllGates(given, GATES, 1, given(Y_ZERO), std::nullopt, how), table(given(TABLE)),
          type(given(Y_ZERO).type), zero(given(Y_ZERO).number()) {
        if (given(TABLE).type != type)
            fail("IntRnn: its table has another type than its zero point");
    }
};

class RnnChunk : public Chunk {
  public:
    RnnChunk(const RnnNumbers &by, int64_t rows, const FirstState &initial, void *y_h)
        : Chunk(by, rows, 1), by_(by), initial_(initial), y_h_(y_h) {}

    void begin(int64_t row, int64_t sequence) override { initial_.row(sequence, codes(row)); }

    void step(const int32_t *more, const std::vector<int64_t> &rows) override {
        multiply(0, 1);
        for (int64_t row : rows) {
            states.places(sums, row, more + row * wide, 0, 1, line(0));
            by_.table.look_up(line(0), wide, codes(row));
        }
    }

    void end(int64_t row, int64_t sequence) override {
        store_codes(codes(row), states.units(), by_.type, y_h_, sequence * states.units());
    }

  private:
    const RnnNumbers &by_;
    const FirstState &initial_;
    void *y_h_;
};

struct IntRnn {
    Prepared<std::shared_ptr<const RnnNumbers>> prepared;

    explicit IntRnn(const Attributes &given)
        : prepared(
              given, ALL,
              [how = Requantization(given.text("rounding"))](const Inputs &inputs) {
                  return std::make_shared<const RnnNumbers>(inputs, how);
              },
              0, GATES) {}

    static void shape(const Inference &given, Sizes &sizes) {
        recurrent_shape(given, sizes, GATES + 2);
    }

    void run(const Context &context) const {
        const auto known = prepared.of(context);
        const RnnNumbers &by = **known;
        const Sequences all(context.input(X), context.input(LENGTHS), by.inputs);
        const FirstState initial(context.input(INITIAL), by.type, by.zero, all,
                                 "IntRnn: initial_h");
        void *y = context.output(0, all.all()), *y_h = context.output(1, all.last());
        run_steps(context, by, all, by.type, by.zero, y,
                  [&](int64_t rows, std::unique_ptr<Chunk> &made) {
                      made = std::make_unique<RnnChunk>(by, rows, initial, y_h);
                  });
    }
};

} // namespace

const Kernel INT_RNN = recurrent<IntRnn>("IntRnn", ALL, Y_ZERO, Y_ZERO);

} // namespace qpasses
