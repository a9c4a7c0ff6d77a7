"""Scales of channels: activations that are stored with a scale and zero point for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from calibration import Range, Run, Samples, Statistics
from calibration.channel_extremes import Extremes
from calibration.collect import collect
from qpasses.ir.choices import ActivationScales
from qpasses.ir.graph import Graph, Node, dequantized, input_at
from qpasses.ir.interchange import prepared_model
from qpasses.ir.order import tidy
from qpasses.ir.patterns import common_clamp, real_value_of
from qpasses.ir.progress import Progress
from qpasses.ir.record import (
    BYTES,
    AnyQuantization,
    ChannelQuantization,
    Quantization,
    in_channels,
    middle_code,
    scales_of,
)
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.place.free_channels import FreeChannels
from qpasses.place.stored_weights import BIAS_LIMIT, quantize_weights
from qpasses.place.tensor_parameters import HEADROOM, activation_parameters, word_parameters
from qpasses.recover.channel_lines import with_lines
from qpasses.recover.judge import TOO_FEW, Judge, gains

WIDENED = 1.25
"""A channel has fewer values than its tensor: samples may lack its largest."""

LEAST = 1 / 64
"""Of the tensor's range a channel has at least that much, on either side of zero."""

LEAST_OF_WORDS = 1 / 1024
"""The same of 16 bits, which have as many codes there as 8 bits have of a whole tensor's."""


GAIN_DB = 5.5
"""Less noise of a tensor than that is worth no time, where samples decide."""


@dataclass(frozen=True)
class Scaled:
    """How many ``tensors`` of the ``free`` ones got scales of channels.

    ``asked``: what the user asked for, ``how``: what was done. ``sqnr_db``: on so many samples
    ``held_back``, what each way gives at outputs, or before those of few numbers.
    """

    asked: ActivationScales = "per-tensor"
    how: ActivationScales = "per-tensor"
    tensors: int = 0
    free: int = 0
    held_back: int = 0
    sqnr_db: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def as_json(self) -> dict[str, Any] | None:
        """``activation_scales`` of a report; None where one for a tensor was asked for."""
        if self.asked == "per-tensor":
            return None
        return {
            "asked": self.asked,
            "chosen": self.how,
            "tensors": self.tensors,
            "free_tensors": self.free,
            "held_back": self.held_back,
            "sqnr_db": dict(self.sqnr_db),
            "reason": self.reason,
        }


def channel_parameters(
    whole: Quantization, seen: Extremes, settings: Settings
) -> ChannelQuantization:
    """Those of each channel, for what was ``seen`` of it, widened, within the tensor's range.

    What is constant, zero, or hardly ever seen has ``LEAST`` of that range. The range ends
    with its codes, or up to half a step behind them, as far as values were seen: where a
    tensor is wide, a dip below zero rounds to zero, but for channels that are narrow. Words
    lie around zero, with their headroom.
    """
    if whole.dtype not in BYTES:
        return _of_words(whole, seen, settings)
    first, last = ((end - whole.zero_point) * whole.scale for end in whole.limits)
    lowest = min(first, max(float(seen.low.min()), first - whole.scale / 2))
    highest = max(last, min(float(seen.high.max()), last + whole.scale / 2))
    low = np.clip(seen.low.astype(np.float64) * WIDENED, lowest, first * LEAST)
    high = np.clip(seen.high.astype(np.float64) * WIDENED, last * LEAST, highest)
    ranges = map(Range, low.tolist(), high.tolist())
    return ChannelQuantization.of([_of_channel(each, settings) for each in ranges])


def _of_words(whole: Quantization, seen: Extremes, settings: Settings) -> ChannelQuantization:
    most = whole.scale * whole.limits[1] / HEADROOM
    sizes = np.maximum(np.abs(seen.low), np.abs(seen.high)).astype(np.float64)
    ends = np.clip(sizes, most * LEAST_OF_WORDS, most).tolist()
    return ChannelQuantization.of([word_parameters(Range(-e, e), settings) for e in ends])


@lru_cache(maxsize=1 << 16)
def _of_channel(real: Range, settings: Settings) -> Quantization:
    """Asked twice of most: some samples judge, but few hold the extremes of a channel."""
    return activation_parameters(real, settings)


@dataclass(frozen=True)
class Seen:
    """What was seen of ``free`` channels: by those samples that judge nothing, and by all."""

    free: FreeChannels
    by_others: Mapping[str, Extremes] = field(default_factory=dict)
    by_all: Mapping[str, Extremes] = field(default_factory=dict)


def see_channels(
    graph: Graph,
    free: FreeChannels,
    known: Mapping[str, Statistics],
    samples: Samples,
    run: Run,
    progress: Progress,
) -> Seen:
    """What is ``known`` of channels by tensor, and of others of the float ``graph`` a ``run``.

    Raises DataError or ModelError where it cannot be run.
    """
    unknown = {
        name: channels
        for name, channels in free.channels.items()
        if name not in known or known[name].channels is None
    }
    if unknown:
        advance = progress("look at channels", len(samples))
        run = replace(run, channels=unknown, progress=advance)
        found = collect(prepared_model(graph), [*unknown], samples, run).tensors
        known = {**known, **found}
    channels = {name: known[name].channels for name in free.channels if name in known}
    seen = {name: each for name, each in channels.items() if each is not None}
    return Seen(
        free,
        {name: each.choosing for name, each in seen.items() if each.choosing.known},
        {name: each.all for name, each in seen.items() if each.all.known},
    )


def scale_channels(
    graph: Graph, seen: Seen, stored: Mapping[str, str], judge: Judge, context: Context
) -> Scaled:
    """Store free tensors of the Q/DQ ``graph`` with scales of channels, if that gains.

    ``stored``: by tensor, the name of its integers; ``judge``: who tells, where that is asked.
    Raises ModelError where the graph cannot be run.
    """
    asked = context.settings.activation_scales or "per-tensor"
    if asked == "auto" and not len(judge.samples):
        free = len(seen.free.channels)
        return Scaled(asked, free=free, reason=TOO_FEW)
    whole = {name: context.record.tensors[stored[name]] for name in seen.free.channels}
    possible = _parameters(whole, stored, seen.by_all, seen.free, context.settings)
    possible = with_lines(graph, possible, stored, context)
    free = len(possible)
    if not free:
        return Scaled(asked, reason="every tensor is read by what sums its channels")
    if asked == "per-channel":
        _store(graph, possible, stored, seen.free, context)
        return Scaled(asked, "per-channel", free, free)
    final = _worthwhile(possible, whole, seen.free)
    final = with_lines(graph, final, stored, context)
    if not final:
        return Scaled(asked, free=free, reason="channels are alike")
    before = judge.sqnr_db(graph)
    tried = _parameters(
        {name: whole[name] for name in final},
        stored,
        seen.by_others,
        seen.free,
        context.settings,
    )
    _store(graph, tried, stored, seen.free, context)
    behind = judge.sqnr_db(graph)
    if before is None or behind is None:
        _store(graph, whole, stored, seen.free, context)
        return Scaled(asked, free=free, reason="there is nothing to judge by")
    found = {"per-tensor": float(before.mean()), "per-channel": float(behind.mean())}
    if not gains(before, behind):
        _store(graph, whole, stored, seen.free, context)
        judge.left(before)
        return Scaled(asked, "per-tensor", 0, free, len(judge.samples), found)
    _store(graph, final, stored, seen.free, context)
    return Scaled(asked, "per-channel", len(final), free, len(judge.samples), found)


def _parameters(
    whole: Mapping[str, AnyQuantization],
    stored: Mapping[str, str],
    seen: Mapping[str, Extremes],
    free: FreeChannels,
    settings: Settings,
) -> dict[str, ChannelQuantization]:
    """Those of channels, for tensors that were ``seen`` and stored as settings say.

    Not where a Relu or Clip that a Conv takes in clamps inside of the codes of a channel.
    """
    made = {
        name: channel_parameters(each, seen[name], settings)
        for name, each in whole.items()
        if name in seen and isinstance(each, Quantization)
    }
    by_stored = {stored[name]: each for name, each in made.items()}
    fitted: dict[str, ChannelQuantization] = {}
    for name, each in made.items():
        writers = free.writers[name]
        fitting = _within_bias(writers[0], each, by_stored) if writers else each
        if common_clamp(writers[1:], fitting) is not None:
            fitted[name] = fitting
    return fitted


def _worthwhile(
    made: Mapping[str, ChannelQuantization],
    whole: Mapping[str, AnyQuantization],
    free: FreeChannels,
) -> dict[str, ChannelQuantization]:
    """Those that take no time to run, or make less noise by ``GAIN_DB``.

    Tables take time, of channels on either side, and paddings by zero points that differ.
    """
    return {
        name: each
        for name, each in made.items()
        if not (name in free.tables or (name in free.padded and len({*each.zero_points}) > 1))
        or _gain_db(whole[name], each) >= GAIN_DB
    }


def _gain_db(whole: AnyQuantization, channels: ChannelQuantization) -> float:
    """How much less noise rounding makes: steps count by their squares."""
    ratios = np.array(channels.scales) / np.array(scales_of(whole))
    return float(-10 * np.log10(np.square(ratios).mean()))


def _within_bias(
    node: Node, y: ChannelQuantization, made: Mapping[str, ChannelQuantization]
) -> ChannelQuantization:
    """``y``, with channels around zero whose zero points the bias of a Conv could not hold.

    So it is where weights are next to nothing: the steps of their sums are as small. ``made``:
    what stored tensors become.
    """
    x, w = dequantized(node.inputs[0]), dequantized(node.inputs[1])
    if x is None or w is None:  # it stays in float
        return y
    found = made.get(x.stored.name)
    x_scales = np.asarray(x.scale).reshape(-1) if found is None else np.array(found.scales)
    bias = real_value_of(input_at(node, 2))
    rows = in_channels((x_scales.tolist(), w.scale.reshape(-1).tolist()))
    steps = np.array([a * b for a, b in rows])
    moved = np.abs(np.array(y.zero_points) - y.zero_point) * np.array(y.scales)
    size = moved if bias is None else moved + np.abs(bias)
    too_large = np.flatnonzero((moved > 0) & (size > steps * BIAS_LIMIT))
    channels = [*map(y.channel, range(len(y.scales)))]
    for place in too_large.tolist():
        each = channels[place]
        ends = [abs(end - each.zero_point) for end in each.limits]
        scale = float(np.float32(each.scale * max(ends) / _SIDE))
        channels[place] = replace(each, scale=scale, zero_point=middle_code(each.dtype, 8))
    return ChannelQuantization.of(channels)


_SIDE = 127
"""So many codes lie on either side of the middle."""


def _store(
    graph: Graph,
    meanings: Mapping[str, AnyQuantization],
    stored: Mapping[str, str],
    free: FreeChannels,
    context: Context,
) -> None:
    """Store tensors so; depthwise Convs that read them get weights and biases for that."""
    changed = {stored[name]: meaning for name, meaning in meanings.items()}
    read: list[Node] = []
    for node in [each for each in graph.nodes if each.op == "QuantizeLinear"]:
        tensor = node.outputs[0]
        if tensor.name in changed:
            back = list(tensor.outputs)
            _say([node, *back], changed[tensor.name], context)
            context.record.tensors[tensor.name] = changed[tensor.name]
            read += [reader for each in back for reader in each.outputs[0].outputs]
    for node in read:
        operands = free.operands.get(node.name)
        if operands is not None:
            node.inputs = [node.inputs[0], *operands]
            for said in (context.record.raised_weight_scales, context.record.declined):
                said.pop(node.name, None)
            quantize_weights(graph, node, context)
    tidy(graph)


def _say(edges: Sequence[Node], meaning: AnyQuantization, context: Context) -> None:
    """Give Q and DQ nodes these parameters."""
    _, scale, zero = edges[0].inputs
    parameters = [
        context.constant(scale.name, np.array(meaning.factors(meaning.zero.ndim))),
        context.constant(zero.name, meaning.zero),
    ]
    for node in edges:
        node.inputs = [node.inputs[0], *parameters]
        node.attrs.pop("axis", None)
        if isinstance(meaning, ChannelQuantization):
            node.attrs["axis"] = meaning.axis
