"""Plan: which nodes become integer, and which tensors carry a scale."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

from opsets.forms import POOL_FORMS
from opsets.target import Target
from qpasses.ir.choices import SoftmaxNodes
from qpasses.ir.elementwise import (
    ELEMENTWISE,
    PAIRING,
    Chains,
    divisor_of,
    made_of,
    pair_objection,
    takes_multipliers,
)
from qpasses.ir.flow import CARRIED_OUT
from qpasses.ir.graph import STORE, Graph, Node, Tensor, is_float, is_used, producer, varies
from qpasses.ir.moving import moves, results
from qpasses.ir.patterns import absorbed, activations, data_inputs, multiplies_stacks
from qpasses.ir.recurrent_nodes import GATES, states_of
from qpasses.ir.rewriting import Context, Declined
from qpasses.ir.settings import Settings
from qpasses.ir.stages import CLAMPING
from qpasses.ir.whole_numbers import casts_whole_numbers, sizes_among
from qpasses.lowering import INTEGERIZE, QUANTIZABLE
from qpasses.lowering.lstm_kernels import recurrent_objection
from qpasses.place.likely_states import likely_states
from qpasses.place.states import find_states
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
    integers; ``states``: inputs of the graph and outputs that are their next values, both
    stored; ``loose``: other such pairs, and which of both is float; ``likely``: inputs and
    outputs, among which there may be others.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ties: list[tuple[str, str]] = field(default_factory=list)
    clamps: list[tuple[str, str]] = field(default_factory=list)
    chains: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    inner: set[tuple[int, int]] = field(default_factory=set)
    stored: dict[str, str] = field(default_factory=dict)
    computing: list[Node] = field(default_factory=list)
    integer: set[int] = field(default_factory=set)
    states: list[tuple[str, str]] = field(default_factory=list)
    loose: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    likely: list[tuple[list[str], list[str]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Apart:
    """The names of nodes, ``quotient`` left out, in no chain: what they write is stored."""

    draft: "_Draft"
    quotient: Node

    def __contains__(self, name: object) -> bool:
        node = self.draft.by_name.get(str(name))
        return node is not self.quotient and (
            node is None or not self.draft.chains.holds(node)
        )


@dataclass
class _Draft:
    """A plan in the making, and what is known on the way.

    ``reach``: tensors that are on integers together, if any of them is; ``touched``: those
    that a node computes with; ``inner``: those inside of what becomes one node; ``taken``: the
    ids of nodes that another one takes in; ``followers``: what becomes integer only if what it
    reads is, each with what it takes in; ``given``, ``wanted``, ``looked_up``: inputs and
    outputs of the graph, and rows of constant tables, as ``reach`` knows them.
    """

    graph: Graph
    context: Context
    plan: Plan = field(default_factory=Plan)
    chains: Chains = field(default_factory=Chains)
    reach: Ties = field(default_factory=Ties)
    touched: set[str] = field(default_factory=set)
    inner: set[str] = field(default_factory=set)
    taken: set[int] = field(default_factory=set)
    moving: list[Node] = field(default_factory=list)
    followers: list[list[Node]] = field(default_factory=list)
    casts: list[Node] = field(default_factory=list)
    divisors: dict[int, list[Node]] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    wanted: set[str] = field(default_factory=set)
    looked_up: set[str] = field(default_factory=set)
    cast: set[str] = field(default_factory=set)

    @cached_property
    def sizes(self) -> set[int]:
        """The ids of whole numbers that grow with the input."""
        return sizes_among(self.graph)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes of the graph."""
        return {node.name: node for node in self.graph.nodes}

    def of(self, tensors: Iterable[Tensor]) -> set[str]:
        """By which names tensors are known to ``reach``."""
        return {self.reach.of(tensor.name) for tensor in tensors}

    def compute(self, chain: Sequence[Node]) -> None:
        """``chain`` computes on integers: its first node, with the others inside of it."""
        self.plan.computing.append(chain[0])
        self.plan.integer.update(map(id, chain))
        self.inner.update(each.outputs[0].name for each in chain[:-1])


def plan(graph: Graph, context: Context) -> Plan:
    """Decide what becomes integer: computing nodes, and moving nodes connected to them."""
    context.adopt(graph)
    _leave_states(graph, context)
    draft = _Draft(graph, context)
    for node in graph.nodes:
        if id(node) not in draft.taken and is_float(node.outputs[0]):
            _sort(draft, node)
    draft.touched |= _left_to_themselves(draft)
    active = _active(draft)
    late = [chain for chain in draft.followers if not _follow(draft, chain, active)]
    _follow_casts(draft, late if draft.cast else (), active)
    _add_chains(draft, active)
    _add_tensors(draft, active)
    _tie_states(draft.plan, graph, context.settings)
    return draft.plan


def _leave_states(graph: Graph, context: Context) -> None:
    """A state that comes in, or goes out, in float does both in float."""
    excluded = context.selection.excluded
    for node in graph.nodes:
        if node.op == CARRIED_OUT and (start := producer(node.inputs[1])) is not None:
            ends = [each.name for each in (start, node) if each.name in excluded]
            for name in ends[:1]:
                excluded.setdefault(start.name, excluded[name])
                excluded.setdefault(node.name, excluded[name])


def _sort(draft: _Draft, node: Node) -> None:
    """Put ``node`` where it belongs, or record why it stays in float."""
    context = draft.context
    declined = context.record.declined
    if unwanted := context.selection.leave(node, node.op in QUANTIZABLE):
        declined[node.name] = unwanted
        return
    if node.op in GATES and (objection := recurrent_objection(node, context.target)):
        declined[node.name] = objection
        return
    tables = context.target.tables
    if not tables and _needs_table(node, context.settings):
        target = context.target.name
        declined[node.name] = f"{node.op} needs a table: target {target!r} has none"
        return
    may_join = tables or is_computed(node, context.settings)
    if node.op in ELEMENTWISE and may_join and _may_join(draft.graph, draft.chains, node):
        objection = draft.chains.join(node, _stands_alone(node, context.settings))
        if not objection:
            declined.pop(node.name, None)
            return
        declined[node.name] = objection
    if node.op == "Cast":
        _sort_cast(draft, node)
        return
    takers = [each for each in INTEGERIZE if each.takes(node)]
    if not takers or (node.op in PAIRING and pair_objection(node)):
        return
    declined.pop(node.name, None)  # what prepare could not fold
    if refused := _declined(draft.graph, node, [each.guard for each in takers]):
        declined[node.name] = refused.reason
    elif moves(node) or node.op in CLAMPING:
        _tie_ends(draft, node)
    else:
        _sort_computing(draft, [node, *_taken_in(draft.graph, node, context)])
        _take_divisor(draft, node)


def _sort_cast(draft: _Draft, node: Node) -> None:
    """Whole numbers are stored where what reads them is on integers; sizes are not."""
    if not casts_whole_numbers(node):
        return
    if id(node.inputs[0]) in draft.sizes:
        reason = "Cast of a size or a number of iterations, of which samples tell no bound"
        draft.context.record.declined[node.name] = reason
        return
    draft.casts.append(node)


def _tie_ends(draft: _Draft, node: Node) -> None:
    """What a node moves or clamps keeps its scale."""
    draft.moving.append(node)
    if node.op == STORE:  # on integers whatever is around it
        draft.touched.update(tensor.name for tensor in [*node.inputs, *node.outputs])
    is_tie = moves(node) or not draft.context.target.tables
    ends = results(draft.graph, node) if moves(node) else node.outputs
    if not ends:  # a state that nothing reads in the end is one scale all the same
        ends = data_inputs(node)[:1]
    for tensor, end in product(data_inputs(node), ends):
        draft.reach.tie(tensor.name, end.name)
        pairs = draft.plan.ties if is_tie else draft.plan.clamps
        pairs.append((tensor.name, end.name))


def _sort_computing(draft: _Draft, chain: Sequence[Node]) -> None:
    """What computes by itself does so; what follows is decided when that is known."""
    node, end = chain[0], chain[-1].outputs[0]
    draft.taken.update(map(id, chain))
    if _follows(node):
        draft.followers.append([*chain])
        return
    draft.compute(chain)
    if ties_ends(node, draft.context.target):
        draft.plan.ties.append((node.inputs[0].name, end.name))
    ends = [end]
    if node.op in GATES:
        ends = [each for each in node.outputs if not each.is_empty()]
        draft.plan.ties += states_of(node)
    draft.touched.update(tensor.name for tensor in [*activations(node), *ends])


def _take_divisor(draft: _Draft, node: Node) -> None:
    """What makes the divisor of a Div of another tensor is part of it."""
    found = divisor_of(draft.graph, node, _Apart(draft, node))
    if found:
        nodes, source = found
        draft.chains.give(nodes)
        draft.divisors[id(node)] = nodes
        draft.reach.tie(source.name, node.inputs[1].name)
        draft.inner.update(each.outputs[0].name for each in nodes)


def _left_to_themselves(draft: _Draft) -> set[str]:
    """Tensors of parts of the graph that can be integer as a whole, though none has to be.

    In such a part nothing computes on integers by itself, so that all of it would stay float;
    the user wants integers, and all that it reads or makes enters and leaves the graph.
    """
    followers = [node for chain in draft.followers for node in chain]
    able = {*map(id, (*draft.moving, *draft.chains.members, *draft.casts, *followers))}
    parts, spoiled, found = Ties(), list[str](), list[str]()
    for node in draft.graph.nodes:
        read = data_inputs(node) if moves(node) else node.inputs
        ends = [t.name for t in (*read, *node.outputs) if is_float(t) and varies(t)]
        if not ends or node.op in _SIZES:
            continue
        for name in ends:
            parts.tie(ends[0], name)
        found += ends
        spoiled += [] if id(node) in able else ends[:1]
    made = [each.outputs[0] for each in draft.casts if producer(each.inputs[0]) is None]
    casts = [each for each in made if each.outputs]
    given = {parts.of(tensor.name) for tensor in (*draft.graph.inputs, *casts)}
    able_as_a_whole = given.difference(map(parts.of, spoiled))
    return {name for name in found if parts.of(name) in able_as_a_whole}


_SIZES = frozenset({"Shape", "Size"})
"""Ops that look at no numbers."""


def _active(draft: _Draft) -> set[str]:
    """The names, as ``reach`` knows them, of what is on integers whatever follows."""
    graph, reach = draft.graph, draft.reach
    ends = draft.chains.ends(graph)
    for tensor in ends:
        reach.tie(draft.chains.source(tensor).name, tensor.name)
    draft.given, draft.wanted = draft.of(graph.inputs), draft.of(graph.outputs)
    through = draft.given & draft.wanted
    rows = [each for each in draft.moving if each.op in LOOKING_UP and not data_inputs(each)]
    draft.looked_up = draft.of(each.outputs[0] for each in rows)
    draft.cast = draft.of(each.outputs[0] for each in draft.casts)
    moved_on = [tensor for node in draft.moving for tensor in node.outputs]
    draft.touched.update(t.name for t in [*ends, *moved_on] if reach.of(t.name) in through)
    return {reach.of(name) for name in draft.touched}


Readers = Mapping[str, Sequence[set[str]]]
"""By tensor, as ``reach`` knows it: all that each node computes with that reads it."""


def _readers(nodes: Iterable[Node], draft: _Draft) -> Readers:
    found: dict[str, list[set[str]]] = {}
    for node in nodes:
        operands = draft.of(activations(node))
        for name in operands:
            found.setdefault(name, []).append(operands)
    return found


def _follow_casts(draft: _Draft, late: Iterable[Sequence[Node]], active: set[str]) -> None:
    """Of chains that followed nothing, those that whole numbers become part of."""
    late = [*late]
    readers = _readers([*draft.plan.computing, *(each[0] for each in late)], draft)
    found = set(draft.cast)
    for chain in late:
        is_of_casts = not found.isdisjoint(draft.of(activations(chain[0])))
        if is_of_casts and _follow(draft, chain, active, readers):
            found.add(draft.reach.of(chain[-1].outputs[0].name))


def _follow(
    draft: _Draft, chain: Sequence[Node], active: set[str], readers: Readers | None = None
) -> bool:
    """Make ``chain`` integer, and its ends ``active``, if that is what it follows.

    ``readers``: when others have followed, whole numbers alone do where one of these computes
    what they become with what is ``active``, or with inputs.
    """
    context, node = draft.context, chain[0]
    end = draft.reach.of(chain[-1].outputs[0].name)
    operands = draft.of(activations(node))
    found = () if readers is None else readers.get(end, ())
    known = active | draft.given | {end}
    is_read = any(each > {end} and each <= known for each in found)
    reason = "" if _joins(draft, node, end, active, is_read) else _not_followed(node)
    if node.op in SOFTMAX:
        others = [*draft.plan.computing, *(each[0] for each in draft.followers)]
        is_read = any(_reads(each, end, active, draft.reach) for each in others)
        is_wanted = is_read or node.op in context.settings.op_types_to_quantize
        reason = _softmax_in_float(context.settings.softmax_nodes, is_wanted) or reason
        if reason:
            context.selection.excluded[node.name] = reason  # though Q/DQ may surround it
    if reason:
        context.record.declined[node.name] = reason
        return False
    for reasons in (context.record.declined, context.selection.excluded):
        reasons.pop(node.name, None)  # of the first round
    draft.compute(chain)
    draft.plan.integer.update(map(id, draft.divisors.get(id(node), ())))
    active |= {*operands, end}
    return True


def _joins(draft: _Draft, node: Node, end: str, active: set[str], is_read: bool) -> bool:
    """Whether what ``node`` reads is on integers, or the user lists its op type.

    ``is_read``: what it makes is computed with what is, so that whole numbers may be all.
    """
    if draft.context.selection.unlisted:
        return True
    is_pair, operands = node.op not in REDUCING, draft.of(activations(node))
    rest = operands - active
    if is_pair or end in draft.wanted:
        rest -= draft.given
    if is_pair or end in draft.wanted or end in active:
        rest -= draft.looked_up
    if is_read or not operands <= draft.cast:
        rest -= draft.cast
    return not rest or (node.op == "Add" and not operands.isdisjoint(active))


def _add_chains(draft: _Draft, active: set[str]) -> None:
    """Elementwise chains whose source is on integers, and the ties their form needs."""
    result, chains = draft.plan, draft.chains
    for node in chains.members:
        output = node.outputs[0]
        if draft.reach.of(chains.source(output).name) in active and not chains.is_given(node):
            result.integer.add(id(node))
        draft.inner.add(output.name)
    ends = chains.ends(draft.graph)
    draft.inner -= {tensor.name for tensor in ends}
    sources = [(chains.source(tensor), tensor) for tensor in ends]
    result.chains = [each for each in sources if draft.reach.of(each[0].name) in active]
    if draft.context.target.slopes == "common_shift":
        result.ties += _ties_of_slopes(result, draft.context)
    result.inner = chains.readers(tensor for _, tensor in result.chains)


def _add_tensors(draft: _Draft, active: set[str]) -> None:
    """What is moved on integers, and the tensors that carry a scale."""
    result, reach = draft.plan, draft.reach
    for node in draft.moving:  # of what varies, or a constant of which a size does
        first, *_ = data_inputs(node) or node.outputs
        result.integer.update({id(node)} if reach.of(first.name) in active else ())
    for node in draft.casts:
        result.integer.update({id(node)} if reach.of(node.outputs[0].name) in active else ())
    for tensor in _float_variables(draft.graph):
        if reach.of(tensor.name) in active and tensor.name not in draft.inner:
            result.tensors[tensor.name] = tensor
            result.stored[tensor.name] = draft.context.fresh(f"{tensor.name}_quantized")


def _tie_states(chosen: Plan, graph: Graph, settings: Settings) -> None:
    """A state and its next value share a scale, where both are stored."""
    ends = {tensor.name: producer(tensor) for tensor in graph.outputs}
    for start, end in find_states(graph, settings.states):
        floats = [start] if start not in chosen.tensors else []
        if end not in chosen.tensors or id(ends[end]) not in chosen.integer:
            floats.append(end)
        if floats:
            chosen.loose[start, end] = floats
        else:
            chosen.states.append((start, end))
    chosen.ties += chosen.states
    chosen.likely = likely_states(graph, [*chosen.states, *chosen.loose])


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


def ties_ends(node: Node, target: Target) -> bool:
    """Whether ``node`` is a pool or Resize to whose form input and output need one scale."""
    if node.op == "Resize":
        return target.resize == "ten_bits"
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


def _not_followed(node: Node) -> str:
    if node.op in REDUCING:
        return f"{node.op} of a tensor that is not on integers: it would only be rounded"
    which = "none of which is" if node.op == "Add" else "that are not both"
    return f"{node.op} of two tensors {which} on integers"


def _may_join(graph: Graph, chains: Chains, node: Node) -> bool:
    """Whether a table may hold ``node``: a Relu or Clip on its own needs none."""
    inside = any(map(chains.is_inside, node.inputs))
    return node.op not in CLAMPING or inside or chains.begin_with(graph, node)


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
