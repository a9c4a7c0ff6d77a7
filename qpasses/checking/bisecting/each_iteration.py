"""Each iteration: what a node of a loop read and gave in it, of what lies stacked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qpasses.checking.bisecting.explained import Case
from qpasses.checking.bisecting.stored_tensors import StoredTensors
from qpasses.ir.flow import FLOW
from qpasses.ir.graph import Node, Tensor, constant, rank
from qpasses.ir.homes import Region, regions
from qpasses.ir.interchange import export_spliced


@dataclass(frozen=True)
class EachIteration:
    """Takes apart what is known of nodes in loops; ``stored``: the tensors of their model."""

    stored: StoredTensors

    def cases(self, node: Node, cases: Sequence[Case]) -> Sequence[Case] | None:
        """``cases`` of ``node``, one for each iteration if it is in a loop.

        None where what iterations have does not lie stacked: in a loop within a loop, in a
        branch that some take, where sizes change.
        """
        home = [label for _, label in self._home(node.outputs[0])]
        if node.domain == FLOW:
            return cases
        if "body" not in home:  # of a branch that was not taken there is nothing
            return [each for each in cases if each.found.size] if home else cases
        stacked = [
            tensor for tensor in (*node.inputs, *node.outputs) if self._is_inside(tensor)
        ]
        is_plain = home.count("body") == 1 and home[-1] == "body"
        if not is_plain or not all(_is_stacked(each, cases) for each in stacked):
            return None
        names = [tensor.name for tensor in stacked]
        return [turn for each in cases for turn in _turns(each, names)]

    def _is_inside(self, tensor: Tensor) -> bool:
        varies = bool(tensor.name) and constant(tensor) is None
        return varies and any(label == "body" for _, label in self._home(tensor))

    def _home(self, tensor: Tensor) -> Region:
        return self._regions.get(tensor.name, ())

    @cached_property
    def _regions(self) -> Mapping[str, Region]:
        graph = self.stored.read.graph
        if not any(node.domain == FLOW for node in graph.nodes):
            return {}
        return regions(export_spliced(graph))


def _is_stacked(tensor: Tensor, cases: Sequence[Case]) -> bool:
    count = rank(tensor)
    known = [each.values[tensor.name].ndim for each in cases if tensor.name in each.values]
    return count is not None and all(ndim == count + 1 for ndim in known)


def _turns(case: Case, names: Sequence[str]) -> Iterator[Case]:
    """``names``: what lies stacked of iterations."""
    stacks = {name: case.values[name] for name in names if name in case.values}
    for place, (expected, found) in enumerate(zip(case.expected, case.found, strict=True)):
        here: dict[str, NDArray[Any]] = {
            name: np.asarray(stack[place]) for name, stack in stacks.items()
        }
        yield Case({**case.values, **here}, np.asarray(expected), np.asarray(found))
