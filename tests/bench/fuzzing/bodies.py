"""Cases with branches and loops: a part of a random float graph becomes the body of one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

import qpasses
from opsets.errors import DataError, QPassesError
from tests.bench.fuzzing.builder import Arrays
from tests.bench.fuzzing.graphs import Case, case, every_tensor, is_legal
from tests.bench.fuzzing.judge import Failure, Seen, reported, verified

BODIES = 77
"""What tells the draws of this file from others of the same seed and number."""

MOST_TRIPS = 4


def body_case(seed: int, number: int) -> Case | None:
    """Case ``number`` of ``seed`` with a body; None where there is no such part."""
    made = case(seed, number)
    if made is None:
        return None
    rng = np.random.default_rng([seed, number, BODIES])
    for _ in range(int(rng.integers(1, 3))):
        wrapped = _wrapped(made, rng)
        if wrapped is not None and is_legal(wrapped):
            made = wrapped
    return _with_sequences(made, rng) if made.has_bodies else None


def _with_sequences(made: Case, rng: np.random.Generator) -> Case:
    """``made``, where Loops insert some of what they give in sequences, as PyTorch has it."""
    model = onnx.ModelProto()
    model.CopyFrom(made.model)
    nodes = list[onnx.NodeProto]()
    for node in model.graph.node:
        nodes.append(node)
        is_read_at = node.op_type == "Gather" and rng.random() < 0.5
        if node.op_type == "Loop":
            given = node.output[len(node.input) - 2 :]
            for name in [each for each in given if rng.random() < 0.5]:
                begin, end = _inserted(node, name)
                nodes[-1:-1] = [begin]
                nodes.append(end)
        joins = [each for each in nodes if each.op_type == "ConcatFromSequence"]
        join = next((each for each in joins if each.output[0] in node.input[:1]), None)
        if join is not None and is_read_at and node.input[1].endswith("last"):
            node.op_type, node.input[0] = "SequenceAt", join.input[0]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return replace(made, model=model)


def _inserted(loop: onnx.NodeProto, name: str) -> tuple[onnx.NodeProto, onnx.NodeProto]:
    """Let ``loop`` insert its output ``name``: what begins the sequence, and what joins it."""
    (body,) = (each.g for each in loop.attribute if each.name == "body")
    states, place = len(loop.input) - 2, [*loop.output].index(name)
    given = [each.SerializeToString() for each in body.output]
    others = [onnx.ValueInfoProto.FromString(each) for each in given]
    step = others.pop(1 + place)
    kind, listed = step.type.tensor_type.elem_type, f"{name}_listed"
    ends = [f"{name}_before", f"{name}_after"]
    infos = [helper.make_tensor_sequence_value_info(end, kind, None) for end in ends]
    body.node.append(helper.make_node("SequenceInsert", [ends[0], step.name], ends[1:]))
    body.node[-1].name = f"{name}_insert"
    body.input.append(infos[0])
    del body.output[:]
    body.output.extend([*others[: 1 + states], infos[1], *others[1 + states :]])
    results = [each for each in loop.output if each != name]
    results.insert(states, listed)
    begin = helper.make_node(
        "SequenceEmpty", [], [f"{name}_none"], f"{name}_begin", dtype=kind
    )
    loop.input.append(begin.output[0])
    loop.output[:] = results
    join = helper.make_node(
        "ConcatFromSequence", [listed], [name], f"{name}_join", axis=0, new_axis=1
    )
    return begin, join


def judge_bodies(made: Case, seen: Seen | None = None) -> Failure | None:
    """quantize and verify agree on it, and each float node has its reason."""
    seen = seen or Seen()
    seen.float_ops.update(node.op_type for node in made.model.graph.node)
    try:
        result = qpasses.quantize(made.model, list(made.feeds), **made.options)
    except DataError as error:
        seen.refusals[str(error)[:60]] += 1
        return None
    except QPassesError as error:
        if "matches no tensor that is stored" in str(error):
            seen.refusals["no tensor of these types"] += 1
            return None
        return Failure(f"quantize refuses: {type(error).__name__}", str(error))
    except Exception as error:
        return Failure(f"quantize: {type(error).__name__}", str(error))
    seen.verdicts[result.verdict] += 1
    seen.integer_ops.update(each.op for each in result.evidence)
    failure = reported(result)
    assert result.model is not None
    if failure is not None or made.options.get("emit", "integer") != "integer":
        return failure
    return verified(replace(made, feeds=made.feeds[::-1]), result.model, result.verdict)


@dataclass(frozen=True)
class _Part:
    """Nodes that follow one another; what varies of what they read, and what others read."""

    nodes: Sequence[onnx.NodeProto]
    reads: Sequence[str]
    gives: Sequence[str]


def _wrapped(made: Case, rng: np.random.Generator) -> Case | None:
    graph, count = made.model.graph, len(made.model.graph.node)
    first = int(rng.integers(count))
    last = int(rng.integers(first, count)) + 1
    part = _part(graph, range(first, last))
    values = every_tensor(made)[0]
    floats = [name for name in part.reads if values[name].dtype == np.float32]
    if not part.gives or not floats or any(not values[name].ndim for name in part.gives):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(made.model)
    number = sum(each.op_type in ("If", "Loop", "Scan") for each in graph.node)
    ways = (_branches, _loop, _loop, _scan)
    way = ways[int(rng.integers(len(ways)))]
    feeds = [dict(each) for each in made.feeds]
    new = way(_Site(model, part, str(rng.choice(floats)), values, feeds, f"b{number}", rng))
    nodes = [*graph.node[:first], *new, *graph.node[last:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return replace(made, model=model, feeds=feeds, has_bodies=True)


def _part(graph: onnx.GraphProto, places: range) -> _Part:
    nodes = [graph.node[place] for place in places]
    own = {name for node in nodes for name in node.output if name}
    others = [n for k, node in enumerate(graph.node) if k not in places for n in node.input]
    wanted = {*others, *(value.name for value in graph.output)}
    constants = {tensor.name for tensor in graph.initializer}
    read = dict.fromkeys(n for node in nodes for n in node.input if n)
    gives = [name for node in nodes for name in node.output if name in own & wanted]
    return _Part(nodes, [n for n in read if n not in own | constants], gives)


def _copies(part: _Part, mark: str, **renamed: str) -> list[onnx.NodeProto]:
    """The nodes, with other names for what they write, and ``renamed`` for what they read."""
    names = {name: f"{mark}{name}" for node in part.nodes for name in node.output if name}
    names |= renamed
    found = []
    for node in part.nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{mark}{node.name}"
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names.get(name, name) for name in node.output]
        found.append(copy)
    return found


def _info(name: str, value: NDArray[Any]) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, [None] * value.ndim)


def _flag(model: onnx.ModelProto, feeds: Sequence[Arrays], mark: str) -> str:
    """A new input that says which branch is taken: in turns, or always the same."""
    name, alike = f"{mark}flag", len(mark) % 5 == 0
    model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.BOOL, []))
    for place, feed in enumerate(feeds):
        feed[name] = np.array(alike or place % 2 == 0)
    return name


@dataclass(frozen=True)
class _Site:
    """A part of ``model`` that becomes a body, whose state takes the place of ``start``."""

    model: onnx.ModelProto
    part: _Part
    start: str
    values: Arrays
    feeds: Sequence[Arrays]
    mark: str
    rng: np.random.Generator


def _branches(at: _Site) -> list[onnx.NodeProto]:
    part, values, mark, rng = at.part, at.values, at.mark, at.rng
    bodies = dict[str, Any]()
    for branch in ("then", "else"):
        nodes = _copies(part, f"{mark}{branch}_")
        ends = [f"{mark}{branch}_{name}" for name in part.gives]
        for place, name in enumerate(part.gives):
            if branch == "else" and values[name].dtype == np.float32 and rng.random() < 0.7:
                ends[place] += "_other"
                op = str(rng.choice(["Neg", "Relu", "Tanh", "Identity"]))
                nodes.append(helper.make_node(op, [f"{mark}else_{name}"], [ends[place]]))
        infos = [_info(end, values[name]) for end, name in zip(ends, part.gives, strict=True)]
        bodies[f"{branch}_branch"] = helper.make_graph(nodes, branch, [], infos)
    flag = _flag(at.model, at.feeds, mark)
    return [helper.make_node("If", [flag], part.gives, f"{mark}if", **bodies)]


def _state(at: _Site) -> list[onnx.NodeProto]:
    """The nodes that make the next state of one that is read instead of ``start``."""
    part, start, values, mark, rng = at.part, at.start, at.values, at.mark, at.rng
    alike = [
        name
        for name in part.gives
        if values[name].dtype == np.float32 and values[name].shape == values[start].shape
    ]
    source = (
        f"{mark}in_{rng.choice(alike)}" if alike and rng.random() < 0.7 else f"{mark}state"
    )
    op = str(rng.choice(["Tanh", "Sigmoid", "Relu", "Neg", "Identity"]))
    return [helper.make_node(op, [source], [f"{mark}next"])]


def _last(at: _Site) -> list[onnx.NodeProto]:
    """The last of what iterations gave, under the names that others read."""
    model, part, mark = at.model, at.part, at.mark
    last = numpy_helper.from_array(np.array(-1), f"{mark}last")
    model.graph.initializer.append(last)
    return [
        helper.make_node(
            "Gather", [f"{mark}all_{name}", last.name], [name], f"{mark}last_{name}"
        )
        for name in part.gives
    ]


def _loop(at: _Site) -> list[onnx.NodeProto]:
    model, part, start, values = at.model, at.part, at.start, at.values
    feeds, mark, rng = at.feeds, at.mark, at.rng
    nodes = _copies(part, f"{mark}in_", **{start: f"{mark}state"})
    nodes += _state(at)
    nodes.append(helper.make_node("Identity", [f"{mark}on"], [f"{mark}goes_on"]))
    inputs = [
        helper.make_tensor_value_info(f"{mark}i", TensorProto.INT64, []),
        helper.make_tensor_value_info(f"{mark}on", TensorProto.BOOL, []),
        _info(f"{mark}state", values[start]),
    ]
    ends = [helper.make_tensor_value_info(f"{mark}goes_on", TensorProto.BOOL, [])]
    ends.append(_info(f"{mark}next", values[start]))
    ends += [_info(f"{mark}in_{name}", values[name]) for name in part.gives]
    body = helper.make_graph(nodes, "body", inputs, ends)
    trips = f"{mark}trips"
    if rng.random() < 0.5:
        model.graph.input.append(helper.make_tensor_value_info(trips, TensorProto.INT64, []))
        for feed in feeds:
            feed[trips] = np.array(int(rng.integers(1, MOST_TRIPS)))
    else:
        count = np.array(int(rng.integers(1, MOST_TRIPS)))
        model.graph.initializer.append(numpy_helper.from_array(count, trips))
    results = [f"{mark}end", *(f"{mark}all_{name}" for name in part.gives)]
    if rng.random() < 0.3:
        model.graph.output.append(_info(f"{mark}end", values[start]))
    node = helper.make_node("Loop", [trips, "", start], results, f"{mark}loop", body=body)
    return [node, *_last(at)]


def _scan(at: _Site) -> list[onnx.NodeProto]:
    model, part, start, values = at.model, at.part, at.start, at.values
    feeds, mark, rng = at.feeds, at.mark, at.rng
    shape = values[start].shape
    nodes = [helper.make_node("Add", [f"{mark}state", f"{mark}element"], [f"{mark}sum"])]
    nodes += _copies(part, f"{mark}in_", **{start: f"{mark}sum"})
    nodes += _state(at)
    inputs = [_info(f"{mark}{name}", values[start]) for name in ("state", "element")]
    ends = [_info(f"{mark}next", values[start])]
    ends += [_info(f"{mark}in_{name}", values[name]) for name in part.gives]
    body = helper.make_graph(nodes, "body", inputs, ends)
    steps = int(rng.integers(1, MOST_TRIPS))
    sequence = f"{mark}sequence"
    sizes = [steps, *shape]
    model.graph.input.append(helper.make_tensor_value_info(sequence, TensorProto.FLOAT, sizes))
    for feed in feeds:
        feed[sequence] = rng.standard_normal(sizes).astype(np.float32)
    results = [f"{mark}end", *(f"{mark}all_{name}" for name in part.gives)]
    backwards: dict[str, Any] = {"scan_input_directions": [1]} if rng.random() < 0.3 else {}
    node = helper.make_node(
        *("Scan", [start, sequence], results, f"{mark}scan"),
        body=body,
        num_scan_inputs=1,
        **backwards,
    )
    return [node, *_last(at)]
