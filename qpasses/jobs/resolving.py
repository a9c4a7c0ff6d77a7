"""What a call asks for, read and checked before anything is computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from calibration import Preprocessing, Samples, open_samples
from calibration.inputs import InputSpec
from calibration.table import Table
from opsets.errors import UsageError
from opsets.realised import takes_words
from opsets.target import Target
from qpasses.emit.evidence_file import place_to_write
from qpasses.emit.model_file import expected_place
from qpasses.emit.provenance import Provenance
from qpasses.emit.whole_files import check_outputs
from qpasses.ir.commands import QuantizeOptions
from qpasses.ir.input_names import as_pairs
from qpasses.ir.model_nodes import nodes_of
from qpasses.ir.rewriting import Watch
from qpasses.ir.settings import Settings, usual_accuracy
from qpasses.jobs.goals import JUDGES, Goals, given_goals, with_labels
from qpasses.jobs.labels import FOLDERS
from qpasses.jobs.pass_names import check_stop
from qpasses.load.arguments import (
    Source,
    given_engine,
    given_paths,
    given_preprocessing,
    given_target,
    tool_version,
)
from qpasses.load.external_data import external_files
from qpasses.load.state_ends import check_states
from qpasses.pipeline import State, context_for
from qpasses.place.ranges import Calibration, Given
from qpasses.recover.judge import HELD_BACK


@dataclass(frozen=True)
class Job:
    """A quantization before its first stage, and what its report says of it.

    ``command``: what was called; ``source``: the model as given; ``evidence``: where the
    certificate goes, if there is one; ``inputs``: the files that are read; ``goals``: what
    outputs are to be.
    """

    command: str
    start: State
    source: Source
    configuration: dict[str, Any]
    evidence: Path | None
    inputs: Sequence[Path]
    goals: Goals


def resolved(
    command: str,
    asked: QuantizeOptions,
    read: Callable[[str | Path | onnx.ModelProto], Source],
) -> Job:
    """Everything read and checked. Raises UsageError or ModelError, nothing written."""
    rules = given_target(asked.target, asked.exact)
    accuracy = asked.accuracy or usual_accuracy(asked.data)
    settings = Settings.chosen(rules, replace(asked, accuracy=accuracy))
    check_stop(asked.stop_after, settings)
    if settings.emit == "tosa" and asked.save_as_external_data:
        raise UsageError(
            "save_as_external_data (--save-as-external-data) with emit 'tosa', whose text has "
            "all constants: leave one of the two away"
        )
    evidence = place_to_write(
        asked.evidence_file, asked.output, settings.emit, asked.stop_after
    )
    goals = given_goals(asked)
    runs_on = given_engine(asked.engine, asked.ray_address)
    source = read(asked.model).sized(settings.input_shape)
    check_states(source.model, settings.states, source.path)
    if source.is_quantized:
        _check_free(settings)
    for name in goals.asked:
        _check_goal(name, asked, settings, source)
    if settings.emit == "tosa":
        _check_fixed(source)
    how, sha256, path = given_preprocessing(asked.preprocessing), source.sha256, source.path
    given = _table(asked, rules, sha256, how, source.is_quantized)
    usual = None if given is None else given.preprocessing
    if source.is_quantized and asked.data is None and given is None:
        _check_known(source)
    if asked.data is None and (free := _free_input(source)):
        raise UsageError(
            f"{source.path}: input {free} has free sizes: give them (--input-shape), or "
            "--data (in Python: data), one sample is enough to know them"
        )
    if asked.data is None:
        _check_samples_needed(settings)
    wanted = "random:1" if asked.data is None else asked.data
    names = as_pairs(asked.inputs)
    feeds = open_samples(
        wanted, source.specs, asked.samples, how, usual, names, asked.samples_to_exclude
    )
    goals = with_labels(goals, asked.labels, feeds)
    if given is not None:
        given.check_preprocessing(feeds.preprocessing)
    inputs = [path, *external_files(path), *feeds.paths, *_files(asked)]
    weights = expected_place(source.model, asked.output, asked.save_as_external_data)
    check_outputs(given_paths(asked.output, evidence, asked.json_file, weights), inputs)
    shown_as = feeds.preprocessing or (usual if asked.data is None else None)
    configuration = settings.as_json() | {
        "calibration_table": given and given.as_json(),
        "samples": 0 if asked.data is None and given is None else len(feeds),
        "random_data": _is_random(asked, feeds, given),
        "stop_after": asked.stop_after,
        "preprocessing": shown_as and shown_as.as_json(),
    }
    made = configuration | {"emit": "integer"} if settings.emit == "tosa" else configuration
    start = State(
        source.model,
        feeds,
        context_for(settings),
        Provenance.of(source.reference, sha256, tool_version(), made),
        Calibration(runs_on, given, asked.on_bad_sample == "skip", asked.workers),
        asked.progress,
        Watch(asked.after, asked.stop_after),
        asked.data is None and given is None,
        JUDGES if goals.drop else HELD_BACK,
    )
    return Job(command, start, source, configuration, evidence, inputs, goals)


def with_settings(job: Job, **changes: Any) -> Job:
    """The same with other options of the graph. Raises UsageError for what cannot be."""
    settings = replace(job.start.settings, **changes)
    said = {name: value for name, value in settings.as_json().items() if name in changes}
    start, configuration = job.start, job.configuration | said
    made = said | {"emit": "integer"} if said.get("emit") == "tosa" else said
    provenance = replace(start.provenance, configuration=start.provenance.configuration | made)
    start = replace(start, context=context_for(settings), provenance=provenance)
    return replace(job, start=start, configuration=configuration)


def _is_random(asked: QuantizeOptions, feeds: Samples, given: Given | None) -> bool:
    """Whether ranges come from made-up samples."""
    if given is not None:
        return given.random
    return asked.data is not None and feeds.random


def _table(
    asked: QuantizeOptions,
    rules: Target,
    sha256: str,
    how: Preprocessing | None,
    is_quantized: bool,
) -> Given | None:
    """The calibration table, if there is one; of a float model without data there must be."""
    given = None
    if asked.calibration_table is not None:
        given = Given.read(asked.calibration_table, sha256, tool_version(), rules)
    if asked.data is None:
        _check_dataless(given is not None or is_quantized, asked.samples, how)
        if asked.inputs:
            raise UsageError("inputs: is about data, and there are none: give --data too")
    return given


def _check_samples_needed(settings: Settings) -> None:
    """Raise UsageError for options that follow from samples, where there are none."""
    without = {
        "accuracy": ["fast"],
        "weight_rounding": ["nearest", "sum-preserving"],
        "bias_correction": ["none"],
        "activation_scales": ["per-tensor"],
    }
    for name, values in without.items():
        if (given := getattr(settings, name)) not in values:
            raise UsageError(
                f"{name} {given!r} (--{name.replace('_', '-')}) follows from samples: give "
                "--data too (in Python: data)"
            )


def _check_goal(
    where: str, asked: QuantizeOptions, settings: Settings, source: Source
) -> None:
    """Raise UsageError where no tensors can be chosen for 16 bits, as ``where`` asks."""
    if source.is_quantized:
        raise UsageError(f"{where}: the model is quantized already, its scales are kept")
    if asked.data is None:
        raise UsageError(f"{where} follows from samples: give --data too (in Python: data)")
    if not takes_words(settings.target):
        raise UsageError(
            f"{where} with target {settings.target.name!r}, which has no sums of 16 bits"
        )
    if asked.stop_after is not None:
        raise UsageError(f"{where}: a graph that ends behind a pass has no outputs")


def _check_free(settings: Settings) -> None:
    """Raise UsageError for options on what a quantized model says itself."""
    if settings.accuracy == "best":
        raise UsageError(
            "accuracy 'best' (--accuracy): the model is quantized already, its own scales and "
            "codes are kept: leave the option away"
        )
    usual = {"activation_bits": 8, "narrow_range": False, "share_tables": None}
    for name, value in usual.items():
        if getattr(settings, name) != value:
            flag = name.replace("_", "-")
            raise UsageError(
                f"{name} (--{flag}): the model is quantized already, its own scales and codes "
                "are kept: leave the option away"
            )


def _check_fixed(source: Source) -> None:
    """Raise UsageError for sizes that are free: TOSA has none."""
    for spec in source.specs:
        if None in spec.shape:
            sizes = ",".join("SIZE" if each is None else str(each) for each in spec.shape)
            raise UsageError(
                f"{source.path}: input {spec.name!r} has free sizes, and TOSA (emit 'tosa') "
                f"has fixed ones only: give --input-shape {spec.name}:{sizes}"
            )


def _free_input(source: Source) -> InputSpec | None:
    """The first input with a free size behind the first dimension, which is 1 then."""
    return next((each for each in source.specs if None in each.shape[1:]), None)


def _check_known(source: Source) -> None:
    """Raise UsageError for a model that says of no activation how it is stored."""
    if any(node.op_type == "QuantizeLinear" for node in nodes_of(source.model)):
        return
    if source.dynamic:
        raise UsageError(
            f"{source.path}: quantizes {len(source.dynamic)} tensors at run time (node "
            f"{source.dynamic[0]!r} for one): integers need scales that are known, give "
            "--data (in Python: data), whose ranges they follow"
        )
    raise UsageError(
        f"{source.path}: only its weights are quantized, of no activation it says how it is "
        "stored: give --data (in Python: data), whose ranges the scales follow"
    )


def _files(asked: QuantizeOptions) -> list[Path]:
    """The files that table, target and labels are read from."""
    table, target = asked.calibration_table, asked.target
    files = [] if isinstance(table, Table) else given_paths(table)
    rules = [] if isinstance(target, Target) else given_paths(target)
    is_file = isinstance(asked.labels, str | Path) and asked.labels != FOLDERS
    files += given_paths(asked.labels) if is_file else []
    return [*(each for each in rules if each.suffix == ".toml"), *files]


def _check_dataless(knows: bool, samples: int | None, how: Preprocessing | None) -> None:
    """Raise UsageError if nothing ``knows`` the ranges, or an option is for data."""
    if not knows:
        raise UsageError(
            "there is nothing to take ranges from: give --data or --calibration-table (in "
            "Python: data or calibration_table)"
        )
    if samples is not None or how is not None:
        what = "samples" if how is None else "preprocessing"
        raise UsageError(f"{what}: is about data, and there are none: give --data too")
