"""What a device stored beside the exact integers: which node differs, and what explains it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from qpasses.checking.bisecting.explained import Explanation

Status = Literal["equal", "differs", "inherits", "missing", "unread"]
"""Of a tensor. ``differs``: it is not what its node gives for the inputs that the device has;
``inherits``: it is, but these are wrong; ``unread``: what is there is no such tensor."""

SHOWN_DIFFERENCES = 9
"""So many differences are counted apart, the most frequent ones."""


@dataclass
class Tensor:
    """A stored tensor over all samples.

    ``nodes``: those that lie between it and ``starts``, what is known before it; the last one
    writes it. ``differing`` of ``codes`` are not what its nodes make of these, ``samples`` of
    them hold such; ``inherited`` are, and differ from the exact integers. ``differences``: by
    device's code minus expected one how many, ``others`` those that are counted together.
    """

    name: str
    op: str
    nodes: Sequence[str] = ()
    starts: Sequence[str] = ()
    status: Status = "equal"
    codes: int = 0
    differing: int = 0
    inherited: int = 0
    samples: int = 0
    largest: int = 0
    differences: Counter[int] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    explanation: Explanation | None = None

    @property
    def node(self) -> str:
        """The node that writes it; nothing of an input."""
        return self.nodes[-1] if self.nodes else ""

    def count(self, found: NDArray[Any], expected: NDArray[Any]) -> None:
        """Add the codes of a sample that differ from what its nodes give."""
        apart = found.astype(np.int64) - expected.astype(np.int64)
        values, counts = np.unique(apart[apart != 0], return_counts=True)
        self.differing += int(counts.sum())
        self.samples += bool(len(values))
        self.largest = max(self.largest, int(np.abs(values).max(initial=0)))
        self.differences.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def remark(self, text: str) -> None:
        """Say it once."""
        if text and text not in self.remarks:
            self.remarks.append(text)

    def as_json(self) -> dict[str, Any]:
        """The fields."""
        frequent = self.differences.most_common(SHOWN_DIFFERENCES)
        return {
            "tensor": self.name,
            "node": self.node,
            "op": self.op,
            "status": self.status,
            "nodes": [*self.nodes],
            "starts": [*self.starts],
            "codes": self.codes,
            "differing": self.differing,
            "inherited": self.inherited,
            "samples": self.samples,
            "largest": self.largest,
            "differences": [[apart, count] for apart, count in sorted(frequent)],
            "other_differences": self.differing - sum(count for _, count in frequent),
            "remarks": self.remarks,
            "explanation": self.explanation and self.explanation.as_json(),
        }


@dataclass(frozen=True)
class Bisection:
    """All stored tensors in the order of the graph.

    ``by_op``: by op type the rules that give every code of all nodes of that type whose sums
    are known, also of those that do not differ; ``rules`` the same of all nodes.
    """

    samples: Sequence[str]
    tensors: Sequence[Tensor]
    rules: Sequence[str]
    by_op: Mapping[str, Sequence[str]]
    remarks: Sequence[str]

    @property
    def faults(self) -> Sequence[Tensor]:
        """The tensors that are not what their nodes give, the first one first."""
        return self.of("differs")

    def of(self, status: Status) -> Sequence[Tensor]:
        """Those of this status."""
        return [each for each in self.tensors if each.status == status]

    @property
    def verdict(self) -> Literal["equal", "differs", "unread"]:
        """``unread``: all that could be read is equal, but not all could be."""
        if self.faults or self.of("inherits"):
            return "differs"
        return "unread" if self.of("unread") else "equal"

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` writes."""
        first = self.faults[0] if self.faults else None
        return {
            "command": "bisect",
            "verdict": self.verdict,
            "samples": [*self.samples],
            "first": first and {"node": first.node, "tensor": first.name},
            "rules": [*self.rules],
            "rules_by_op": {op: [*rules] for op, rules in self.by_op.items()},
            "tensors": [each.as_json() for each in self.tensors],
            "remarks": [*self.remarks],
        }
