"""Shapes inside of bodies, where ONNX's inference knows nothing of constants around them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import onnx

from qpasses.ir.cutting import cut
from qpasses.ir.flow import CARRIED, CARRIED_OUT, COLLECTED, FLOW, JOINED
from qpasses.ir.homes import attribute_of, is_flow
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.splicing import own_names, spliced
from qpasses.ir.unknown_sizes import is_unknown

Infer = Callable[[onnx.ModelProto], onnx.ModelProto]

_ROUNDS = 4
"""So often at most is inferred anew what follows from the results of bodies in bodies."""


def with_inner_shapes(model: onnx.ModelProto, infer: Infer) -> onnx.ModelProto:
    """``model``, whose shapes ``infer`` finds, with those of what its bodies compute.

    A state has the shape it has at first where an iteration that finds it so leaves it so, or
    those sizes of it that are numbers where it is these that are left.
    """
    inferred = infer(model)
    flat = spliced(inferred)
    if flat is inferred:
        return inferred
    flat.opset_import.append(onnx.helper.make_opsetid(FLOW, 1))
    flat, states = infer(flat), dict[str, Shape | None]()
    while True:
        found = flat
        for _ in range(_ROUNDS):
            assumed = _assumed(found, states)
            if assumed is found:
                break
            found = infer(_without_made_up(assumed))
        changed = _changed(found, states)
        if not changed:
            return cut(found)
        states |= changed


def with_states(model: onnx.ModelProto, infer: Infer) -> onnx.ModelProto:
    """``model``, whose bodies say what ``with_inner_shapes`` finds of their tensors.

    Where no other tensor is called the same.
    """
    shaped = with_inner_shapes(model, infer)
    known, computed = dict[str, onnx.ValueInfoProto](), dict[str, onnx.ValueInfoProto]()
    for each in nested_graphs(shaped.graph):
        known.update((value.name, value) for value in each.input)
        computed.update((value.name, value) for value in each.value_info)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    *bodies, whole = nested_graphs(made.graph)
    count = Counter(name for each in (*bodies, whole) for name in own_names(each))
    for each in bodies:
        for value in each.input:
            if count[value.name] == 1 and value.name in known:
                value.CopyFrom(known[value.name])
        written = {name for node in each.node for name in node.output if count[name] == 1}
        kept = [value for value in each.value_info if value.name not in written]
        kept += [computed[name] for name in sorted(written & computed.keys())]
        del each.value_info[:]
        each.value_info.extend(kept)
    return made


def forget_inner_sizes(model: onnx.ModelProto) -> None:
    """Take away what ``model`` says of sizes of inner tensors, and names that are made up.

    Exporters, and inference, make up names for sizes of outputs and in bodies, which have one
    of an input.
    """
    *bodies, whole = nested_graphs(model.graph)
    del whole.value_info[:]
    given = {dim.dim_param for value in whole.input for dim in _dims(value)}
    ends = [(dim, given) for value in whole.output for dim in _dims(value)]
    for each in bodies:
        inner = (*each.input, *each.value_info, *each.output)
        ends += [(dim, set[str]()) for value in inner for dim in _dims(value)]
    for dim, known in ends:
        if dim.dim_param and dim.dim_param not in known:
            dim.Clear()


def _dims(value: onnx.ValueInfoProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    yield from value.type.tensor_type.shape.dim


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


def _assumed(flat: onnx.ModelProto, states: Mapping[str, Shape | None]) -> onnx.ModelProto:
    """``flat`` with shapes of what bodies are given and give; itself if none is new.

    ``states``: what is known of those that an iteration leaves otherwise than at first.
    """
    known, found = _shapes(flat), dict[str, Shape]()
    for node in filter(is_flow, flat.graph.node):
        name = node.output[0]
        shape = states.get(name, _given(node, known))
        if shape and _fixed(shape) > _fixed(known.get(name)):
            found[name] = shape
    return _with_shapes(flat, found) if found else flat


def _without_made_up(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` without names of sizes that inference made up: it would keep them."""
    for value in model.graph.value_info:
        for dim in value.type.tensor_type.shape.dim:
            if is_unknown(dim.dim_param):
                dim.Clear()
    return model


def _given(node: onnx.NodeProto, known: Mapping[str, Shape]) -> Shape | None:
    """The shape that what ``node`` gives has by that of what it is given, if that is known."""
    places = {CARRIED: (0,), CARRIED_OUT: (0, 1), COLLECTED: (0,), JOINED: (1, 2)}
    shapes = [known.get(node.input[place]) for place in places.get(node.op_type, ())]
    shape = shapes[0] if shapes else None
    if len({*shapes}) > 1:
        shape = _common(node.output[0], *shapes) if node.op_type == CARRIED_OUT else None
    if shape is None or node.op_type != COLLECTED:
        return shape
    if attribute_of(node, "axis"):
        return None
    before = known.get(node.output[0]) or (f"{node.output[0]} iterations",)
    return (before[0], *shape)


def _fixed(shape: Shape | None) -> int:
    """How many sizes are numbers; -1 for a shape that is not known."""
    return -1 if shape is None else sum(isinstance(size, int) for size in shape)


def _common(name: str, one: Shape | None, other: Shape | None) -> Shape | None:
    """What two shapes have in common, sizes of their own of ``name`` elsewhere; or nothing."""
    if one is None or other is None or len(one) != len(other):
        return None
    pairs = enumerate(zip(one, other, strict=True))
    shape = tuple(a if a == b else f"{name} size {axis}" for axis, (a, b) in pairs)
    return shape if any(isinstance(size, int) for size in shape) else None


def _changed(
    flat: onnx.ModelProto, states: Mapping[str, Shape | None]
) -> dict[str, Shape | None]:
    """States that iterations leave otherwise than ``states`` say, and what stays of them."""
    known, changed = _shapes(flat), dict[str, Shape | None]()
    for node in _leaving(flat):
        end, state = (known.get(name) for name in node.input[:2])
        name = node.input[1]
        if end == state or (name in states and _holds(states[name], end)):
            continue
        changed[name] = None if name in states else _common(name, state, end)
    return changed


def _holds(state: Shape | None, end: Shape | None) -> bool:
    """Whether the numbers of ``state`` are sizes of ``end``; nothing is said of no state."""
    if state is None:
        return True
    pairs = [] if end is None or len(end) != len(state) else zip(state, end, strict=True)
    found = [a == b for a, b in pairs if isinstance(a, int)]
    return bool(found) and all(found)


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
