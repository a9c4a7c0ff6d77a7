"""Inner tensors of bodies as outputs of a model: of an iteration, of a branch that is taken.

What a Loop or Scan computes comes stacked, one iteration after the other, or flat and joined
where its sizes may change on the way; what a branch computes that is not taken is empty.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper

from opsets.errors import ModelError

BODIES = ("If", "Loop", "Scan")
"""Ops whose bodies are looked into."""


def revealed(
    model: onnx.ModelProto, outputs: Sequence[ValueInfoProto] = ()
) -> onnx.ModelProto:
    """``model``, which gives each of its ``outputs`` though bodies write some of them.

    ``outputs``: instead of its own. Itself, with these, where nothing is inside. Raises
    ModelError for a tensor of a type that is not known.
    """
    wanted = [*(outputs or model.graph.output)]
    if not any(node.op_type in BODIES for node in model.graph.node):
        return model
    own = {*_written(model.graph), *(value.name for value in model.graph.input)}
    own |= {tensor.name for tensor in model.graph.initializer}
    missing = {value.name for value in wanted} - own
    if not missing:
        return model
    made = onnx.ModelProto()
    is_typed = missing <= set(_typed(model.graph))
    made.CopyFrom(model if is_typed else onnx.shape_inference.infer_shapes(model))
    kinds = [value.type.tensor_type for value in model.graph.input]
    given = {dim.dim_param for kind in kinds for dim in kind.shape.dim} - {""}
    _Revealing(missing, given).give(made.graph)
    inner = {value.name: value for value in wanted}
    del made.graph.output[:]
    for name, value in inner.items():
        made.graph.output.append(ValueInfoProto(name=name) if name in missing else value)
    return made


def _typed(graph: GraphProto) -> Iterator[str]:
    """The names of tensors whose type ``graph`` says, or a body in it."""
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.elem_type:
            yield value.name
    for node in graph.node:
        for attribute in node.attribute if node.op_type in BODIES else ():
            if attribute.HasField("g"):
                yield from _typed(attribute.g)


def _written(graph: GraphProto) -> Iterator[str]:
    return (name for node in graph.node for name in node.output)


@dataclass
class _Revealing:
    """What is ``wanted`` of bodies; sizes called as in ``given`` are the same throughout.

    By name ``kinds``, the types of what is given, ``ranks``, where they are known, and
    ``inner``, what it is called in the body that was seen last, of so many ``bodies``;
    ``fixed``: what has one size in all iterations.
    """

    wanted: set[str]
    given: set[str]
    kinds: dict[str, int] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    inner: dict[str, str] = field(default_factory=dict)
    bodies: int = 0

    def give(self, graph: GraphProto) -> list[str]:
        """Let ``graph`` hold all that is wanted of its bodies, under its name; these."""
        found, nodes = list[str](), [each for each in graph.node if each.op_type in BODIES]
        for node in nodes:
            found += [] if node.domain else self._of_node(graph, node)
        return found

    def _of_node(self, graph: GraphProto, node: NodeProto) -> list[str]:
        bodies = [each.g for each in node.attribute if each.HasField("g")]
        given = [self._of_body(each) for each in bodies]
        names = [name for each in given for name in each]
        for place in range(len(node.output), len(bodies[0].output) if names else 0):
            if node.op_type == "If" or place < len(bodies[0].output) - 1:
                node.output.append(f"{node.output[0]}: another {place}")
        for name in names:
            if node.op_type == "If":
                for body, own in zip(bodies, given, strict=True):
                    self._branch(body, name, name in own, node.input[0])
                node.output.append(name)
                self.ranks.pop(name, None)  # it is another where the branch is not taken
            elif node.op_type == "Scan" or name in self.fixed:
                self._stack(bodies[0], name)
                node.output.append(name)
                _lengthen_ways(node)
                if name in self.ranks:
                    self.ranks[name] += 1
            else:
                self._join(graph, node, bodies[0], name)
                self.ranks[name] = 1
        self.fixed.difference_update(names)  # stacks and branches have other sizes
        return names

    def _of_body(self, body: GraphProto) -> list[str]:
        """The names wanted of ``body``, where each is called otherwise from now on."""
        inner = self.give(body)
        own = {*_written(body), *(value.name for value in body.input)}
        own |= {tensor.name for tensor in body.initializer}
        found = [name for name in own if name in self.wanted and name not in inner]
        values = {v.name: v for v in (*body.input, *body.value_info, *body.output)}
        for name in found:
            self._know(name, values)
        self.bodies += 1
        names = {name: f"{name} (inside {self.bodies})" for name in (*found, *inner)}
        _rename(body, names)
        self.inner.update(names)
        return [*sorted(found), *inner]

    def _know(self, name: str, values: dict[str, ValueInfoProto]) -> None:
        kind = values[name].type.tensor_type.elem_type if name in values else 0
        if not kind:
            raise ModelError(
                f"the model does not say the type of {name!r}, which is inside of a body"
            )
        self.kinds[name] = kind
        shape = values[name].type.tensor_type.shape
        if values[name].type.tensor_type.HasField("shape"):
            self.ranks[name] = len(shape.dim)
        if values[name].type.tensor_type.HasField("shape") and all(
            each.HasField("dim_value") or each.dim_param in self.given for each in shape.dim
        ):
            self.fixed.add(name)

    def _branch(self, body: GraphProto, name: str, is_own: bool, condition: str) -> None:
        if is_own:
            self._stack(body, name)
            return
        kind, none = self.kinds[name], f"{name}: none {self.bodies}"
        ends = f"{none}: ends"  # a Constant, which this was, onnxruntime writes twice
        body.initializer.append(helper.make_tensor(ends, TensorProto.INT64, [1], [0]))
        row, cut = f"{none}: row", f"{none}: cut"
        body.initializer.append(helper.make_tensor(row, TensorProto.INT64, [1], [-1]))
        body.node.append(helper.make_node("Reshape", [condition, row], [f"{none}: whole"]))
        body.node.append(helper.make_node("Slice", [f"{none}: whole", ends, ends], [cut]))
        body.node.append(helper.make_node("Cast", [cut], [none], to=kind))
        body.output.append(helper.make_tensor_value_info(none, kind, None))

    def _stack(self, body: GraphProto, name: str) -> None:
        """One more output of ``body``: a copy, what is inside may be an output already."""
        copy = f"{self.inner[name]}: given"
        body.node.append(helper.make_node("Identity", [self.inner[name]], [copy]))
        rank = self.ranks.get(name)
        sizes = None if rank is None else [None] * rank  # which a Scan has to know
        body.output.append(helper.make_tensor_value_info(copy, self.kinds[name], sizes))

    def _join(self, graph: GraphProto, node: NodeProto, body: GraphProto, name: str) -> None:
        """One more state of the Loop ``node``: all that ``name`` has held so far."""
        kind, inner = self.kinds[name], self.inner[name]
        start, before, flat, after, row = (
            f"{inner}: {what}" for what in ("at first", "before", "flat", "after", "row")
        )
        graph.initializer.append(helper.make_tensor(start, kind, [0], []))
        states = len(node.input) - 2
        node.input.append(start)
        body.input.append(helper.make_tensor_value_info(before, kind, [None]))
        body.initializer.append(helper.make_tensor(row, TensorProto.INT64, [1], [-1]))
        body.node.append(helper.make_node("Reshape", [inner, row], [flat]))
        body.node.append(helper.make_node("Concat", [before, flat], [after], axis=0))
        body.output.insert(1 + states, helper.make_tensor_value_info(after, kind, [None]))
        node.output.insert(states, name)


def _lengthen_ways(node: NodeProto) -> None:
    """One more result of a Scan has axis 0 and goes forward, where it says that of each."""
    for attribute in node.attribute:
        if attribute.name in ("scan_output_axes", "scan_output_directions"):
            attribute.ints.append(0)


def _rename(graph: GraphProto, names: dict[str, str]) -> None:
    """Call tensors of ``graph`` otherwise, in its bodies too."""
    if not names:
        return
    for part in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        part.name = names.get(part.name, part.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)
