"""One rule for a whole device: what explains all nodes, those that do not differ too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.checking.bisecting.explained import some
from qpasses.checking.bisecting.node_sums import Sums
from qpasses.checking.bisecting.other_rules import Rule, codes_by, rules_for


@dataclass(frozen=True)
class Rounded:
    """The sums of a node of type ``op``, and what the device made of them; ``differs``: it is
    not what the node should give.
    """

    op: str
    sums: Sums
    found: NDArray[Any]
    differs: bool

    @cached_property
    def _few(self) -> tuple[Sums, NDArray[Any]]:
        own = codes_by(Rule(self.sums.rounding), self.sums)
        places = some(self.found != own)
        return self.sums.at(places), self.found[places]

    def is_by(self, rule: Rule) -> bool:
        """Whether ``rule`` gives every code; what is right may be none that it is asked of."""
        for sums, found in (self._few, (self.sums, self.found)):
            codes = codes_by(rule, sums)
            if codes is None:
                return not self.differs
            if not np.array_equal(codes, found):
                return False
        return True


def rules_of_all(nodes: Sequence[Rounded]) -> list[str]:
    """The rules that give every code of ``nodes``: of those with fewest departures, all.

    Nodes are left out of whose op type none differs: devices have kernels for each.
    """
    differing = [each for each in nodes if each.differs]
    if not differing:
        return []
    usual, found = differing[0].sums.rounding, list[Rule]()
    known = dict.fromkeys(rule for each in differing for rule in rules_for(each.sums))
    ops = {each.op for each in differing}
    order = [*differing, *(n for n in nodes if n.op in ops and not n.differs)]
    for rule in sorted(known, key=lambda each: each.departures(usual)):
        if found and rule.departures(usual) > found[0].departures(usual):
            break
        if all(each.is_by(rule) for each in order):
            found.append(rule)
    return [*map(str, found)]


def rules_by_op(nodes: Sequence[Rounded]) -> Mapping[str, Sequence[str]]:
    """``rules_of_all`` of the nodes of each op type of which some differ."""
    ops = dict.fromkeys(each.op for each in nodes if each.differs)
    return {op: rules_of_all([each for each in nodes if each.op == op]) for op in ops}
