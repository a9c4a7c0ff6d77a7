"""Bodies as a whole: an If, Loop or Scan is one node of the graph that worlds are made of.

What its bodies store is rounded in them where a flag, which the node reads, says so.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from calibration.large_weights import names_read
from qpasses.checking.meaning import Pair
from qpasses.checking.simulated import Cut, given_name
from qpasses.ir.cutting import cut
from qpasses.ir.homes import is_flow, regions
from qpasses.ir.interchange import export_spliced
from qpasses.ir.record import AnyQuantization, ChannelQuantization


@dataclass(frozen=True)
class Whole:
    """A graph with bodies; what stands around them is stored apart.

    ``flags``: by tensor that bodies store, of the integer graph, the boolean input of the
    graph that says whether it is rounded in them, or stays as it is.
    """

    cut: Cut
    flags: dict[str, str] = field(default_factory=dict)


def with_bodies_whole(found: Cut, pair: Pair) -> Whole:
    """``found``, the spliced graph, with bodies."""
    flat = found.model
    if not any(map(is_flow, flat.graph.node)):
        return Whole(found)
    homes = regions(export_spliced(pair.integer))
    inner = {real: each for real, each in found.stored.items() if homes.get(each.name)}
    narrow = {name: how for name, how in found.narrow.items() if homes.get(name)}
    read = {*names_read(flat.graph.node), *(value.name for value in flat.graph.output)}
    rounded = [(each.written, real, each.name, each.how) for real, each in inner.items()]
    rounded += [
        (given_name(pair.meanings[name].real), name, name, how) for name, how in narrow.items()
    ]
    flags = dict[str, str]()
    for source, name, stored, how in reversed(rounded):
        if given_name(name) in read:  # what nobody reads would stand around the bodies
            flags[stored] = _round(flat.graph, source, name, how)
            read.add(source)
    _leave_out(flat.graph, [real for real, each in inner.items() if each.written != real])
    around = replace(
        found,
        model=cut(flat),
        stored={real: each for real, each in found.stored.items() if real not in inner},
        narrow={name: how for name, how in found.narrow.items() if name not in narrow},
    )
    return Whole(around, flags)


def _leave_out(graph: onnx.GraphProto, names: Iterable[str]) -> None:
    """Take away who writes the tensors ``names``, and what it alone reads, if nobody does.

    Another node has the place of these. What nobody reads would stand around the bodies, and
    read there what is known in an iteration alone.
    """
    nodes = [*graph.node]
    writers = {name: place for place, node in enumerate(nodes) for name in node.output}
    read = Counter(value.name for value in graph.output)
    for node in nodes:
        read.update(names_read([node]))
    waiting, left = [*names], set[int]()
    while waiting:
        place = writers.get(waiting.pop())
        if place is None or place in left:
            continue
        if is_flow(nodes[place]) or any(read[name] for name in nodes[place].output):
            continue
        left.add(place)
        before = names_read([nodes[place]])
        read.subtract(before)
        waiting += before
    kept = [node for place, node in enumerate(nodes) if place not in left]
    del graph.node[:]
    graph.node.extend(kept)


def _round(graph: onnx.GraphProto, source: str, name: str, how: AnyQuantization) -> str:
    """Put nodes between ``source`` and what reads its codes, called ``name``; their flag."""
    codes, levels, made = f"{name}::levels", f"{name}::rounded", given_name(name)
    flag, scale, zero = f"{name}::is_rounded", f"{name}::scale", f"{name}::zero"
    axis: dict[str, Any] = {"axis": how.axis} if isinstance(how, ChannelQuantization) else {}
    factors = np.array(how.factors(how.zero.ndim), np.float32)
    graph.initializer.append(numpy_helper.from_array(factors, scale))
    graph.initializer.append(numpy_helper.from_array(how.zero, zero))
    for op, ends in (
        ("QuantizeLinear", (source, codes)),
        ("DequantizeLinear", (codes, levels)),
    ):
        graph.node.append(helper.make_node(op, [ends[0], scale, zero], ends[1:], **axis))
    graph.node.append(helper.make_node("Where", [flag, levels, source], [made]))
    graph.input.append(helper.make_tensor_value_info(flag, onnx.TensorProto.BOOL, []))
    return flag
