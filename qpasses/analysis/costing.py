"""Costing: what the outputs lose by all that is stored, by weights, and by tensors alone."""

from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

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
    looked = looked_at(pair)
    worlds = Worlds(pair, looked)
    names = [name for name in looked if name in worlds.outputs]
    noises = [Noise(len(names)) for _ in range(2)]
    for _, feed in samples:
        found = []
        for tensors, constants in ((False, False), (True, True), (False, True)):
            with worlds.walk(feed, tensors, constants) as values:
                found.append({name: values[worlds.outputs[name]] for name in names})
        outputs = Outputs(found[0])
        for noise, other in zip(noises, found[1:], strict=True):
            noise.add(outputs.signal, outputs.noise(other))
    return Costs(*(noise.ratio or 0.0 for noise in noises))


def costs_of(
    pair: Pair, samples: Samples, stored: Container[str], progress: Progress
) -> Mapping[str, float]:
    """Noise over signal of each of the ``stored`` activations alone: these add up, about.

    By names in the integer graph, as ``Costs`` are. Raises ModelError where a graph cannot be
    run.
    """
    looked = looked_at(pair)
    worlds = Worlds(pair, looked)
    names = [name for name in looked if name in worlds.outputs]
    heard, steps = worlds.heard(names), worlds.steps
    places = [k for k, step in enumerate(steps) if k in heard and step.stored in stored]
    costs = {place: Noise(len(names)) for place in places}
    advance = progress("measure what tensors cost", len(samples))
    with ThreadPoolExecutor(cores()) as threads:
        for _, feed in samples:
            with worlds.walk(feed, is_on=False) as real:
                outputs = Outputs({name: real[worlds.outputs[name]] for name in names})
                switched = partial(worlds.switched, values=real, is_on=False)
                for place, changed in zip(places, threads.map(switched, places), strict=True):
                    costs[place].add(outputs.signal, outputs.noise(changed))
            trim()
            advance()
    return {steps[place].stored: noise.ratio or 0.0 for place, noise in costs.items()}
