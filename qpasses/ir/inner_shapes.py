"""Shapes inside of bodies, where ONNX's inference knows nothing of constants around them."""

from collections.abc import Callable, Container, Iterator, Mapping

import onnx

from qpasses.ir.cutting import cut
from qpasses.ir.flow import CARRIED, CARRIED_OUT, COLLECTED, FLOW, JOINED
from qpasses.ir.homes import attribute_of, is_flow
from qpasses.ir.splicing import spliced

Infer = Callable[[onnx.ModelProto], onnx.ModelProto]

_ROUNDS = 4
"""So often at most is inferred anew what follows from the results of bodies in bodies."""


def with_inner_shapes(model: onnx.ModelProto, infer: Infer) -> onnx.ModelProto:
    """``model``, whose shapes ``infer`` finds, with those of what its bodies compute.

    A state has the shape it has at first where an iteration that finds it so leaves it so.
    """
    inferred = infer(model)
    flat = spliced(inferred)
    if flat is inferred:
        return inferred
    flat.opset_import.append(onnx.helper.make_opsetid(FLOW, 1))
    flat, refused = infer(flat), set[str]()
    while True:
        found = flat
        for _ in range(_ROUNDS):
            assumed = _assumed(found, refused)
            if assumed is found:
                break
            found = infer(assumed)
        wrong = {*_changing(found)} - refused
        if not wrong:
            return cut(found)
        refused |= wrong


Shape = tuple[int | str, ...]


def _shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """Those that are known in all dimensions, by name of the tensor."""
    graph, found = model.graph, dict[str, Shape]()
    found.update((each.name, tuple(each.dims)) for each in graph.initializer)
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        dims = [each.dim_value or each.dim_param for each in kind.shape.dim]
        if kind.HasField("shape") and all(dims):
            found[value.name] = tuple(dims)
    return found


def _assumed(flat: onnx.ModelProto, refused: Container[str]) -> onnx.ModelProto:
    """``flat`` with shapes of what bodies are given and give; itself if none is new.

    ``refused``: states that an iteration leaves otherwise.
    """
    known, found = _shapes(flat), dict[str, Shape]()
    for node in filter(is_flow, flat.graph.node):
        name, shape = node.output[0], _given(node, known)
        if shape and name not in refused and _fixed(shape) > _fixed(known.get(name)):
            found[name] = shape
    return _with_shapes(flat, found) if found else flat


def _given(node: onnx.NodeProto, known: Mapping[str, Shape]) -> Shape | None:
    """The shape that what ``node`` gives has by that of what it is given, if that is known."""
    places = {CARRIED: (0,), CARRIED_OUT: (0, 1), COLLECTED: (0,), JOINED: (1, 2)}
    shapes = {known.get(node.input[place]) for place in places.get(node.op_type, ())}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or node.op_type != COLLECTED:
        return shape
    if attribute_of(node, "axis"):
        return None
    before = known.get(node.output[0]) or (f"{node.output[0]} iterations",)
    return (before[0], *shape)


def _fixed(shape: Shape | None) -> int:
    """How many sizes are numbers; -1 for a shape that is not known."""
    return -1 if shape is None else sum(isinstance(size, int) for size in shape)


def _changing(flat: onnx.ModelProto) -> list[str]:
    """States that an iteration gives another shape, or one that is not known."""
    known = _shapes(flat)
    ends = [node.input for node in _leaving(flat)]
    return [found for given, found, *_ in ends if known.get(given) != known.get(found)]


def _leaving(flat: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return (n for n in flat.graph.node if is_flow(n) and n.op_type == CARRIED_OUT)


def _with_shapes(flat: onnx.ModelProto, shapes: dict[str, Shape]) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(flat)
    for value in (*made.graph.value_info, *made.graph.output):
        if value.name in shapes and value.type.HasField("tensor_type"):
            kind = value.type.tensor_type
            kind.shape.CopyFrom(onnx.TensorShapeProto())
            for size in shapes[value.name]:
                if isinstance(size, int):
                    kind.shape.dim.add(dim_value=size)
                else:
                    kind.shape.dim.add(dim_param=size)
    return made
