"""Making faults from a seed and judging each: caught, changes nothing, or survived."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import onnx

import qpasses
from calibration import input_specs
from qpasses.ir.cutting import cut
from qpasses.ir.metadata import PREFIX
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.splicing import spliced
from qpasses.load.reading import read_model
from tests.bench.fuzzing.quantized import quantized_case
from tests.bench.manifest import ROOT, Entry, entries
from tests.bench.mutation.constants import KINDS_OF_INPUTS, change_constant
from tests.bench.mutation.fault import Fault, Model
from tests.bench.mutation.forging import change_scale, change_weights, swap_scales
from tests.bench.mutation.records import change_record, change_setting
from tests.bench.mutation.structure import (
    change_attribute,
    change_body,
    declare,
    drop_node,
    other_body,
    rewire,
    swap_inputs,
)
from tests.support.bodies_nets import CASES, feeds_of, of_text
from tests.support.channel_nets import channel_feeds, channel_net
from tests.support.far_apart_net import far_apart_feeds, far_apart_net
from tests.support.recurrent_net import recurrent_feeds, recurrent_net
from tests.support.whole_net import whole_feeds, whole_net
from tests.support.words_net import ALL_WORDS, words_feeds, words_net

Change = Callable[[Model, np.random.Generator], Fault | None]

KINDS: dict[str, Change] = {
    **{kind: partial(change_constant, kind) for kind in KINDS_OF_INPUTS},
    "attribute": change_attribute,
    "edge": rewire,
    "swapped inputs": swap_inputs,
    "dropped node": drop_node,
    "other body": other_body,
    "changed body": change_body,
    "record": change_record,
    "setting": change_setting,
    "declaration": declare,
}
"""What changes one thing in a model, in place; None where there is no such thing."""

FORGED: dict[str, Change] = {
    "kept scale": change_scale,
    "kept scales swapped": swap_scales,
    "kept weights": change_weights,
}
"""What changes an original that is quantized already: what follows from that changes too."""

QUANTIZED = {
    "digits_qat": "models/digits_qat/digits_qat.onnx",
    "eager_opset13": "tests/data/qat/eager_opset13.onnx",
    "fx_converted_opset17": "tests/data/qat/fx_converted_opset17.onnx",
    "pt2e_x86_opset18": "tests/data/qat/pt2e_x86_opset18.onnx",
}
"""Originals that are quantized already."""

BUILT = {f"built_{number}": (0, number) for number in (1, 4, 6, 32, 38)}
"""Random Q/DQ graphs: seed and number of each, as `make fuzz` draws them."""

MODELS = (
    "digits_cnn",
    "textures_cnn",
    "cifar10_resnet20",
    "mtcnn_rnet",
    "mlperf_tiny_dscnn_kws",
)
"""Float originals."""

ROUNDED: dict[str, tuple[str, dict[str, Any]]] = {
    "digits_cnn_sums": ("digits_cnn", {"weight_rounding": "sum-preserving"}),
    "digits_cnn_chosen": ("digits_cnn", {"weight_rounding": "second-order"}),
    "digits_cnn_judged": ("digits_cnn", {"weight_rounding": "auto"}),
    "digits_cnn_corrected": ("digits_cnn", {"bias_correction": "in-sequence"}),
    "digits_cnn_words": ("digits_cnn", {"tensor_types": [".*=int16"]}),
}
"""Float originals of which more is asked: weights rounded in a way, biases corrected, tensors
of 16 bits; of which, and what."""

CHANNELS = "channels"
"""A small float original, of whose channels most have scales of their own."""

APART = "far_apart"
"""A small float original with an added mask, a quotient, and boxes joined to scores."""

BODIES = "bodies"
"""A small float original with a branch in a loop."""

RECURRENT = "recurrent"
"""A small float original of every recurrent op, with states."""

WORDS = "words"
"""A small float original, most of whose tensors have 16 bits."""

WHOLE = "whole_numbers"
"""A small float original that casts pictures, masks, places and labels to floats."""

CALIBRATION_SAMPLES = 10
ATTEMPTS = 20
"""A change that leaves the model as it is is drawn again so often."""


@dataclass(frozen=True)
class Target:
    """A model under attack: its original, what was made of it, and one sample.

    ``calibration``: the samples that it was made with, if it can be made anew.
    """

    name: str
    original: Model
    made: Model
    feeds: Sequence[Any]
    calibration: Sequence[Any] = ()

    @classmethod
    def quantized(cls, name: str) -> "Target":
        """One of ``QUANTIZED`` or ``BUILT``, integerized."""
        if name in BUILT:
            drawn = quantized_case(*BUILT[name])
            assert drawn is not None, name
            original, feeds = drawn.model, list(drawn.feeds)
        else:
            original = read_model(ROOT / QUANTIZED[name])
            feeds = list(_noise(original))
        made = qpasses.integerize(original, feeds).model
        assert made is not None
        return cls(name, original, made, feeds[:1], feeds)

    @classmethod
    def of(cls, entry: Entry, name: str = "", **options: Any) -> "Target":
        """The model of a line of models/zoo.toml, calibrated on a few samples."""
        given = options | ({"preprocessing": entry.preprocess} if entry.preprocess else {})
        data = entry.calibration
        if entry.data:
            given["samples"] = CALIBRATION_SAMPLES
        else:
            data = data[:CALIBRATION_SAMPLES]
        made = qpasses.quantize(entry.model, data, **given).model
        assert made is not None
        return cls(
            name or entry.name, read_model(entry.model), made, list(entry.test_feeds[:1])
        )

    @classmethod
    def of_channels(cls) -> "Target":
        """``CHANNELS``."""
        original, feeds = channel_net(), channel_feeds(CALIBRATION_SAMPLES)
        made = qpasses.quantize(original, feeds, activation_scales="per-channel").model
        assert made is not None
        return cls(CHANNELS, original, made, feeds[:1])

    @classmethod
    def of_far_apart(cls) -> "Target":
        """``APART``."""
        original, feeds = far_apart_net(), far_apart_feeds(CALIBRATION_SAMPLES)
        made = qpasses.quantize(original, feeds).model
        assert made is not None
        return cls(APART, original, made, feeds[:1])

    @classmethod
    def of_words(cls) -> "Target":
        """``WORDS``."""
        original, feeds = words_net(), words_feeds(CALIBRATION_SAMPLES)
        made = qpasses.quantize(original, feeds, **ALL_WORDS).model
        assert made is not None
        return cls(WORDS, original, made, feeds[:1])

    @classmethod
    def of_whole_numbers(cls) -> "Target":
        """``WHOLE``."""
        original, feeds = whole_net(), whole_feeds(CALIBRATION_SAMPLES)
        made = qpasses.quantize(original, feeds).model
        assert made is not None
        return cls(WHOLE, original, made, feeds[4:5])

    @classmethod
    def of_recurrent(cls) -> "Target":
        """``RECURRENT``."""
        original, feeds = recurrent_net(), recurrent_feeds(CALIBRATION_SAMPLES)
        made = qpasses.quantize(original, feeds).model
        assert made is not None
        return cls(RECURRENT, original, made, feeds[3:4])

    @classmethod
    def of_bodies(cls) -> "Target":
        """``BODIES``."""
        inputs, outputs, nodes = CASES["a branch in a loop"]
        inputs = f"{inputs}, int64 n"  # a count that is changed may be no end
        original = of_text(inputs, outputs, nodes.replace("Loop (three,", "Loop (n,"))
        feeds = feeds_of(inputs)
        made = qpasses.quantize(original, feeds).model
        assert made is not None
        return cls(BODIES, original, made, feeds[3:4])

    @cached_property
    def content(self) -> bytes:
        """What of the model has a meaning."""
        return meaning(self.made)

    def mutant(self, kind: str, seed: int, number: int) -> tuple[Model, Fault] | None:
        """Fault ``number`` of ``seed``; None if the model has no place for its kind."""
        rng = np.random.default_rng([seed, number])
        if kind in FORGED:
            return self._forged(kind, rng)
        before = self.made.SerializeToString(deterministic=True)
        for _ in range(ATTEMPTS):
            flat = spliced(Model.FromString(before))
            fault = KINDS[kind](flat, rng)
            model = _cut(flat) if fault else None
            if fault and model and model.SerializeToString(deterministic=True) != before:
                return model, fault
        return None

    def _forged(self, kind: str, rng: np.random.Generator) -> tuple[Model, Fault] | None:
        """What is made of another original, and says that it was made of this one."""
        other = Model()
        other.CopyFrom(self.original)
        fault = FORGED[kind](other, rng)
        if fault is None:
            return None
        try:
            made = qpasses.integerize(other, list(self.calibration)).model
        except qpasses.QPassesError:
            return None
        assert made is not None
        for ours, theirs in product(made.metadata_props, self.made.metadata_props):
            if ours.key == theirs.key == f"{PREFIX}float_sha256":
                ours.value = theirs.value
        return made, fault


def _cut(flat: Model) -> Model | None:
    """``flat`` with its bodies, if it has any that can be written."""
    try:
        return cut(flat)
    except (qpasses.QPassesError, IndexError, StopIteration, ValueError):
        return None


def _noise(model: Model) -> Iterator[dict[str, Any]]:
    """Samples of the inputs of a quantized model."""
    rng = np.random.default_rng(0)
    for _ in range(CALIBRATION_SAMPLES):
        yield {
            spec.name: rng.random([size or 1 for size in spec.shape]).astype(np.float32)
            for spec in input_specs(model)
        }


@dataclass(frozen=True)
class Outcome:
    """What became of one fault; ``result`` is one of ``RESULTS``."""

    result: str
    fault: Fault
    said: str = ""


RESULTS = ("caught", "changes nothing", "survived", "crashed")


def judge(target: Target, model: Model, fault: Fault) -> Outcome:
    """Whether verify finds the fault, and if not, whether there is one."""
    try:
        found = qpasses.verify(model, target.original, target.feeds)
    except qpasses.QPassesError as error:
        return Outcome("caught", fault, str(error))
    except Exception as error:  # a traceback is no verdict
        return Outcome("crashed", fault, f"{type(error).__name__}: {error}")
    if found.verdict == "failed":
        return Outcome("caught", fault, found.report["summary"]["problems"][0])
    same = meaning(model) == target.content
    return Outcome("changes nothing" if same else "survived", fault, found.verdict)


def meaning(model: Model) -> bytes:
    """``model`` without what has no meaning: texts, producers, the order of parts.

    Names of constants are none, so that it does not matter which of two equal ones is read.

    Of the record, texts are the reasons for nodes left in float, and what bodies were
    estimated to cost but for which is the cheapest and which were refused.
    """
    bare = Model()
    bare.CopyFrom(spliced(model))
    for field in ("doc_string", "producer_name", "producer_version"):
        bare.ClearField(field)
    graph = bare.graph
    graph.ClearField("doc_string")
    _name_by_value(graph)
    owners = [bare, *graph.node, *graph.value_info, *graph.input, *graph.output]
    for owner in [*owners, *graph.initializer]:
        entries_of = sorted(owner.metadata_props, key=lambda each: each.key)
        del owner.metadata_props[:]
        owner.metadata_props.extend(e for e in entries_of if e.key.startswith(PREFIX))
        for entry in owner.metadata_props:
            if entry.key in TEXTS:
                entry.value = TEXTS[entry.key](json.loads(entry.value))
    for part in (graph.initializer, graph.value_info, bare.functions, bare.opset_import):
        ordered = sorted(part, key=lambda each: each.SerializeToString(deterministic=True))
        del part[:]
        part.extend(ordered)
    content: bytes = bare.SerializeToString(deterministic=True)
    return content


def _name_by_value(graph: onnx.GraphProto) -> None:
    """Call each constant by what it holds, once."""
    called, kept = {}, {}
    for tensor in graph.initializer:
        old, tensor.name = tensor.name, ""
        content = tensor.SerializeToString(deterministic=True)
        tensor.name = called[old] = hashlib.sha256(content).hexdigest()
        kept[tensor.name] = tensor
    for each in nested_graphs(graph):
        for node in each.node:
            node.input[:] = [called.get(name, name) for name in node.input]
    tensors = [onnx.TensorProto.FromString(t.SerializeToString()) for t in kept.values()]
    del graph.initializer[:]
    graph.initializer.extend(tensors)


def _choice(costs: dict[str, Any]) -> str:
    """What costs say: by body, whether it is the cheapest, None for one that was refused."""
    known = [cost for cost in costs.values() if cost is not None]
    choice = {name: None if c is None else c == min(known) for name, c in costs.items()}
    return json.dumps(choice, sort_keys=True)


TEXTS: Mapping[str, Callable[[Any], str]] = {
    f"{PREFIX}declined": lambda _: "",
    f"{PREFIX}costs": _choice,
}
"""By key of the record, what of it is no text."""


def targets(names: Sequence[str] = ()) -> list[Target]:
    """The models that are here, those of ``names`` if any are named."""
    wanted = [each for each in entries() if each.name in (names or MODELS)]
    already = [name for name in (*QUANTIZED, *BUILT) if not names or name in names]
    return [
        *(Target.of(each) for each in wanted if each.present),
        *(
            Target.of(each, name, **options)
            for name, (original, options) in ROUNDED.items()
            for each in entries()
            if each.name == original and (not names or name in names)
        ),
        *([Target.of_channels()] if not names or CHANNELS in names else []),
        *([Target.of_far_apart()] if not names or APART in names else []),
        *([Target.of_bodies()] if not names or BODIES in names else []),
        *([Target.of_whole_numbers()] if not names or WHOLE in names else []),
        *([Target.of_recurrent()] if not names or RECURRENT in names else []),
        *([Target.of_words()] if not names or WORDS in names else []),
        *map(Target.quantized, already),
    ]
