"""Q/DQ graphs on samples: sessions of them, and the second moments of what matrices read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import onnx
from numpy.typing import NDArray

from calibration import Samples, Session
from calibration.collect import cores
from opsets.errors import ModelError
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import prepared_model
from qpasses.ir.progress import Advance
from qpasses.recover.matrices import Matrix
from qpasses.recover.second_moments import Moments

T = TypeVar("T")

AT_ONCE = 256 << 20
"""Moments of so many bytes are summed in one walk over the samples."""


def walks(matrices: Sequence[Matrix]) -> list[list[Matrix]]:
    """Those whose moments are summed at once."""
    found: list[list[Matrix]] = []
    left = 0
    for each in matrices:
        if each.moment_bytes > left:
            found.append([])
            left = AT_ONCE
        found[-1].append(each)
        left -= each.moment_bytes
    return found


def moments_on(
    graph: Graph, walk: Sequence[Matrix], samples: Samples, advance: Advance
) -> list[Moments]:
    """The second moments of what the matrices read; ``advance`` is told of each sample."""
    sums = [Moments(each.groups, each.size) for each in walk]
    for position, found in enumerate(_inputs(graph, walk, samples)):
        for each, moments in zip(walk, sums, strict=True):
            each.observe(found[each.node.inputs[0].name], position, moments)
        advance()
    return sums


def _inputs(
    graph: Graph, walk: Sequence[Matrix], samples: Samples
) -> Iterator[Mapping[str, NDArray[Any]]]:
    names = list(dict.fromkeys(each.node.inputs[0].name for each in walk))
    session = session_of(prepared_model(graph), names)
    for sample, feed in samples:
        yield dict(zip(names, session.run(names, feed, sample), strict=True))


def each_of(count: int, run: Callable[[int], T]) -> list[T]:
    """What ``run`` gives for so many samples, by place; one for each core at once."""
    with ThreadPoolExecutor(cores()) as threads:
        return [*threads.map(run, range(count))]


def session_of(model: onnx.ModelProto, names: Sequence[str], **options: Any) -> Session:
    """One that gives the tensors ``names``, by int8 kernels.

    But for scales of channels and weights in float: onnxruntime's optimizer makes kernels of
    these too, which refuse more scales than one, and have the weights rounded.
    """
    constants = {each.name for each in model.graph.initializer}
    plain = any(
        each.attribute if each.op_type == "QuantizeLinear" else each.input[1] in constants
        for each in model.graph.node
        if each.op_type in ("QuantizeLinear", *_MULTIPLYING)
    )
    config = {"session.disable_quant_qdq": "1"} if plain else {}
    graph = model.graph
    known = {each.name: each for each in (*graph.value_info, *graph.input, *graph.output)}
    outputs = [known.get(name, onnx.ValueInfoProto(name=name)) for name in names]
    options |= {"outputs": outputs, "config": config}
    for less in _OPTIMIZED:
        with suppress(ModelError):
            return Session(model, **less, **options)
    return Session(model, optimize=False, **options)


_OPTIMIZED: Sequence[Mapping[str, Any]] = ({}, {"layouts": False})
"""As far as can be: onnxruntime's layouts make Resizes of some axes, which it refuses then."""


_MULTIPLYING = ("Conv", "Gemm", "MatMul")
