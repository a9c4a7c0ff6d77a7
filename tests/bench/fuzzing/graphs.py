"""Cases from a seed: a legal float graph, samples of it, and options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration import Session
from opsets.errors import QPassesError, UsageError
from opsets.target import load_target
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.settings import Settings
from tests.bench.fuzzing.builder import Arrays, Builder, Shape
from tests.bench.fuzzing.steps import MORE_STEPS, Step, clip, pair, relu, unary

OPSETS = range(13, 22)
SAMPLES = 8

OPTIONS: Sequence[Mapping[str, Any]] = (
    *({} for _ in range(8)),
    *({"activation_type": "int8"}, {"symmetric": True}, {"per_channel": False}),
    *({"integer_io": True}, {"activation_bits": 5}, {"narrow_range": True}, {"exact": True}),
    *({"activation_form": "multiplier"}, {"alignment": "tpu-mlir"}),
    *({"table_ranges": "function"}, {"bodies": "portable"}, {"share_tables": 3.0}),
    *({"activation_type": "int8", "symmetric": True}, {"activation_type": "int8"}),
    *({"residual_type": "int16"}, {"residual_type": "int16", "activation_type": "int8"}),
    *({"weight_rounding": "sum-preserving"}, {"activation_scales": "auto"}),
    {"bias_correction": "in-sequence"},
    *({"activation_scales": "per-channel"} for _ in range(2)),
    *({"softmax": "shiftmax"}, {"softmax": "ibert"}, {"target": "ivit"}, {"target": "litert"}),
)

WORD_BITS = 16

BESIDE_WORDS: Sequence[Mapping[str, Any]] = (
    *({} for _ in range(6)),
    *({"target": "exact"}, {"activation_type": "int8"}, {"layout": "nhwc"}),
    *({"layout": "nchw"}, {"integer_io": True}, {"bodies": "portable"}, {"symmetric": True}),
    *({"emit": "standard"}, {"emit": "qdq"}, {"layernorm": "ivit"}, {"gelu": "ivit"}),
    *({"activation_bits": 4}, {"narrow_range": True}),
    *({"residual_type": "int16"}, {"accuracy": "balanced"}, {"softmax_bits": 16}),
    *({"share_tables": 3.0}, {"table_ranges": "function"}, {"activation_scales": "auto"}),
    *({"activation_scales": "per-channel"}, {"activation_form": "multiplier"}),
)
"""What is asked for beside tensors of 16 bits."""


@dataclass(frozen=True)
class Case:
    """A float model, feeds to calibrate on, and options of ``qpasses.quantize``.

    ``is_quantized``: a model that is quantized already, and ``qpasses.integerize``;
    ``is_exported``: what is made becomes a TFLite file; ``has_bodies``: branches or loops.
    """

    model: onnx.ModelProto
    feeds: Sequence[Arrays]
    options: Mapping[str, Any]
    is_quantized: bool = False
    is_exported: bool = False
    has_bodies: bool = False

    def with_model(self, model: onnx.ModelProto, feeds: Sequence[Arrays]) -> "Case":
        """The same options for another model."""
        return replace(self, model=model, feeds=feeds)


def case(seed: int, number: int) -> Case | None:
    """Case ``number`` of ``seed``; None where what was drawn does not run to finite values."""
    made = drawn(np.random.default_rng([seed, number]), OPSETS, MORE_STEPS, OPTIONS)
    return made and with_words(made, np.random.default_rng([seed, number, WORD_BITS]))


def with_words(made: Case, rng: np.random.Generator) -> Case:
    """``made``, half of the time with tensors of 16 bits: all, some, or all but some."""
    if rng.random() < 0.5 or "target" in made.options:
        return made
    graph = made.model.graph
    names = sorted({*made.feeds[0], *(n for node in graph.node for n in node.output if n)})
    some = "|".join(name for name in names if rng.random() < 0.4) or names[-1]
    kinds: list[list[str]] = [[".*=int16"], [f"{some}=int16"], [f"{some}=int8", ".*=int16"]]
    types = kinds[int(rng.integers(len(kinds)))]
    other = BESIDE_WORDS[int(rng.integers(len(BESIDE_WORDS)))]
    options = {**made.options, **other, "tensor_types": types}
    return replace(made, options=options if _fits_together(options) else made.options)


def _fits_together(options: Mapping[str, Any]) -> bool:
    """Whether a user may ask for all of these at once."""
    try:
        Settings.chosen(load_target("onnx"), QuantizeOptions("", **options))
    except UsageError:
        return False
    return True


def drawn(
    rng: np.random.Generator,
    opsets: Sequence[int],
    steps: Sequence[tuple[Step, int]],
    options: Sequence[Mapping[str, Any]],
) -> Case | None:
    """A float graph of ``steps``; None where it does not run to finite values."""
    builder = Builder(rng, int(rng.choice(opsets)))
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        builder.input(_shape(builder))
    functions, weights = zip(*steps, strict=True)
    chances = np.array(weights) / sum(weights)
    length = builder.whole(1, 8)
    for _ in range(4 * length):
        names = list(builder.shapes)
        source = builder.one_of(names[-2:] if builder.chance(0.7) else names)
        step = functions[rng.choice(len(functions), p=chances)]
        if builder.shapes[source] or step in (pair, unary, relu, clip):
            step(builder, source)
        if len(builder.nodes) >= length:
            break
    written = [name for node in builder.nodes for name in node.output]
    if not written:
        return None
    read = {name for node in builder.nodes for name in node.input}
    ends = [n for n in written if n not in read and builder.chance(0.8)] or written[-1:]
    inner = [name for name in written if name in read and builder.chance(0.1)]
    feeds = _feeds(builder)
    made = Case(builder.model([*ends, *inner]), feeds, builder.one_of(options))
    return made if is_legal(made) else None


def is_legal(made: Case) -> bool:
    """Whether onnxruntime runs the model, optimized too, and every tensor of it is finite.

    One that is quantized need not run optimized: that changes its results.
    """
    try:
        onnx.checker.check_model(made.model)
        found = every_tensor(made)
        if not made.is_quantized:
            Session(made.model, threads=1).run(None, made.feeds[0])
    except (QPassesError, onnx.checker.ValidationError):
        return False
    return all(np.isfinite(each).all() for some in found for each in some.values())


def every_tensor(made: Case) -> list[Arrays]:
    """By feed, every tensor of the graph, computed as it stands. Raises QPassesError."""
    model = onnx.ModelProto()
    model.CopyFrom(made.model)
    present = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in present)
    session = Session(model, optimize=False, threads=1)
    return [
        feed | dict(zip(names, session.run(names, feed), strict=True)) for feed in made.feeds
    ]


def _shape(b: Builder) -> Shape:
    if b.inputs and b.chance(0.6):
        return b.shapes[b.inputs[0]]
    rank = b.one_of([1, 2, 2, 3, 3, 4, 4, 4, 4, 4, 4, 5])
    return (b.whole(1, 3), *(b.whole(1, 6) for _ in range(rank - 1)))


def _whole(b: Builder, kind: int, shape: Shape, reach: int) -> NDArray[Any]:
    """Whole numbers of a type: of a byte any, of others some thousands at most."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if dtype.kind == "b":
        return b.rng.random(shape) < 0.5
    ends = np.iinfo(dtype)
    low = max(ends.min, -reach) if b.chance(0.3) else 0
    return b.rng.integers(low, min(ends.max, reach), shape, endpoint=True).astype(dtype)


def _feeds(b: Builder) -> list[Arrays]:
    """Samples around zero, on one side of it, on a grid of powers of two, or extreme."""
    ways = {name: (b.rng.random(), b.rng.normal(0, 2)) for name in b.inputs}
    feeds = []
    for _ in range(SAMPLES):
        feed: Arrays = {}
        for name, (kind, offset) in ways.items():
            if name in b.others:
                feed[name] = _whole(b, *b.others[name], reach=1 + int(abs(offset) ** 6))
                continue
            values: NDArray[Any] = b.rng.standard_normal(b.shapes[name])
            if kind < 0.2:
                values = np.rint(values * 8) / 8
            elif kind < 0.4:
                values = values + offset
            elif kind < 0.44:
                values = values * 1e-30
            elif kind < 0.48:
                values = values * 1e12
            elif kind < 0.6:
                values = np.abs(values) * np.sign(offset)
            feed[name] = values.astype(np.float32)
        feeds.append(feed)
    return feeds
