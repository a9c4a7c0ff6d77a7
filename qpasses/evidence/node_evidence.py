"""Evidence: per integer node, what was proved, on how many inputs, and what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

EvidenceKind = Literal["thresholds", "exhaustive", "bounded", "structural", "sampled", "none"]

PROVED: frozenset[EvidenceKind] = frozenset(
    {"thresholds", "exhaustive", "bounded", "structural"}
)
"""Kinds that cover every input; the others make a verdict incomplete."""


@dataclass(frozen=True)
class NodeEvidence:
    """What is known of one integer node.

    ``domain``: the number of inputs the claim covers (accumulators over all channels, pairs or
    codes; 0 for ops that move integers). ``mismatches``: body against meaning.
    ``reference_moved``: inputs on which the meaning differs from real arithmetic,
    ``reference_max_lsb``: by how much at most, ``moved_channels``: in which output channels of
    a sum of products. ``accumulator``: what the int32 sum can reach,
    with ``headroom_bits`` left. ``bound``: where the kind is bounded, how far a result can be
    from the real one before it is rounded, in steps of the output. ``costs_ns``: of a table,
    what each body that was considered is estimated to cost, None for one that gives other
    entries.
    """

    name: str
    op: str
    kind: EvidenceKind
    domain: int
    mismatches: int
    body: str
    reference_moved: int = 0
    reference_max_lsb: int = 0
    channels: int = 0
    moved_channels: Sequence[int] = ()
    accumulator: tuple[int, int] | None = None
    headroom_bits: int | None = None
    bound: float | None = None
    costs_ns: Mapping[str, int | None] = field(default_factory=dict)
    problem: str = ""

    @property
    def proved(self) -> bool:
        """Whether every input is covered and body and meaning agree on all of them."""
        return self.kind in PROVED and self.mismatches == 0 and not self.problem

    def as_json(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return vars(self) | {"costs_ns": dict(self.costs_ns)}
