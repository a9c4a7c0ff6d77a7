"""Step ranges: where a function jumps, its input gets codes on the right sides of the jump."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, floor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibration import Range
from qpasses.ir.edges import dequantize, quantize
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node
from qpasses.ir.settings import Settings
from qpasses.place.chains import find_chains
from qpasses.place.planning import Plan
from qpasses.place.ranges import STEPS, Ranges
from qpasses.place.tensor_parameters import activation_parameters, step_of

_TRIED = 64
"""So many scales are looked at for one that float32 does not spoil."""


@dataclass(frozen=True)
class Steps:
    """Where a function jumps in a range, and the scales to try, from ``least`` upwards."""

    points: Callable[[Range], NDArray[Any]]
    scales: Callable[[float], Iterator[float]]


def with_step_ranges(graph: Graph, chosen: Plan, found: Ranges, settings: Settings) -> Ranges:
    """``found``, what functions with steps read widened a little.

    Round: a scale of 1 / m, m = 1 (mod 4), has halves between two codes, and where one is hit
    exactly, half to even of codes is half to even of numbers: nothing is rounded otherwise.
    Floor and Ceil: 1 / m has whole numbers among the codes. ThresholdedRelu and Shrink, whose
    threshold t is not passed by t itself: t / (k + 1/2), k even. Tensors that an override
    matches keep what it says.
    """
    ranges, methods = dict(found.ranges), dict(found.methods)
    for chain in find_chains(graph, chosen):
        first, real = chain.nodes[0], found.ranges.get(chain.source)
        steps = _STEPS[first.op](first) if first.op in _STEPS else None
        if real is None or steps is None or settings.rules.override(chain.source) is not None:
            continue
        function = Function.of([first], [first.inputs[0]], first.outputs[0], graph.opset)
        if (wider := _widened(real.with_zero(), steps, function, settings)) is not None:
            ranges[chain.source], methods[chain.source] = wider, STEPS
    return replace(found, ranges=ranges, methods=methods)


def _widened(
    real: Range, steps: Steps, function: Function, settings: Settings
) -> Range | None:
    """The first of the ranges to try in which no step is missed; else the first of all."""
    least = step_of(real, settings)
    scales = islice(steps.scales(least), _TRIED)
    tried = [wider for s in scales if (wider := _with_scale(real, s, settings)) is not None]
    if not tried:  # the range is so wide that it has no end of points
        return None
    points = steps.points(real).astype(np.float32)
    right = (each for each in tried if _is_right(each, points, function, settings))
    return next(right, tried[0]) if points.size else None


def _with_scale(real: Range, scale: float, settings: Settings) -> Range | None:
    """The range of all codes with this ``scale``, if it holds ``real``."""
    (low, high), middle = settings.limits, settings.middle
    if settings.is_symmetric(real.low):
        end = (high - middle) * scale
        return Range(-end, end) if max(-real.low, real.high) <= end else None
    below, above = ceil(-real.low / scale), ceil(real.high / scale)
    if below + above > high - low:
        return None
    return Range(-below * scale, (high - low - below) * scale)


def _is_right(
    wider: Range, points: NDArray[Any], function: Function, settings: Settings
) -> bool:
    """Whether stored ``points`` give what the points themselves give, up to a code."""
    stored = activation_parameters(wider, settings)
    codes = quantize(points, stored, floats=settings.target.float_type)
    again = dequantize(codes, stored).astype(np.float32)
    return bool((np.abs(function.run(again) - function.run(points)) <= 2 * stored.scale).all())


def _halves(real: Range) -> NDArray[Any]:
    return np.arange(ceil(real.low - 0.5), floor(real.high - 0.5) + 1) + 0.5


def _whole(real: Range) -> NDArray[Any]:
    return np.arange(ceil(real.low), floor(real.high) + 1)


def _of_round(least: float) -> Iterator[float]:
    for parts in range(floor((1 / least - 1) / 4) * 4 + 1, 0, -4):
        yield 1 / parts


def _of_whole(least: float) -> Iterator[float]:
    for parts in range(floor(1 / least), 0, -1):
        yield 1 / parts


def _at_threshold(threshold: float) -> Steps | None:
    """Of a function that jumps at ``threshold``, or on both sides of zero."""
    if not threshold > 0:
        return None

    def points(real: Range) -> NDArray[Any]:
        ends = np.array([-threshold, threshold])
        return ends[(ends >= real.low) & (ends <= real.high)]

    def scales(least: float) -> Iterator[float]:
        for below in range(floor((threshold / least - 0.5) / 2) * 2, -1, -2):
            yield threshold / (below + 0.5)

    return Steps(points, scales)


_Reader: TypeAlias = Callable[[Node], Steps | None]

_STEPS: Mapping[str, _Reader] = {
    "Round": lambda _: Steps(_halves, _of_round),
    "Floor": lambda _: Steps(_whole, _of_whole),
    "Ceil": lambda _: Steps(_whole, _of_whole),
    "ThresholdedRelu": lambda node: _at_threshold(node.attrs.get("alpha", 1.0)),
    "Shrink": lambda node: _at_threshold(node.attrs.get("lambd", 0.5)),
}
"""By op. Sign jumps at 0, which is a code of every tensor."""
