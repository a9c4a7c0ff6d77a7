/* The kernels there are, each in a file of its own. */

#pragma once

#include "kernel.h"

namespace qpasses {

extern const Kernel INT_ADD, INT_AVERAGE_POOL, INT_CODED_P_RELU, INT_COUNTED_AVERAGE_POOL,
    INT_GEMM, INT_GLOBAL_AVERAGE_POOL, INT_LAYER_NORM, INT_LOG_SOFTMAX, INT_MAT_MUL, INT_MUL,
    INT_P_RELU, INT_REDUCE, INT_RESCALE, INT_RESCALED_ADD, INT_RESCALED_SUB, INT_RESIZE,
    INT_SUB, LUT, LUT_PAIR, LUT_PER_CHANNEL, REQUANTIZE, TABLE_SOFTMAX;

} // namespace qpasses
