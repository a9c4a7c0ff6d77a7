/* Tables of 256 entries, looked up by bytes. */

#pragma once

#include "instruction_sets.h"
#include "kernel.h"

namespace qpasses {

/* Looks up each of so many bytes. */
using Look = void (*)(const uint8_t *table, const uint8_t *x, uint8_t *y, int64_t count);

Look look_of(InstructionSet set);

/* Of all of x, on the threads of the session. */
void look_up(const Context &context, const uint8_t *table, const Tensor &x, uint8_t *y);

/* The same with one table for each channel along an axis. */
void look_up_by_channel(const Context &context, const uint8_t *tables, size_t axis,
                        const Tensor &x, uint8_t *y);

} // namespace qpasses
