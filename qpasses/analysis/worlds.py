"""Two worlds: a float graph in pieces, each of which may compute as the integer graph does.

A step is a region of float nodes, which has its own constants or those of the integer graph,
or the rounding of one stored tensor, which is done or not. With all of them off that is the
float graph, with all of them on the Q/DQ graph. One that is switched tells what it alone costs
or gains: what it changes is computed anew, and nothing else.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from calibration import Session
from calibration.inputs import Feed
from calibration.pieces import Parts
from qpasses.analysis.kept import Kept
from qpasses.analysis.piece import Piece, Values
from qpasses.analysis.regions import regions_of
from qpasses.analysis.whole_bodies import Whole, with_bodies_whole
from qpasses.checking.meaning import Pair
from qpasses.checking.simulated import cut_at_stored, given_name
from qpasses.ir.record import AnyQuantization, ChannelQuantization


class Rounding:
    """Storing: a tensor to codes, and what these mean, as onnxruntime computes both."""

    def __init__(self, how: AnyQuantization, sessions: "_Sessions") -> None:
        self._session = sessions.of(how)
        scale = np.array(how.factors(how.zero.ndim), np.float32)
        self._parameters = {"scale": scale, "zero": how.zero}

    def run(self, values: Values) -> list[Any]:
        """The one tensor that is read, as who reads its codes has it."""
        return [self._session.run(["y"], self._feed(values))[0]]

    def codes(self, values: Values) -> Any:
        """Its codes."""
        return self._session.run(["codes"], self._feed(values))[0]

    def _feed(self, values: Values) -> Values:
        (x,) = values.values()
        return {"x": x, **self._parameters}


class _Sessions:
    """Of roundings: one for all tensors of the same kind."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model, self._known = model, dict[Any, Session]()

    def of(self, how: AnyQuantization) -> Session:
        axis = how.axis if isinstance(how, ChannelQuantization) else None
        key = how.dtype, axis, how.limits
        if key not in self._known:
            self._known[key] = self._loaded(how, {} if axis is None else {"axis": axis})
        return self._known[key]

    def _loaded(self, how: AnyQuantization, axis: Mapping[str, int]) -> Session:
        kind = helper.np_dtype_to_tensor_dtype(how.zero.dtype)
        real = onnx.TensorProto.FLOAT
        ends = [numpy_helper.from_array(np.array(n, how.dtype), str(n)) for n in how.limits]
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["levels"]),
            helper.make_node("Clip", ["levels", *(end.name for end in ends)], ["codes"]),
            helper.make_node("DequantizeLinear", ["codes", "scale", "zero"], ["y"]),
        ]
        for node in nodes[::2]:
            node.attribute.extend(helper.make_attribute(*each) for each in axis.items())
        graph = helper.make_graph(
            nodes,
            "rounding",
            [
                helper.make_tensor_value_info("x", real, None),
                helper.make_tensor_value_info("scale", real, [None] * how.zero.ndim),
                helper.make_tensor_value_info("zero", kind, [None] * how.zero.ndim),
            ],
            [onnx.ValueInfoProto(name=name) for name in ("codes", "y")],
            ends,
        )
        if how.limits == how.type_limits:
            del graph.node[1], graph.initializer[:]
            graph.node[0].output[0] = "codes"
        opsets, version = self._model.opset_import, self._model.ir_version
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version)
        return Session(model, threads=1, optimize=False)


@dataclass(frozen=True)
class Step:
    """What is computed at once: ``off`` as in float, ``on`` as in integers.

    ``off`` is None for the rounding of a tensor, ``stored`` in the integer graph: what it
    reads is read as it is. ``nodes``: the names of a region's float nodes. ``inside``: by
    tensor that its bodies store, what it reads to know whether that is rounded in them.
    """

    reads: Sequence[str]
    writes: Sequence[str]
    off: Piece | None
    on: "Piece | Rounding"
    nodes: Sequence[str] = ()
    stored: str = ""
    inside: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, values: Values, is_on: bool, rounded: Container[str] | None = None
    ) -> list[Any]:
        """What is written, for ``values`` of all that is read, and maybe more.

        ``rounded``: what is inside of it alone; None: all if it is on, or nothing.
        """
        piece = self.on if is_on else self.off
        read = {name: values[name] for name in self.reads}
        for name, flag in self.inside.items():
            read[flag] = np.array(is_on if rounded is None else name in rounded)
        return [*read.values()] if piece is None else piece.run(read)

    @property
    def has_constants(self) -> bool:
        """Whether it is a region with constants, or bodies, that the integer graph stores."""
        return not self.stored and self.on is not self.off


class Worlds:
    """The steps of a pair of graphs, in an order in which they run.

    ``outputs``: of the float tensors that are looked at, under which name their values are;
    what nothing computes, as a constant, is left out. ``roundings``: the place of each stored
    tensor's step; ``inside``: of that whose bodies store it.
    """

    def __init__(self, pair: Pair, outputs: Sequence[str]) -> None:
        ours, theirs = (
            with_bodies_whole(cut_at_stored(pair, is_on), pair) for is_on in (True, False)
        )
        stored = ours.cut.stored
        self.outputs = {n: given_name(n) if n in stored else n for n in outputs}
        self.steps = _in_order([*_steps(pair, ours, theirs, {*self.outputs.values()})])
        known = {name for step in self.steps for name in step.writes}
        known |= {tensor.name for tensor in pair.real.inputs}
        self.outputs = {real: name for real, name in self.outputs.items() if name in known}
        self.roundings = {step.stored: k for k, step in enumerate(self.steps) if step.stored}
        self.inside = {n: k for k, step in enumerate(self.steps) for n in step.inside}
        self._writer = {name: k for k, step in enumerate(self.steps) for name in step.writes}
        self._readers: dict[str, list[int]] = {}
        for place, step in enumerate(self.steps):
            for name in step.reads:
                self._readers.setdefault(name, []).append(place)

    def heard(self, names: Iterable[str]) -> set[int]:
        """The places of the steps that these float tensors depend on."""
        found, waiting = set[int](), [self.outputs[name] for name in names]
        while waiting:
            place = self.writer(waiting.pop())
            if place is not None and place not in found:
                found.add(place)
                waiting += self.steps[place].reads
        return found

    def writer(self, name: str) -> int | None:
        """The place of the step that writes a tensor; None for inputs."""
        return self._writer.get(name)

    @contextmanager
    def walk(self, feed: Feed, is_on: bool) -> Iterator[Values]:
        """All that regions read and outputs are, in one of the worlds."""
        with closing(Kept()) as values:
            values.update(feed)
            for place, step in enumerate(self.steps):
                if step.off is None and not is_on:
                    values.same(step.writes[0], step.reads[0])
                else:
                    values.update(zip(step.writes, step.run(values, is_on), strict=True))
                for name in step.reads:
                    if self._is_passing(name) and self._readers[name][-1] == place:
                        del values[name]
            yield values

    def ends(self, feed: Feed, stored_on: bool, constants_on: bool) -> dict[str, Any]:
        """The outputs alone, where all tensors are of one world and all constants of one."""
        values = dict[str, Any](feed)
        for place, step in enumerate(self.steps):
            is_on = stored_on if step.off is None else constants_on
            made = step.run(values, is_on, step.inside if stored_on else ())
            values.update(zip(step.writes, made, strict=True))
            for name in step.reads:
                if self._readers[name][-1] == place and name not in self.outputs.values():
                    del values[name]
        return {real: values[name] for real, name in self.outputs.items()}

    def _is_passing(self, name: str) -> bool:
        """Whether roundings alone read what a region writes."""
        known = self._writer.get(name)
        return (
            known is not None
            and not self.steps[known].stored
            and name not in self.outputs.values()
            and all(self.steps[place].stored for place in self._readers[name])
        )

    def switched(self, place: int, values: Values, is_on: bool) -> dict[str, Any]:
        """The outputs that change where one step is of the other world.

        ``values``: what ``walk`` gave in its own, to which ``is_on`` belongs.
        """
        step = self.steps[place]
        return self._changed(
            place, step.run(self._read(step, values, is_on), not is_on), values, is_on
        )

    def rounded(self, stored: str, values: Values) -> dict[str, Any]:
        """The outputs that change where one tensor alone is rounded, in a body or elsewhere.

        ``values``: what ``walk`` gave in the world of float.
        """
        if stored in self.roundings:
            return self.switched(self.roundings[stored], values, is_on=False)
        place = self.inside[stored]
        read = self._read(self.steps[place], values, is_on=False)
        made = self.steps[place].run(read, is_on=False, rounded=(stored,))
        return self._changed(place, made, values, is_on=False)

    def _read(self, step: Step, values: Values, is_on: bool) -> Values:
        """What a step reads in a world."""
        return {name: self._value(name, values, is_on) for name in step.reads}

    def _changed(
        self, place: int, made: Sequence[Any], values: Values, is_on: bool
    ) -> dict[str, Any]:
        """The outputs that change where a step has ``made`` something else of ``values``."""
        changed = dict(zip(self.steps[place].writes, made, strict=True))
        waiting = sorted({k for name in changed for k in self._readers.get(name, ())})
        seen = set(waiting)
        while waiting:
            now = heappop(waiting)
            step = self.steps[now]
            made = step.run(_Over(changed, values), is_on)
            for name, value in zip(step.writes, made, strict=True):
                changed[name] = value
                for reader in self._readers.get(name, ()):
                    if reader not in seen:
                        seen.add(reader)
                        heappush(waiting, reader)
            for name in step.reads:
                if self._readers[name][-1] == now and name not in self.outputs.values():
                    changed.pop(name, None)
        return {real: changed[name] for real, name in self.outputs.items() if name in changed}

    def _value(self, name: str, values: Values, is_on: bool) -> Any:
        """A value, computed again where ``walk`` did not keep it."""
        if name in values:
            return values[name]
        writer = self.steps[self._writer[name]]
        made = writer.run(values, is_on)
        return made[writer.writes.index(name)]


class _Over(dict[str, Any]):
    """What has changed, over all else."""

    def __init__(self, changed: Values, values: Values) -> None:
        super().__init__(changed)
        self._values = values

    def __missing__(self, name: str) -> Any:
        return self._values[name]


def _in_order(steps: Sequence[Step]) -> list[Step]:
    """What writes a tensor before what reads it: nodes that stand apart come last at first."""
    written = {name for step in steps for name in step.writes}
    missing = [len(written.intersection(step.reads)) for step in steps]
    readers: dict[str, list[int]] = {}
    for place, step in enumerate(steps):
        for name in written.intersection(step.reads):
            readers.setdefault(name, []).append(place)
    ready = [place for place, count in enumerate(missing) if not count]
    found = []
    while ready:
        step = steps[heappop(ready)]
        found.append(step)
        for place in [place for name in step.writes for place in readers.get(name, ())]:
            missing[place] -= 1
            if not missing[place]:
                heappush(ready, place)
    return found


def _steps(
    pair: Pair, whole: Whole, other_whole: Whole, outputs: AbstractSet[str]
) -> Iterator[Step]:
    """Regions with their two kinds of constants, and roundings behind what they are of."""
    ours, theirs = whole.cut, other_whole.cut
    graph, other = ours.model.graph, theirs.model.graph
    sessions = _Sessions(ours.model)
    behind: dict[str, list[tuple[str, AnyQuantization, str]]] = {}
    for real, stored in ours.stored.items():
        behind.setdefault(stored.written, []).append((real, stored.how, stored.name))
    for name, how in ours.narrow.items():
        wide = given_name(pair.meanings[name].real)
        behind.setdefault(wide, []).append((name, how, name))
    given = {value.name for value in graph.input}
    given |= {given_name(each) for each in (*ours.stored, *ours.narrow)}
    ends = {*outputs, *behind} - given

    def roundings(written: str) -> Iterator[Step]:
        for name, how, stored in behind.get(written, ()):
            made = given_name(name)
            yield Step([written], [made], None, Rounding(how, sessions), stored=stored)
            yield from roundings(made)

    for value in graph.input:
        yield from roundings(value.name)
    kinds = [(cut, Parts(cut.model)) for cut in (ours, theirs)]
    for region in regions_of(graph, ends, given):
        on, off = (
            Piece(parts, [cut.model.graph.node[k] for k in region.places], region.writes)
            for cut, parts in kinds
        )
        inside = {n: flag for n, flag in whole.flags.items() if flag in region.reads}
        is_same = all(graph.node[k] == other.node[k] for k in region.places) and not inside
        names = [graph.node[k].name for k in region.places]
        reads = [name for name in region.reads if name not in inside.values()]
        yield Step(reads, region.writes, off, off if is_same else on, names, inside=inside)
        for name in region.writes:
            yield from roundings(name)
