/* Rows by distances: see distance_rows.h. */

#include "distance_rows.h"
#include "instruction_sets.h"
#include "lookups.h"
#include "rows.h"

namespace qpasses {
namespace {

constexpr int64_t CODES = 256;

#define LOOPS "distance_loops.h"
#include "each_set.h"

} // namespace

void by_distance(const Context &context, const Tensor &x, int64_t axis, const int64_t *terms,
                 const LevelsOfSum &levels, uint8_t *y) {
    const Look look = look_of(chosen_set());
    each_row(context, x, axis, y, [&](const auto *codes, int64_t cells, uint8_t *found) {
        using S = std::decay_t<decltype(*codes)>;
        uint8_t table[CODES] = {};
        const int64_t farthest = BEST(distances<S>)(codes, cells, found);
        levels(BEST(sum_of)(terms, found, cells), farthest + 1, table);
        look(table, found, found, cells);
    });
}

} // namespace qpasses
