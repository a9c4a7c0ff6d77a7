"""Alignment as TPU-MLIR does it: ranges spread over the graph, stage by stage, rule by rule.

Source: calibration_process of TPU-MLIR lib/Conversion/TopToTpu/ConvertTopToTpu.cpp. A stage is
a list of rules, which are applied to all nodes until nothing changes. They do not know all
moving ops: where their ends differ in the end, qpasses.place.rescaling puts a table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from calibration import Range
from qpasses.ir.graph import Graph, Node
from qpasses.place.alignment import spreading as s
from qpasses.place.alignment.spreading import View

Chip = Literal["bm1684x", "bm1688", "bm1690", "bm1684", "cv18xx"]

MOST_SWEEPS = 10
"""Of a stage over the graph, like the greedy driver of MLIR: rules may go on for ever."""

BM1684X: frozenset[str] = frozenset({"bm1684x", "bm1688"})
BM1690: frozenset[str] = frozenset({"bm1690"})
BM1684: frozenset[str] = frozenset({"bm1684"})
CV18XX: frozenset[str] = frozenset({"cv18xx"})
BM = BM1684X | BM1690 | BM1684
ALL = BM | CV18XX


@dataclass(frozen=True)
class Rule:
    """What is done at nodes of an ``op`` (in their words, see spreading.OPS) for ``chips``."""

    op: str
    apply: Callable[[View, Node], bool]
    chips: frozenset[str] = ALL


def _rules(
    ops: str, apply: Callable[[View, Node], bool], chips: frozenset[str] = ALL
) -> list[Rule]:
    return [Rule(op, apply, chips) for op in ops.split()]


SIGNS = [
    *_rules("AvgPool MaxPool Abs", s.keep_sign),
    *_rules("Add AddConst", s.keep_sum_sign),
    *_rules("SubConst", s.keep_difference_sign),
]
SELECTIONS = [*_rules("Where", s.where), *_rules("MaskedFill", s.masked_fill)]

STAGES: Sequence[Sequence[Rule]] = (
    _rules("Reshape Permute", s.forward),
    SIGNS,
    [
        *_rules("Mul", s.keep_product_sign, BM),
        *_rules("SubConst", s.keep_difference_sign, BM),
        *_rules("Sub", s.difference_has_a_sign, BM),
    ],
    _rules("Concat Min Max", s.joined),
    [
        *_rules("Relu MaxPool Depth2Space Abs", s.backward),
        *_rules("PRelu LeakyRelu", s.backward_maximum, BM),
        *_rules("LeakyRelu ScatterND", s.backward, CV18XX),
    ],
    _rules("Add", s.sum_of_products, BM1684X | BM1690),
    _rules("Compare", s.compared),
    SELECTIONS,
    [
        *_rules("Relu MaxPool MinConst MaxConst MaxUnpool Reshape Unsqueeze", s.forward),
        *_rules("Squeeze Slice Tile Pad Permute Upsample LeakyRelu Abs", s.forward),
        *_rules("MulConst", s.forward_multiple),
        *_rules("PRelu", s.forward, BM),
        *_rules("ReduceMax ReduceMin", s.forward, CV18XX),
        *_rules("AvgPool", s.forward, BM1684),
    ],
    SIGNS,
    SELECTIONS,
)
"""In order. ArgMax and ArgMin, which have results of values there, have none in ONNX."""


def spread(
    graph: Graph, ranges: Mapping[str, Range], chip: Chip = "bm1684x"
) -> dict[str, Range]:
    """The ranges that come of ``ranges`` on ``chip``; tensors without one are passed over."""
    view = View(graph, dict(ranges))
    for stage in STAGES:
        rules = [rule for rule in stage if chip in rule.chips]
        for _ in range(MOST_SWEEPS):
            done = [
                rule.apply(view, node)
                for node in graph.nodes
                for rule in rules
                if rule.op == s.called(node)
            ]
            if not any(done):
                break
    return view.ranges


def spread_thresholds(
    graph: Graph, ranges: Mapping[str, Range], chip: Chip = "bm1684x"
) -> dict[str, Range]:
    """``spread`` for symmetric codes: a range is a threshold, and whether it has a sign.

    What TPU-MLIR makes a scale of is the larger of both ends in size; the minimum says
    whether there is a sign too (getThreshold in lib/Support/Module.cpp; older versions took
    the maximum alone). They differ where a rule leaves a minimum that is farther from 0: an
    input of LeakyRelu or PRelu that takes the maximum of its output and keeps its own minimum.
    """
    given = {name: _reaching(max(-r.low, r.high), r) for name, r in ranges.items()}
    found = spread(graph, given, chip)
    return {name: _reaching(max(-r.low, r.high), r) for name, r in found.items()}


def _reaching(threshold: float, real: Range) -> Range:
    return Range(-threshold if real.low < 0 else 0.0, threshold)
