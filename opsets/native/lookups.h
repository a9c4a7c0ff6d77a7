/* Tables of 256 entries, looked up by bytes. */

#pragma once

#include "instruction_sets.h"

#include <cstdint>

namespace qpasses {

/* Looks up each of so many bytes. */
using Look = void (*)(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t count);

Look look_of(InstructionSet set);

} // namespace qpasses
