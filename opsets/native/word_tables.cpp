/* Lut16: what a table holds for each code of 16 bits. */

#include "codes.h"
#include "kernels.h"

namespace qpasses {
namespace {

constexpr int64_t CODES = 1 << 16, PART = 1 << 14;

template <typename T>
void look_up_words(const Context &context, const T *table, const Tensor &x, void *y) {
    const int64_t count = static_cast<int64_t>(x.size());
    context.parallel((count + PART - 1) / PART, [&](size_t part) {
        const int64_t begin = static_cast<int64_t>(part) * PART;
        const uint16_t *codes = x.as<uint16_t>();
        for (int64_t k = begin; k < std::min(count, begin + PART); k++)
            static_cast<T *>(y)[k] = table[codes[k]];
    });
}

struct Lut16 {
    explicit Lut16(const Attributes &) {}

    void run(const Context &context) const {
        const Tensor table = context.input(1), x = context.input(0);
        of_stored(table.type, "Lut16: its table", [](auto) {});
        if (table.size() != CODES)
            fail("Lut16: its table has not 65,536 entries");
        if (x.type != INT16)
            fail("a table of words for other codes");
        void *y = context.output(0, x.shape);
        if (is_byte(table.type))
            look_up_words(context, table.as<uint8_t>(), x, y);
        else
            look_up_words(context, table.as<uint16_t>(), x, y);
    }
};

} // namespace

const Kernel LUT16 = kernel<Lut16>("Lut16", 2, 1);

} // namespace qpasses
