/* Rows by distances: see distance_rows.h. */

#include "distance_rows.h"
#include "instruction_sets.h"
#include "lookups.h"

#include <algorithm>

namespace qpasses {
namespace {

constexpr int64_t WORK = 4096, CODES = 256;

namespace plain {
#include "distance_loops.h"
}
#if QPASSES_SETS > 1
BEGIN_AVX2
namespace avx2 {
#include "distance_loops.h"
}
END_SET
BEGIN_AVX512
namespace avx512 {
#include "distance_loops.h"
}
END_SET
#endif

/* One row, of codes that lie side by side. */
template <typename S>
void row(const S *x, int64_t cells, const int64_t *terms, const LevelsOfSum &levels,
         uint8_t *places, uint8_t *y) {
    uint8_t table[CODES] = {};
    const int64_t farthest = BEST(distances<S>)(x, cells, places);
    levels(BEST(sum_of)(terms, places, cells), farthest + 1, table);
    look_of(chosen_set())(table, places, y, cells);
}

} // namespace

void by_distance(const Context &context, const Tensor &x, int64_t axis, const int64_t *terms,
                 const LevelsOfSum &levels, uint8_t *y) {
    const size_t place = axis_of(axis, x.shape);
    if (x.size() == 0)
        return;
    const int64_t cells = x.shape[place];
    int64_t inner = 1;
    for (size_t k = place + 1; k < x.shape.size(); k++)
        inner *= x.shape[k];
    const int64_t count = static_cast<int64_t>(x.size()) / cells, least = WORK / cells + 1;
    of_codes(x.type, "a row", [&](auto code) {
        using S = decltype(code);
        context.parallel((count + least - 1) / least, [&](size_t part) {
            std::vector<uint8_t> places(cells), found(inner > 1 ? cells : 0);
            std::vector<S> codes(found.size());
            const int64_t begin = static_cast<int64_t>(part) * least;
            for (int64_t r = begin; r < std::min(count, begin + least); r++) {
                const int64_t start = r / inner * cells * inner + r % inner;
                if (inner == 1) {
                    row(x.as<S>() + start, cells, terms, levels, places.data(), y + start);
                    continue;
                }
                for (int64_t k = 0; k < cells; k++)
                    codes[k] = x.as<S>()[start + k * inner];
                row(codes.data(), cells, terms, levels, places.data(), found.data());
                for (int64_t k = 0; k < cells; k++)
                    y[start + k * inner] = found[k];
            }
        });
    });
}

} // namespace qpasses
