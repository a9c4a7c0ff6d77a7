"""Recorded settings: what of the stored tensors of a model is not as they would have it."""

from collections.abc import Iterator

import numpy as np

from opsets.declaration import Scaling
from opsets.errors import VerificationError
from opsets.qpasses_v1 import OPS
from opsets.target import load_target, target_names
from qpasses.checking.meaning import is_integer, is_standard
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node, Tensor
from qpasses.ir.record import ChannelQuantization, Record
from qpasses.ir.settings import Settings
from qpasses.ir.stages import RECURRENT, TABULATED


def unlike_settings(graph: Graph, record: Record, settings: Settings) -> list[str]:
    """Stored tensors that the recorded settings would not give."""
    wanted = settings.activation_type, settings.activation_bits, settings.narrow_range
    inner, problems = _inner_words(graph, record), []
    if record.kept and (settings.activation_bits != 8 or settings.narrow_range):
        problems.append(
            "the recorded settings have other codes than a model that keeps its own"
        )
    for name, stored in record.tensors.items():
        if isinstance(stored, ChannelQuantization):
            problems += _unlike_channels(name, stored, settings)
            continue
        try:
            settings.quantization(stored.scale, stored.zero_point, stored.dtype)
        except ValueError as error:
            raise VerificationError(
                f"the record of {name!r} is unlike the recorded settings: {error}"
            ) from error
        with np.errstate(over="ignore", under="ignore"):
            is_float32 = float(np.float32(stored.scale)) == stored.scale
        if settings.target.scale_type == "float32" and not is_float32:
            problems.append(f"the scale of tensor {name!r} is {stored.scale!r}, no float32")
        if name in record.kept:
            continue  # as the model that was integerized says, which is asked elsewhere
        is_stream = stored.dtype == "int16" and (settings.has_words or name in inner)
        if not is_stream and (stored.dtype, stored.bits, stored.narrow) != wanted:
            problems.append(
                f"tensor {name!r} is {stored.dtype} from {stored.limits[0]} to "
                f"{stored.limits[1]}, unlike the recorded settings"
            )
        elif is_stream and stored.zero_point:
            problems.append(f"tensor {name!r} of 16 bits has a zero point")
        elif (
            settings.symmetric
            and not is_stream
            and stored.zero_point not in _zero_points(settings)
        ):
            problems.append(f"tensor {name!r} is not symmetric, unlike the recorded settings")
    target = settings.target
    if target.name in target_names() and target != load_target(target.name):
        problems.append(f"the recorded rules are not those of target {target.name!r}")
    return problems


def _inner_words(graph: Graph, record: Record) -> set[str]:
    """Tensors that may have 16 bits whatever is asked for: what recurrent nodes read and give,
    and what nodes move to them or from them; what is made of whole numbers, what sines read
    and give, and what is computed with these, as far as sums, products, quotients and
    functions reach.
    """
    moving = [
        node
        for node in graph.nodes
        if is_standard(node) or (is_integer(node) and OPS[node.op].scaling is Scaling.MOVED)
    ]
    nets = [node for node in graph.nodes if node.op in RECURRENT]
    found = (
        {tensor.name for node in (*nets, *moving) for tensor in _ends(node)} if nets else set()
    )
    starts = [n for n in graph.nodes if n.op == "IntCast" or _is_periodic(n, record)]
    passing = [n for n in graph.nodes if n.op in _PASSING] + moving if starts else []
    around: dict[str, list[Node]] = {}
    for node in passing:
        for tensor in _ends(node):
            around.setdefault(tensor.name, []).append(node)
    waiting, reached = starts, set[str]()
    while waiting:
        for tensor in _ends(waiting.pop()):
            if tensor.name not in reached:
                reached.add(tensor.name)
                waiting += around.get(tensor.name, [])
    return found | reached | {tensor.name for tensor in graph.inputs if nets}


_PASSING = TABULATED | {
    *("IntAdd", "IntDiv", "IntMul", "IntReduce", "IntRescale", "IntRescaledAdd"),
    *("IntRescaledSub", "IntSub"),
}
"""Ops that have 16 bits at some end where what stands beside them has."""


def _ends(node: Node) -> list[Tensor]:
    return [*node.inputs, *node.outputs]


def _is_periodic(node: Node, record: Record) -> bool:
    """Whether it looks up a function of 16 bits that repeats itself."""
    if node.op not in TABULATED or node.name not in record.nodes:
        return False
    ops = Function.from_text(record.nodes[node.name].function).ops
    return not {"Cos", "Sin"}.isdisjoint(ops)


def _unlike_channels(
    name: str, stored: ChannelQuantization, settings: Settings
) -> Iterator[str]:
    """What the recorded settings do not give where channels have scales of their own."""
    if settings.activation_scales == "per-tensor" or settings.why_no_channels:
        yield f"tensor {name!r} has scales of its channels, unlike the recorded settings"
    is_wide = stored.dtype == "int16" and settings.has_words
    usual = settings.activation_type, *settings.limits
    if not is_wide and (stored.dtype, *stored.limits) != usual:
        yield f"tensor {name!r} is {stored.dtype}, unlike the recorded settings"
    scales = np.array(stored.scales)
    if (scales.astype(np.float32).astype(np.float64) != scales).any():
        yield f"the scales of tensor {name!r} are no float32"


def _zero_points(settings: Settings) -> tuple[int, ...]:
    """Those of symmetric settings: the middle, and the lowest code of unsigned tensors."""
    lowest = settings.limits[0]
    return (settings.middle,) if settings.is_symmetric(0.0) else (settings.middle, lowest)
