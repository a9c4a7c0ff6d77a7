"""The Q/DQ graph: the float graph, rounding wherever the integer graph stores a tensor.

Cut at each of these tensors: what reads one reads the codes that the integer graph has there,
so that a code that differs is of the nodes right before it.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from calibration.held_weights import tensor_of
from calibration.large_weights import names_read
from opsets.qpasses_v1 import OPS
from opsets.row_blocks import blocks
from qpasses.checking.meaning import Pair, Site, is_integer
from qpasses.ir.edges import dequantize
from qpasses.ir.graph import Node, constant, dequantized, is_graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.record import AnyQuantization, ChannelQuantization
from qpasses.ir.stages import RECURRENT


@dataclass(frozen=True)
class Simulated:
    """A Q/DQ model; by stored tensor of the integer graph, input and output for its codes.

    ``given``: inputs for what enters a body as it is too. ``iterated``: if it runs once for
    each iteration, the rank of each tensor, of the integer graph, that has values in each.
    """

    model: onnx.ModelProto
    given: Mapping[str, str]
    codes: Mapping[str, str]
    iterated: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """A float tensor that the integer graph stores.

    ``name``: of the tensor there; ``written``: the float tensor before it is rounded.
    """

    name: str
    how: AnyQuantization
    written: str


@dataclass(frozen=True)
class Cut:
    """A float graph in pieces: who reads a tensor that is stored reads ``given`` of it.

    Which nothing in ``model`` writes. ``stored``: by float tensor. ``narrow``: by tensor of
    the integer graph, what is stored a second time, from ``given`` of the float tensor it
    stands for, and read as ``given`` of its own name.
    """

    model: onnx.ModelProto
    stored: Mapping[str, Stored]
    narrow: Mapping[str, AnyQuantization]


def simulated(pair: Pair) -> Simulated:
    """The float graph of ``pair`` in float arithmetic, on the numbers that integers stand for.

    Each tensor that is stored is rounded and saturated behind what writes it, at the first of
    its scales; constants that are stored are those of the integer graph.
    """
    cut = cut_at_stored(pair)
    graph = cut.model.graph
    before: list[onnx.NodeProto] = []
    behind: list[onnx.NodeProto] = []
    for real, stored in cut.stored.items():
        kind = helper.np_dtype_to_tensor_dtype(stored.how.zero.dtype)
        graph.input.append(helper.make_tensor_value_info(_codes(given_name(real)), kind, None))
        graph.output.append(helper.make_tensor_value_info(_codes(real), kind, None))
        before += _meaning(real, stored.how)
        behind += _rounding(stored.written, real, stored.how)
    for ours, how in cut.narrow.items():
        kind = helper.np_dtype_to_tensor_dtype(how.zero.dtype)
        graph.input.append(helper.make_tensor_value_info(_codes(given_name(ours)), kind, None))
        before += _meaning(ours, how)
    nodes = [*before, *graph.node, *behind]
    del graph.node[:]
    graph.node.extend(nodes)
    return Simulated(
        cut.model,
        {stored.name: _codes(given_name(real)) for real, stored in cut.stored.items()}
        | {ours: _codes(given_name(ours)) for ours in cut.narrow},
        {stored.name: _codes(real) for real, stored in cut.stored.items()},
    )


def cut_at_stored(pair: Pair, of_integers: bool = True) -> Cut:
    """The float graph of ``pair``, cut wherever the integer graph stores a tensor.

    Constants that are stored are those of the integer graph, or ``of_integers`` is false.
    """
    model = prepared_model(pair.real, are_apart=False)
    graph = model.graph
    known = {name for node in graph.node for name in node.output}
    known |= {value.name for value in graph.input}
    stored = {
        meaning.real: (ours, meaning.stored)
        for ours, meaning in reversed(pair.meanings.items())
        if meaning.stored and ours in pair.record.tensors and meaning.real in known
    }
    if of_integers:
        _take_constants(graph, pair)
    sources = {ours: real for real, (ours, _) in stored.items()}
    narrow = {**_narrowed(pair), **_stored_anew(pair, sources)}
    _read_narrow(graph, pair, narrow)
    apart = [n for node in pair.integer.nodes for n in _apart(node, pair, graph, sources)]
    left = {node.name: node for node in pair.integer.nodes if _is_left(node, pair)}
    for proto in graph.node:
        if proto.name in left:
            _read_dequantized(proto, left[proto.name], pair, stored, narrow)
        else:
            read_given(proto, stored)
    _write_out_norms(graph, pair)
    graph.node.extend(apart)
    del graph.value_info[:]
    _leave_out_unread(graph)
    own = {name for node in apart for name in node.output}
    return Cut(
        model,
        {
            real: Stored(ours, how, _own(real) if _own(real) in own else real)
            for real, (ours, how) in stored.items()
        },
        narrow,
    )


def _leave_out_unread(graph: onnx.GraphProto) -> None:
    """Take away the weights of the float graph that others have taken the place of."""
    read = {*names_read(graph.node), *(value.name for value in graph.output)}
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name not in read:
            del graph.initializer[place]


def _write_out_norms(graph: onnx.GraphProto, pair: Pair) -> None:
    """InstanceNormalization in steps: onnxruntime's float kernel multiplies before it takes
    the mean away, so that rows that are nearly alike lose all their digits.
    """
    nodes = []
    for node in graph.node:
        is_norm = node.op_type == "InstanceNormalization"
        known = pair.float_nodes.get(node.name) if is_norm else None
        dims = 0 if known is None else len(known.inputs[0].shape or [])
        if dims < 3:
            nodes.append(node)
            continue
        x, scale, bias = node.input
        own = f"{node.output[0]}::norm"
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        axes, column = np.arange(2, dims), np.array([-1, *[1] * (dims - 2)])
        constants = {"axes": axes, "column": column, "epsilon": np.array(epsilon, np.float32)}
        nodes += [_constant(f"{own}::{name}", value) for name, value in constants.items()]
        nodes += [
            helper.make_node(op, [f"{own}{n}" if n[:2] == "::" else n for n in read], [made])
            for op, read, made in (
                ("ReduceMean", [x, "::axes"], f"{own}::mean"),
                ("Sub", [x, "::mean"], f"{own}::level"),
                ("Mul", ["::level", "::level"], f"{own}::square"),
                ("ReduceMean", ["::square", "::axes"], f"{own}::variance"),
                ("Add", ["::variance", "::epsilon"], f"{own}::positive"),
                ("Sqrt", ["::positive"], f"{own}::deviation"),
                ("Div", ["::level", "::deviation"], f"{own}::normal"),
                ("Reshape", [scale, "::column"], f"{own}::gamma"),
                ("Reshape", [bias, "::column"], f"{own}::beta"),
                ("Mul", ["::normal", "::gamma"], f"{own}::scaled"),
                ("Add", ["::scaled", "::beta"], node.output[0]),
            )
        ]
    del graph.node[:]
    graph.node.extend(nodes)


def _narrowed(pair: Pair) -> Mapping[str, AnyQuantization]:
    """By stored tensor: what the 8 bits of residual streams mean that some nodes read.

    An IntRescale of clamps writes a float tensor of its own.
    """
    ends = [
        node.outputs[0].name
        for node in pair.integer.nodes
        if node.op == "IntRescale"
        and not pair.float_nodes.keys() & {*pair.record.nodes[node.name].source}
    ]
    return {name: pair.record.tensors[name] for name in ends}


def _stored_anew(pair: Pair, sources: Mapping[str, str]) -> Mapping[str, AnyQuantization]:
    """By tensor that an original of its own scales has stored in a second way: that way."""
    return {
        ours: meaning.stored
        for ours, meaning in pair.meanings.items()
        if meaning.stored and pair.known.read and meaning.real in sources.values()
        if ours in pair.record.tensors and ours not in sources
    }


def _read_narrow(
    graph: onnx.GraphProto, pair: Pair, narrow: Mapping[str, AnyQuantization]
) -> None:
    """Let the float nodes of those that read ``narrow`` do so as well."""
    protos = {node.name: node for node in graph.node}
    for node in pair.integer.nodes:
        if _is_left(node, pair):
            continue
        read: dict[str, list[str]] = {}
        for tensor in node.inputs:
            if meaning := pair.meanings.get(tensor.name):
                read.setdefault(meaning.real, []).append(tensor.name)
        read = {real: ways for real, ways in read.items() if {*ways} & narrow.keys()}
        entry = pair.record.nodes.get(node.name)
        names = [node.name] if entry is None else entry.source
        for name in protos.keys() & {*names} if read else ():
            _read_ways(protos[name], read, narrow)


def _read_ways(
    node: onnx.NodeProto, read: Mapping[str, Sequence[str]], narrow: Container[str]
) -> None:
    """Let ``node`` read the tensors that ``narrow`` has, place by place if it reads others."""
    for real, ways in read.items():
        places = [place for place, name in enumerate(node.input) if name == real]
        chosen = [each for each in ways if each in narrow]
        if len(places) != len(ways):
            ways = [chosen[0]] * len(places)
        for place, ours in zip(places, ways, strict=True):
            if ours in narrow:
                node.input[place] = given_name(ours)


def _is_left(node: Node, pair: Pair) -> bool:
    """Whether ``node`` is one that both graphs have."""
    return node.name in pair.float_nodes and node.name not in pair.record.nodes


def _read_dequantized(
    proto: onnx.NodeProto,
    node: Node,
    pair: Pair,
    stored: Container[str],
    narrow: Container[str],
) -> None:
    """Let a node that both graphs have read codes where it does so in the integer graph.

    What they stand for, or themselves, as comparisons do. Place by place: it may read a
    tensor as it is stored and as it is. Branches by name.
    """
    inner = set[str]()
    for each in _within(node):
        for place, tensor in enumerate(each.inputs):
            view, meaning = dequantized(tensor), pair.meanings.get(tensor.name)
            if meaning is None or meaning.real not in stored:
                continue
            if view is None and meaning.stored is None:
                continue
            if each is not node:
                inner.add(meaning.real)
            else:
                ours = tensor.name if view is None else view.stored.name
                proto.input[place] = given_name(ours if ours in narrow else meaning.real)
    for attribute in proto.attribute:
        for branch in attribute.g.node:
            read_given(branch, inner)


def _within(node: Node) -> Iterator[Node]:
    """A node and those of its branches."""
    yield node
    for branch in filter(is_graph, node.attrs.values()):
        for inner in branch.nodes:
            yield from _within(inner)


def read_given(node: onnx.NodeProto, names: Container[str]) -> None:
    """Let a node, and those of its branches, read ``names`` as the integer graph has them."""
    node.input[:] = [given_name(name) if name in names else name for name in node.input]
    for attribute in node.attribute:
        for inner in attribute.g.node:
            read_given(inner, names)


def given_name(name: str) -> str:
    """The name of a stored tensor as who reads it has it."""
    return f"{name}::given"


def _codes(name: str) -> str:
    return f"{name}::codes"


def written_as(codes: str) -> str:
    """The float tensor of which the model gives ``codes``."""
    return codes.removesuffix(_codes(""))


def _own(name: str) -> str:
    """A tensor as the one node makes it that passes over what is stored on the way."""
    return f"{name}::own"


def _apart(
    node: Node, pair: Pair, graph: onnx.GraphProto, sources: Mapping[str, str]
) -> list[onnx.NodeProto]:
    """The float nodes of a chain once more, where a tensor inside of it is stored as well.

    Chains with two ends have tables of their own, which do not read what the other stores.
    """
    entry, real = pair.record.nodes.get(node.name), sources.get(node.outputs[0].name)
    chain = [pair.float_nodes[name] for name in entry.source] if entry and real else []
    inner = {tensor.name for each in chain[:-1] for tensor in each.outputs}
    if real is None or not inner & {*sources.values()}:
        return []
    renamed = {name: f"{real}::{name}" for name in inner} | {real: _own(real)}
    stored, found = {*sources.values()} - inner, []
    protos = {each.name: each for each in graph.node}
    for each in chain:
        copy = onnx.NodeProto.FromString(protos[each.name].SerializeToString())
        copy.name = f"{real}::{each.name}"
        copy.input[:] = [
            given_name(n) if n in stored else renamed.get(n, n) for n in copy.input
        ]
        copy.output[:] = [renamed.get(name, name) for name in copy.output]
        found.append(copy)
    return found


def _meaning(real: str, how: AnyQuantization) -> Iterator[onnx.NodeProto]:
    """What the codes of the integer graph stand for."""
    yield _constant(f"{real}::scale", np.array(how.factors(how.zero.ndim), np.float32))
    yield _constant(f"{real}::zero", how.zero)
    ends = [_codes(given_name(real)), f"{real}::scale", f"{real}::zero"]
    yield helper.make_node("DequantizeLinear", ends, [given_name(real)], **_axis(how))


def _axis(how: AnyQuantization) -> dict[str, Any]:
    return {"axis": how.axis} if isinstance(how, ChannelQuantization) else {}


def _rounding(source: str, real: str, how: AnyQuantization) -> Iterator[onnx.NodeProto]:
    """The codes of what was computed to ``source``."""
    ends, codes = [source, f"{real}::scale", f"{real}::zero"], _codes(real)
    if how.limits == how.type_limits:
        yield helper.make_node("QuantizeLinear", ends, [codes], **_axis(how))
        return
    yield helper.make_node("QuantizeLinear", ends, [f"{codes}::unclipped"])
    limits = [f"{real}::low", f"{real}::high"]
    for name, end in zip(limits, how.limits, strict=True):
        yield _constant(name, np.array(end, how.dtype))
    yield helper.make_node("Clip", [f"{codes}::unclipped", *limits], [codes])


def _constant(name: str, value: NDArray[Any]) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value))


def _take_constants(graph: onnx.GraphProto, pair: Pair) -> None:
    """Let what computes with constants do so with those of the integer graph."""
    protos = {node.name: node for node in graph.node}
    for node in pair.integer.nodes:
        if node.name in protos and not is_integer(node):
            _take_dequantized(graph, node, protos[node.name])
    for node in filter(is_integer, pair.integer.nodes):
        chain = [pair.float_nodes.get(name) for name in pair.record.nodes[node.name].source]
        site = Site(node, [each for each in chain if each is not None], pair)
        if node.op in RECURRENT:
            _take_gates(graph, site, protos[site.first.name])
        elif "w" in site.given:
            _take_weights(graph, site, protos)
        operands = [tensor for name, tensor in site.inputs.items() if name in ("a", "b")]
        for place, tensor in enumerate(operands):
            if tensor.name in pair.operands:
                how, codes = pair.record.tensors[tensor.name], constant(tensor)
                assert codes is not None, tensor.name
                name = f"{node.name}::{'ab'[place]}"
                conditions = len(OPS[node.op].data) - len(operands)  # in front of them
                protos[site.first.name].input[conditions + place] = name
                graph.initializer.append(_float32(name, dequantize(codes, how, np.float64)))


def _take_gates(graph: onnx.GraphProto, site: Site, first: onnx.NodeProto) -> None:
    """Weights of both kinds and biases of a recurrent node, as it has them."""
    given, scales = site.given, site.entry.scales
    rows = given["r"].shape[1]
    made, biases = {}, []
    for name, place, bias, end in (("w", 1, "bias", "x"), ("r", 2, "r_bias", "y")):
        steps = np.array(scales[name])
        made[place] = (given[name] * steps).T[None]
        biases.append(given.get(bias, np.zeros(rows)) * (steps * scales[end][0]))
    made[3] = np.concatenate(biases)[None]
    first.input.extend([""] * (4 - len(first.input)))
    for place, values in made.items():
        name = f"{site.node.name}::{place}"
        graph.initializer.append(_float32(name, values))
        first.input[place] = name


def _take_weights(
    graph: onnx.GraphProto, site: Site, protos: Mapping[str, onnx.NodeProto]
) -> None:
    node, given, chain = site.node, site.given, site.chain
    w, y = np.array(site.entry.scales["w"]), site.any_y
    x = np.repeat(site.entry.scales["x"], max(w.size // len(site.entry.scales["x"]), 1))
    moved = np.array(0.0)  # what stands for zero is in the bias where channels have their own
    if isinstance(y, ChannelQuantization):
        moved = (np.array(y.zero_points) - y.zero_point) * np.array(y.scales)
    behind = given["w"].ndim - 1 - OPS[node.op].channel_axis
    real = {
        "weights": _dequantized(
            given["w"],
            given["w_zero"],
            w.reshape(-1, *[1] * behind),
            constant(site.first.inputs[1]),
        ),
        "bias": given["bias"] * (x * w) - moved,
    }
    for name, value in real.items():
        graph.initializer.append(_float32(f"{node.name}::{name}", value))
    first = protos[site.first.name]
    first.input[1] = f"{node.name}::weights"
    if first.op_type == "Conv":
        first.input[2:] = [f"{node.name}::bias"]
    elif len(first.input) > 2:
        first.input[2] = f"{node.name}::bias"
    elif len(chain) > 1 and chain[1].op == "Add":
        row = int(chain[1].inputs[0] is chain[0].outputs[0])
        protos[chain[1].name].input[row] = f"{node.name}::bias"


def _dequantized(
    stored: NDArray[Any],
    zero: NDArray[Any],
    scale: NDArray[np.float64],
    known: NDArray[Any] | None,
) -> NDArray[np.float32]:
    """In double, rounded to float32; ``scale`` broadcasts.

    ``known`` itself where that is all of it, bit for bit, as the weights of a quantized
    original are: there is no second copy of these.
    """
    if known is not None and (known.dtype != np.float32 or known.shape != stored.shape):
        known = None
    real = np.empty(stored.shape, np.float32) if known is None else known
    scales = np.broadcast_to(scale, stored.shape)
    for part in blocks(stored):
        values = (stored[part].astype(np.int16) - zero) * scales[part]
        levels = values.astype(np.float32)
        if real is known and (levels.view(np.int32) != real[part].view(np.int32)).any():
            real = np.empty(stored.shape, np.float32)
            real[: part.start] = known[: part.start]
        if real is not known:
            real[part] = levels
    return real


def _float32(name: str, values: NDArray[Any]) -> onnx.TensorProto:
    return tensor_of(name, np.asarray(values, np.float32))


def _take_dequantized(graph: onnx.GraphProto, node: Node, real: onnx.NodeProto) -> None:
    """Let ``real`` read the constants that ``node``, which is the same, has stored."""
    for place, tensor in enumerate(node.inputs):
        view = dequantized(tensor)
        stored = None if view is None else constant(view.stored)
        if view is None or stored is None:
            continue
        column = [1] * stored.ndim
        if view.scale.size > 1:
            column[view.axis] = -1
        scale, zero = (each.reshape(column) for each in (view.scale, view.zero_point))
        values = (stored.astype(np.int64) - zero.astype(np.int64)).astype(np.float32) * scale
        name = f"{node.name}::{place}"
        graph.initializer.append(_float32(name, values))
        real.input[place] = name
