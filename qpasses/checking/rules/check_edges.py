"""Where float and integers meet: QuantizeLinear, DequantizeLinear, the graph's own edges."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from qpasses.checking.meaning import (
    DifferenceError,
    Meaning,
    Pair,
    Site,
    same,
    unlike,
    unlike_attributes,
)
from qpasses.checking.rules.check_clamps import check_ends
from qpasses.ir.graph import (
    STORE,
    Node,
    Tensor,
    constant,
    input_at,
    is_graph_output,
    producer,
)
from qpasses.ir.record import SIGNALS, AnyQuantization, ChannelQuantization, Quantization


def parameters_of(node: Node) -> Quantization:
    """Those of a Q or DQ of a whole tensor: its codes are all of the type."""
    scale, zero = constant(input_at(node, 1)), constant(input_at(node, 2))
    if scale is None or zero is None or scale.ndim or zero.ndim:
        raise DifferenceError("its scale and zero point are not constant numbers")
    if scale.dtype != np.float32 or zero.dtype.name not in SIGNALS:
        raise DifferenceError(f"its scale is {scale.dtype}, its zero point {zero.dtype}")
    try:
        return Quantization(float(scale), int(zero), zero.dtype.name)
    except ValueError as error:
        raise DifferenceError(str(error)) from error


def quantize_linear(site: Site) -> Iterator[str]:
    """Stores a float tensor as its record says."""
    yield from unlike_attributes(site.node.attrs, {})
    given, output = site.node.inputs[0], site.node.outputs[0]
    if site.pair.meaning(given).stored is not None:
        raise DifferenceError(f"reads {given.name!r}, which is stored already")
    before = producer(given)
    has_tables = site.settings.target.tables
    is_own = before is not None and before.name in site.pair.float_nodes
    if before is not None and before.op == "DequantizeLinear" and has_tables and not is_own:
        yield "stores in float again what was stored before"
    found = parameters_of(site.node)
    recorded = site.pair.record.tensors.get(output.name)
    if recorded is not None and _as_onnx(recorded) != found:
        yield f"its parameters are {found}, those of {output.name!r} are {recorded}"


def _as_onnx(recorded: AnyQuantization) -> AnyQuantization:
    """With the scale that QuantizeLinear takes: the nearest float32."""
    if isinstance(recorded, ChannelQuantization):
        return recorded  # which no QuantizeLinear gives
    return replace(recorded, scale=float(np.float32(recorded.scale)))


def dequantize_linear(site: Site) -> Iterator[str]:
    """Gives the real numbers of a stored tensor; of constants, who reads it is asked."""
    given = site.node.inputs[0]
    if constant(given) is not None:
        return
    yield from unlike_attributes(site.node.attrs, {})
    stored, found = site.stored(given), parameters_of(site.node)
    for what in ("scale", "zero_point", "dtype"):
        expected = getattr(_as_onnx(stored), what)
        yield from unlike(what, np.array(getattr(found, what)), np.array(expected))


def clip_codes(site: Site) -> Iterator[str]:
    """Keeps what was stored within codes of fewer bits than the type."""
    x, y = site.stored(site.node.inputs[0]), site.y
    if (x.scale, x.zero_point, x.dtype) != (y.scale, y.zero_point, y.dtype):
        yield "its input and output are stored in different ways"
    yield from check_ends(site, y.limits)


def read_inputs(pair: Pair) -> Iterator[str]:
    """Tell ``pair`` what the inputs stand for: those of the float model, in order."""
    ours, theirs = pair.integer.inputs, pair.real.inputs
    if len(ours) != len(theirs):
        yield f"the graph has {len(ours)} inputs, the float model {len(theirs)}"
    for mine, other in zip(ours, theirs, strict=False):
        stored = pair.record.tensors.get(mine.name)
        if stored is None and mine.name != other.name:
            yield f"input {mine.name!r} is called {other.name!r} in the float model"
        if not _may_be_stored(pair, mine, stored):
            yield f"input {mine.name!r} is stored, unlike the recorded settings"
        pair.meanings[mine.name] = Meaning(other.name, stored)


def _may_be_stored(pair: Pair, end: Tensor, stored: AnyQuantization | None) -> bool:
    """Whether an edge of the graph is wanted as integers, or is no integers."""
    known = pair.known.edges.get(end.name)
    return stored == known if known else stored is None or pair.settings.integer_io


def left_in_float(pair: Pair) -> Iterator[str]:
    """Edges that stay float though the user wanted integers, and nothing is in the way.

    Nodes that the original has itself, with scales that integers cannot follow, stay there.
    """
    graph, own = pair.integer, pair.float_nodes
    for tensor in graph.inputs if pair.settings.integer_io else ():
        readers = [node for node in tensor.outputs if node.op not in UNCHANGED]
        is_stored = [each.op for each in readers] == ["QuantizeLinear"]
        if is_stored and readers[0].name not in own and not is_graph_output(graph, tensor):
            yield f"input {tensor.name!r} is float, unlike the recorded settings"
    for tensor in graph.outputs if pair.settings.integer_io else ():
        node = producer(tensor)
        if node is None or node.op != "DequantizeLinear" or tensor.outputs:
            continue
        if node.name in own:
            continue
        stored = node.inputs[0]
        if producer(stored) is not None and not is_graph_output(graph, stored):
            yield f"output {tensor.name!r} is float, unlike the recorded settings"


UNCHANGED = frozenset({"Shape", "Size", "ArgMax", "ArgMin"})
"""What gives the same of stored integers as of the numbers that these stand for."""


def _unstored(tensor: Tensor) -> Tensor:
    """What is stored to give ``tensor``; itself, if it is not."""
    node = producer(tensor)
    return tensor if node is None or node.op != STORE else _unstored(node.inputs[0])


def compare_outputs(pair: Pair) -> Iterator[str]:
    """Whether the outputs stand for those of the float model, in order."""
    ours, theirs = pair.integer.outputs, pair.real.outputs
    if len(ours) != len(theirs):
        yield f"the graph has {len(ours)} outputs, the float model {len(theirs)}"
    for mine, other in zip(ours, theirs, strict=False):
        found, value = pair.meanings.get(mine.name), constant(other)
        if value is not None:
            if (given := constant(mine)) is None or not same(given, value):
                yield f"output {mine.name!r} is not the constant {other.name!r}"
        elif found is None:
            yield f"output {mine.name!r}: what it stands for is not known"
        elif found.real != _unstored(other).name:
            yield f"output {mine.name!r} is {found.real!r}, not {other.name!r}"
        elif found.stored is None and mine.name != other.name:
            yield f"output {mine.name!r} is called {other.name!r} in the float model"
        elif not _may_be_stored(pair, mine, found.stored):
            yield f"output {mine.name!r} is stored, unlike the recorded settings"
