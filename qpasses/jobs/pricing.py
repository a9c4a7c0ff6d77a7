"""Pricing: what float tensors cost the outputs in 8 bits, and what 16 bits of them take."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from calibration import Samples
from qpasses.analysis.costing import costs_of, whole_of
from qpasses.checking.meaning import Pair
from qpasses.ir.progress import Progress
from qpasses.ir.record import AnyQuantization
from qpasses.ir.tensor_types import WORD

_WALKED = 4
"""Samples on which costs are measured."""

_PRODUCTS = 2e12
"""Of a large one on fewer: so many products, if each tensor took a walk through all of it."""

_NUMBER = 16
"""A number that is stored takes the time of so many products."""

_Stored: TypeAlias = tuple[str, AnyQuantization]
"""A float tensor, and how it is stored: what it costs alone depends on nothing else."""


@dataclass(frozen=True)
class Priced:
    """Noise over signal of one model: of tensors in 8 bits by name, and of all weights."""

    narrow: Mapping[str, float]
    constants: float


class Prices:
    """What is known of float tensors, from all models that were looked at.

    ``noise``: over signal of what is stored of them in 8 bits, each alone, by name; ``time``:
    what 16 bits take, in products.
    """

    def __init__(self) -> None:
        self.noise = dict[str, float]()
        self.time = dict[str, float]()
        self._known = dict[_Stored, float]()

    def of(self, pair: Pair, samples: Samples, progress: Progress) -> Priced:
        """What a model is made of costs, measured on ``samples`` where it is new."""
        times = dict(_times(pair))
        self.time = times | self.time
        stored = dict(_bytes(pair))
        unknown = {name for name, key in stored.items() if key not in self._known}
        walked = int(_PRODUCTS / max(len(times) * sum(times.values()), 1.0))
        some = samples.spread(max(1, min(walked, _WALKED)))
        if unknown:
            for name, cost in costs_of(pair, some, unknown, progress).items():
                self._known[stored[name]] = cost
        noise = dict[str, float]()
        for real, how in dict.fromkeys(stored.values()):
            noise[real] = noise.get(real, 0.0) + self._known.get((real, how), 0.0)
        self.noise |= noise
        return Priced(noise, whole_of(pair, some).constants)

    def cheapest(self, names: Collection[str], allowed: float) -> list[str]:
        """Of ``names`` those in 16 bits that leave so much noise at most, in little time.

        What gains most for its time comes first, then what is needless with others is left.
        """
        noise, time = self.noise, self.time
        left = sum(noise[name] for name in names)
        chosen = list[str]()
        for name in sorted(names, key=lambda name: (-noise[name] / time[name], name)):
            if left <= allowed or not noise[name]:
                break
            chosen.append(name)
            left -= noise[name]
        for name in sorted(chosen, key=lambda name: (-time[name], name)):
            if left + noise[name] <= allowed:
                chosen.remove(name)
                left += noise[name]
        return chosen


def _bytes(pair: Pair) -> Iterator[tuple[str, _Stored]]:
    """By name in the integer graph, the activations of 8 bits."""
    for name, meaning in pair.meanings.items():
        how = pair.record.tensors.get(name)
        if meaning.stored and how is not None and how.dtype != WORD:
            yield name, (meaning.real, how)


def _times(pair: Pair) -> Iterator[tuple[str, float]]:
    """Float tensors: their products are computed twice, their numbers moved."""
    graph, nodes = pair.integer, pair.record.nodes
    written = (tensor for node in graph.nodes for tensor in node.outputs)
    tensors = {tensor.name: tensor for tensor in (*graph.inputs, *written)}
    for name, meaning in pair.meanings.items():
        if not meaning.stored or name not in tensors:
            continue
        readers = tensors[name].outputs
        macs = sum(nodes[each.name].macs for each in readers if each.name in nodes)
        numbers = prod(pair.sizes.get(meaning.real) or [1])
        yield meaning.real, macs + _NUMBER * numbers * (1 + len(readers))
