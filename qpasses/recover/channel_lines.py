"""Channel lines: which words may have scales of channels, as all that reads them goes on."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from calibration.collect import cores
from opsets.errors import ModelError
from qpasses.ir.elementwise import differing_axes, made_of
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node, Tensor, producer
from qpasses.ir.record import BYTES, ChannelQuantization
from qpasses.ir.rewriting import Context
from qpasses.ir.stages import CLAMPING, NORMS
from qpasses.lowering.integerize_chain import axes_of, lookup_of
from qpasses.place.words import takes_streams

Made: TypeAlias = Mapping[str, ChannelQuantization]
"""By tensor, the parameters of its channels."""


def with_lines(
    graph: Graph, made: Made, stored: Mapping[str, str], context: Context
) -> dict[str, ChannelQuantization]:
    """Those of ``made`` with which each node of a Q/DQ ``graph`` that has words stays integer.

    Others have one scale for the tensor: words that a norm cannot hold, or that are stored
    anew in 8 bits, and both ends of a table that has words and no lines that are near enough.
    ``stored``: by tensor, the name of its integers.
    """
    names = {stored[name]: name for name in made}
    found = {stored[name]: meaning for name, meaning in made.items()}
    for name in [name for name, each in found.items() if each.dtype not in BYTES]:
        if not all(_takes(reader, found[name]) for reader in _readers(graph, name)):
            del found[name]
    tables = list(_tables(graph, context)) if found else []
    while far := _far_ends(graph, tables, found, context):
        found = {name: each for name, each in found.items() if name not in far}
    return {names[name]: each for name, each in found.items()}


Table: TypeAlias = tuple[list[Node], Tensor, str, str]
"""The nodes of a chain, what they compute with, and the stored tensors at its ends."""


def _tables(graph: Graph, context: Context) -> Iterator[Table]:
    """Those whose source has words."""
    for node in [each for each in graph.nodes if each.op == "QuantizeLinear"]:
        nodes, source = made_of(node.inputs[0], context.selection.excluded)
        before = None if source is None else producer(source)
        if source is None or before is None or before.op != "DequantizeLinear":
            continue
        meaning = context.record.tensors.get(before.inputs[0].name)
        is_wide = meaning is not None and meaning.dtype not in BYTES
        if is_wide and not all(each.op in CLAMPING for each in nodes):
            yield nodes, source, before.inputs[0].name, node.outputs[0].name


def _far_ends(
    graph: Graph,
    tables: Sequence[Table],
    found: Mapping[str, ChannelQuantization],
    context: Context,
) -> set[str]:
    """The ends of those ``tables`` that there are not."""
    with ThreadPoolExecutor(cores()) as threads:
        ends = threads.map(lambda each: _far(graph, each, found, context), tables)
        return {end for each in ends for end in each}


def _far(
    graph: Graph, table: Table, found: Mapping[str, ChannelQuantization], context: Context
) -> list[str]:
    """The ends of a table with scales of channels, if there is no such table."""
    nodes, source, *ends = table
    of_channels = [end for end in ends if end in found]
    if not of_channels:
        return []
    x, y = (found.get(end) or context.record.tensors[end] for end in ends)
    axes = differing_axes(nodes) | axes_of(x, y)
    function = Function.of(nodes, [source], nodes[-1].outputs[0], graph.opset)
    try:
        lookup_of(function, x, y, axes, context.target)
    except ModelError:
        return of_channels
    return []


def _readers(graph: Graph, name: str) -> Iterator[Node]:
    """What computes with the stored tensor called ``name``."""
    for node in graph.nodes:
        if node.op == "DequantizeLinear" and node.inputs[0].name == name:
            yield from node.outputs[0].outputs


def _takes(node: Node, meaning: ChannelQuantization) -> bool:
    """Whether ``node`` computes with words of channels of such a ``meaning``."""
    channels = map(meaning.channel, range(len(meaning.scales)))
    if node.op in NORMS:
        return all(takes_streams(node, each) for each in channels)
    return bool(node.op != "QuantizeLinear")
