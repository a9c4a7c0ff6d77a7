"""Costing: what the outputs lose by each stored tensor alone, and by weights, in one walk."""

from collections.abc import Mapping
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
    """Noise over signal at the outputs, the mean over them: these add up, about.

    ``tensors``: of each stored activation alone, by its name in the integer graph;
    ``constants``: of weights and biases.
    """

    tensors: Mapping[str, float]
    constants: float


def whole_of(pair: Pair, samples: Samples) -> float:
    """Noise over signal of all that is stored, at what ``looked_at`` names.

    Raises ModelError where a graph cannot be run.
    """
    looked = looked_at(pair)
    worlds = Worlds(pair, looked)
    names = [name for name in looked if name in worlds.outputs]
    whole = Noise(len(names))
    for _, feed in samples:
        found = []
        for is_on in (False, True):
            with worlds.walk(feed, is_on=is_on) as values:
                found.append({name: values[worlds.outputs[name]] for name in names})
        outputs = Outputs(found[0])
        whole.add(outputs.signal, outputs.noise(found[1]))
    return whole.ratio or 0.0


def costs_of(pair: Pair, samples: Samples, progress: Progress) -> Costs:
    """What is stored costs at the float tensors that ``looked_at`` names.

    Raises ModelError where a graph cannot be run.
    """
    looked = looked_at(pair)
    worlds = Worlds(pair, looked)
    names = [name for name in looked if name in worlds.outputs]
    heard, steps = worlds.heard(names), worlds.steps
    places = [
        place
        for place, step in enumerate(steps)
        if place in heard and (step.stored or step.has_constants)
    ]
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
    return Costs(
        {steps[k].stored: costs[k].ratio or 0.0 for k in places if steps[k].stored},
        sum(costs[k].ratio or 0.0 for k in places if not steps[k].stored),
    )
