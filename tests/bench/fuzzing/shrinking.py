"""Making a failing case small: fewer outputs and nodes, smaller sizes, plainer numbers."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opsets.errors import QPassesError
from tests.bench.fuzzing.builder import Arrays
from tests.bench.fuzzing.graphs import Case, every_tensor, is_legal
from tests.bench.fuzzing.judge import Failure
from tests.bench.fuzzing.judge_any import judge_any

MOST_TRIES = 300


def shrunk(case: Case, failure: Failure) -> tuple[Case, Failure]:
    """A case with a failure of the same kind that no single step makes smaller."""
    tries, progressing = 0, True
    while progressing:
        progressing = False
        for smaller in _smaller(case):
            tries += 1
            if tries > MOST_TRIES:
                return case, failure
            found = judge_any(smaller) if is_legal(smaller) else None
            if found is not None and found.kind == failure.kind:
                case, failure, progressing = smaller, found, True
                break
    return case, failure


def _smaller(case: Case) -> Iterator[Case]:
    for step in (_fewer_options, _fewer_outputs, _cut, _bypassed, _sizes, _plainer):
        for candidate in step(case):
            if (tidied := _tidied(candidate)) is not None:
                yield tidied


def _copy(case: Case) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(case.model)
    return copy


def _fewer_options(case: Case) -> Iterator[Case]:
    for name in case.options:
        left = {key: value for key, value in case.options.items() if key != name}
        yield replace(case, model=_copy(case), options=left)
    if len(case.feeds) > 1:
        yield case.with_model(_copy(case), case.feeds[:1])


def _fewer_outputs(case: Case) -> Iterator[Case]:
    for position in range(len(case.model.graph.output)):
        if len(case.model.graph.output) > 1:
            model = _copy(case)
            del model.graph.output[position]
            yield case.with_model(model, case.feeds)


def _cut(case: Case) -> Iterator[Case]:
    """Tensors become inputs, with what they were as samples; or outputs, the last ones."""
    values = _every_tensor(case)
    for node in reversed(case.model.graph.node):
        model = _copy(case)
        gone = next(n for n in model.graph.node if n.output[0] == node.output[0])
        model.graph.node.remove(gone)
        ends = {value.name for value in model.graph.output}
        if ends & {*node.output} or values[0][node.output[0]].dtype != np.float32:
            for name in [name for name in node.output if name in ends]:
                model.graph.output.remove(
                    next(v for v in model.graph.output if v.name == name)
                )
            sources = [n for n in node.input if n in values[0] and n not in ends]
            written = {name for each in model.graph.node for name in each.output}
            for name in dict.fromkeys(n for n in sources if n in written):
                kind = helper.np_dtype_to_tensor_dtype(values[0][name].dtype)
                model.graph.output.append(
                    helper.make_tensor_value_info(name, kind, [None] * values[0][name].ndim)
                )
            yield case.with_model(model, case.feeds)
            continue
        feeds = [dict(feed) for feed in case.feeds]
        for name in filter(None, node.output):
            kind = helper.np_dtype_to_tensor_dtype(values[0][name].dtype)
            model.graph.input.append(
                helper.make_tensor_value_info(name, kind, values[0][name].shape)
            )
            for feed, found in zip(feeds, values, strict=True):
                feed[name] = found[name]
        yield case.with_model(model, feeds)


def _bypassed(case: Case) -> Iterator[Case]:
    values = _every_tensor(case)
    ends = {value.name for value in case.model.graph.output}
    for position, node in enumerate(case.model.graph.node):
        target = node.output[0]
        for source in node.input:
            known = values[0].get(source)
            if known is None or known.shape != values[0][target].shape or target in ends:
                continue
            model = _copy(case)
            del model.graph.node[position]
            for reader in model.graph.node:
                reader.input[:] = [source if name == target else name for name in reader.input]
            yield case.with_model(model, case.feeds)


def _sizes(case: Case) -> Iterator[Case]:
    """One size becomes smaller wherever it stands."""
    arrays = [numpy_helper.to_array(t) for t in case.model.graph.initializer]
    sizes = {n for value in [*case.feeds[0].values(), *arrays] for n in value.shape if n > 1}
    for size in sorted(sizes, reverse=True):
        for less in dict.fromkeys([1, size // 2, size - 1]):
            yield _resized(case, size, less)


def _resized(case: Case, size: int, less: int) -> Case:
    model = _copy(case)

    def cut(value: np.ndarray) -> np.ndarray:
        return value[tuple(slice(less if n == size else None) for n in value.shape)]

    for tensor in model.graph.initializer:
        value = numpy_helper.to_array(tensor)
        if value.dtype == np.int64:
            value = np.where(value == size, less, value)
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(cut(value)), tensor.name))
    feeds = [{name: cut(value) for name, value in feed.items()} for feed in case.feeds]
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value == size:
                dim.dim_value = less
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("group", "kernel_shape"):
                attribute.ints[:] = [less if n == size else n for n in attribute.ints]
                attribute.i = less if attribute.i == size else attribute.i
    return case.with_model(model, feeds)


def _plainer(case: Case) -> Iterator[Case]:
    """Constants and samples of fewer digits; attributes go."""
    for position, tensor in enumerate(case.model.graph.initializer):
        value = numpy_helper.to_array(tensor)
        if value.dtype != np.float32:
            continue
        for plain in (np.ones_like(value), np.rint(value), np.round(value, 1)):
            if not np.array_equal(plain, value):
                model = _copy(case)
                changed = numpy_helper.from_array(plain, tensor.name)
                model.graph.initializer[position].CopyFrom(changed)
                yield case.with_model(model, case.feeds)
    rounded = [
        {n: np.round(v, 1) if v.dtype == np.float32 else v for n, v in feed.items()}
        for feed in case.feeds
    ]
    if any(
        not np.array_equal(a[n], b[n])
        for a, b in zip(rounded, case.feeds, strict=True)
        for n in a
    ):
        yield case.with_model(_copy(case), rounded)
    for i, node in enumerate(case.model.graph.node):
        for j in range(len(node.attribute)):
            model = _copy(case)
            del model.graph.node[i].attribute[j]
            yield case.with_model(model, case.feeds)


def _tidied(case: Case) -> Case | None:
    """Without nodes, constants and inputs that nothing reads; None if nothing is left."""
    graph = case.model.graph
    while True:
        read = {name for node in graph.node for name in node.input}
        read |= {value.name for value in graph.output}
        dead = [node for node in graph.node if not read & {*node.output}]
        if not dead:
            break
        for node in dead:
            graph.node.remove(node)
    for part in (graph.initializer, graph.input):
        for each in [each for each in part if each.name not in read]:
            part.remove(each)
    names = {value.name for value in graph.input}
    feeds: list[Arrays] = [
        {n: v for n, v in feed.items() if n in names} for feed in case.feeds
    ]
    return (
        case.with_model(case.model, feeds) if graph.node and graph.output and names else None
    )


def _every_tensor(case: Case) -> list[Arrays]:
    try:
        return every_tensor(case)
    except QPassesError:
        return []
