"""Bodies as a whole: an If, Loop or Scan is one node of the graph that worlds are made of.

What its bodies store is rounded in them where the node computes as in integers.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
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


def with_bodies_whole(found: Cut, pair: Pair, is_rounded: bool) -> Cut:
    """``found``, the spliced graph, with bodies; what stands around them is stored apart.

    What they store is rounded in them if ``is_rounded``, else it stays as it is.
    """
    flat = found.model
    if not any(map(is_flow, flat.graph.node)):
        return found
    homes = regions(export_spliced(pair.integer))
    inner = {real: each for real, each in found.stored.items() if homes.get(each.name)}
    narrow = {name: how for name, how in found.narrow.items() if homes.get(name)}
    read = {*names_read(flat.graph.node), *(value.name for value in flat.graph.output)}
    rounded = [(each.written, real, each.how) for real, each in inner.items()]
    rounded += [
        (given_name(pair.meanings[name].real), name, how) for name, how in narrow.items()
    ]
    for source, name, how in reversed(rounded):
        if given_name(name) in read:  # what nobody reads would stand around the bodies
            _round(flat.graph, source, name, how, is_rounded)
            read.add(source)
    _leave_out(flat.graph, [real for real, each in inner.items() if each.written != real])
    return replace(
        found,
        model=cut(flat),
        stored={real: each for real, each in found.stored.items() if real not in inner},
        narrow={name: how for name, how in found.narrow.items() if name not in narrow},
    )


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


def _round(
    graph: onnx.GraphProto, source: str, name: str, how: AnyQuantization, is_rounded: bool
) -> None:
    """Put two nodes between ``source`` and what reads its codes, called ``name``."""
    codes, made = f"{name}::levels", given_name(name)
    if not is_rounded:
        graph.node.append(helper.make_node("Identity", [source], [codes]))
        graph.node.append(helper.make_node("Identity", [codes], [made]))
        return
    axis: dict[str, Any] = {"axis": how.axis} if isinstance(how, ChannelQuantization) else {}
    scale, zero = f"{name}::scale", f"{name}::zero"
    factors = np.array(how.factors(how.zero.ndim), np.float32)
    graph.initializer.append(numpy_helper.from_array(factors, scale))
    graph.initializer.append(numpy_helper.from_array(how.zero, zero))
    for op, ends in (("QuantizeLinear", (source, codes)), ("DequantizeLinear", (codes, made))):
        graph.node.append(helper.make_node(op, [ends[0], scale, zero], ends[1:], **axis))
