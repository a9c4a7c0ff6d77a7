"""Integerize: the passes from Q/DQ to integers, in order: one file each, one line each."""

from qpasses.ir.elementwise import ELEMENTWISE
from qpasses.ir.graph import STORE
from qpasses.ir.moving import MOVING
from qpasses.ir.rewriting import Pass
from qpasses.ir.settings import Settings
from qpasses.ir.stages import COMPARING, LOCATING, MEASURING
from qpasses.lowering.clip_codes import ClipCodes
from qpasses.lowering.compare_stored import CompareStored
from qpasses.lowering.integer_edges import IntegerEdges
from qpasses.lowering.integerize_add import IntegerizeAdd
from qpasses.lowering.integerize_average_pool import IntegerizeAveragePool
from qpasses.lowering.integerize_cast import IntegerizeCast
from qpasses.lowering.integerize_chain import IntegerizeChain
from qpasses.lowering.integerize_clamp import IntegerizeClamp
from qpasses.lowering.integerize_conv import IntegerizeConv
from qpasses.lowering.integerize_counted_average_pool import IntegerizeCountedAveragePool
from qpasses.lowering.integerize_div import IntegerizeDiv
from qpasses.lowering.integerize_extreme import IntegerizeExtreme
from qpasses.lowering.integerize_gelu import IntegerizeGelu
from qpasses.lowering.integerize_gemm import IntegerizeGemm
from qpasses.lowering.integerize_i_layer_norm import IntegerizeILayerNorm
from qpasses.lowering.integerize_layer_norm import IntegerizeLayerNorm
from qpasses.lowering.integerize_log_softmax import IntegerizeLogSoftmax
from qpasses.lowering.integerize_mat_mul import IntegerizeMatMul
from qpasses.lowering.integerize_max_pool import IntegerizeMaxPool
from qpasses.lowering.integerize_moving import IntegerizeMoving
from qpasses.lowering.integerize_mul import IntegerizeMul
from qpasses.lowering.integerize_p_relu import IntegerizePRelu
from qpasses.lowering.integerize_pad import IntegerizePad
from qpasses.lowering.integerize_pair import IntegerizePair
from qpasses.lowering.integerize_published_softmax import IntegerizePublishedSoftmax
from qpasses.lowering.integerize_recurrent import IntegerizeRecurrent
from qpasses.lowering.integerize_reduce import IntegerizeReduce
from qpasses.lowering.integerize_rescaling import IntegerizeRescaling
from qpasses.lowering.integerize_resize import IntegerizeResize
from qpasses.lowering.integerize_shuffle import IntegerizeShuffle
from qpasses.lowering.integerize_softmax import IntegerizeSoftmax
from qpasses.lowering.integerize_where import IntegerizeWhere
from qpasses.lowering.read_stored import ReadStored
from qpasses.lowering.remove_stores import RemoveStores

INTEGERIZE: tuple[Pass, ...] = (
    RemoveStores(),
    IntegerizeCast(),
    IntegerizePRelu(),
    IntegerizeGelu(),
    IntegerizeChain(),
    IntegerizeConv(),
    IntegerizeGemm(),
    IntegerizeMatMul(),
    IntegerizeAdd(),
    IntegerizeMul(),
    IntegerizeDiv(),
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
    IntegerizeRecurrent(),
    IntegerizeMaxPool(),
    IntegerizeExtreme(),
    IntegerizePad(),
    IntegerizeShuffle(),
    IntegerizeWhere(),
    IntegerizeMoving(),
    IntegerizeClamp(),
    IntegerizeRescaling(),
    ReadStored(),
    CompareStored(),
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
) - {"QuantizeLinear", STORE, *MEASURING, *LOCATING, *COMPARING}
"""The op types of a float model that can become integer."""

COMPUTING = (
    frozenset(op for each in INTEGERIZE for op in each.op_types)
    - {"Cast", "QuantizeLinear", *MEASURING, *LOCATING, *COMPARING}
    - ELEMENTWISE
    - MOVING.keys()
)
"""Those with an integer form of their own: one that stays in float is declined by name."""
