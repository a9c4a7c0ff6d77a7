/* The kernels there are, each in a file of its own. */

#pragma once

#include "kernel.h"

namespace qpasses {

extern const Kernel INT_LAYER_NORM, TABLE_SOFTMAX;

} // namespace qpasses
