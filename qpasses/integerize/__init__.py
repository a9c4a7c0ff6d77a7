"""Integerize: the passes from Q/DQ to integers, in order: one file each, one line each."""

from qpasses.integerize.clip_codes import ClipCodes
from qpasses.integerize.integer_edges import IntegerEdges
from qpasses.integerize.integerize_add import IntegerizeAdd
from qpasses.integerize.integerize_average_pool import IntegerizeAveragePool
from qpasses.integerize.integerize_chain import IntegerizeChain
from qpasses.integerize.integerize_clamp import IntegerizeClamp
from qpasses.integerize.integerize_conv import IntegerizeConv
from qpasses.integerize.integerize_counted_average_pool import IntegerizeCountedAveragePool
from qpasses.integerize.integerize_gelu import IntegerizeGelu
from qpasses.integerize.integerize_gemm import IntegerizeGemm
from qpasses.integerize.integerize_i_layer_norm import IntegerizeILayerNorm
from qpasses.integerize.integerize_layer_norm import IntegerizeLayerNorm
from qpasses.integerize.integerize_log_softmax import IntegerizeLogSoftmax
from qpasses.integerize.integerize_mat_mul import IntegerizeMatMul
from qpasses.integerize.integerize_moving import IntegerizeMoving
from qpasses.integerize.integerize_mul import IntegerizeMul
from qpasses.integerize.integerize_p_relu import IntegerizePRelu
from qpasses.integerize.integerize_pair import IntegerizePair
from qpasses.integerize.integerize_published_softmax import IntegerizePublishedSoftmax
from qpasses.integerize.integerize_reduce import IntegerizeReduce
from qpasses.integerize.integerize_rescaling import IntegerizeRescaling
from qpasses.integerize.integerize_resize import IntegerizeResize
from qpasses.integerize.integerize_softmax import IntegerizeSoftmax
from qpasses.integerize.read_stored import ReadStored
from qpasses.ir.elementwise import ELEMENTWISE
from qpasses.ir.moving import MOVING
from qpasses.ir.rewriting import Pass
from qpasses.ir.settings import Settings
from qpasses.ir.stages import LOCATING, MEASURING

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

COMPUTING = (
    frozenset(op for each in INTEGERIZE for op in each.op_types)
    - {"QuantizeLinear", *MEASURING, *LOCATING}
    - ELEMENTWISE
    - MOVING.keys()
)
"""Those with an integer form of their own: one that stays in float is declined by name."""
