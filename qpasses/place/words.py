"""Words: which tensors are stored in 16 bits, and which nodes read and write these."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType

from opsets.realised import has_wide_tables, slopes_are_coded
from qpasses.ir.elementwise import (
    differing_axes,
    made_of,
    pair_objection,
    slopes_of,
    takes_multipliers,
)
from qpasses.ir.graph import Graph, Node, Tensor, constant, producer
from qpasses.ir.moving import moves, moves_words, results
from qpasses.ir.patterns import activations, data_inputs
from qpasses.ir.record import Quantization
from qpasses.ir.recurrent_nodes import GATES, INITIAL_C, states_of
from qpasses.ir.settings import Settings
from qpasses.ir.stages import CLAMPING, LOCATING, NORMS
from qpasses.ir.tensor_types import BYTE, WORD, types_of
from qpasses.ir.whole_numbers import casts_whole_numbers
from qpasses.lowering.integerize_layer_norm import epsilon_of, row_of
from qpasses.lowering.integerize_p_relu import MOST_WIDE_SLOPES
from qpasses.lowering.numbers.norm_numbers import takes_words
from qpasses.place.placed_states import words_inside
from qpasses.place.planning import Plan, ties_ends
from qpasses.place.rescaling import Edge
from qpasses.place.residuals import residual_streams, stored_end
from qpasses.place.ties import Ties

COMPUTING = frozenset({"Conv", "Gemm", "MatMul", "ReduceMean", "ReduceSum"}) | {
    *("AveragePool", "GlobalAveragePool", "Resize", *GATES),
}
"""Ops that read and write 16 bits."""

PAIRS = frozenset({"Add", "Div", "Mul", "Sub"})
"""Those that do so where no table of two tensors holds them."""


@dataclass(frozen=True)
class Words:
    """The tensors of 16 bits, by name.

    ``streams``: residual streams that only sums and norms read so. ``wanted``: the others,
    which every node reads so that can. ``refused``: those that were asked for and have 8 bits,
    and why; ``alone``: of them those that may have 16 with what is beside them.
    """

    streams: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    alone: Mapping[str, str] = field(default_factory=dict)

    @property
    def narrow(self) -> dict[str, str]:
        """All that were asked for and have 8 bits, and why."""
        return {**self.refused, **self.alone}

    def __contains__(self, name: str) -> bool:
        return name in self.wanted or name in self.streams


NO_WORDS = Words()


def words_of(
    graph: Graph,
    chosen: Plan,
    settings: Settings,
    given: Container[str],
    far: Mapping[str, str] = MappingProxyType({}),
    close: Collection[str] = (),
) -> Words:
    """Which tensors of a plan have 16 bits; ``given``: those of which the model says it,
    ``far``: those that can have none, and why, ``close``: those whose numbers 8 bits do not
    tell apart, which have them but where the user wants 8.

    What a moving node moves has 16 bits on both sides, a state with its next value. Raises
    UsageError for a rule of the user that matches no tensor.
    """
    types = types_of(settings.tensor_types, [*chosen.tensors])
    types = {**dict.fromkeys(close, WORD), **types}
    is_stream = settings.residual_type == WORD
    streams = residual_streams(graph, chosen) if is_stream else set[str]()
    streams = {name for name in streams if name not in given}
    streams -= {name for name, asked in types.items() if asked == BYTE}
    inside = [name for name in words_inside(chosen) if name not in given]
    types = {**types, **dict.fromkeys(inside, WORD)}
    streams -= {name for pair in chosen.states if not streams >= {*pair} for name in pair}
    asked = [name for name, asked in types.items() if asked == WORD]
    if not asked:
        return Words(frozenset(streams))
    able = _Able(chosen, settings)
    groups = _groups(graph, chosen, settings)
    found = {id(groups[name]): groups[name] for name in asked}.values()
    together = [[chosen.tensors[name] for name in members] for members in found]
    refused, wanted = dict[str, str](), set[str]()
    is_alike = settings.target.word_ends == "alike"
    for tensors in together:
        reasons = [far.get(t.name) or _refused(t, able, given, types) for t in tensors]
        is_inside = any(tensor.name in inside for tensor in tensors)
        if not (is_alike or is_inside or any(map(able.is_read, tensors))):
            readers = sorted({node.op for t in tensors for node in t.outputs})
            reasons.append(f"{', '.join(readers)} takes 8 bits{able.of_target(*readers)}")
        readers = sorted({node.op for t in tensors for node in t.outputs})
        locating = set[str]() if is_inside else {*readers} & LOCATING
        if any(tensor.name in close for tensor in tensors):
            apart = {node.op for t in tensors for node in able.not_reading(t)}
            reasons += [f"{op} takes 8 bits{able.of_target(op)}" for op in sorted(apart)]
        reasons += [f"{op} finds places among 8 bits alone" for op in sorted(locating)]
        if reason := next(filter(None, reasons), ""):
            refused |= {t.name: reason for t in tensors if types.get(t.name) == WORD}
        else:
            wanted.update(tensor.name for tensor in tensors)
    alone = dict[str, str]()
    for group in _alone(together, able, wanted, streams) if is_alike else ():
        readers = sorted({node.op for tensor in group for node in tensor.outputs})
        reason = (
            f"{', '.join(readers)} reads 8 bits: nodes of target {settings.target.name!r} "
            "have one width, and none beside it has 16"
        )
        alone |= {t.name: reason for t in group if types.get(t.name) == WORD}
    return Words(frozenset(streams - wanted), frozenset(wanted), refused, alone)


def _alone(
    together: Sequence[Sequence[Tensor]], able: "_Able", wanted: set[str], streams: set[str]
) -> Iterator[Sequence[Tensor]]:
    """Take from ``wanted`` what no node reads with 16 bits or writes from 16, and yield it.

    That is of targets whose nodes have one width: it would be stored anew at once. One group
    less may leave others so.
    """
    count = -1
    while count != len(wanted):
        count = len(wanted)
        for tensors in together:
            words = Words(frozenset(streams), frozenset(wanted))
            is_used = any(able.is_read(t, words) or able.is_fed(t, words) for t in tensors)
            if tensors[0].name in wanted and not is_used:
                wanted.difference_update(tensor.name for tensor in tensors)
                yield tensors


def _groups(graph: Graph, chosen: Plan, settings: Settings) -> dict[str, list[str]]:
    """By stored tensor, those that moving nodes make of it, or it of them, in order.

    So are both ends of a pool whose form has one scale, and a state at all its places.
    """
    moved = Ties()
    for pair in chosen.states:
        moved.tie(*pair)
    for node in chosen.computing:
        if ties_ends(node, settings.target):
            moved.tie(node.inputs[0].name, stored_end(node, chosen))
        for pair in states_of(node) if node.op in GATES else ():
            moved.tie(*pair)
    for node in graph.nodes:
        if id(node) in chosen.integer and moves_words(node):
            names = [t.name for t in (*data_inputs(node), *results(graph, node))]
            for name in names[1:]:
                moved.tie(names[0], name)
    groups: dict[str, list[str]] = {}
    for name in chosen.tensors:
        groups.setdefault(moved.of(name), []).append(name)
    return {name: groups[moved.of(name)] for name in chosen.tensors}


def _refused(
    tensor: Tensor, able: "_Able", given: Container[str], types: Mapping[str, str]
) -> str:
    """Why a tensor cannot have 16 bits, or nothing."""
    if tensor.name in given:
        return "the model says itself how it is stored"
    if types.get(tensor.name) == BYTE:
        return f"{tensor.name!r}, which holds the same, is wanted in 8 bits"
    return able.why_not_written(tensor) or able.why_not_read(tensor)


class _Able:
    """Which nodes of a plan read and write 16 bits."""

    def __init__(self, chosen: Plan, settings: Settings) -> None:
        self._computing = {id(node) for node in chosen.computing}
        self._integer, self._target = chosen.integer, settings.target
        norms = NORMS.difference(self._target.byte_ops)
        self._reading = norms
        self._writing = norms if settings.layernorm == "exact" else frozenset[str]()
        self._softmax = settings.softmax
        self._ends = {stored_end(node, chosen): node for node in chosen.computing}
        self._written = {id(node): name for name, node in self._ends.items()}
        self._looked_up = dict[str, bool]()
        self._tables, self._others = set[int](), set[int]()
        for source, end in chosen.chains:
            nodes, _ = made_of(end, (), {source.name})
            is_able = _takes_words(nodes, settings)
            self._looked_up[end.name] = is_able
            (self._tables if is_able else self._others).update(map(id, nodes))
        self._divisors, self._inside = dict[str, Node](), frozenset(words_inside(chosen))
        for node in chosen.computing:  # with what makes its divisor
            if node.op == "Div" and node.inputs[1].name not in chosen.tensors:
                inner, source = made_of(node.inputs[1], (), chosen.tensors)
                if self.takes(node):
                    self._tables.update(map(id, inner))
                elif source is not None:
                    self._divisors[source.name] = node

    def why_not_written(self, tensor: Tensor) -> str:
        """Why what writes ``tensor`` writes no 16 bits, or nothing."""
        node = self._ends.get(tensor.name) or producer(tensor)
        if node is None or id(node) not in self._integer or moves_words(node):
            return ""
        if tensor.name in self._inside or casts_whole_numbers(node):
            return ""
        is_able = self._looked_up.get(tensor.name, self.takes(node)) or (
            id(node) in self._computing and node.op in self._writing
        )
        return "" if is_able else f"{node.op} writes no 16 bits{self.of_target(node.op)}"

    def of_target(self, *ops: str) -> str:
        """For which target that is so, if its rules say it of one of the ``ops``."""
        is_said = not {*ops}.isdisjoint(self._target.byte_ops)
        is_said |= not self._target.word_tables and not {*ops} <= COMPUTING | PAIRS
        return f" for target {self._target.name!r}" if is_said else ""

    def why_not_read(self, tensor: Tensor) -> str:
        """Why no reader of ``tensor`` may have another copy of it in 8 bits, or nothing."""
        node = self._divisors.get(tensor.name)
        return f"{node.op} takes 8 bits{self.of_target(node.op)}" if node is not None else ""

    def is_read(self, tensor: Tensor, words: Words | None = None) -> bool:
        """Whether who reads ``tensor`` may read 16 bits: or the user does, or a float node.

        ``words``: what computes has to write one of them, for targets with nodes of one width.
        """
        return not tensor.outputs or any(self._may_read(n, words) for n in tensor.outputs)

    def not_reading(self, tensor: Tensor) -> list[Node]:
        """Who reads ``tensor`` in 8 bits whatever it has."""
        apart = [node for node in tensor.outputs if not moves_words(node)]
        return [node for node in apart if not self._may_read(node, None)]

    def _may_read(self, node: Node, words: Words | None) -> bool:
        if id(node) not in self._integer:
            return True
        if self.takes(node) and (words is None or moves(node) or self.writes(node, words)):
            return True
        return id(node) in self._computing and node.op in self._reading

    def is_fed(self, tensor: Tensor, words: Words) -> bool:
        """Whether what writes ``tensor`` reads one of the ``words``."""
        node = self._ends.get(tensor.name) or producer(tensor)
        return node is not None and any(each.name in words for each in node.inputs)

    def reads_stream(self, node: Node, meaning: Quantization) -> bool:
        """Whether an integer ``node`` computes with a residual stream of that ``meaning``."""
        if id(node) not in self._computing or node.op in self._target.byte_ops:
            return False
        return takes_streams(node, meaning)

    def reads(self, node: Node, meaning: Quantization) -> bool:
        """Whether an integer ``node`` computes with words of such a ``meaning``."""
        return self.takes(node) or self.reads_stream(node, meaning)

    def writes(self, node: Node, words: Words) -> bool:
        """Whether ``node``, with what it absorbs, writes 16 bits."""
        return self._written.get(id(node), node.outputs[0].name) in words

    def takes(self, node: Node) -> bool:
        """Whether ``node`` takes 16 bits at any of its ends."""
        if id(node) in self._computing:
            if node.op in self._target.byte_ops:
                return False
            if node.op == "Softmax":
                return self._softmax == "table"
            if node.op in PAIRS and self._target.word_ends == "alike":
                return len(activations(node)) == len(node.inputs)  # constants have 8 bits
            return node.op in COMPUTING or (node.op in PAIRS and not pair_objection(node))
        if id(node) in self._others:  # inside of a chain that takes bytes alone
            return False
        is_clamp = node.op in CLAMPING and id(node) in self._integer
        return is_clamp or id(node) in self._tables


def reads_words(node: Node, chosen: Plan, words: Words, settings: Settings) -> bool:
    """Whether ``node`` computes with its first input, of one tensor, in 16 bits."""
    able = _Able(chosen, settings)
    is_narrow = settings.target.word_ends == "alike" and not able.writes(node, words)
    return node.inputs[0].name in words.wanted and able.takes(node) and not is_narrow


def _takes_words(nodes: Sequence[Node], settings: Settings) -> bool:
    """Whether a chain has a form for 16 bits: wide tables, or multipliers of slopes.

    Of tables for channels near_words asks whether they are near enough.
    """
    form, target = settings.activation_form, settings.target
    if not takes_multipliers(nodes, form, target):
        channels = differing_axes(nodes)
        if not channels or (len(channels) == 1 and _are_few(nodes)):
            return has_wide_tables(target)
    slopes = slopes_of(nodes[0]) if len(nodes) == 1 else None
    is_few = slopes is not None and slopes.size <= MOST_WIDE_SLOPES
    return is_few and not slopes_are_coded(target)


MOST_WIDE_CHANNELS = 256
"""So many tables of 16 bits are run on all codes: each takes a tenth of a second."""


def _are_few(nodes: Sequence[Node]) -> bool:
    """Whether the constants of a chain are of so many channels that tables may be for."""
    found = [constant(each) for node in nodes for each in node.inputs]
    return all(each is None or each.size <= MOST_WIDE_CHANNELS for each in found)


def takes_streams(node: Node, stream: Quantization) -> bool:
    """Whether ``node`` computes with 16 bits for any target: a sum, a norm of known rows."""
    row = row_of(node) if node.op in NORMS else None
    if row is None:
        return bool(node.op == "Add")
    return takes_words(stream, prod(row), epsilon_of(node))


def narrowed_edges(
    graph: Graph,
    chosen: Plan,
    words: Words,
    narrow: Mapping[str, Quantization],
    parameters: Mapping[str, Quantization],
    settings: Settings,
) -> list[Edge]:
    """Where integer nodes that take no 16 bits read one of the ``words``.

    ``narrow``: by the name of each, what 8 bits of it mean. Moving nodes are left out: what
    they move is asked for elsewhere. So are those of a chain that has it inside, unrounded.
    """
    able = _Able(chosen, settings)

    is_alike = settings.target.word_ends == "alike"

    def takes(node: Node, name: str) -> bool:
        if is_alike and not able.writes(node, words):
            return False
        reads = able.reads if name in words.wanted else able.reads_stream
        return reads(node, parameters[name])

    return [
        Edge(node, True, index, tensor.name, narrow[tensor.name])
        for node in graph.nodes
        if id(node) in chosen.integer and not moves(node)
        for index, tensor in enumerate(node.inputs)
        if tensor.name in narrow
        and (id(tensor), id(node)) not in chosen.inner
        and _CELLS.get(node.op) != index
        and not takes(node, tensor.name)
    ]


_CELLS = {"LSTM": INITIAL_C}
"""Where nodes read the state that has 16 bits, whatever else they read or write has."""


def widened_edges(
    graph: Graph,
    chosen: Plan,
    words: Words,
    parameters: Mapping[str, Quantization],
    settings: Settings,
) -> list[Edge]:
    """Where integer nodes that write one of the ``words`` read 8 bits, for targets whose nodes
    have one width: as 16 bits, which hold each level times 128.
    """
    if settings.target.word_ends != "alike":
        return []
    able = _Able(chosen, settings)
    return [
        Edge(node, True, index, tensor.name, _widened(parameters[tensor.name]))
        for node in graph.nodes
        if id(node) in chosen.integer and not moves(node) and able.writes(node, words)
        for index, tensor in enumerate(node.inputs)
        if tensor.name in parameters
        and tensor.name not in words
        and (id(tensor), id(node)) not in chosen.inner
    ]


def _widened(narrow: Quantization) -> Quantization:
    return Quantization(narrow.scale / LEVELS_OF_WORDS, 0, WORD)


LEVELS_OF_WORDS = 128
"""A level of 8 bits, which is 255 at most, so many times is one of 16."""
