"""Pricing: what float tensors cost the outputs in 8 bits, and what 16 bits of them take."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from calibration import Samples
from qpasses.analysis.costing import costs_of, whole_of
from qpasses.checking.meaning import Pair, is_integer
from qpasses.ir.progress import Progress
from qpasses.ir.record import AnyQuantization
from qpasses.ir.tensor_types import WORD

_WALKED, _LEAST = 32, 4
"""Samples on which costs are measured at most, and at least: single ones are far apart, and
four of digits_vit found a fifth of the noise of some tensors that 64 did."""

_PRODUCTS, _LARGE = 2e11, 2e12
"""So many products, if each tensor took a walk through all of a model: on so many samples as
take the first; on less than ``_LEAST`` where these take more than the second."""

_NUMBER, _NODE = 16, 5e5
"""A number that is stored takes the time of so many products, and a node that of so many."""

_Stored: TypeAlias = tuple[str, AnyQuantization]
"""A float tensor, and how it is stored: what it costs alone depends on nothing else."""


@dataclass(frozen=True)
class Priced:
    """Noise over signal of one model.

    ``narrow``: of tensors in 8 bits, by name, with that of copies in 8 bits which are there
    for them alone; ``copies``: of the others, of tensors that have 16; ``wide``: the names of
    these; ``constants``: of all weights.
    """

    narrow: Mapping[str, float]
    copies: float
    wide: frozenset[str]
    constants: float


class Prices:
    """What is known of float tensors, from all models that were looked at.

    ``noise``: over signal of what is stored of them in 8 bits, each alone, by name; ``time``:
    what 16 bits take, in products. What moving nodes make of a tensor is part of it.
    """

    def __init__(self) -> None:
        self.noise = dict[str, float]()
        self.time = dict[str, float]()
        self._known = dict[_Stored, float]()

    def of(self, pair: Pair, samples: Samples, progress: Progress) -> Priced:
        """What a model is made of costs, measured on ``samples`` where it is new.

        Where nodes have one width, who writes 8 bits reads a copy in 8 bits of what has 16:
        that is part of what is written.
        """
        times = _times(pair)
        self.time = times | self.time
        found = dict(_computed(pair))
        anew = _stored_anew(pair)
        own = [each for name, each in found.items() if name not in anew]
        wide = frozenset(real for real, how in own if how.dtype == WORD)
        stored = {name: each for name, each in found.items() if each[1].dtype != WORD}
        unknown = {name for name, key in stored.items() if key not in self._known}
        some = samples.spread(_walked(times.values(), len(pair.integer.nodes)))
        if unknown:
            costs = costs_of(pair, some, unknown, progress)
            self._known |= {stored[name]: cost for name, cost in costs.items()}
            for name in unknown - costs.keys():  # no output hears of it
                self._known.setdefault(stored[name], 0.0)
        narrow, copies = dict[str, float](), 0.0
        for key in dict.fromkeys(stored.values()):
            if key[0] not in wide:
                narrow[key[0]] = narrow.get(key[0], 0.0) + self._known[key]
        ends = _written(pair) if pair.settings.target.word_ends == "alike" else {}
        behind = dict[_Stored, set[str]]()
        for name, key in stored.items():
            behind.setdefault(key, set()).update(ends.get(name, ()))
        for key in [key for key in behind if key[0] in wide]:
            made = sorted(behind[key] & narrow.keys())
            for real in made:
                narrow[real] += self._known[key] / len(made)
            copies += 0.0 if made else self._known[key]
        self.noise |= narrow
        return Priced(narrow, copies, wide, whole_of(pair, some).constants)

    def cheapest(self, names: Collection[str], allowed: float) -> list[str]:
        """Of ``names`` those in 16 bits that leave so much noise at most, in little time.

        What gains most for its time comes first, then what is needless with others is left.
        """
        noise, time = self.noise, self.time
        heard = [name for name in names if noise[name]]
        left = sum(noise[name] for name in heard)
        chosen = list[str]()
        for name in sorted(heard, key=lambda name: (-noise[name] / time[name], name)):
            if left <= allowed:
                break
            chosen.append(name)
            left -= noise[name]
        for name in sorted(chosen, key=lambda name: (-time[name], name)):
            if left + noise[name] <= allowed:
                chosen.remove(name)
                left += noise[name]
        return chosen


def _walked(times: Collection[float], nodes: int) -> int:
    """On how many samples costs are measured."""
    products = max(len(times) * (sum(times) + _NODE * nodes), 1.0)
    most, large = (int(each / products) for each in (_PRODUCTS, _LARGE))
    return max(1, min(large, _LEAST), min(most, _WALKED))


def _computed(pair: Pair) -> Iterator[tuple[str, _Stored]]:
    """By name in the integer graph, the activations that are rounded: not what is moved."""
    writers = {tensor.name: node for node in pair.integer.nodes for tensor in node.outputs}
    for name, meaning in pair.meanings.items():
        node, how = writers.get(name), pair.record.tensors.get(name)
        is_computed = node is None or is_integer(node) or node.op == "QuantizeLinear"
        if meaning.stored and how is not None and is_computed:
            yield name, (meaning.real, how)


def _stored_anew(pair: Pair) -> set[str]:
    """Tensors of the integer graph that are another one with a scale or type of their own."""
    found = set[str]()
    for node in pair.integer.nodes:
        ends = [pair.meanings.get(each.name) for each in (*node.inputs[:1], *node.outputs[:1])]
        if is_integer(node) and None not in ends and len({e.real for e in ends if e}) == 1:
            found.add(node.outputs[0].name)
    return found


def _written(pair: Pair) -> Mapping[str, Collection[str]]:
    """By tensor of the integer graph, the float tensors that are made of it next."""
    found = dict[str, dict[str, None]]()
    for node in filter(is_integer, pair.integer.nodes):
        reals = [pair.meanings[e.name].real for e in node.outputs if e.name in pair.meanings]
        for tensor in node.inputs:
            found.setdefault(tensor.name, {}).update(dict.fromkeys(reals))
    return found


def _times(pair: Pair) -> dict[str, float]:
    """Float tensors: their products are computed twice, their numbers moved."""
    graph, nodes, found = pair.integer, pair.record.nodes, dict[str, float]()
    written = (tensor for node in graph.nodes for tensor in node.outputs)
    for tensor in reversed([*graph.inputs, *written]):  # what is made of it comes first
        meaning = pair.meanings.get(tensor.name)
        if meaning is None or not meaning.stored:
            continue
        readers = [node for node in tensor.outputs if is_integer(node)]
        moved = [end for n in tensor.outputs if not is_integer(n) for end in n.outputs]
        macs = sum(nodes[each.name].macs for each in readers if each.name in nodes)
        numbers = prod(pair.sizes.get(meaning.real) or [1])
        time = macs + _NUMBER * numbers * (1 + len(tensor.outputs))
        found[tensor.name] = 1.0 + time + sum(found.get(end.name, 0.0) for end in moved)
    computed = dict(_computed(pair))
    return {computed[name][0]: time for name, time in found.items() if name in computed}
