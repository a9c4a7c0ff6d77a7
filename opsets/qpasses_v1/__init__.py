"""Version 1 of the domain ``qpasses``: one file per op, one line per op in ``OPS``."""

from opsets.op import Op
from opsets.qpasses_v1.gemmlowp_softmax import GEMMLOWP_SOFTMAX
from opsets.qpasses_v1.i_bert_gelu import I_BERT_GELU
from opsets.qpasses_v1.i_bert_softmax import I_BERT_SOFTMAX
from opsets.qpasses_v1.i_layer_norm import I_LAYER_NORM
from opsets.qpasses_v1.int_add import INT_ADD
from opsets.qpasses_v1.int_average_pool import INT_AVERAGE_POOL
from opsets.qpasses_v1.int_cast import INT_CAST
from opsets.qpasses_v1.int_coded_p_relu import INT_CODED_P_RELU
from opsets.qpasses_v1.int_conv import INT_CONV
from opsets.qpasses_v1.int_conv_per_channel import INT_CONV_PER_CHANNEL
from opsets.qpasses_v1.int_counted_average_pool import INT_COUNTED_AVERAGE_POOL
from opsets.qpasses_v1.int_div import INT_DIV
from opsets.qpasses_v1.int_extreme import INT_EXTREME
from opsets.qpasses_v1.int_gemm import INT_GEMM
from opsets.qpasses_v1.int_global_average_pool import INT_GLOBAL_AVERAGE_POOL
from opsets.qpasses_v1.int_gru import INT_GRU
from opsets.qpasses_v1.int_layer_norm import INT_LAYER_NORM
from opsets.qpasses_v1.int_log_softmax import INT_LOG_SOFTMAX
from opsets.qpasses_v1.int_lstm import INT_LSTM
from opsets.qpasses_v1.int_mat_mul import INT_MAT_MUL
from opsets.qpasses_v1.int_max_pool import INT_MAX_POOL
from opsets.qpasses_v1.int_mul import INT_MUL
from opsets.qpasses_v1.int_p_relu import INT_P_RELU
from opsets.qpasses_v1.int_pad import INT_PAD
from opsets.qpasses_v1.int_reduce import INT_REDUCE
from opsets.qpasses_v1.int_rescale import INT_RESCALE
from opsets.qpasses_v1.int_rescaled_add import INT_RESCALED_ADD
from opsets.qpasses_v1.int_rescaled_sub import INT_RESCALED_SUB
from opsets.qpasses_v1.int_resize import INT_RESIZE
from opsets.qpasses_v1.int_rnn import INT_RNN
from opsets.qpasses_v1.int_shuffle import INT_SHUFFLE
from opsets.qpasses_v1.int_sub import INT_SUB
from opsets.qpasses_v1.int_where import INT_WHERE
from opsets.qpasses_v1.lut import LUT
from opsets.qpasses_v1.lut16 import LUT16
from opsets.qpasses_v1.lut_interpolated import LUT_INTERPOLATED
from opsets.qpasses_v1.lut_interpolated_per_channel import LUT_INTERPOLATED_PER_CHANNEL
from opsets.qpasses_v1.lut_pair import LUT_PAIR
from opsets.qpasses_v1.lut_per_channel import LUT_PER_CHANNEL
from opsets.qpasses_v1.requantize import REQUANTIZE
from opsets.qpasses_v1.shift_gelu import SHIFT_GELU
from opsets.qpasses_v1.shiftmax import SHIFTMAX
from opsets.qpasses_v1.table_softmax import TABLE_SOFTMAX
from opsets.qpasses_v1.table_softmax16 import TABLE_SOFTMAX16

OPS: dict[str, Op] = {
    op.name: op
    for op in (
        REQUANTIZE,
        LUT,
        LUT_PER_CHANNEL,
        LUT_PAIR,
        LUT16,
        LUT_INTERPOLATED,
        LUT_INTERPOLATED_PER_CHANNEL,
        INT_CONV,
        INT_CONV_PER_CHANNEL,
        INT_GEMM,
        INT_MAT_MUL,
        INT_ADD,
        INT_SUB,
        INT_RESCALE,
        INT_CAST,
        INT_RESCALED_ADD,
        INT_RESCALED_SUB,
        INT_DIV,
        INT_MUL,
        INT_P_RELU,
        INT_CODED_P_RELU,
        INT_AVERAGE_POOL,
        INT_COUNTED_AVERAGE_POOL,
        INT_GLOBAL_AVERAGE_POOL,
        INT_REDUCE,
        INT_RESIZE,
        INT_MAX_POOL,
        INT_PAD,
        INT_SHUFFLE,
        INT_EXTREME,
        INT_WHERE,
        INT_LSTM,
        INT_GRU,
        INT_RNN,
        TABLE_SOFTMAX,
        TABLE_SOFTMAX16,
        GEMMLOWP_SOFTMAX,
        INT_LOG_SOFTMAX,
        INT_LAYER_NORM,
        SHIFTMAX,
        SHIFT_GELU,
        I_LAYER_NORM,
        I_BERT_SOFTMAX,
        GEMMLOWP_SOFTMAX,
        I_BERT_GELU,
    )
}
