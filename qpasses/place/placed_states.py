"""Recurrent nets: how their states are stored, and what of them is observed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from calibration import Range
from qpasses.ir.graph import Node, Tensor
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.record import Quantization
from qpasses.ir.recurrent_nodes import (
    GATES,
    INITIAL_C,
    INITIAL_H,
    LENS,
    Y_C,
    Y_H,
    P,
    W,
    X,
    Y,
    given_inputs,
    given_outputs,
)
from qpasses.ir.rewriting import Context, States
from qpasses.place.planning import Plan
from qpasses.place.ranges import EMPTY, Ranges
from qpasses.place.tensor_parameters import activation_parameters, cell_parameters


def recurrent_nodes(chosen: Plan) -> list[Node]:
    """Those that compute on integers."""
    return [node for node in chosen.computing if node.op in GATES]


def cell_of(node: Node) -> str:
    """The name under which the cells of an LSTM are observed, those of all steps."""
    outputs = given_outputs(node)
    return outputs[Y_C].name or f"{node.name}.cells"


def to_observe(chosen: Plan) -> list[str]:
    """What has to be known of recurrent nodes besides the tensors that are stored."""
    nodes = recurrent_nodes(chosen)
    outputs = [node.outputs[Y].name for node in nodes]
    return [*outputs, *(cell_of(node) for node in nodes if node.op == "LSTM")]


def leave_unseen_cells(chosen: Plan, found: Ranges, context: Context) -> bool:
    """Exclude each LSTM whose cells have a value in no sample; whether there are any.

    The scale of cells is the node's own: nothing else says it.
    """
    unseen = [
        node
        for node in recurrent_nodes(chosen)
        if node.op == "LSTM" and found.methods.get(cell_of(node)) == EMPTY
    ]
    for node in unseen:
        reason = f"no sample gives {cell_of(node)!r}, its cells, a value"
        context.selection.excluded[node.name] = context.record.declined[node.name] = reason
    return bool(unseen)


def observable(model: onnx.ModelProto, chosen: Plan) -> onnx.ModelProto:
    """``model`` whose states have the values of all steps, where it has those of the last.

    Hidden states are what the node writes; a Scan runs an LSTM step by step, for its cells.
    """
    nodes = {node.name: node for node in recurrent_nodes(chosen)}
    for graph in [*nested_graphs(model.graph)] if nodes else []:
        _make_observable(graph, nodes)
    return model


def _make_observable(graph: onnx.GraphProto, nodes: Mapping[str, Node]) -> None:
    """The same for one graph, which may be a body: what that gives stays the last state."""
    protos = [each for each in graph.node if each.name in nodes and each.op_type in GATES]
    renamed = dict[str, str]()
    for proto in protos:
        for place, name in enumerate(proto.output):
            if place and name:
                renamed[name] = proto.output[place] = f"{name}{_LAST}"
    if not protos:
        return
    for inner in nested_graphs(graph):
        for each in inner.node:
            for place, name in enumerate(each.input):
                each.input[place] = renamed.get(name, name)
        for value in inner.output:
            value.name = renamed.get(value.name, value.name)
        for known in [each for each in inner.value_info if each.name in renamed]:
            inner.value_info.remove(known)
    for proto in protos:
        node = nodes[proto.name]
        if hidden := given_outputs(node)[Y_H].name:
            graph.node.append(helper.make_node("Identity", [proto.output[Y]], [hidden]))
        if proto.op_type == "LSTM":
            graph.node.extend(_cells(proto, cell_of(node)))


_LAST = "::last"
"""Behind the name of a state of the last step alone."""


def _cells(lstm: onnx.NodeProto, cells: str) -> list[onnx.NodeProto]:
    """Nodes that write the cells [T, 1, B, H] of an LSTM, zeros behind the end of a row."""
    given = [*lstm.input, *[""] * (P + 1 - len(lstm.input))]
    own = f"{cells}::"
    (hidden,) = (each.i for each in lstm.attribute if each.name == "hidden_size")
    made = _Written(own)
    batch = made("Shape", [given[X]], start=1, end=2)
    one = made.constant("one", np.array([1]))
    sizes = made("Concat", [one, batch, made.constant("hidden", np.array([hidden]))], axis=0)
    nothing = made.constant("nothing", np.zeros(1, np.float32))
    first = [
        given[place] or made("Expand", [nothing, sizes]) for place in (INITIAL_H, INITIAL_C)
    ]
    front = made.constant("front", np.array([0]))
    step = [
        f"{own}{each}" for each in ("h", "c", "x", "row", "y", "h_next", "c_next", "c_out")
    ]
    h, c, x, row, y, h_next, c_next, c_out = step
    names = [row, *given[W:LENS], "", h, c, *given[P:]]
    inner = helper.make_node("LSTM", names, [y, h_next, c_next])
    inner.attribute.extend(lstm.attribute)
    body = helper.make_graph(
        [
            helper.make_node("Unsqueeze", [x, front], [row]),
            inner,
            helper.make_node("Identity", [c_next], [c_out]),
        ],
        "step",
        [_real(h, 3), _real(c, 3), _real(x, 2)],
        [_real(h_next, 3), _real(c_next, 3), _real(c_out, 3)],
    )
    ends = [f"{own}last_h", f"{own}last_c", f"{own}all" if given[LENS] else cells]
    scan = helper.make_node("Scan", [*first, given[X]], ends, body=body, num_scan_inputs=1)
    if not given[LENS]:
        return [*made.nodes, scan]
    made.nodes.append(scan)
    steps = made("Squeeze", [made("Shape", [given[X]], end=1)])
    numbers = [made.constant(f"n{n}", np.array(n)) for n in (0, 1)]
    times = made("Range", [numbers[0], steps, numbers[1]])
    columns = (
        made.constant("columns", np.array([-1, 1, 1, 1])),
        made.constant("ends", np.array([1])),
    )
    lengths = made("Cast", [given[LENS]], to=onnx.TensorProto.INT64)
    live = made(
        "Less",
        [made("Reshape", [times, columns[0]]), made("Unsqueeze", [lengths, columns[1]])],
    )
    made.nodes.append(helper.make_node("Where", [live, ends[2], nothing], [cells]))
    return made.nodes


class _Written:
    """Nodes in the making, all whose tensors begin with ``own``."""

    def __init__(self, own: str) -> None:
        self.own, self.nodes = own, list[onnx.NodeProto]()

    def __call__(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Append a node; the name of what it writes."""
        name = f"{self.own}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Append a Constant; its name."""
        tensor = numpy_helper.from_array(values, name)
        self.nodes.append(
            helper.make_node("Constant", [], [f"{self.own}{name}"], value=tensor)
        )
        return f"{self.own}{name}"


def _real(name: str, rank: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * rank)


def place_states(
    chosen: Plan,
    ranges: Mapping[str, Range],
    parameters: Mapping[str, Quantization],
    context: Context,
) -> None:
    """Say how each recurrent node stores its states.

    As those of its tensors that are stored; others have parameters of their own.
    """
    for node in recurrent_nodes(chosen):
        outputs, inputs = given_outputs(node), given_inputs(node)
        y = outputs[Y].name
        of_steps = [parameters[name] for name in [y] if name in parameters]
        of_state = _known([outputs[Y_H], inputs[INITIAL_H]], parameters)
        if node.op == "GRU":
            cell = [*of_state, cell_parameters(ranges[y])][0]
            of_state = []
        hidden = [*of_steps, *of_state] or [activation_parameters(ranges[y], context.settings)]
        if node.op == "LSTM":
            of_cell = _known([outputs[Y_C], inputs[INITIAL_C]], parameters)
            cell = [*of_cell, cell_parameters(ranges[cell_of(node)])][0]
        elif node.op == "RNN":
            cell = hidden[0]
        context.states[node.name] = States(hidden[0], cell)


def _known(
    tensors: Sequence[Tensor], parameters: Mapping[str, Quantization]
) -> list[Quantization]:
    return [parameters[each.name] for each in tensors if each.name in parameters]


def words_inside(chosen: Plan) -> list[str]:
    """The stored tensors that hold a state of 16 bits, whatever else has."""
    found = []
    for node in recurrent_nodes(chosen):
        outputs, inputs = given_outputs(node), given_inputs(node)
        states = {"LSTM": (Y_C, INITIAL_C), "GRU": (Y_H, INITIAL_H)}.get(node.op)
        if states is not None:
            ends = outputs[states[0]], inputs[states[1]]
            found += [each.name for each in ends if each.name in chosen.tensors]
    return found
