"""Costing: what the outputs lose by all that is stored, by weights, and by tensors alone."""

from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from calibration import Samples
from calibration.collect import cores
from calibration.memory import trim
from qpasses.analysis.noise import Noise, Outputs
from qpasses.analysis.walking import looked_at
from qpasses.analysis.worlds import Worlds
from qpasses.checking.meaning import Pair
from qpasses.ir.progress import Progress


@dataclass(frozen=True)
class Costs:
    """Noise over signal at the float tensors that ``looked_at`` names, the mean over them.

    ``whole``: of all that is stored; ``constants``: of all weights and biases alone.
    """

    whole: float
    constants: float


def whole_of(pair: Pair, samples: Samples) -> Costs:
    """What all together costs. Raises ModelError where a graph cannot be run."""
    worlds = Worlds(pair, looked_at(pair))

    def run(place: int) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
        feed = samples.read(place)
        outputs = Outputs(worlds.ends(feed, stored_on=False, constants_on=False))
        others = (worlds.ends(feed, stored_on=on, constants_on=True) for on in (True, False))
        return outputs.signal, [outputs.noise(other) for other in others]

    noises = [Noise(len(worlds.outputs)) for _ in range(2)]
    with ThreadPoolExecutor(cores()) as threads:
        for signal, found in threads.map(run, range(len(samples))):
            for noise, other in zip(noises, found, strict=True):
                noise.add(signal, other)
    return Costs(*(noise.ratio or 0.0 for noise in noises))


def costs_of(
    pair: Pair, samples: Samples, stored: Container[str], progress: Progress
) -> Mapping[str, float]:
    """Noise over signal of each of the ``stored`` activations alone: these add up, about.

    What bodies store, in all iterations. By names in the integer graph, as ``Costs`` are.
    Raises ModelError where a graph cannot be run.
    """
    looked = looked_at(pair)
    worlds = Worlds(pair, looked)
    names = [name for name in looked if name in worlds.outputs]
    heard = worlds.heard(names)
    known = {**worlds.roundings, **worlds.inside}
    order = sorted(known, key=lambda name: known[name])
    some = [name for name in order if known[name] in heard and name in stored]
    costs = {name: Noise(len(names)) for name in some}
    advance = progress("measure what tensors cost", len(samples))
    with ThreadPoolExecutor(cores()) as threads:
        for _, feed in samples:
            with worlds.walk(feed, is_on=False) as real:
                outputs = Outputs({name: real[worlds.outputs[name]] for name in names})
                rounded = partial(worlds.rounded, values=real)
                for name, changed in zip(some, threads.map(rounded, some), strict=True):
                    costs[name].add(outputs.signal, outputs.noise(changed))
            trim()
            advance()
    return {name: noise.ratio or 0.0 for name, noise in costs.items()}
