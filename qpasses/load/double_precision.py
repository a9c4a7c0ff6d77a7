"""Models whose weights are float64, in float32 but for what needs more digits."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.inliner
from onnx import GraphProto, NodeProto, TensorProto, helper

from calibration.held_weights import described_as, tensor_of, values_of
from qpasses.ir.graph import fresh
from qpasses.ir.shapes import infer_shapes
from qpasses.load.digits import DOUBLE, Constants, needing_double, read_by
from qpasses.load.half_precision import TYPES, weighted_kinds
from qpasses.load.upgrade import without_weights

FLOAT = TensorProto.FLOAT

_SHOWN = 5
"""So many nodes are named where more stay as they are."""

_AS_GIVEN = frozenset({"Cast", "Shape", "Size"})
"""Ops that lose nothing where they read float64, and give something else."""


def is_double(model: onnx.ModelProto) -> bool:
    """Whether the weights of ``model`` are float64, and none float32."""
    kinds = weighted_kinds(model)
    return DOUBLE in kinds and FLOAT not in kinds


@dataclass(frozen=True)
class Narrowed:
    """``model`` in float32, its inputs and outputs as they were.

    ``kept``: by node, why it is in float64 as before; what it needs is so too. ``inputs``:
    those in float64 that are read in float32 now.
    """

    model: onnx.ModelProto
    kept: Mapping[str, str]
    inputs: Collection[str]

    @property
    def remarks(self) -> list[str]:
        """What users have to know of it."""
        said = [
            "the model is float64: between its inputs and outputs it was converted to "
            "float32 first"
        ]
        if self.kept:
            said.append(f"in float64 as before: {self.reasons}")
        return said

    @property
    def reasons(self) -> str:
        """Why not all of it is in float32, by node."""
        listed = [f"node {name!r}: {reason}" for name, reason in self.kept.items()]
        return "; ".join(listed[:_SHOWN]) + "; ..." * (len(listed) > _SHOWN)


def narrowed(model: onnx.ModelProto) -> Narrowed:
    """``model``, whose weights are float64, in float32 where nothing needs more digits.

    What a node needs that stays in float64, back to the inputs, stays so too.
    """
    made = onnx.ModelProto()
    made.CopyFrom(onnx.inliner.inline_local_functions(model) if model.functions else model)
    graph, kinds = made.graph, _kinds(made)
    constants = _constants(graph)
    reasons = needing_double(graph, kinds, constants)
    names = {
        graph.node[place].name or graph.node[place].output[0]: reason
        for place, reason in reasons.items()
    }
    narrowing = _Narrowing(graph, kinds, constants, _with_sources(graph, kinds, reasons))
    narrowing.apply()
    return Narrowed(made, names, narrowing.inputs)


def _kinds(model: onnx.ModelProto) -> dict[str, int]:
    """The types of elements by tensor of the main graph, as far as they are known."""
    inferred = infer_shapes(without_weights(model)).graph
    values = [*inferred.input, *inferred.value_info, *inferred.output]
    kinds = {each.name: int(each.type.tensor_type.elem_type) for each in values}
    kinds |= {name: tensor.data_type for name, tensor in _constants(model.graph).items()}
    return {name: kind for name, kind in kinds.items() if kind}


def _constants(graph: GraphProto) -> dict[str, TensorProto]:
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            found[node.output[0]] = node.attribute[0].t
    return found


def _with_sources(
    graph: GraphProto, kinds: Mapping[str, int], places: Iterable[int]
) -> set[int]:
    """``places``, and those of the nodes that write what they read in float64."""
    writers = {name: at for at, node in enumerate(graph.node) for name in node.output if name}
    found, waiting = set(places), list(places)
    while waiting:
        for name in read_by(graph.node[waiting.pop()]):
            at = writers.get(name)
            if at is not None and at not in found and kinds.get(name) == DOUBLE:
                found.add(at)
                waiting.append(at)
    return {at for at in found if graph.node[at].op_type != "Constant"}


class _Narrowing:
    """A graph on its way to float32, but for the nodes at the places ``kept``.

    ``_wide``: tensors that stay in float64; ``_narrow``: by tensor, what is read, or written,
    in float32 in its place.
    """

    def __init__(
        self, graph: GraphProto, kinds: Mapping[str, int], constants: Constants, kept: set[int]
    ) -> None:
        self._graph, self._constants, self._kept = graph, constants, kept
        self._doubles = {name for name, kind in kinds.items() if kind == DOUBLE}
        self._ends = {each.name for each in graph.output} & self._doubles
        self._inputs = {each.name for each in graph.input} - constants.keys()
        self._wide = self._in_float64()
        self._narrow: dict[str, str] = {}
        self._taken = {name for node in graph.node for name in (node.name, *node.output)}
        self._taken |= {each.name for each in (*graph.input, *graph.initializer)}

    def _in_float64(self) -> set[str]:
        """Inputs, what kept nodes read and write, outputs that are constant."""
        kept = [self._graph.node[at] for at in self._kept]
        own = {name for node in kept for name in (*read_by(node), *node.output)}
        return (own | self._inputs | (self._ends & self._constants.keys())) & self._doubles

    @property
    def inputs(self) -> Collection[str]:
        """Those in float64 that are read in float32."""
        return self._inputs & self._narrow.keys()

    def apply(self) -> None:
        """Rewrite the graph."""
        for place, node in enumerate(self._graph.node):
            if place not in self._kept and node.op_type != "Constant":
                self._narrow_node(node)
        for name, tensor in self._constants.items():
            if tensor.data_type == DOUBLE and name not in self._wide:
                _narrow_tensor(tensor)
        self._add_casts()
        narrow = self._doubles - self._wide - self._ends
        for value in (*self._graph.input, *self._graph.value_info):
            if value.name in narrow:
                value.type.tensor_type.elem_type = FLOAT

    def _narrow_node(self, node: NodeProto) -> None:
        is_as_given = node.op_type in _AS_GIVEN
        for place, name in enumerate(node.input):
            if not (is_as_given and name in self._wide):
                node.input[place] = self._in_float32(name)
        node.output[:] = [self._in_float32(name) for name in node.output]
        for each in node.attribute:
            if each.name in TYPES and each.i == DOUBLE:
                each.i = FLOAT
            if each.HasField("t") and each.t.data_type == DOUBLE:
                _narrow_tensor(each.t)

    def _in_float32(self, name: str) -> str:
        """What is read, or written, in the place of ``name``."""
        if name not in self._wide | self._ends:
            return name
        if name not in self._narrow:
            self._narrow[name] = fresh(f"{name}_float32", self._taken)
        return self._narrow[name]

    def _add_casts(self) -> None:
        """Between what is in float64 and what stands for it, behind what is there first."""
        casts = {
            first: self._cast(first, second)
            for name, narrow in self._narrow.items()
            for first, second in [(name, narrow) if name in self._wide else (narrow, name)]
        }
        nodes = list(self._graph.node)
        written = {name for node in nodes for name in node.output}
        found = [cast for name, cast in casts.items() if name not in written]
        for node in nodes:
            found += [node, *(casts[name] for name in node.output if name in casts)]
        del self._graph.node[:]
        self._graph.node.extend(found)

    def _cast(self, first: str, second: str) -> NodeProto:
        name = fresh(f"{second}/Cast", self._taken)
        to = FLOAT if first in self._wide else DOUBLE
        return helper.make_node("Cast", [first], [second], name, to=to)


def _narrow_tensor(tensor: TensorProto) -> None:
    made = tensor_of(tensor.name, values_of(tensor).astype(np.float32))
    tensor.CopyFrom(described_as(tensor, made))
