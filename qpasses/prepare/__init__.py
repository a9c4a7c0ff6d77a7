"""Prepare: the passes from any float graph to a canonical one, in order: one line each."""

from qpasses.ir.rewriting import Pass
from qpasses.prepare.canonicalize_gemm import CanonicalizeGemm
from qpasses.prepare.canonicalize_recurrent import CanonicalizeRecurrent
from qpasses.prepare.col2im_to_conv_transpose import Col2ImToConvTranspose
from qpasses.prepare.computed_conv_to_mat_mul import ComputedConvToMatMul
from qpasses.prepare.conv_transpose_to_conv import ConvTransposeToConv
from qpasses.prepare.expand_attention import ExpandAttention
from qpasses.prepare.expand_bias_gelu import ExpandBiasGelu
from qpasses.prepare.expand_clip import ExpandClip
from qpasses.prepare.expand_constant_of_shape import ExpandConstantOfShape
from qpasses.prepare.expand_definition import ExpandDefinition
from qpasses.prepare.expand_einsum import ExpandEinsum
from qpasses.prepare.expand_fused_mat_mul import ExpandFusedMatMul
from qpasses.prepare.expand_gemm import ExpandGemm
from qpasses.prepare.expand_hardmax import ExpandHardmax
from qpasses.prepare.expand_lp_normalization import ExpandLpNormalization
from qpasses.prepare.expand_lp_pool import ExpandLpPool
from qpasses.prepare.expand_multi_head_attention import ExpandMultiHeadAttention
from qpasses.prepare.expand_norm_factors import ExpandNormFactors
from qpasses.prepare.expand_packed_attention import ExpandPackedAttention
from qpasses.prepare.expand_quick_gelu import ExpandQuickGelu
from qpasses.prepare.expand_skip_layer_norm import ExpandSkipLayerNorm
from qpasses.prepare.expand_vector_product import ExpandVectorProduct
from qpasses.prepare.fold_add_into_conv import FoldAddIntoConv
from qpasses.prepare.fold_batch_normalization import FoldBatchNormalization
from qpasses.prepare.fold_into_group_norm import FoldIntoGroupNorm
from qpasses.prepare.fold_into_layer_norm import FoldIntoLayerNorm
from qpasses.prepare.fold_into_table import FoldIntoTable
from qpasses.prepare.fold_scale_into_conv import FoldScaleIntoConv
from qpasses.prepare.global_max_pool_to_max import GlobalMaxPoolToMax
from qpasses.prepare.group_norm_to_layer_norm import GroupNormToLayerNorm
from qpasses.prepare.hoist_transpose import HoistTranspose
from qpasses.prepare.invert_constant import InvertConstant
from qpasses.prepare.linear_to_mat_mul import LinearToMatMul
from qpasses.prepare.mean_to_pool import MeanToPool
from qpasses.prepare.one_hot_to_gather import OneHotToGather
from qpasses.prepare.recognize_gelu import RecognizeGelu
from qpasses.prepare.recognize_layer_norm import RecognizeLayerNorm
from qpasses.prepare.recognize_log_softmax import RecognizeLogSoftmax
from qpasses.prepare.recognize_looped_cell import RecognizeLoopedCell
from qpasses.prepare.recognize_mask import RecognizeMask
from qpasses.prepare.recognize_scanned_cell import RecognizeScannedCell
from qpasses.prepare.recognize_softmax import RecognizeSoftmax
from qpasses.prepare.recognize_unrolled_cells import RecognizeUnrolledCells
from qpasses.prepare.remove_identity import RemoveIdentity
from qpasses.prepare.resize_to_mat_mul import ResizeToMatMul
from qpasses.prepare.resolve_auto_pad import ResolveAutoPad
from qpasses.prepare.resolve_cast import ResolveCast
from qpasses.prepare.resolve_ceil_mode import ResolveCeilMode
from qpasses.prepare.reverse_time import ReverseTime
from qpasses.prepare.sequence_to_scan_output import SequenceToScanOutput
from qpasses.prepare.sink_scale import SinkScale
from qpasses.prepare.split_directions import SplitDirections
from qpasses.prepare.split_extremes import SplitExtremes
from qpasses.prepare.stft_to_conv import StftToConv
from qpasses.prepare.sum_to_add import SumToAdd
from qpasses.prepare.unbind_to_gather import UnbindToGather

CASTS: tuple[Pass, ...] = (ResolveCast(),)
"""Before constants are folded: functions of ONNX cast theirs to the type of an input."""

SEQUENCES: tuple[Pass, ...] = (UnbindToGather(), SequenceToScanOutput())
"""What makes tensors of sequences, around bodies and in them, while these are apart."""

CELLS: tuple[Pass, ...] = (RecognizeLoopedCell(), RecognizeScannedCell())
"""What bodies write out as a whole: before they are put among the nodes around them."""

NETS: tuple[Pass, ...] = (RecognizeUnrolledCells(),)
"""What finds recurrent nets that are written out, before anything in them is rewritten."""

EXPAND: tuple[Pass, ...] = (
    SplitDirections(),
    ReverseTime(),
    CanonicalizeRecurrent(),
    ExpandBiasGelu(),
    ExpandQuickGelu(),
    ExpandFusedMatMul(),
    ExpandSkipLayerNorm(),
    ExpandMultiHeadAttention(),
    ExpandPackedAttention(),
    ExpandAttention(),
    ExpandHardmax(),
    ExpandLpNormalization(),
    ExpandLpPool(),
    Col2ImToConvTranspose(),
    ExpandDefinition(),
    ExpandNormFactors(),
    ExpandGemm(),
    ExpandVectorProduct(),
    ExpandClip(),
    SplitExtremes(),
    ExpandEinsum(),
    LinearToMatMul(),
    StftToConv(),
    ComputedConvToMatMul(),
)
"""What takes fused ops apart, behind which shapes are not known until then."""

SIMPLIFY: tuple[Pass, ...] = (
    SumToAdd(),
    RemoveIdentity(),
    ExpandConstantOfShape(),
    RecognizeSoftmax(),
    RecognizeLogSoftmax(),
    RecognizeMask(),
    RecognizeLayerNorm(),
    GroupNormToLayerNorm(),
    FoldIntoGroupNorm(),
    RecognizeGelu(),
    SinkScale(),
    FoldIntoLayerNorm(),
    MeanToPool(),
    GlobalMaxPoolToMax(),
    ResolveAutoPad(),
    ResolveCeilMode(),
    ResizeToMatMul(),
    CanonicalizeGemm(),
    OneHotToGather(),
    FoldIntoTable(),
    FoldScaleIntoConv(),
    FoldAddIntoConv(),
    FoldBatchNormalization(),
    ConvTransposeToConv(),
    InvertConstant(),
    HoistTranspose(),
)

APART = SEQUENCES + CELLS

PREPARE = APART + CASTS + NETS + EXPAND + SIMPLIFY
