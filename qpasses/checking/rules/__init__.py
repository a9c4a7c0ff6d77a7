"""The rules, one for each op of an integer graph."""

from collections.abc import Callable, Iterator, Mapping

from qpasses.checking.meaning import Site
from qpasses.checking.rules.check_averages import (
    int_average_pool,
    int_counted_average_pool,
    int_global_average_pool,
    int_reduce,
)
from qpasses.checking.rules.check_casts import int_cast
from qpasses.checking.rules.check_clamps import clip
from qpasses.checking.rules.check_coded_slopes import int_coded_p_relu
from qpasses.checking.rules.check_edges import clip_codes, dequantize_linear, quantize_linear
from qpasses.checking.rules.check_lstm_kernel import lstm
from qpasses.checking.rules.check_moved_words import (
    int_extreme,
    int_max_pool,
    int_pad,
    int_shuffle,
    int_where,
)
from qpasses.checking.rules.check_moving import moving
from qpasses.checking.rules.check_norms import int_layer_norm
from qpasses.checking.rules.check_pairs import int_add, int_mul
from qpasses.checking.rules.check_plain import apart, left
from qpasses.checking.rules.check_products import int_conv, int_gemm, int_mat_mul
from qpasses.checking.rules.check_published import (
    gemmlowp_softmax,
    i_bert_gelu,
    i_bert_softmax,
    i_layer_norm,
    shift_gelu,
    shiftmax,
)
from qpasses.checking.rules.check_quotients import int_div
from qpasses.checking.rules.check_recurrent import recurrent
from qpasses.checking.rules.check_rescaled import int_rescale, int_rescaled_add
from qpasses.checking.rules.check_resizes import int_resize
from qpasses.checking.rules.check_slopes import int_p_relu
from qpasses.checking.rules.check_softmax import log_softmax, table_softmax, table_softmax16
from qpasses.checking.rules.check_tables import (
    lut,
    lut_pair,
    lut_per_channel,
    no_tables,
    wide_lut,
    wide_lut_per_channel,
)

Rule = Callable[[Site], Iterator[str]]

RULES: Mapping[str, Rule] = {
    "IntAdd": int_add,
    "IntAveragePool": int_average_pool,
    "IntCodedPRelu": int_coded_p_relu,
    "IntConv": int_conv,
    "IntConvPerChannel": int_conv,
    "IntCountedAveragePool": int_counted_average_pool,
    "IntDiv": int_div,
    "IntExtreme": int_extreme,
    "IntGemm": int_gemm,
    "IntGlobalAveragePool": int_global_average_pool,
    "IntLayerNorm": int_layer_norm,
    "IntMatMul": int_mat_mul,
    "IntMaxPool": int_max_pool,
    "IntMul": int_mul,
    "IntPRelu": int_p_relu,
    "IntPad": int_pad,
    "IntReduce": int_reduce,
    **dict.fromkeys(("IntGru", "IntRnn"), recurrent),
    "IntLstm": lstm,
    "IntRescale": int_rescale,
    "IntCast": int_cast,
    "IntRescaledAdd": int_rescaled_add,
    "IntRescaledSub": int_rescaled_add,
    "IntResize": int_resize,
    "IntShuffle": int_shuffle,
    "IntSub": int_add,
    "IntWhere": int_where,
    "Lut": lut,
    "Lut16": wide_lut,
    "LutInterpolated": wide_lut,
    "LutInterpolatedPerChannel": wide_lut_per_channel,
    "LutPair": lut_pair,
    "LutPerChannel": lut_per_channel,
    "TableSoftmax": table_softmax,
    "TableSoftmax16": table_softmax16,
    "IntLogSoftmax": log_softmax,
    "GemmlowpSoftmax": gemmlowp_softmax,
    "Shiftmax": shiftmax,
    "IBertSoftmax": i_bert_softmax,
    "ShiftGelu": shift_gelu,
    "IBertGelu": i_bert_gelu,
    "ILayerNorm": i_layer_norm,
}
"""By op of domain ``qpasses``."""

EDGES: Mapping[str, Rule] = {
    "DequantizeLinear": dequantize_linear,
    "QuantizeLinear": quantize_linear,
}
"""By op: where float and integers meet."""

RECORDED: Mapping[str, Rule] = {"Clip": clip}
"""Standard ops on stored integers that a record says the source of; others only move."""

TABLES = frozenset(
    {
        *("Lut", "Lut16", "LutInterpolated", "LutInterpolatedPerChannel", "LutPair"),
        "LutPerChannel",
        *("TableSoftmax", "TableSoftmax16", "IntLogSoftmax"),
        *("IntGru", "IntLstm", "IntRnn"),
    }
)
"""Ops that only targets with tables have; for others the rule is ``NO_TABLES``."""

NO_TABLES: Rule = no_tables

MOVING, CODES, APART, LEFT = moving, clip_codes, apart, left
