"""Every code in which an integer graph differs from its quantized original, explained.

The original runs unoptimized in onnxruntime, cut at each stored tensor: what reads one reads
the codes that the integer graph has there. A code that differs is then of the nodes right
before it, and exact arithmetic on these codes tells which of the two rounded otherwise.
"""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import onnx

from calibration import input_specs, open_samples
from opsets.qpasses_v1 import OPS
from opsets.rounding import requantize
from qpasses.checking.verification import verify_integer
from qpasses.ir.edges import Edges
from qpasses.load.arguments import given_source
from qpasses.load.integer_model import read_integer_model
from tests.support.exact_values import ExactGraph, constants_of
from tests.support.small_models import every_tensor, session

FLOAT32 = "float32: the exact level is so near a tie that its noise tells"
COUNTED = "counted: the integers differ from real arithmetic here, as their evidence says"
BIAS = "bias: its scale in the file is the product of two scales, rounded"


@dataclass(frozen=True)
class Difference:
    """One code: where, what both made, and what exact arithmetic gives before rounding.

    ``why`` is one of the reasons of this module, or "" for none.
    """

    tensor: str
    index: tuple[int, ...]
    ours: int
    theirs: int
    level: float
    noise: float
    why: str

    @property
    def to_tie(self):
        """How far the exact level is from the nearest tie, in steps."""
        return abs(self.level - np.floor(self.level) - 0.5)


@dataclass
class Trace:
    """What was compared: stored tensors, their codes; what differed."""

    tensors: int = 0
    codes: int = 0
    differences: list[Difference] = field(default_factory=list)

    @property
    def unexplained(self):
        return [each for each in self.differences if not each.why]

    @property
    def reasons(self):
        return Counter(each.why.partition(":")[0] for each in self.differences)


class Tracer:
    """A quantized model in a file, and what ``integerize`` made of it.

    ``verification``: what verify found, with ``feeds``. ``original`` is the file's model; if
    that is QONNX, what it is translated to.
    """

    def __init__(self, path, result, feeds):
        self.source, self.model = given_source(path), result.model
        self.read = read_integer_model(self.model, str(path))
        samples = open_samples(feeds, input_specs(self.source.model))
        self.verification = verify_integer(self.read, self.source, samples, _quiet)
        assert self.verification.problems == []
        self.edges = Edges.between(self.source.model, self.model, self.read.record)
        self.evidence = {each.name: each for each in result.evidence}
        self.writers = {name: node for node in self.model.graph.node for name in node.output}
        stored = _stored_in(self.source.model)
        reals = {
            ours: name.removesuffix("::codes")
            for ours, name in self.verification.simulated[0].codes.items()
        }
        self.pairs = {q: ours for ours, real in reals.items() for q in stored.get(real, ())}
        ends = {
            value.name for value in self.model.graph.output
        } & self.read.record.tensors.keys()
        wanted = {q for each in stored.values() for q in each}
        self.pairs |= {q: q for q in wanted & ends}
        missing = wanted - self.pairs.keys()
        assert missing == set(), f"nothing is compared with {sorted(missing)}"
        self.original = onnx.load(path)
        if wanted - {name for node in self.original.graph.node for name in node.output}:
            self.original = self.source.model

    def astray(self, feed):
        """By stored tensor, in the order of the original: where codes differ in whole runs.

        Nothing is cut: a code that differs changes what lies behind it.
        """
        theirs, zeros = every_tensor(self.original, feed), _zero_points(self.source.model)
        levels = self._levels(feed)
        found = {}
        for q in (name for node in self.original.graph.node for name in node.output):
            if q in levels:
                apart = theirs[q].astype(np.int64) - zeros[q].astype(int) - levels[q]
                found[q] = [*map(tuple, np.argwhere(apart).tolist())]
        return found

    def _levels(self, feed):
        """By stored tensor of the original, the codes of ours without the zero point."""
        tensors = self.read.record.tensors
        ours = {**feed, **every_tensor(self.model, self.edges.feed(feed))}
        return {
            q: ours[name].astype(np.int64) - tensors[name].zero_point
            for q, name in self.pairs.items()
        }

    def trace(self, feed):
        """Compare, and explain every code that differs on ``feed``."""
        levels = self._levels(feed)
        zeros = _zero_points(self.source.model)
        given = {
            q: (v + zeros[q].astype(int)).astype(zeros[q].dtype) for q, v in levels.items()
        }
        cut, wanted = _cut(self.original, given), list(given)
        read = {value.name for value in cut.graph.input}
        inputs = {**{f"{q}::given": codes for q, codes in given.items()}, **feed}
        theirs = session(cut, optimize=False).run(
            wanted, {name: values for name, values in inputs.items() if name in read}
        )
        found = Trace(len(wanted), sum(codes.size for codes in given.values()))
        graphs = None
        for q, other in zip(wanted, theirs, strict=True):
            apart = other.astype(np.int64) - zeros[q].astype(int) - levels[q]
            for index in map(tuple, np.argwhere(apart).tolist()):
                graphs = graphs or self._exact(given, feed)
                here = int(levels[q][index])
                difference = self._explained(
                    graphs, self.pairs[q], q, index, here, here + int(apart[index])
                )
                found.differences.append(difference)
        return found

    def _exact(self, given, feed):
        model = self.source.model
        ops = {node.op_type for node in self.original.graph.node}
        fused = any(op.startswith("Q") and op != "QuantizeLinear" for op in ops)
        tensors = {**feed, **every_tensor(model, feed)}
        as_said = ExactGraph(model, given, tensors, fused, whole_bias=fused)
        return as_said, ExactGraph(model, given, tensors, fused, whole_bias=True)

    def _explained(self, graphs, name, q, index, ours, theirs):
        """Theirs has to be what noise may make of the exact level; ours has a reason."""
        as_said, meant = graphs
        level, sums = as_said.level(q, index), meant.level(q, index)
        low, high = (as_said.stored(q, level.value + s * level.noise) for s in (-1, 1))
        why = ""
        if low <= theirs <= high:
            if ours == as_said.stored(q, level.value):
                why = FLOAT32
            elif ours == meant.stored(q, sums.value):
                why = BIAS
            elif self._counted(name, index, sums.value, ours):
                why = COUNTED
        return Difference(
            name, index, ours, theirs, float(level.value), float(level.noise), why
        )

    def _counted(self, name, index, level, ours):
        """Whether the evidence of the node that made a code counts that it is another one.

        Of a sum of products: its multiplier and shift give ``ours`` for this accumulator.
        """
        node = self.writers[name]
        known = self.evidence.get(node.name)
        if known is None or known.kind == "structural":
            before = [each for each in node.input if each in self.writers]
            return any(self._counted(each, None, level, ours) for each in before)
        if known.bound is not None:
            return abs(level - np.floor(level) - Fraction(1, 2)) <= known.bound
        if known.kind != "thresholds" or index is None:
            return known.reference_moved > 0
        channel = index[1 if len(index) > 2 else -1] if known.channels > 1 else 0
        return channel in known.moved_channels and self._means(node, channel, level, ours)

    def _means(self, node, channel, level, ours):
        """Whether multiplier and shift of a node give ``ours`` where real scales give
        ``level``."""
        stored = constants_of(self.model)
        inputs = dict(zip(OPS[node.op_type].inputs, node.input, strict=True))
        of_channel = [
            np.resize(stored[inputs[name]], channel + 1)[channel] if name in inputs else None
            for name in ("multiplier", "shift")
        ]
        scales = self.read.record.nodes[node.name].real_scales()
        accumulator = level / scales[channel % len(scales)]
        rounding = next(a.s.decode() for a in node.attribute if a.name == "rounding")
        found = requantize(np.array([int(accumulator)], np.int64), *of_channel, rounding)
        return accumulator.denominator == 1 and int(found[0]) == ours


def _quiet(*_):
    return lambda: None


def _stored_in(model):
    """By real tensor: the stored ones that hold it."""
    found = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            found.setdefault(node.input[0], []).append(node.output[0])
    written = {name for names in found.values() for name in names}
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in written:
            found.setdefault(node.output[0], []).append(node.input[0])
    return found


def _zero_points(model):
    """Of each stored tensor."""
    stored, found = constants_of(model), {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            given = len(node.input) > 2 and node.input[2]
            found[node.output[0]] = stored[node.input[2]] if given else np.zeros((), np.uint8)
    return found


def _cut(model, given):
    """``model``, in which those that read a stored tensor read an input in place of it."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    read = set()
    for node in graph.node:
        read |= {*node.input} & given.keys()
        node.input[:] = [f"{name}::given" if name in given else name for name in node.input]
    for name in sorted(read):
        kind = onnx.helper.np_dtype_to_tensor_dtype(given[name].dtype)
        value = onnx.helper.make_tensor_value_info(f"{name}::given", kind, given[name].shape)
        graph.input.append(value)
    del graph.output[:]
    del graph.value_info[:]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in given)
    return made
