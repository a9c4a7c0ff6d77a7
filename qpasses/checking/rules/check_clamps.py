"""Relu and Clip: as the clamp of what computes before them, or a Clip of stored integers."""

from collections.abc import Iterator, Sequence

import numpy as np

from qpasses.checking.arithmetic import store
from qpasses.checking.meaning import (
    DifferenceError,
    Site,
    check_record,
    float_constant,
    unlike,
)
from qpasses.ir.graph import Node, constant
from qpasses.ir.record import AnyQuantization, Quantization


def bounds_of(chain: Sequence[Node]) -> tuple[float, float]:
    """The real interval to which Relu and Clip nodes, one behind the other, clamp."""
    low, high = -np.inf, np.inf
    for node in chain:
        if node.op == "Relu":
            least, most = 0.0, np.inf
        elif node.op == "Clip":
            ends = [float_constant(node, index) for index in (1, 2)]
            least = -np.inf if ends[0] is None else float(ends[0].reshape(()))
            most = np.inf if ends[1] is None else float(ends[1].reshape(()))
        else:
            raise DifferenceError(f"{node.op} {node.name!r} is no clamp")
        low, high = min(max(low, least), most), min(max(high, least), most)
    return low, high


def stored_bounds(y: Quantization, chain: Sequence[Node]) -> tuple[int, int]:
    """The codes at which an output of clamps saturates."""
    low, high = bounds_of(chain)
    return store(y, low), store(y, high)


def any_stored_bounds(y: AnyQuantization, chain: Sequence[Node]) -> tuple[int, int]:
    """The same; of channels, where clamps lie at the ends of all codes or beyond.

    Those of words may be one code in all channels, as 0 is.
    """
    if isinstance(y, Quantization):
        return stored_bounds(y, chain)
    found = {stored_bounds(y.channel(place), chain) for place in range(len(y.scales))}
    is_end = found == {y.limits}
    if not is_end and (y.dtype != "int16" or len(found) > 1):
        raise DifferenceError("its clamps lie inside of the codes of some channels")
    return found.pop()


def clamps_behind(site: Site, count: int = 1) -> Sequence[Node]:
    """The float nodes behind the first ``count``, each reading what the one before writes."""
    for before, node in zip(site.chain[count - 1 :], site.chain[count:], strict=False):
        site.follows(before, node)
    return site.chain[count:]


def check_end(site: Site, clamps: Sequence[Node]) -> Iterator[str]:
    """The zero point and the ends of what a node writes."""
    y = site.any_y
    values = (y.zero_point, *any_stored_bounds(y, clamps))
    for name, value in zip(("y_zero", "y_min", "y_max"), values, strict=True):
        yield from unlike(name, site.given[name], np.array(value, y.dtype))


def clip(site: Site) -> Iterator[str]:
    """A Clip of stored integers whose scale stays: the bounds are those of clamps, stored."""
    site.is_op("Relu", "Clip")
    clamps_behind(site)
    x, y = site.operand(site.node.inputs[0], site.first.inputs[0]), site.y
    if x != y:
        yield "its input and output are stored in different ways"
    yield from check_ends(site, stored_bounds(y, site.chain))
    yield from check_record(site, {})


def check_ends(site: Site, ends: tuple[int, int]) -> Iterator[str]:
    """The bounds of a Clip, which are constants."""
    found = [constant(tensor) for tensor in site.node.inputs[1:]]
    if len(found) != len(ends) or any(value is None for value in found):
        raise DifferenceError("its bounds are not constants")
    for name, value, end in zip(("min", "max"), found, ends, strict=True):
        yield from unlike(name, value, np.array(end, site.y.dtype))
