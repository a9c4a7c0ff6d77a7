"""Plan: which nodes become integer, and which tensors carry a scale."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from opsets.forms import POOL_FORMS
from opsets.target import Target
from qpasses.integerize import INTEGERIZE, QUANTIZABLE
from qpasses.ir.choices import SoftmaxNodes
from qpasses.ir.elementwise import (
    ELEMENTWISE,
    PAIRING,
    Chains,
    goes_on,
    made_of,
    pair_objection,
    takes_multipliers,
)
from qpasses.ir.graph import Graph, Node, Tensor, is_float, is_used
from qpasses.ir.moving import moves, results
from qpasses.ir.patterns import absorbed, activations, data_inputs, multiplies_stacks
from qpasses.ir.rewriting import Context, Declined
from qpasses.ir.settings import Settings
from qpasses.ir.stages import CLAMPING
from qpasses.place.ties import Ties

SOFTMAX = frozenset({"LogSoftmax", "Softmax"})
"""Ops that the options of Softmax speak of."""

REDUCING = SOFTMAX | {"ReduceMean", "ReduceSum"}
"""Ops over whole axes, which follow like ops of two tensors."""

LOOKING_UP = frozenset({"Gather", "GatherElements", "GatherND"})
"""Ops that may look rows of a constant up: embeddings."""


Guard = Callable[[Graph, Node], Declined | None]


@dataclass
class Plan:
    """What is going to be quantized.

    ``tensors``: by name, in graph order; ``stored``: each one's name to that of its stored
    integers; ``ties``: pairs that share a scale as a moving op, or a form of the target for
    pools or slopes, needs it; ``clamps``: input and output of each Relu or Clip on its own,
    which share one if that loses little; ``chains``: source and end of each elementwise chain;
    ``inner``: ids of an end and of a node that reads it inside its chain; ``computing``: the
    nodes that compute on integers; ``integer``: the ids of all nodes that will read or write
    integers.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ties: list[tuple[str, str]] = field(default_factory=list)
    clamps: list[tuple[str, str]] = field(default_factory=list)
    chains: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    inner: set[tuple[int, int]] = field(default_factory=set)
    stored: dict[str, str] = field(default_factory=dict)
    computing: list[Node] = field(default_factory=list)
    integer: set[int] = field(default_factory=set)


def plan(graph: Graph, context: Context) -> Plan:
    """Decide what becomes integer: computing nodes, and moving nodes connected to them."""
    context.adopt(graph)
    result, reach = Plan(), Ties()
    touched: set[str] = set()
    inner: set[str] = set()
    moving: list[Node] = []
    followers: list[list[Node]] = []
    taken: set[int] = set()
    chains = Chains()
    for node in graph.nodes:
        if id(node) in taken or not is_float(node.outputs[0]):
            continue
        unwanted = context.selection.leave(node, node.op in QUANTIZABLE)
        if unwanted:
            context.record.declined[node.name] = unwanted
            continue
        tables = context.target.tables
        if not tables and _needs_table(node, context.settings):
            context.record.declined[node.name] = (
                f"{node.op} needs a table: target {context.target.name!r} has none"
            )
            continue
        may_join = tables or is_computed(node, context.settings)
        if node.op in ELEMENTWISE and may_join and _may_join(graph, chains, node):
            if not (objection := chains.join(node, _stands_alone(node, context.settings))):
                context.record.declined.pop(node.name, None)
                continue
            context.record.declined[node.name] = objection
        takers = [each for each in INTEGERIZE if each.takes(node)]
        if not takers or (node.op in PAIRING and pair_objection(node)):
            continue
        context.record.declined.pop(node.name, None)  # what prepare could not fold
        declined = _declined(graph, node, [each.guard for each in takers])
        if declined:
            context.record.declined[node.name] = declined.reason
        elif moves(node) or node.op in CLAMPING:
            moving.append(node)
            ends = results(graph, node) if moves(node) else node.outputs
            for tensor, end in product(data_inputs(node), ends):
                pair = tensor.name, end.name
                reach.tie(*pair)
                is_tie = moves(node) or not tables
                (result.ties if is_tie else result.clamps).append(pair)
        else:
            chain = [node, *_taken_in(graph, node, context)]
            taken.update(map(id, chain))
            if _follows(node):
                followers.append(chain)
            else:
                _compute(result, chain, inner)
                if _ties_ends(node, context.target):
                    result.ties.append((node.inputs[0].name, chain[-1].outputs[0].name))
                touched.update(t.name for t in [*activations(node), chain[-1].outputs[0]])
    ends = chains.ends(graph)
    for tensor in ends:
        reach.tie(chains.source(tensor).name, tensor.name)
    given, wanted = (
        {reach.of(t.name) for t in each} for each in (graph.inputs, graph.outputs)
    )
    moved_on = [t for node in moving for t in node.outputs]
    touched.update(t.name for t in [*ends, *moved_on] if reach.of(t.name) in given & wanted)
    active = {reach.of(name) for name in touched}
    looking_up = [node for node in moving if node.op in LOOKING_UP and not data_inputs(node)]
    looked_up = {reach.of(node.outputs[0].name) for node in looking_up}
    for chain in followers:
        node, end = chain[0], reach.of(chain[-1].outputs[0].name)
        operands = {reach.of(tensor.name) for tensor in activations(node)}
        from_inputs = given if node.op not in REDUCING or end in wanted else set()
        leads_on = node.op not in REDUCING or end in wanted | active
        near = active | from_inputs | (looked_up if leads_on else set())
        joins = operands <= near or (node.op == "Add" and operands & active)
        reason = "" if joins or context.selection.unlisted else _not_followed(node)
        if node.op in SOFTMAX:
            readers = [*result.computing, *(each[0] for each in followers)]
            is_read = any(_reads(each, end, active, reach) for each in readers)
            is_wanted = is_read or node.op in context.settings.op_types_to_quantize
            reason = _softmax_in_float(context.settings.softmax_nodes, is_wanted) or reason
        if reason and node.op in SOFTMAX:
            context.selection.excluded[node.name] = reason  # though Q/DQ may surround it
        if reason:
            context.record.declined[node.name] = reason
        else:
            _compute(result, chain, inner)
            active |= {*operands, end}
    for node in chains.members:
        output = node.outputs[0]
        if reach.of(chains.source(output).name) in active:
            result.integer.add(id(node))
        inner.add(output.name)
    inner -= {tensor.name for tensor in ends}
    sources = [(chains.source(tensor), tensor) for tensor in ends]
    result.chains = [each for each in sources if reach.of(each[0].name) in active]
    if context.target.slopes == "common_shift":
        result.ties += _ties_of_slopes(result, context)
    result.inner = chains.readers(tensor for _, tensor in result.chains)
    for node in moving:  # of what varies, or a constant of which a size does
        first, *_ = data_inputs(node) or node.outputs
        result.integer.update({id(node)} if reach.of(first.name) in active else ())
    for tensor in _float_variables(graph):
        if reach.of(tensor.name) in active and tensor.name not in inner:
            result.tensors[tensor.name] = tensor
            result.stored[tensor.name] = context.fresh(f"{tensor.name}_quantized")
    return result


def _ties_of_slopes(chosen: Plan, context: Context) -> list[tuple[str, str]]:
    """Input and output of each LeakyRelu and PRelu by multipliers: they share a scale."""
    form, target = context.settings.activation_form, context.target
    return [
        (source.name, end.name)
        for source, end in chosen.chains
        if takes_multipliers(made_of(end, (), {source.name})[0], form, target)
    ]


def _follows(node: Node) -> bool:
    """Whether ``node`` becomes integer only where what it reads is on integers.

    So it stays float inside a normalization that is written out. An Add needs one such
    operand: it is what ends a residual branch. Inputs are on integers if nothing else is read,
    and for sums and means if nothing else is made of them; rows of constant tables too, for
    sums and means also if integers are made of them. The op types that the user lists do not
    follow.
    """
    if multiplies_stacks(node):
        return len(activations(node)) > 1
    return node.op in PAIRING or node.op in REDUCING


def _stands_alone(node: Node, settings: Settings) -> bool:
    """Whether ``node`` is a slope or a GELU that is computed by itself, not in a table."""
    target = settings.target
    if node.op == "Gelu":
        return settings.gelu != "table"
    by_itself = target.slopes != "multipliers" or not target.tables
    return node.op in ("LeakyRelu", "PRelu") and by_itself


def _ties_ends(node: Node, target: Target) -> bool:
    """Whether ``node`` is a pool to whose form input and output need one scale."""
    is_pool = node.op in ("AveragePool", "GlobalAveragePool")
    return is_pool and POOL_FORMS[target.average_pool].one_scale


def _reads(node: Node, end: str, active: set[str], reach: Ties) -> bool:
    """Whether ``node`` computes with the tensor ``end``, on integers if that is stored."""
    operands = {reach.of(tensor.name) for tensor in activations(node)}
    return end in operands and operands <= active | {end}


def _softmax_in_float(option: SoftmaxNodes, is_wanted: bool) -> str:
    """Why a Softmax stays float, or "". ``is_wanted``: integers follow, or it is listed."""
    if option == "float":
        return "Softmax left in float as wanted (--softmax-nodes float)"
    if option == "inner" and not is_wanted:
        return "Softmax that no integers follow, and --softmax-nodes says inner"
    return ""


def _taken_in(graph: Graph, node: Node, context: Context) -> list[Node]:
    """What becomes part of ``node``; of followers only Add, Sub and MatMul take any."""
    is_apart = _follows(node) and node.op not in ("Add", "MatMul", "Sub")
    return [] if is_apart else absorbed(graph, node, context.selection.excluded)


def _compute(result: Plan, chain: Sequence[Node], inner: set[str]) -> None:
    """``chain`` computes on integers: its first node, with the others inside of it."""
    result.computing.append(chain[0])
    result.integer.update(map(id, chain))
    inner.update(each.outputs[0].name for each in chain[:-1])


def _not_followed(node: Node) -> str:
    if node.op in REDUCING:
        return f"{node.op} of a tensor that is not on integers: it would only be rounded"
    which = "none of which is" if node.op == "Add" else "that are not both"
    return f"{node.op} of two tensors {which} on integers"


def _may_join(graph: Graph, chains: Chains, node: Node) -> bool:
    """Whether a table may hold ``node``: a Relu or Clip on its own needs none."""
    inside = any(map(chains.is_inside, node.inputs))
    return node.op not in CLAMPING or inside or goes_on(graph, node)


def _needs_table(node: Node, settings: Settings) -> bool:
    """Whether no integer arithmetic computes ``node``."""
    if node.op in CLAMPING or is_computed(node, settings):
        return False
    if node.op in ("Add", "Mul", "Sub"):
        return bool(pair_objection(node))
    by_table = node.op == "Softmax" and settings.softmax == "table"
    return node.op in ELEMENTWISE or node.op == "LogSoftmax" or by_table


def is_computed(node: Node, settings: Settings) -> bool:
    """Whether an elementwise ``node`` has a form of its own, without a table."""
    if node.op == "Gelu":
        return settings.gelu != "table"
    return takes_multipliers([node], "multiplier", settings.target)


def _declined(graph: Graph, node: Node, guards: Iterable[Guard]) -> Declined | None:
    """QuantizeLinear reads float32; other floats stay as they are. Then what guards say."""
    dtype = node.outputs[0].dtype
    if dtype != np.float32:
        return Declined(f"{node.op} in {np.dtype(dtype)}: convert the model to float32")
    return next(filter(None, (guard(graph, node) for guard in guards)), None)


def _float_variables(graph: Graph) -> list[Tensor]:
    written = [tensor for node in graph.nodes for tensor in node.outputs]
    found = [*graph.inputs, *written]
    return [tensor for tensor in found if is_float(tensor) and is_used(graph, tensor)]
