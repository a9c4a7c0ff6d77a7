"""Faults in the structure: attributes, edges, nodes, bodies, declarations."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from opsets.fixed_point import ROUNDINGS
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from tests.bench.mutation.fault import Fault, Model, one_of

Random = np.random.Generator
Types = Mapping[str, Hashable]


def change_attribute(model: Model, rng: Random) -> Fault | None:
    """One attribute of one node gets another value, or goes."""
    return _attribute("attribute", model.graph.node, rng)


def _attribute(kind: str, nodes: Sequence[onnx.NodeProto], rng: Random) -> Fault | None:
    node = one_of([each for each in nodes if each.attribute], rng)
    if node is None:
        return None
    position = int(rng.integers(len(node.attribute)))
    attribute = node.attribute[position]
    old, new = _text(attribute), "none"
    if rng.random() < 0.2:
        del node.attribute[position]
    else:
        _alter(attribute, rng)
        new = _text(attribute)
    return Fault(kind, node.name or node.output[0], f"{node.op_type}:", old, new)


def _text(attribute: AttributeProto) -> str:
    return str(helper.printable_attribute(attribute))


def _alter(attribute: AttributeProto, rng: Random) -> None:
    step = int(rng.choice([-1, 1]))
    if attribute.ref_attr_name:
        attribute.ref_attr_name += "_"
    elif attribute.type == AttributeProto.INT:
        attribute.i += step
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        attribute.ints[int(rng.integers(len(attribute.ints)))] += step
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f += step
    elif attribute.type == AttributeProto.STRING:
        others = [each for each in ROUNDINGS if each.encode() != attribute.s]
        attribute.s = others[int(rng.integers(len(others)))].encode()
    elif attribute.type == AttributeProto.TENSOR and all(attribute.t.dims):
        values = numpy_helper.to_array(attribute.t).copy()
        values.reshape(-1)[int(rng.integers(values.size))] += 1
        attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))
    else:
        attribute.name += "_"


def rewire(model: Model, rng: Random) -> Fault | None:
    """One node reads another tensor of the same type and shape."""
    types, alike = _types(model), defaultdict(list)
    for name, kind in types.items():
        alike[kind].append(name)
    found = one_of(
        [
            (node, position)
            for node in model.graph.node
            for position, name in enumerate(node.input)
            if name in types and len(alike[types[name]]) > 1
        ],
        rng,
    )
    if found is None:
        return None
    node, position = found
    old = node.input[position]
    others = [each for each in alike[types[old]] if each != old]
    node.input[position] = others[int(rng.integers(len(others)))]
    return Fault("edge", node.name, f"input {position}", old, node.input[position])


def _types(model: Model) -> dict[str, Hashable]:
    """Type and shape of each tensor."""
    found: dict[str, Hashable] = {
        tensor.name: (tensor.data_type, *tensor.dims) for tensor in model.graph.initializer
    }
    for value in [*model.graph.input, *model.graph.value_info, *model.graph.output]:
        tensor = value.type.tensor_type
        shape = [each.dim_value or each.dim_param for each in tensor.shape.dim]
        found[value.name] = (tensor.elem_type, *shape)
    return found


def swap_inputs(model: Model, rng: Random) -> Fault | None:
    """Two inputs of one node change places, mostly of one type and shape."""
    return _swap("swapped inputs", model.graph.node, _types(model), rng)


def _swap(
    kind: str, nodes: Sequence[onnx.NodeProto], types: Types, rng: Random
) -> Fault | None:
    pairs = [
        (node, i, j)
        for node in nodes
        for j in range(len(node.input))
        for i in range(j)
        if node.input[i] != node.input[j]
    ]
    alike = [
        (node, i, j) for node, i, j in pairs if _alike(types, node.input[i], node.input[j])
    ]
    found = one_of(alike if alike and rng.random() < 0.8 else pairs, rng)
    if found is None:
        return None
    node, i, j = found
    old = node.input[i], node.input[j]
    node.input[i], node.input[j] = old[1], old[0]
    place = node.name or node.output[0]
    return Fault(kind, place, f"{node.op_type} {i}, {j}", ", ".join(old), ", ".join(old[::-1]))


def _alike(types: Types, one: str, other: str) -> bool:
    return one in types and types[one] == types.get(other)


def drop_node(model: Model, rng: Random) -> Fault | None:
    """One node goes; what read its output reads its first input."""
    ends = {value.name for value in model.graph.output}
    droppable = [node for node in model.graph.node if not ends & {*node.output}]
    node = one_of(droppable, rng)
    if node is None:
        return None
    source, written = node.input[0], node.output[0]
    fault = Fault("dropped node", node.name, node.op_type, written, source)
    model.graph.node.remove(node)
    for reader in model.graph.node:
        for position, name in enumerate(reader.input):
            if name == written:
                reader.input[position] = source
    return fault


def other_body(model: Model, rng: Random) -> Fault | None:
    """One node calls another declared body of its op, which is attached."""
    node = one_of([each for each in model.graph.node if each.domain == DOMAIN], rng)
    if node is None:
        return None
    op, old = OPS[node.op_type], node.overload
    body = one_of([each for each in op.bodies if each.overload != old], rng)
    if body is None:
        return None
    node.overload = body.overload
    if (op.name, body.overload) not in {(f.name, f.overload) for f in model.functions}:
        opset = next(each.version for each in model.opset_import if each.domain == "")
        model.functions.append(op.function(body, opset))
    return Fault("other body", node.name, op.name, old, node.overload)


def change_body(model: Model, rng: Random) -> Fault | None:
    """One statement of one function body changes."""
    function = one_of(model.functions, rng)
    if function is None:
        return None
    whole = f"{function.name}:{function.overload}"
    change = one_of([_statement_op, _statement_attribute, _statement_inputs, _statement], rng)
    fault = change(function, rng) if change else None
    return fault and Fault("changed body", whole, fault.what, fault.old, fault.new)


def _statement_attribute(function: onnx.FunctionProto, rng: Random) -> Fault | None:
    return _attribute("", function.node, rng)


def _statement_inputs(function: onnx.FunctionProto, rng: Random) -> Fault | None:
    return _swap("", function.node, {}, rng)


def _statement_op(function: onnx.FunctionProto, rng: Random) -> Fault | None:
    node = one_of([each for each in function.node if each.op_type in OPPOSITES], rng)
    if node is None:
        return None
    old, node.op_type = node.op_type, OPPOSITES[node.op_type]
    return Fault("", "", node.output[0], old, node.op_type)


OPPOSITES = {
    **{"Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Max": "Min", "Min": "Max"},
    **{"Floor": "Ceil", "Round": "Floor", "Less": "Greater", "Greater": "Less"},
    **{"And": "Or", "Or": "And", "Relu": "Abs", "Gather": "GatherElements"},
}


def _statement(function: onnx.FunctionProto, rng: Random) -> Fault | None:
    """A statement goes, and what it writes is another name for what it reads."""
    node = one_of([each for each in function.node if each.input], rng)
    if node is None:
        return None
    old = node.op_type
    written = node.output[0]
    node.CopyFrom(helper.make_node("Identity", [node.input[0]], [written]))
    return Fault("", "", written, old, node.op_type)


def declare(model: Model, rng: Random) -> Fault | None:
    """What the file declares: types and sizes of tensors, versions, or a part twice."""
    change = one_of([_declared_type, _declared_size, _version, _twice], rng)
    return change(model, rng) if change else None


def _declared_type(model: Model, rng: Random) -> Fault | None:
    graph = model.graph
    value = one_of([*graph.value_info, *graph.output, *graph.input], rng)
    if value is None:
        return None
    tensor = value.type.tensor_type
    old, tensor.elem_type = tensor.elem_type, int(rng.choice([1, 2, 3, 6, 7]))
    return Fault("declaration", value.name, "type", str(old), str(tensor.elem_type))


def _declared_size(model: Model, rng: Random) -> Fault | None:
    graph = model.graph
    values = [*graph.value_info, *graph.output, *graph.input]
    value = one_of([each for each in values if each.type.tensor_type.shape.dim], rng)
    if value is None:
        return None
    sizes = value.type.tensor_type.shape.dim
    size = sizes[int(rng.integers(len(sizes)))]
    old = str(size.dim_value or size.dim_param)
    size.dim_value = size.dim_value + 1
    return Fault("declaration", value.name, "size", old, str(size.dim_value))


def _version(model: Model, rng: Random) -> Fault | None:
    step = int(rng.choice([-1, 1]))
    bodies = [each for function in model.functions for each in function.opset_import]
    imported = one_of([*model.opset_import, *bodies], rng)
    if imported is None or rng.random() < 0.1:
        old = model.ir_version
        model.ir_version += step
        return Fault("declaration", "the model", "IR version", str(old), str(model.ir_version))
    old = imported.version
    imported.version += step
    return Fault("declaration", imported.domain, "version", str(old), str(imported.version))


def _twice(model: Model, rng: Random) -> Fault | None:
    """A second part under the name of one that is there, in front of it or behind it."""
    kind = str(
        rng.choice(["initializer", "functions", "node", "value_info", "metadata_props"])
    )
    owner = model if kind in ("functions", "metadata_props") else model.graph
    parts = getattr(owner, kind)
    part = one_of(parts, rng)
    if part is None:
        return None
    copy = type(part)()
    copy.CopyFrom(part)
    if kind == "initializer":
        values = numpy_helper.to_array(part).copy().reshape(-1)
        values[:1] = values[:1] == 0
        values = values.reshape(part.dims)
        copy.CopyFrom(numpy_helper.from_array(values, part.name))
    elif kind == "functions":
        copy.node[-1].input[0] = copy.node[-1].input[-1]
    elif kind == "node":
        copy.input[0] = copy.input[-1]
    elif kind == "metadata_props":
        copy.value = "{}"
    else:
        copy.type.tensor_type.elem_type = 1
    where = int(rng.integers(2)) * len(parts)
    parts.insert(where, copy)
    name = copy.key if kind == "metadata_props" else copy.name
    return Fault("declaration", name, f"a second of {kind}", "one", f"two, new at {where}")
