"""Samples through all graphs: float, Q/DQ, and the integer graph with either set of bodies."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from calibration import Session
from calibration.collect import cores
from calibration.held_weights import let_go, weight_bytes
from calibration.inputs import Feed
from calibration.memory import give_back
from calibration.pieces import loaded
from qpasses.checking.simulated import Simulated
from qpasses.checking.simulated_bodies import iterations
from qpasses.ir.record import Record

Tensors = Mapping[str, NDArray[Any]]


def threads_beside() -> int:
    """So many each of two models has that run at the same time.

    Nodes in float round by how many there are: those to be compared have as many.
    """
    return max(1, cores() // 2)


class Watched:
    """A model, not optimized, that also gives its inner tensors called ``stored``.

    ``is_beside``: another one runs at the same time, so that each gets half of the cores, and
    keeps its memory between runs: what both gave back they would ask for in turns.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        stored: Sequence[str],
        record: Record,
        is_beside: bool = False,
    ) -> None:
        self._outputs, self._stored = [value.name for value in model.graph.output], stored
        self._record = record
        threads = threads_beside() if is_beside else 0
        self._session = loaded(
            _watched(model, stored), optimize=False, threads=threads, arena=is_beside
        )

    def run(self, feed: Feed, name: str, inside: bool) -> Tensors:
        """The outputs on ``feed``, called ``name``, and if ``inside`` what is stored.

        Their axes lie as ONNX has them.
        """
        names = list(dict.fromkeys([*self._outputs, *(self._stored if inside else ())]))
        found = zip(names, self._session.run(names, feed, name), strict=True)
        return {each: self._record.as_onnx(each, values) for each, values in found}


class BothBodies:
    """An integer model with onnxruntime's bodies beside the portable ones, bit for bit.

    Both unoptimized; and the model as it is, optimized, beside the portable ones. ``first``
    says where two differed first.
    """

    def __init__(self, stored: Sequence[str]) -> None:
        self._stored = stored
        self._differing = {False: 0, True: 0}
        self.first = ""

    def compare(
        self,
        optimized: Mapping[str, Any],
        fast: Tensors,
        portable: Tensors,
        both_optimized: Callable[[], Sequence[Sequence[Any]]],
    ) -> None:
        """Count the elements of outputs, those of ``optimized``, that differ.

        What is left in float optimizers may change: where ``optimized`` is not what the
        portable bodies give, what counts is whether both bodies differ, both optimized.
        """
        theirs = [portable[each] for each in optimized]
        if differences([*optimized.values()], theirs):
            self._differing[True] += differences(*both_optimized())
        self._differing[False] += differences([fast[each] for each in optimized], theirs)

    def compare_inside(self, fast: Tensors, portable: Tensors, name: str) -> None:
        """Look for the first stored tensor that differs on the sample called ``name``."""
        for tensor in () if self.first else self._stored:
            if not np.array_equal(fast[tensor], portable[tensor]):
                self.first = f", first in tensor {tensor!r} of {name}"
                return

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
        simulated: Sequence[Simulated],
        allowed: Mapping[str, int],
        others: Sequence[onnx.ModelProto] = (),
    ) -> None:
        self._allowed = allowed
        self._parts = [(each, self._loaded(each.model, others)) for each in simulated]
        self._compared = set[str]()
        self._samples = self._total = self._unlike = self._largest = 0
        self.problem = ""

    def _loaded(self, model: onnx.ModelProto, others: Sequence[onnx.ModelProto]) -> Session:
        session = Session(model, optimize=False, in_place=False)
        let_go(model, others)
        give_back(weight_bytes(model))
        return session

    def compare(self, feed: Feed, codes: Tensors, sample: str) -> None:
        """Count the ``codes`` that are others in float arithmetic, on ``feed``."""
        self._samples += 1
        for simulated, session in self._parts:
            for iteration in iterations(simulated, codes):
                self._compare(simulated, session, feed, iteration, sample)

    def _compare(
        self, simulated: Simulated, session: Session, feed: Feed, codes: Tensors, sample: str
    ) -> None:
        given = {name: codes[ours] for ours, name in simulated.given.items()}
        names = simulated.codes
        if not names:
            return
        wanted = {value.name for value in simulated.model.graph.input}
        real = {name: values for name, values in feed.items() if name in wanted}
        made = {name: np.zeros(0, np.float32) for name in wanted - real.keys() - given.keys()}
        expected = session.run(list(names.values()), {**real, **made, **given})
        for name, other in zip(names, expected, strict=True):
            self._compared.add(name)
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
            "tensors": len(self._compared),
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


def differences(ours: Sequence[Any], theirs: Sequence[Any]) -> int:
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
