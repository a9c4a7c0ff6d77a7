"""The Q/DQ graph of a model with bodies, in parts without any: one for what runs together.

A part computes the codes of what one body stores, or the graph around all, from the codes that
the integer graph has there. What enters bodies and leaves them as floats is what the integer
graph has of it too: that values only pass there rules check.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration.large_weights import names_read
from qpasses.checking.meaning import Pair
from qpasses.checking.simulated import Simulated, written_as
from qpasses.ir.flow import FLOW
from qpasses.ir.graph import Graph, Tensor, rank
from qpasses.ir.homes import Region, is_flow, regions
from qpasses.ir.interchange import export_spliced
from qpasses.ir.record import Record

Tensors: TypeAlias = Mapping[str, NDArray[Any]]


def parts(whole: Simulated, pair: Pair) -> Sequence[Simulated]:
    """``whole``, the spliced Q/DQ graph, in parts that run; itself if nothing is spliced."""
    if not any(map(is_flow, whole.model.graph.node)):
        return [whole]
    homes = regions(export_spliced(pair.integer))
    found = dict.fromkeys(homes.get(ours, ()) for ours in whole.codes)
    made = [_part(whole, pair, homes, each) for each in found if _comes_whole(each)]
    return [each for each in made if each is not None and each.codes]


def _comes_whole(region: Region) -> bool:
    """Whether each tensor of a body is looked at in one piece for each iteration."""
    return not any(label == "body" for _, label in region[:-1])


def passing(graph: Graph, record: Record) -> Iterator[str]:
    """The tensors that enter bodies of ``graph``, or leave them, as they are in float."""
    for node in graph.nodes:
        for tensor in node.outputs if node.domain == FLOW else ():
            if tensor.name not in record.tensors and _is_tensor(tensor):
                yield tensor.name


def _is_tensor(tensor: Tensor) -> bool:
    return tensor.dtype is not None and tensor.type == "tensor_type"


@dataclass
class _Slice:
    """The nodes of a spliced graph that some tensors depend on, up to what passes bodies."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, nodes: Sequence[onnx.NodeProto], names: Iterable[str]) -> "_Slice":
        """Those for the tensors ``names``; a tensor that passes is not computed."""
        made, writers = (
            cls(read={*names}),
            {n: k for k, e in enumerate(nodes) for n in e.output},
        )
        waiting, places = [*made.read], set[int]()
        while waiting:
            name = waiting.pop()
            place = writers.get(name)
            if place is None or place in places:
                continue
            if is_flow(nodes[place]):
                made.passed.add(name)
                continue
            places.add(place)
            new = [each for each in names_read([nodes[place]]) if each not in made.read]
            made.read.update(new)
            waiting += new
        made.nodes = [nodes[place] for place in sorted(places)]
        return made


def _part(
    whole: Simulated, pair: Pair, homes: Mapping[str, Region], region: Region
) -> Simulated | None:
    """What the tensors that ``region`` stores are made of; None where that is no tensors."""
    graph, known = whole.model.graph, pair.meanings.items()
    stored = [ours for ours in whole.codes if homes.get(ours, ()) == region]
    as_is = {each.real: ours for ours, each in known if not each.stored and ours in homes}
    written = [tensor for node in pair.integer.nodes for tensor in node.outputs]
    ranks = {tensor.name: count for tensor in written if (count := rank(tensor)) is not None}
    moved = {name for node in graph.node if is_flow(node) for name in node.output}
    codes = {each: whole.codes[each] for each in stored}
    codes = {each: name for each, name in codes.items() if written_as(name) not in moved}
    found = _Slice.of(graph.node, codes.values())
    made = onnx.ModelProto(ir_version=whole.model.ir_version)
    made.opset_import.extend(whole.model.opset_import)
    part = made.graph
    part.name = graph.name
    part.node.extend(found.nodes)
    part.initializer.extend(each for each in graph.initializer if each.name in found.read)
    part.input.extend(each for each in graph.input if each.name in found.read)
    if any(not _is_tensor(pair.float_tensors[name]) for name in found.passed):
        return None
    for name in sorted(found.passed):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(pair.float_tensors[name].dtype))
        part.input.append(helper.make_tensor_value_info(name, kind, None))
    wanted = {*codes.values()}
    part.output.extend(each for each in graph.output if each.name in wanted)
    given = {ours: name for ours, name in whole.given.items() if name in found.read}
    passed = {as_is[name]: name for name in found.passed}
    is_iterated = any(label == "body" for _, label in region)
    iterated = {
        ours: ranks.get(ours, _ANY)
        for ours in (*given, *passed, *codes)
        if is_iterated and homes.get(ours, ()) == region
    }
    return Simulated(made, {**given, **passed}, codes, iterated)


_ANY = -2
"""The rank of a tensor of which it is not known: no stack has one more."""


def iterations(part: Simulated, values: Tensors) -> Iterator[Tensors]:
    """What ``part`` is given, and is to give, of ``values``: once, or in each iteration.

    Nothing of a branch that was not taken, nor where sizes change from one to the next.
    """
    wanted = [*part.given, *part.codes]
    if not any(values[name].size for name in part.codes):
        return
    if not part.iterated:
        yield values
        return
    stacked = {name: values[name] for name in part.iterated if name in wanted}
    if any(array.ndim != part.iterated[name] + 1 for name, array in stacked.items()):
        return
    for each in zip(*stacked.values(), strict=True):
        yield {**values, **dict(zip(stacked, map(np.asarray, each), strict=True))}
