"""The stages in order: the table of contents of the toolkit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import getdoc
from typing import Any

import onnx
from numpy.typing import NDArray

from calibration import Run, Samples
from calibration.held_weights import holding
from calibration.inputs import tensors
from opsets.errors import DataError
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.emit.qdq import emit_qdq
from qpasses.emit.standard import emit_standard
from qpasses.evidence.choose_bodies import choose_bodies
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.ir.graph import Graph
from qpasses.ir.interchange import inside_bodies, is_tensor, prepared_model
from qpasses.ir.legality import CANONICAL, INTEGER, PLACED, Grounds, check_stage
from qpasses.ir.macs import measure
from qpasses.ir.progress import Progress, no_progress
from qpasses.ir.record import Quantization, Record
from qpasses.ir.rewriting import UNWATCHED, Context, Pass, Watch, run_passes
from qpasses.ir.settings import Settings
from qpasses.load.upgrade import NEWEST_USABLE, check_usable
from qpasses.lowering import (
    CLIP_CODES,
    COMPUTING,
    INTEGER_IO,
    INTEGERIZE,
    QUANTIZABLE,
    integerizing,
)
from qpasses.lowering.integer_twins import read_integer_twins
from qpasses.place.alignment import (
    Aligned,
    aligned,
    clipped_constants,
    concerned,
    few_codes,
    to_observe,
)
from qpasses.place.close_codes import leave_wide
from qpasses.place.coarse import leave_coarse
from qpasses.place.endless import leave_endless
from qpasses.place.free_channels import FreeChannels, free_channels
from qpasses.place.fusing import keep_pools_apart
from qpasses.place.growing_states import growing_states
from qpasses.place.infinite import leave_infinite
from qpasses.place.joined_outputs import leave_joined
from qpasses.place.kept_scales import (
    kept,
    planned,
    planned_without_samples,
    read_early,
    with_kept,
)
from qpasses.place.masked_scores import with_added_masks, with_masked_ranges
from qpasses.place.placed_states import leave_unseen_cells, observable
from qpasses.place.placement import place, real_weights
from qpasses.place.planning import Plan
from qpasses.place.ranges import HERE, STEPS, Calibration, Ranges, find_ranges
from qpasses.place.sharing import Sharing, share
from qpasses.place.state_ranges import with_state_ranges
from qpasses.place.step_ranges import with_step_ranges
from qpasses.place.table_ranges import with_function_ranges
from qpasses.place.ties import stand_ins
from qpasses.place.unit_ranges import with_unit_ranges
from qpasses.place.unlike_states import leave_unlike
from qpasses.place.untaken import leave_untaken
from qpasses.place.whole_ranges import with_whole_ranges
from qpasses.place.words import NO_WORDS, Words
from qpasses.prepare import PREPARE
from qpasses.prepare.canonical import check_masks, prepare
from qpasses.recover.channel_scales import Scaled, Seen, scale_channels, see_channels
from qpasses.recover.correct_biases import (
    Corrected,
    Expected,
    correct_biases,
    expect,
    note_correction,
)
from qpasses.recover.judge import HELD_BACK, TOO_FEW, Judge, held_back
from qpasses.recover.round_weights import Rounded, note_rounding, round_weights


@dataclass(frozen=True)
class State:
    """A model on its way to integers: what was asked for, and what the stages made of it.

    ``source`` is the float model, ``graph`` what it is rewritten to, ``model`` what is
    emitted. ``from_model_alone``: a quantized model without samples says all that is known of
    its tensors. ``most_held_back``: so many samples judge at most. ``ranges``: what was
    calibrated; ``kept``: how a model that is quantized already stores its tensors, ``early``:
    those that were read before they were stored; ``aligned``: what tensors get of it, and what
    was decided at joins. ``sharing``: what came of tying scales for tables, if that was asked
    for. ``few_codes``: by tensor of 8 bits, the codes it uses where they are few; ``growing``:
    by state, those that it has at first. ``clipped``: by node, a constant beyond the range it
    is moved into. ``words``: tensors of 16 bits, and those that were to be. ``weights``: by
    node, the real ones, until they are rounded for good; ``rounded``: how they were;
    ``expected``: what float sums are that have biases, ``corrected``: how these were.
    ``judge``: who tells how far off all is. ``seen``: what samples say of channels,
    ``scaled``: which got scales. ``unfinished``: why the graph does not become integer, or
    nothing; ``ended``: whether no stage but the last follows.
    """

    source: onnx.ModelProto
    samples: Samples
    context: Context
    provenance: Provenance
    calibration: Calibration = HERE
    progress: Progress = no_progress
    watch: Watch = UNWATCHED
    from_model_alone: bool = False
    most_held_back: int = HELD_BACK
    graph: Graph = field(default_factory=Graph)
    plan: Plan = field(default_factory=Plan)
    kept: Mapping[str, Quantization] = field(default_factory=dict)
    early: Sequence[str] = ()
    ranges: Ranges = field(default_factory=lambda: Ranges({}, {}))
    aligned: Aligned = field(default_factory=lambda: Aligned({}))
    sharing: Sharing | None = None
    few_codes: Mapping[str, int] = field(default_factory=dict)
    growing: Mapping[str, int] = field(default_factory=dict)
    clipped: Mapping[str, float] = field(default_factory=dict)
    words: Words = NO_WORDS
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rounded: Rounded = field(default_factory=Rounded)
    expected: Expected = field(default_factory=Expected)
    corrected: Corrected = field(default_factory=Corrected)
    judge: Judge | None = None
    seen: Seen | None = None
    scaled: Scaled = field(default_factory=Scaled)
    evidence: Sequence[NodeEvidence] = ()
    model: onnx.ModelProto = field(default_factory=onnx.ModelProto)
    unfinished: str = ""
    ended: bool = False

    @property
    def settings(self) -> Settings:
        """What the user decided."""
        return self.context.settings

    @property
    def record(self) -> Record:
        """What nodes and tensors mean."""
        return self.context.record

    @property
    def held_back(self) -> Samples:
        """The samples that are to judge, none of which is known to be bad."""
        settings = self.settings
        how = settings.activation_scales, settings.weight_rounding, settings.bias_correction
        none = self.samples.spread(0)
        if "auto" not in how:
            return none
        return held_back(self.samples, self.ranges.skipped, self.most_held_back)

    @property
    def looks_at_channels(self) -> bool:
        """Whether samples are to say what channels hold, if these may have scales."""
        return self.settings.activation_scales == "per-channel" or len(self.held_back) > 0

    def stopped(self) -> "State":
        """The same, not to be rewritten any more as the user wants to see it now."""
        return replace(self, unfinished=f"stopped after {self.watch.stop_after}", ended=True)


Stage = Callable[[State], State]


def prepared(state: State) -> State:
    """Any float model -> one canonical float graph with the same results."""
    advance = state.progress("prepare the graph", 1)
    context, sample = state.context, state.samples.first(state.calibration.skip_bad)
    graph = prepare(state.source, sample, context, state.watch)
    if not state.samples.random:
        check_masks(context, sample)
    leave_endless(graph, state.samples, sample, context)
    whole = {each.name for each in graph.inputs if is_tensor(each)}
    context.record.sizes = {
        name: list(values.shape) for name, values in tensors(sample).items() if name in whole
    }
    measure(graph, context)
    advance()
    made = replace(state, graph=graph)
    if state.watch.stops_in(PREPARE):
        return made.stopped()
    check_stage(CANONICAL, graph, _grounds(context))
    return made


def calibrated(state: State) -> State:
    """Float graph and samples -> what becomes integer, and ranges of its tensors."""
    graph, context = state.graph, state.context
    way = planned_without_samples if state.from_model_alone else planned
    chosen = way(graph, context)
    if chosen.tensors and graph.opset > NEWEST_USABLE:
        check_usable(state.source)
    known = kept(graph, chosen, context)
    state = replace(state, samples=state.samples.bounded(chosen.tensors))
    wanted = to_observe(graph, chosen, context.settings)
    earlier = state.ranges.only({*wanted} - known.keys())
    unknown = [name for name in wanted if name not in known and name not in earlier.ranges]
    try:
        found = earlier
        if unknown or not earlier.ranges:
            found = earlier.with_those(_observed(replace(state, plan=chosen), unknown))
    except DataError:
        made = observable(prepared_model(graph), chosen)
        if not leave_infinite(graph, made, unknown, state.samples, context):
            raise
        return calibrated(state)
    said = with_kept(found, known) if state.from_model_alone else found
    if leave_untaken(graph, said, context) or leave_unseen_cells(chosen, found, context):
        return calibrated(replace(state, ranges=found))
    return replace(state, plan=chosen, ranges=with_kept(found, known), kept=known)


def _observed(state: State, names: Sequence[str]) -> Ranges:
    """The ranges of the tensors ``names``, from samples or a table."""
    graph, settings, calibration = state.graph, state.settings, state.calibration
    if state.context.given and not names:
        return Ranges({}, {})
    steps = 1 if calibration.given else len(state.samples)
    advance = state.progress("calibrate", steps)
    rules = settings.rules
    judged = concerned(graph, state.plan) if settings.alignment == "qpasses" else ()
    free = _free(state) if state.looks_at_channels else None
    channels = {} if free is None else free.channels
    run = Run(
        rules.histograms or frozenset(judged),
        calibration.skip_bad,
        calibration.workers,
        advance,
        channels={name: channels[name] for name in names if name in channels},
        held_back=frozenset(state.held_back.names),
    )
    original = {tensor for node in state.source.graph.node for tensor in node.output}
    moved = [pair for pair in state.plan.ties if pair not in state.plan.states]
    held = stand_ins(names, moved, original | state.record.sizes.keys())
    model = observable(prepared_model(graph), state.plan)
    model = state.context.given.rounded(model)
    return find_ranges(model, names, state.samples, rules, calibration, run, held)


def placed(state: State) -> State:
    """Ranges -> ranges that tied tensors share -> a Q/DQ graph."""
    advance = state.progress("place scales", 1)
    graph, chosen, context = state.graph, state.plan, state.context
    settings, tying = context.settings, None
    found = with_masked_ranges(graph, chosen, state.ranges, context)
    found = with_added_masks(graph, chosen, found, context)
    found = with_kept(with_step_ranges(graph, chosen, found, settings), state.kept)
    if settings.table_ranges == "function":
        found = with_function_ranges(graph, chosen, found, settings)
    found = with_kept(with_unit_ranges(graph, chosen, found, settings), state.kept)
    found = with_kept(with_whole_ranges(graph, chosen, found, settings), state.kept)
    found = with_kept(with_state_ranges(chosen, found, settings), state.kept)
    alignment = aligned(graph, chosen, found, settings)
    shared = alignment.ranges
    if settings.share_tables is not None:
        shared, tying = share(graph, chosen, shared, settings.share_tables, context)
    few = few_codes(found.ranges, shared, settings.codes)
    open_ = few.keys() - state.kept.keys()
    if (
        leave_coarse(graph, chosen, found, state.kept, context)
        or leave_wide(graph, chosen, found, state.kept, context)
        or leave_joined(graph, chosen, open_, context)
        or leave_unlike(graph, chosen, found.ranges, shared, context)
    ):
        return placed(calibrated(state))
    made = replace(
        state,
        ranges=found,
        aligned=alignment,
        sharing=tying,
        clipped=clipped_constants(graph, chosen, found, shared),
    )
    made = replace(made, early=read_early(graph, chosen, context))
    if settings.weight_rounding != "nearest":
        made = replace(made, weights=real_weights(chosen, context))
    judges = state.held_back.spread(HELD_BACK)
    judge = Judge(graph, context.sizes, judges, state.progress)
    made = replace(made, judge=judge, seen=_seen(made), expected=_expected(made))
    spans = {**found.ranges, **shared}
    growing = growing_states(graph, chosen, found.ranges, spans, settings.codes)
    words = place(graph, chosen, spans, context, state.kept)
    growing = {name: used for name, used in growing.items() if name not in words}
    few = {name: used for name, used in few.items() if name not in words}
    made = replace(made, words=words, few_codes=few, growing=growing)
    check_stage(PLACED, graph, _grounds(context))
    state.watch.after(PLACE, graph)
    advance()
    return made.stopped() if state.watch.stop_after == PLACE else made


def _free(state: State) -> FreeChannels | None:
    """The channels that may have scales, if that is asked for and can be."""
    how = state.settings.activation_scales or "per-tensor"
    if how == "per-tensor" or state.settings.why_no_channels:
        return None
    graph, plan = state.graph, state.plan
    stepped = {name for name, method in state.ranges.methods.items() if method == STEPS}
    apart = stepped | state.kept.keys() | inside_bodies(graph)
    return free_channels(graph, plan, apart, state.context)


def _seen(state: State) -> Seen | None:
    """What the channels of the float graph hold, of those that may have scales."""
    free, calibration = _free(state), state.calibration
    if free is None:
        return None
    if not state.looks_at_channels:
        return Seen(free)
    good = state.samples.without(state.ranges.skipped)
    run = Run(
        skip_bad=calibration.skip_bad,
        workers=calibration.workers,
        held_back=frozenset(state.held_back.names),
    )
    return see_channels(state.graph, free, state.ranges.statistics, good, run, state.progress)


def _expected(state: State) -> Expected:
    """What the float graph gives where biases are added, if these are to be corrected."""
    how, context = state.settings.bias_correction or "none", state.context
    if how == "none":
        return Expected()
    if how == "auto" and not len(state.held_back):
        return Expected(reason=TOO_FEW)
    others = state.samples.without({*state.ranges.skipped, *state.held_back.names})
    matrices = real_weights(state.plan, context).keys() - inside_bodies(state.graph)
    return expect(state.graph, matrices, how, others, context.sizes, state.progress)


def recovered(state: State) -> State:
    """Q/DQ graph -> one whose integers lose less on the samples."""
    graph, settings, judge = state.graph, state.settings, state.judge
    how = settings.weight_rounding or "nearest"
    assert judge is not None
    if state.seen is not None:
        scaled = scale_channels(graph, state.seen, state.plan.stored, judge, state.context)
        state = replace(state, seen=None, scaled=scaled)
    elif settings.activation_scales == "auto":
        state = replace(state, scaled=Scaled("auto", reason=settings.why_no_channels))
    if how != "nearest":
        good = state.samples.without(state.ranges.skipped)
        rounded = round_weights(graph, how, state.weights, judge, good, state.progress)
        state = replace(state, weights={}, rounded=rounded)
    if settings.bias_correction not in (None, "none"):
        correct = settings.bias_correction, state.expected, judge, state.progress
        state = replace(state, corrected=correct_biases(graph, *correct))
    state = replace(state, judge=None, expected=Expected())
    if settings.emit == "qdq":
        run_passes(CLIP_CODES, graph, state.context, state.watch)
        return replace(state, unfinished="emitted as Q/DQ", ended=True)
    return state


def integerized(state: State) -> State:
    """Q/DQ graph -> integer graph: one pass for each family of ops."""
    advance = state.progress("integerize", 1)
    run_passes(integerizing(state.settings), state.graph, state.context, state.watch)
    read_integer_twins(state.graph, state.context)
    keep_pools_apart(state.graph, (), state.context)
    note_rounding(state.graph, state.record, state.rounded)
    note_correction(state.graph, state.record, state.corrected)
    if state.watch.stop_after is None:
        check_stage(INTEGER, state.graph, _grounds(state.context))
    advance()
    return state


def proved(state: State) -> State:
    """Integer graph -> the body of each node, and the evidence that it is its meaning."""
    advance, evidence = state.progress("prove nodes", len(state.record.nodes)), []
    for each in choose_bodies(state.graph, state.context):
        evidence.append(each)
        advance()
    if state.watch.stop_after is not None:
        return state.stopped()
    return replace(state, evidence=evidence)


def emitted(state: State) -> State:
    """Graph -> the model that is written, in the form that the graph has reached."""
    graph, settings = state.graph, state.settings
    if state.watch.stops_in(PREPARE):
        model = prepared_model(graph)
    elif state.watch.stop_after == PLACE or settings.emit == "qdq":
        model = emit_qdq(graph, state.provenance)
    else:
        model = emit_integer(graph, state.record, state.provenance, settings.channels_last)
    if settings.emit == "standard":
        model = emit_standard(model)
    return replace(state, model=model)


STAGES: tuple[Stage, ...] = (
    prepared,
    calibrated,
    placed,
    recovered,
    integerized,
    proved,
    emitted,
)
"""What happens to a model, in order. One that has ended goes on to the last stage."""

PLACE = "place"
"""The name under which the Q/DQ graph can be watched, between prepare and integerize."""


def quantized(state: State, behind: Callable[[Stage, State], None] | None = None) -> State:
    """A float model through all stages, or to where ``emit`` or ``stop_after`` end it.

    ``behind`` is called with each stage but the last, and the state behind it. The weights of
    the emitted model may be held.
    """
    for stage in STAGES[:-1]:
        if not state.ended:
            with holding():  # what a stage exports is run in it
                state = stage(state)
            if behind is not None:
                behind(stage, state)
    return STAGES[-1](state)


def context_for(settings: Settings) -> Context:
    """What the passes share at the beginning, with the op types that may be asked for."""
    return Context(settings, quantizable=QUANTIZABLE)


def _grounds(context: Context) -> Grounds:
    """By what the nodes of a stage are judged."""
    selection = context.selection
    return Grounds(context.record, {*selection.excluded, *selection.unlisted}, COMPUTING)


def passes_by_name() -> dict[str, Pass]:
    """All passes, in order."""
    passes = PREPARE + INTEGERIZE + CLIP_CODES + INTEGER_IO
    return {each.name: each for each in passes}


def pass_table() -> list[tuple[str, str, str]]:
    """What can be watched or stopped after, in order: name, stage, what it does."""
    stages = {"prepare": PREPARE, "integerize": INTEGERIZE + CLIP_CODES + INTEGER_IO}
    rows = [
        (each.name, stage, (getdoc(each) or "").partition("\n")[0])
        for stage, passes in stages.items()
        for each in passes
    ]
    rows.insert(len(PREPARE), (PLACE, "place", "Insert QuantizeLinear and DequantizeLinear."))
    return rows
