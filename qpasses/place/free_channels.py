"""Free channels: tensors whose channels may have scales of their own, at no cost.

What writes a tensor has a multiplier and a bias, or a table, for each channel anyway. So have
tables and depthwise convolutions that read it; an InstanceNormalization takes mean and
deviation of each channel away. Who sums channels wants one scale for all.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from calibration.channel_extremes import CHANNELS
from qpasses.ir.elementwise import differing_axes, made_of, takes_multipliers
from qpasses.ir.graph import Graph, Node, Tensor, constant, is_graph_output
from qpasses.ir.patterns import absorbed
from qpasses.ir.rewriting import Context
from qpasses.ir.stages import CLAMPING
from qpasses.place.planning import Plan


@dataclass(frozen=True)
class FreeChannels:
    """``writers``: by tensor, the Conv that gives it and what that takes in; none for tables.

    ``channels``: by tensor, how many it has; ``operands``: by depthwise Conv that reads one,
    its real weights and bias. ``tables`` write or read those, Convs read ``padded`` ones: what
    takes time.
    """

    writers: Mapping[str, Sequence[Node]] = field(default_factory=dict)
    channels: Mapping[str, int] = field(default_factory=dict)
    operands: Mapping[str, Sequence[Tensor]] = field(default_factory=dict)
    tables: Collection[str] = ()
    padded: Collection[str] = ()


def free_channels(
    graph: Graph, chosen: Plan, kept: Container[str], context: Context
) -> FreeChannels:
    """Those of the tensors that ``chosen`` stores, but for ``kept`` ones, in graph order."""
    chains = list(_chains(chosen, context))
    members: dict[int, set[int]] = {}
    for nodes, source, _ in chains:
        members.setdefault(id(source), set()).update(map(id, nodes))
    written: dict[str, Sequence[Node]] = {end.name: () for *_, end in chains}
    depthwise, norms = dict[int, Node](), set[int]()
    for node in chosen.computing:
        if node.op == "Conv" and _is_our_own(node, context):
            writers = [node, *absorbed(graph, node, context.selection.excluded)]
            written[writers[-1].outputs[0].name] = writers
            if _is_depthwise(node):
                depthwise[id(node)] = node
        elif node.op == "InstanceNormalization" and context.settings.layernorm == "exact":
            norms.add(id(node))
    found: dict[str, int] = {}
    for name, tensor in chosen.tensors.items():
        readers = {id(reader) for reader in tensor.outputs}
        free = depthwise.keys() | norms | members.get(id(tensor), set())
        sizes = tensor.shape or ()
        channels = sizes[CHANNELS] if len(sizes) > CHANNELS else 0
        if not isinstance(channels, int) or channels < 2 or is_graph_output(graph, tensor):
            continue
        if name in written and name not in kept and readers and readers <= free:
            found[name] = channels
    readers_of_channels = [n for n in depthwise.values() if n.inputs[0].name in found]
    return FreeChannels(
        {name: written[name] for name in found},
        found,
        {node.name: list(node.inputs[1:]) for node in readers_of_channels},
        {each.name for _, *ends in chains for each in ends},
        {n.inputs[0].name for n in readers_of_channels if any(n.attrs.get("pads") or ())},
    )


def _chains(chosen: Plan, context: Context) -> Iterator[tuple[list[Node], Tensor, Tensor]]:
    """The chains that become tables for each channel, with source and end.

    But for those before a MaxPool: behind a table of channels, which has pictures as rows,
    onnxruntime's kernel is a hundred times as slow.
    """
    settings, excluded = context.settings, context.selection.excluded
    for source, end in chosen.chains:
        nodes, found = made_of(end, excluded, {source.name})
        is_table = found is source and not all(each.op in CLAMPING for each in nodes)
        by_itself = takes_multipliers(nodes, settings.activation_form, settings.target)
        by_itself |= settings.gelu != "table" and any(each.op == "Gelu" for each in nodes)
        pooled = any(reader.op == "MaxPool" for reader in end.outputs)
        if is_table and not by_itself | pooled and differing_axes(nodes) <= {CHANNELS}:
            yield nodes, source, end


def _is_our_own(node: Node, context: Context) -> bool:
    """Whether its weights and bias are constants that no quantized model has codes for."""
    return all(
        constant(tensor) is not None and context.given.codes_of(tensor) is None
        for tensor in node.inputs[1:]
        if not tensor.is_empty()
    )


def _is_depthwise(node: Node) -> bool:
    """Whether each output channel is made of one of several, padded by numbers."""
    group = node.attrs.get("group", 1)
    has_pads = node.attrs.get("auto_pad", "NOTSET") in ("NOTSET", "")
    return bool(group > 1 and node.inputs[1].shape[1] == 1 and has_pads)
