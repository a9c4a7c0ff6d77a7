"""The passes, in order: one file each, one line each."""

from qpasses.elementwise import ELEMENTWISE
from qpasses.passes.base import Pass
from qpasses.passes.canonicalize_gemm import CanonicalizeGemm
from qpasses.passes.clip_codes import ClipCodes
from qpasses.passes.conv_transpose_to_conv import ConvTransposeToConv
from qpasses.passes.expand_attention import ExpandAttention
from qpasses.passes.expand_bias_gelu import ExpandBiasGelu
from qpasses.passes.expand_constant_of_shape import ExpandConstantOfShape
from qpasses.passes.expand_fused_mat_mul import ExpandFusedMatMul
from qpasses.passes.expand_multi_head_attention import ExpandMultiHeadAttention
from qpasses.passes.expand_packed_attention import ExpandPackedAttention
from qpasses.passes.expand_quick_gelu import ExpandQuickGelu
from qpasses.passes.expand_skip_layer_norm import ExpandSkipLayerNorm
from qpasses.passes.fold_add_into_conv import FoldAddIntoConv
from qpasses.passes.fold_batch_normalization import FoldBatchNormalization
from qpasses.passes.fold_into_group_norm import FoldIntoGroupNorm
from qpasses.passes.fold_into_layer_norm import FoldIntoLayerNorm
from qpasses.passes.fold_into_table import FoldIntoTable
from qpasses.passes.global_max_pool_to_max import GlobalMaxPoolToMax
from qpasses.passes.group_norm_to_layer_norm import GroupNormToLayerNorm
from qpasses.passes.hoist_transpose import HoistTranspose
from qpasses.passes.integer_edges import IntegerEdges
from qpasses.passes.integerize_add import IntegerizeAdd
from qpasses.passes.integerize_average_pool import IntegerizeAveragePool
from qpasses.passes.integerize_chain import IntegerizeChain
from qpasses.passes.integerize_clamp import IntegerizeClamp
from qpasses.passes.integerize_conv import IntegerizeConv
from qpasses.passes.integerize_counted_average_pool import IntegerizeCountedAveragePool
from qpasses.passes.integerize_gelu import IntegerizeGelu
from qpasses.passes.integerize_gemm import IntegerizeGemm
from qpasses.passes.integerize_i_layer_norm import IntegerizeILayerNorm
from qpasses.passes.integerize_layer_norm import IntegerizeLayerNorm
from qpasses.passes.integerize_log_softmax import IntegerizeLogSoftmax
from qpasses.passes.integerize_mat_mul import IntegerizeMatMul
from qpasses.passes.integerize_moving import IntegerizeMoving
from qpasses.passes.integerize_mul import IntegerizeMul
from qpasses.passes.integerize_p_relu import IntegerizePRelu
from qpasses.passes.integerize_pair import IntegerizePair
from qpasses.passes.integerize_published_softmax import IntegerizePublishedSoftmax
from qpasses.passes.integerize_reduce import IntegerizeReduce
from qpasses.passes.integerize_rescaling import IntegerizeRescaling
from qpasses.passes.integerize_resize import IntegerizeResize
from qpasses.passes.integerize_softmax import IntegerizeSoftmax
from qpasses.passes.invert_constant import InvertConstant
from qpasses.passes.mean_to_pool import MeanToPool
from qpasses.passes.one_hot_to_gather import OneHotToGather
from qpasses.passes.read_stored import LOCATING, MEASURING, ReadStored
from qpasses.passes.recognize_gelu import RecognizeGelu
from qpasses.passes.recognize_layer_norm import RecognizeLayerNorm
from qpasses.passes.recognize_mask import RecognizeMask
from qpasses.passes.recognize_softmax import RecognizeSoftmax
from qpasses.passes.remove_identity import RemoveIdentity
from qpasses.passes.resolve_auto_pad import ResolveAutoPad
from qpasses.passes.resolve_ceil_mode import ResolveCeilMode
from qpasses.passes.sink_scale import SinkScale
from qpasses.passes.sum_to_add import SumToAdd
from qpasses.settings import Settings

EXPAND: tuple[Pass, ...] = (
    ExpandBiasGelu(),
    ExpandQuickGelu(),
    ExpandFusedMatMul(),
    ExpandSkipLayerNorm(),
    ExpandMultiHeadAttention(),
    ExpandPackedAttention(),
    ExpandAttention(),
)
"""What takes fused ops apart, behind which shapes are not known until then."""

SIMPLIFY: tuple[Pass, ...] = (
    SumToAdd(),
    RemoveIdentity(),
    ExpandConstantOfShape(),
    RecognizeSoftmax(),
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
    CanonicalizeGemm(),
    OneHotToGather(),
    FoldIntoTable(),
    FoldAddIntoConv(),
    FoldBatchNormalization(),
    ConvTransposeToConv(),
    InvertConstant(),
    HoistTranspose(),
)

PREPARE = EXPAND + SIMPLIFY

INTEGERIZE: tuple[Pass, ...] = (
    IntegerizePRelu(),
    IntegerizeGelu(),
    IntegerizeChain(),
    IntegerizeConv(),
    IntegerizeGemm(),
    IntegerizeMatMul(),
    IntegerizeAdd(),
    IntegerizeMul(),
    IntegerizePair(),
    IntegerizeAveragePool(),
    IntegerizeCountedAveragePool(),
    IntegerizeReduce(),
    IntegerizeResize(),
    IntegerizeSoftmax(),
    IntegerizePublishedSoftmax(),
    IntegerizeLogSoftmax(),
    IntegerizeILayerNorm(),
    IntegerizeLayerNorm(),
    IntegerizeMoving(),
    IntegerizeClamp(),
    IntegerizeRescaling(),
    ReadStored(),
)

CLIP_CODES: tuple[Pass, ...] = (ClipCodes(),)
"""What follows for QuantizeLinear that stays, at the inputs and behind float nodes."""

INTEGER_IO: tuple[Pass, ...] = (IntegerEdges(),)
"""What follows where inputs and outputs are wanted as stored integers."""


def integerizing(settings: Settings) -> tuple[Pass, ...]:
    """The passes from Q/DQ to integers that ``settings`` ask for."""
    return INTEGERIZE + CLIP_CODES + (INTEGER_IO if settings.integer_io else ())


QUANTIZABLE = (
    frozenset({"BatchNormalization", "ConvTranspose", "GlobalMaxPool", "GroupNormalization"})
    | frozenset({"Sum"})
    | ELEMENTWISE
    | frozenset(op for each in INTEGERIZE for op in each.op_types)
) - {"QuantizeLinear", *MEASURING, *LOCATING}
"""The op types of a float model that can become integer."""
