"""Samples through all graphs: float, Q/DQ, and the integer graph with either set of bodies."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Samples, Session
from calibration.held_weights import let_go, names_held
from calibration.inputs import Feed
from calibration.large_weights import weight_bytes
from calibration.memory import give_back
from qpasses.checking.simulated import Simulated
from qpasses.emit.overloads import with_bodies
from qpasses.ir.runtime import Arrays
from qpasses.load.arguments import Source

Tensors = Mapping[str, NDArray[Any]]


class Reference:
    """The results of the original on ``samples``, each asked for once, in their order.

    Where its weights are held it runs at once, and goes before others come.
    """

    def __init__(self, original: Source, samples: Samples) -> None:
        self._session: Session | None = original.session()
        self.outputs: Sequence[str] = self._session.outputs
        self._found: Iterator[list[NDArray[Any]]] = iter(())
        if names_held(original.reference):
            found = [self._session.run(None, feed, name) for name, feed in samples]
            self._found, self._session = iter(found), None
            give_back(weight_bytes(original.reference))

    def run(self, outputs: None, feed: Arrays, sample: str) -> list[NDArray[Any]]:
        """All outputs, in order, on ``feed``, the next sample."""
        if self._session is None:
            return next(self._found)
        return self._session.run(outputs, feed, sample)


class BothBodies:
    """An integer model with onnxruntime's bodies beside the portable ones, bit for bit.

    ``stored``: the tensors to compare inside; ``fast``: by node, the onnxruntime body that is
    right to run. Either model runs optimized and not; ``session``: ``integer`` as it is,
    optimized. ``first`` says where they differed first, if they did.
    """

    def __init__(
        self,
        integer: onnx.ModelProto,
        session: Session,
        stored: Sequence[str],
        fast: Mapping[str, str],
    ) -> None:
        pair = with_bodies(integer, fast), with_bodies(integer, "portable")
        self._stored, self._outputs = stored, [value.name for value in integer.graph.output]
        self._optimized = [session if each == integer else Session(each) for each in pair]
        self._plain = [Session(_watched(each, stored), optimize=False) for each in pair]
        self._differing = {False: 0, True: 0}
        self.first = ""

    def compare(self, feed: Feed, name: str, inside: bool) -> Tensors:
        """Count the output elements that differ on ``feed``, called ``name``.

        ``inside``: the stored tensors are compared too, and given back.
        """
        wanted, stored = self._outputs, self._stored if inside else []
        optimized = (session.run(wanted, feed) for session in self._optimized)
        self._differing[True] += _differences(*optimized)
        names = list(dict.fromkeys([*wanted, *stored]))
        ours, theirs = (
            dict(zip(names, session.run(names, feed), strict=True)) for session in self._plain
        )
        outputs = ([found[each] for each in wanted] for found in (ours, theirs))
        self._differing[False] += _differences(*outputs)
        for tensor in stored:
            if not self.first and not np.array_equal(ours[tensor], theirs[tensor]):
                self.first = f", first in tensor {tensor!r} of {name}"
        return {tensor: ours[tensor] for tensor in stored}

    def as_json(self, samples: int) -> dict[str, int]:
        """``checks.bodies`` of a report."""
        return {
            "samples": samples,
            "elements_differing_unoptimized": self._differing[False],
            "elements_differing_optimized": self._differing[True],
            "tensors_compared": len(self._stored),
        }

    @property
    def problem(self) -> str:
        """What is wrong, if anything is."""
        if not any(self._differing.values()) and not self.first:
            return ""
        return (
            f"the two bodies differ in {self._differing[False]} output elements unoptimized, "
            f"{self._differing[True]} optimized{self.first}"
        )


class Simulation:
    """The codes of an integer graph beside those that its Q/DQ graph makes of them.

    ``allowed``: by how much the codes of a tensor may differ; ``others``: the models whose
    weights are needed beside its own.
    """

    def __init__(
        self,
        simulated: Simulated,
        allowed: Mapping[str, int],
        others: Sequence[onnx.ModelProto] = (),
    ) -> None:
        self._simulated, self._allowed = simulated, allowed
        self._session = Session(simulated.model, optimize=False)
        let_go(simulated.model, others)
        self._samples = self._total = self._unlike = self._largest = 0
        self.problem = ""

    def compare(self, feed: Feed, codes: Tensors, sample: str) -> None:
        """Count the ``codes`` that are others in float arithmetic, on ``feed``."""
        self._samples += 1
        given = {name: codes[ours] for ours, name in self._simulated.given.items()}
        names = self._simulated.codes
        if not names:
            return
        wanted = {value.name for value in self._simulated.model.graph.input}
        real = {name: values for name, values in feed.items() if name in wanted}
        made = {name: np.zeros(0, np.float32) for name in wanted - real.keys() - given.keys()}
        expected = self._session.run(list(names.values()), {**real, **made, **given})
        for name, other in zip(names, expected, strict=True):
            apart = np.abs(codes[name].astype(np.int32) - other.astype(np.int32))
            largest = int(apart.max(initial=0))
            self._total += apart.size
            self._unlike += int(np.count_nonzero(apart))
            self._largest = max(self._largest, largest)
            if largest > self._allowed.get(name, 1) and not self.problem:
                self.problem = (
                    f"tensor {name!r} of {sample} differs from float arithmetic by {largest}"
                )

    def as_json(self) -> dict[str, int]:
        """``checks.qdq`` of a report."""
        return {
            "samples": self._samples,
            "tensors": len(self._simulated.codes),
            "codes": self._total,
            "codes_differing": self._unlike,
            "max_lsb": self._largest,
        }


def _watched(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """``model``, which also gives the inner tensors called ``names``."""
    known = {value.name: value for value in model.graph.value_info}
    present = {value.name for value in model.graph.output}
    wanted = [name for name in names if name not in present]
    model.graph.output.extend(known.get(n, onnx.ValueInfoProto(name=n)) for n in wanted)
    return model


def _differences(ours: Sequence[Any], theirs: Sequence[Any]) -> int:
    """How many elements differ; NaN, which a float tail may give, is like NaN."""
    pairs = zip_longest(_arrays(ours), _arrays(theirs), fillvalue=np.zeros((0, 0)))
    return sum(
        int(((a != b) & ~((a != a) & (b != b))).sum())
        if a.shape == b.shape
        else max(a.size, b.size)
        for a, b in pairs
    )


def _arrays(value: Any) -> Iterator[NDArray[Any]]:
    """What an output consists of: an array, or those in a sequence or a map."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        for each in value:
            yield from _arrays(each)
    else:
        yield np.asarray(value)
