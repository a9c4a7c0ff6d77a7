"""Bisecting a dump: sample by sample beside the exact integers, then what explains it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibration.inputs import Feed
from opsets.errors import DataError
from qpasses.checking.bisecting.bisection import Bisection, Tensor
from qpasses.checking.bisecting.compared_samples import Compared, Comparing, Stored
from qpasses.checking.bisecting.dump_files import Dump
from qpasses.checking.bisecting.each_iteration import EachIteration
from qpasses.checking.bisecting.explained import Case, Explanation, explained
from qpasses.checking.bisecting.explained_together import Rounded, rules_by_op, rules_of_all
from qpasses.checking.bisecting.node_sums import joined, sums_of
from qpasses.checking.bisecting.seen_differences import seen
from qpasses.checking.bisecting.stored_tensors import StoredTensors
from qpasses.ir.graph import Node, constant
from qpasses.ir.progress import Progress

Fed = Callable[[str], tuple[str, Feed]]

KEPT = 4
"""So many samples in which a tensor differs are looked at for what explains it alone."""

MOST_KEPT = 16 << 20
"""So many bytes of all tensors are kept for what explains all of them together."""


def bisected(
    stored: StoredTensors,
    dump: Dump,
    fed: Fed | None,
    progress: Progress,
) -> Bisection:
    """Compare ``dump`` with the exact integers of the model.

    ``fed``: by sample of the dump what it is called, and what the integer model is fed;
    without them what the dump holds of inputs is taken as right. Raises UsageError or
    DataError where nothing can be compared, ModelError.
    """
    comparing, found = Comparing(stored), _Found(stored)
    advance = progress("compare samples", len(dump.samples))
    for each in dump.samples:
        name, feed = (each.name, None) if fed is None else fed(each.name)
        found.add(comparing.compare(each, name, feed))
        advance()
    remarks = [dump.remark(stored.names)]
    if fed is None:
        remarks.append("no samples were given: what the device was fed is taken from its dump")
    return found.result([text for text in remarks if text], progress)


@dataclass
class _Found:
    """What was found so far."""

    stored: StoredTensors
    samples: list[str] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    cases: dict[str, list[Case]] = field(default_factory=dict)
    kept: list[Compared] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    bytes: int = 0

    def __post_init__(self) -> None:
        self.each = EachIteration(self.stored)
        for name in self.stored.names:
            node = self.stored.writers.get(name)
            self.tensors[name] = Tensor(name, "" if node is None else str(node.op))
        self.known = {*self.stored.names}

    def add(self, compared: Compared) -> None:
        """Count what differs in a sample."""
        self.samples.append(compared.sample)
        if not self.kept or self.bytes < MOST_KEPT:
            self.kept.append(compared)
            self.bytes += sum(each.nbytes for each in compared.expected.values())
        self.known &= compared.found.keys()
        for name, tensor in self.tensors.items():
            if name in compared.problems:
                tensor.status = "unread"
                tensor.remark(f"{compared.sample}: {compared.problems[name]}")
            elif name in compared.found:
                self.counts[name] += 1
                tensor.remark(compared.notes.get(name, ""))
                self._count(tensor, compared)

    def _count(self, tensor: Tensor, compared: Compared) -> None:
        name = tensor.name
        found, expected = compared.found[name], compared.expected[name]
        tensor.codes += found.size
        if np.array_equal(found, compared.exact[name]):
            if not np.array_equal(found, expected):
                self._blame_dumps(name, compared)
        elif np.array_equal(found, expected):
            tensor.inherited += int(np.count_nonzero(found != compared.exact[name]))
        else:
            tensor.count(found, expected)
            limits = self.stored.meaning(name).limits
            for text in seen(found, expected, limits):
                tensor.remark(text)
            cases = self.cases.setdefault(name, [])
            if len(cases) < KEPT:
                cases.append(_case(name, compared))

    def _blame_dumps(self, name: str, compared: Compared) -> None:
        """``name`` is exact though what it is made from is not, as it was dumped."""
        for start in self.stored.between(name, compared.found)[1]:
            if start in compared.found:
                exact = compared.exact[start]
                if not np.array_equal(compared.found[start], exact):
                    self.tensors[start].remark(
                        "what reads it was computed from the exact codes: look at how it was "
                        "dumped, not at its node"
                    )

    def result(self, remarks: Sequence[str], progress: Progress) -> Bisection:
        """All of it, with what explains it. Raises DataError if nothing could be read."""
        if not any(tensor.codes for tensor in self.tensors.values()):
            unread = next(t for t in self.tensors.values() if t.status == "unread")
            raise DataError(
                f"no tensor of the dump can be read: {unread.name!r} {unread.remarks[0]}"
            )
        for tensor in self.tensors.values():
            self._judge(tensor)
        faults = [each for each in self.tensors.values() if each.status == "differs"]
        advance = progress("look for what explains it", len(faults) + 1)
        for tensor in faults:
            tensor.explanation = self._explained(tensor)
            advance()
        nodes = self._rounded() if faults else []
        rules, by_op = rules_of_all(nodes), rules_by_op(nodes)
        advance()
        return Bisection(self.samples, [*self.tensors.values()], rules, by_op, remarks)

    def _judge(self, tensor: Tensor) -> None:
        if tensor.name in self.stored.writers:
            tensor.nodes, tensor.starts = self.stored.between(tensor.name, self.known)
        if tensor.differing:
            tensor.status = "differs"
            if tensor.name in self.stored.starts:
                tensor.remark("other samples than these, or other preprocessing")
        elif tensor.inherited:
            tensor.status = "inherits"
        elif not tensor.codes and tensor.status != "unread":
            tensor.status = "missing"
        if 0 < self.counts[tensor.name] < len(self.samples):
            tensor.remark(f"is there in {self.counts[tensor.name]} samples alone")

    def _explained(self, tensor: Tensor) -> Explanation | None:
        node = self.stored.writers.get(tensor.name)
        cases = self.cases[tensor.name]
        if node is None or not _are_known(node, cases[0].values):
            return None
        turns = self.each.cases(node, cases)
        if turns is None:
            tensor.remark("its iterations do not lie stacked: what explains it is not asked")
            return None
        if len(tensor.nodes) > 1:
            before = ", ".join(map(repr, tensor.nodes[:-1]))
            tensor.remark(f"if {before} are right, of which nothing was dumped")
        return explained(node, self.stored.read.record.nodes.get(node.name), turns)

    def _rounded(self) -> list[Rounded]:
        """The nodes whose sums are known, with all around them, in the samples kept."""
        made = []
        for name, tensor in self.tensors.items():
            node = self.stored.writers.get(name)
            entry = node and self.stored.read.record.nodes.get(node.name)
            if (
                node is None
                or entry is None
                or tensor.nodes != [node.name]
                or name not in self.known
            ):
                continue
            turns = self.each.cases(node, [_case(name, each) for each in self.kept])
            if not turns or not _are_known(node, turns[0].values):
                continue
            sums = [sums_of(node, entry, each.values) for each in turns]
            known = [each for each in sums if each is not None]
            if len(known) < len(sums):
                continue
            codes = np.concatenate([each.found.ravel() for each in turns])
            expected = np.concatenate([each.expected.ravel() for each in turns])
            differs = not np.array_equal(codes, expected)
            made.append(Rounded(tensor.op, joined(known), codes, differs))
        return made


def _case(name: str, compared: Compared) -> Case:
    values = {**compared.expected, **compared.found}
    return Case(values, compared.expected[name], compared.found[name])


def _are_known(node: Node, values: Stored) -> bool:
    """Whether all that it reads is stored."""
    return all(constant(each) is not None or each.name in values for each in node.inputs)
