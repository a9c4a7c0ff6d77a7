"""What each tensor of an integer graph stands for, and what rules ask of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from opsets.row_blocks import blocks
from qpasses.checking.known import NOTHING, Known
from qpasses.checking.sizes import Counted, sizes_of
from qpasses.ir.flow import FLOW
from qpasses.ir.graph import Graph, Node, Tensor, constant, input_at, is_graph
from qpasses.ir.record import (
    AnyQuantization,
    ChannelQuantization,
    NodeRecord,
    Quantization,
    Record,
)
from qpasses.ir.settings import Settings
from qpasses.ir.stages import LOOKUPS, RECURRENT, SLOPED, TABULATED


class DifferenceError(Exception):
    """What a rule finds where nothing behind it can be compared."""


class UnknownError(Exception):
    """A tensor stands for nothing that is known: what writes it is different already."""


@dataclass(frozen=True)
class Meaning:
    """The float tensor called ``real``; ``stored``: as integers, None for itself."""

    real: str
    stored: AnyQuantization | None = None


@dataclass
class Pair:
    """An integer graph and the float graph it is to compute, with what is known so far.

    ``known``: what the original says itself, if it is quantized. ``meanings`` are by the name
    of a tensor of the integer graph. ``counted``: what is measured of the float graph.
    ``operands``: the constants that a record may say the scale of. ``raised``: by float node,
    the channels whose weights have a wider scale because of their bias.
    """

    integer: Graph
    record: Record
    settings: Settings
    real: Graph
    known: Known = NOTHING
    meanings: dict[str, Meaning] = field(default_factory=dict)
    operands: set[str] = field(default_factory=set)
    raised: dict[str, list[int]] = field(default_factory=dict)
    counted: Counted = field(default_factory=Counted)

    @cached_property
    def float_nodes(self) -> Mapping[str, Node]:
        """The float nodes, by name."""
        return {node.name: node for node in self.real.nodes}

    @cached_property
    def float_tensors(self) -> Mapping[str, Tensor]:
        """The float graph's own inputs and what its nodes write, by name."""
        written = [tensor for node in self.real.nodes for tensor in node.outputs]
        return {tensor.name: tensor for tensor in [*self.real.inputs, *written]}

    @cached_property
    def sizes(self) -> Mapping[str, Sequence[int]]:
        """The sizes of float tensors for the recorded ones of inputs, where known."""
        return sizes_of(self.real, self.record.sizes)

    def meaning(self, tensor: Tensor) -> Meaning:
        """What a tensor that varies stands for. Raises UnknownError."""
        found = self.meanings.get(tensor.name)
        if found is None:
            raise UnknownError(tensor.name)
        return found


@dataclass(frozen=True)
class Site:
    """A node of the integer graph, and the float nodes that it is to compute, in order."""

    node: Node
    chain: Sequence[Node]
    pair: Pair

    @property
    def entry(self) -> NodeRecord:
        """What the record says of the node."""
        return self.pair.record.nodes[self.node.name]

    @property
    def settings(self) -> Settings:
        """Those that the model was made with."""
        return self.pair.settings

    @property
    def first(self) -> Node:
        """The float node that computes, clamps may follow. Raises DifferenceError."""
        if not self.chain:
            raise DifferenceError("its record names no node of the float model")
        return self.chain[0]

    @cached_property
    def inputs(self) -> Mapping[str, Tensor]:
        """By the names of the op's signature."""
        return dict(zip(OPS[self.node.op].inputs, self.node.inputs, strict=True))

    @cached_property
    def given(self) -> Mapping[str, NDArray[Any]]:
        """The constant inputs, by the names of the op's signature."""
        pairs = self.inputs.items()
        return {name: value for name, t in pairs if (value := constant(t)) is not None}

    @property
    def y(self) -> Quantization:
        """How the node's first output is stored. Raises DifferenceError if by channels."""
        return _of_tensor(self.any_y, self.node.outputs[0])

    @property
    def any_y(self) -> AnyQuantization:
        """How the node's first output is stored, all of it or each channel."""
        return stored_as(self.pair, self.node.outputs[0])

    def is_op(self, *ops: str) -> None:
        """Raise DifferenceError unless the first float node is a standard one of ``ops``."""
        if self.first.op not in ops or not is_standard(self.first):
            raise DifferenceError(
                f"computes {self.first.op} {self.first.name!r}, which is none of "
                f"{', '.join(ops)}"
            )

    def operand(self, ours: Tensor, theirs: Tensor) -> Quantization:
        """How ``ours`` stores the float tensor ``theirs``.

        Raises DifferenceError if it stores another one, or by channels, UnknownError.
        """
        return _of_tensor(self.any_operand(ours, theirs), ours)

    def any_operand(self, ours: Tensor, theirs: Tensor) -> AnyQuantization:
        """The same, all of it or each channel."""
        found = self.pair.meaning(ours)
        if found.real != theirs.name:
            raise DifferenceError(
                f"reads {ours.name!r}, which is {found.real!r}, not {theirs.name!r}"
            )
        if found.stored is None:
            raise DifferenceError(f"reads {ours.name!r}, which is not stored as integers")
        return found.stored

    def stored(self, ours: Tensor) -> Quantization:
        """How ``ours`` stores whatever it stands for.

        Raises DifferenceError if it does not, or by channels, UnknownError.
        """
        found = self.pair.meaning(ours).stored
        if found is None:
            raise DifferenceError(f"{ours.name!r} is not stored as integers")
        return _of_tensor(found, ours)

    def follows(self, before: Node, node: Node) -> None:
        """Raise DifferenceError unless ``node`` reads at input 0 what ``before`` writes."""
        if node.inputs[0] is not before.outputs[0]:
            raise DifferenceError(
                f"{node.name!r} does not follow {before.name!r} in the float model"
            )


def _of_tensor(found: AnyQuantization, tensor: Tensor) -> Quantization:
    if isinstance(found, ChannelQuantization):
        raise DifferenceError(f"{tensor.name!r} has scales of its channels here")
    return found


def stored_as(pair: Pair, tensor: Tensor) -> AnyQuantization:
    """How ``tensor`` is stored by the record. Raises DifferenceError if it is not."""
    found = pair.record.tensors.get(tensor.name)
    if found is None:
        raise DifferenceError(f"the record does not say how {tensor.name!r} is stored")
    return found


def check_record(
    site: Site, scales: Mapping[str, Sequence[float]], cells: int = 1, macs: int = 0
) -> Iterator[str]:
    """What the record says of the real scales, cells and multiply-accumulates of a node."""
    entry = site.entry
    for name in sorted(scales.keys() | entry.scales.keys()):
        found, expected = (list(each.get(name, [])) for each in (entry.scales, scales))
        yield from unlike(f"the recorded scale of {name}", found, expected)
    yield from unlike("the recorded number of cells", entry.cells, cells)
    yield from unlike("the recorded number of multiply-accumulates", entry.macs, macs)


def unasked(node: Node, entry: NodeRecord) -> Iterator[str]:
    """The entries of a record that say something which a node like this one never has."""
    tabulated = is_integer(node) and node.op in TABULATED
    empty: list[tuple[str, bool]] = [
        ("function", bool(entry.function) and not (tabulated or node.op in _FUNCTIONAL)),
        ("undefined", bool(entry.undefined) and not (tabulated and entry.function)),
        (
            "bounds",
            list(entry.bounds) != [None, None] and (node.op != "Lut" or bool(entry.function)),
        ),
        (
            "requantizes",
            bool(entry.requantizes) and (node.op != "Lut" or bool(entry.function)),
        ),
        ("costs", bool(entry.costs) and not (is_integer(node) and node.op in LOOKUPS)),
        ("bias", bool(entry.bias) and node.op not in ("IntConv", "IntGemm")),
        ("weights", bool(entry.weights) and node.op not in _ROUNDED),
        ("correction", bool(entry.correction) and node.op not in _ROUNDED),
    ]
    kind = f"such a {node.op}"
    yield from (f"its record has {name}, {kind} has none" for name, wrong in empty if wrong)


def of_two_widths(site: Site) -> Iterator[str]:
    """Where a node has tensors of 8 and of 16 bits, for a target whose nodes have one width.

    What stores a tensor anew, and computes nothing, has both, and so have recurrent nodes,
    whose states have 16 bits: their rules say which.
    """
    is_apart = site.settings.target.word_ends == "alike" and site.node.op not in RECURRENT
    if not is_apart or not site.chain:
        return
    known = site.pair.record.tensors
    ends = [t.name for t in (*site.node.inputs, *site.node.outputs) if t.name in known]
    if len({known[name].dtype == "int16" for name in ends}) > 1:
        yield "it has tensors of 8 and of 16 bits, which its target takes apart"


_FUNCTIONAL = SLOPED | RECURRENT
"""Ops that record which functions they compute."""

_ROUNDED = ("IntConv", "IntConvPerChannel", "IntGemm")
"""Ops whose weights are rounded, and biases corrected, here."""


def is_standard(node: Node) -> bool:
    """Whether ONNX itself defines its op, or it stands for a value of one with bodies."""
    return node.domain in (None, "", "ai.onnx", FLOW)


def is_integer(node: Node) -> bool:
    """Whether it is a node of domain ``qpasses``."""
    return bool(node.domain == DOMAIN)


def unlike(what: str, found: Any, expected: Any) -> Iterator[str]:
    """The first place where two arrays, numbers or texts differ, and how many more do."""
    ours, theirs = np.asarray(found), np.asarray(expected)
    if ours.shape != theirs.shape:
        yield f"{what} has shape {list(ours.shape)}, expected {list(theirs.shape)}"
        return
    if ours.dtype.kind not in "OU" and ours.dtype != theirs.dtype:
        yield f"{what} is {ours.dtype}, expected {theirs.dtype}"
        return
    if _is_equal(ours, theirs):
        return
    wrong = np.argwhere(~((ours == theirs) | ((ours != ours) & (theirs != theirs))))
    if len(wrong):
        first = tuple(wrong[0].tolist())
        place = f"[{', '.join(map(str, first))}]" if first else ""
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        yield f"{what}{place} is {ours[first]}, expected {theirs[first]}{more}"


def _is_equal(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Whether all numbers are, none of them NaN, looked at in parts: weights may be many."""
    ours, theirs = np.atleast_1d(ours), np.atleast_1d(theirs)
    return all((ours[part] == theirs[part]).all() for part in blocks(ours))


def unlike_attributes(found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Attributes that differ, or that one side lacks."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in found or name not in expected:
            side = "missing" if name in expected else "not expected"
            yield f"attribute {name} is {side}"
        elif not same(found[name], expected[name]):
            yield f"attribute {name} is {found[name]}, expected {expected[name]}"


def same(ours: Any, theirs: Any) -> bool:
    """Whether two attributes are equal, tensors by their values."""
    if is_graph(ours) or is_graph(theirs):
        return False
    values = [np.asarray(getattr(each, "values", each)) for each in (ours, theirs)]
    return bool(values[0].shape == values[1].shape) and not any(unlike("", *values))


def float_constant(node: Node, index: int) -> NDArray[Any] | None:
    """The constant at ``index`` of a float node, None where it has none.

    Raises DifferenceError where the input varies.
    """
    tensor = input_at(node, index)
    value = constant(tensor)
    if value is None and tensor is not None:
        raise DifferenceError(f"input {index} of {node.name!r} varies in the float model")
    return value
