"""What `qpasses integerize` makes of quantized models: integers, figures, scores, latency.

`make quantized` runs it on the files that people publish, and on models of the zoo by way of
onnxruntime's quantize_static, and writes docs/quantized-models.json; `make docs` makes tables
of it.
"""

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.progress import track

import qpasses
from calibration import Session
from qpasses.load.arguments import given_source
from tests.bench.latency import measure
from tests.bench.manifest import ROOT, Model, entries
from tests.bench.markdown import table
from tests.bench.quantized_zoo import MADE_UP, PUBLISHED, Published
from tests.bench.static_models import CALIBRATED_WITH, FORMS, feeds_of, quantized_static

FIGURES = ROOT / "docs" / "quantized-models.json"

STATIC = (
    *("mlperf_tiny_dscnn_kws", "mtcnn_rnet", "squeezenet1.1_fp32_from_fp16"),
    *("pfld", "cifar10_resnet20", "nanodet_m"),
)
"""Models of the zoo for quantize_static."""

SAMPLES_FOR_SCALES = 4
COMPARED = 20
"""Outputs of so many samples are compared where there are no labels."""

RUNS = ("original", "optimized", "as Q/DQ", "integers", "`--exact`")
"""What predicts: onnxruntime on the file without and with its optimizations, and, of operators
on integers, on what it is translated to, without them; integers of 24-bit and 31-bit
multipliers.
"""

SECONDS_PER_SIDE = 1.5
FEWEST_ROUNDS, MOST_ROUNDS = 15, 150


@dataclass
class Row:
    """One file. ``problem``: why no integer model was made of it; nothing else is known then.

    ``same``: the share of output elements that equal those of the original, which is run
    without optimizations; ``latency``: of ours to that of the original as onnxruntime
    optimizes it. ``right``: right answers by run of ``RUNS``; ``agree``: predictions like
    those of the original without optimizations.
    """

    name: str
    form: str
    data: str
    problem: str = ""
    verdict: str = ""
    integer_only: bool = False
    nodes: int = 0
    left: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    scales_kept: int = 0
    scales_from_samples: int = 0
    weights_not_kept: int = 0
    channels: int = 0
    moved: int = 0
    moved_exactly: int = 0
    samples: int = 0
    same: float = 0.0
    sqnr_db: float = 0.0
    optimized_sqnr_db: float | None = None
    right: dict[str, int] = field(default_factory=dict)
    agree: dict[str, int] = field(default_factory=dict)
    latency: float | None = None
    milliseconds: float | None = None


@dataclass(frozen=True)
class Case:
    """A file to measure, with the samples that scales follow, those it is run on, labels."""

    name: str
    form: str
    data: str
    path: Path
    calibration: Sequence[Mapping[str, Any]] | None
    feeds: Sequence[Mapping[str, Any]]
    labels: Any = None
    offset: int = 0
    predicts: bool = False


def published_case(given: Published) -> Case:
    """All samples where predictions are counted."""
    predicts = given.labels is not None or given.name.startswith("micro_kws")
    feeds = given.feeds(None if predicts else COMPARED)
    calibration = feeds[:SAMPLES_FOR_SCALES] if given.needs_data else None
    about = (given.name, given.form, given.what, given.path)
    return Case(*about, calibration, feeds, given.labels, given.offset, predicts)


def static_cases(names: Sequence[str], folder: Path) -> Iterator[Case]:
    """Models of the zoo in all forms of quantize_static."""
    known = {entry.name: entry for entry in entries()}
    for name in names:
        feeds = feeds_of(known[name], 8, first=CALIBRATED_WITH)
        for form in FORMS.values():
            path = quantized_static(known[name], form, folder)
            yield Case(name, form.name, "of the zoo", path, None, feeds)


def integerized(case: Case) -> tuple[Row, list[Model]]:
    """What can be known without running the models; the usual one and the exact one."""
    row = Row(case.name, case.form, case.data)
    try:
        made, exact = (
            qpasses.integerize(case.path, case.calibration, exact=each)
            for each in (False, True)
        )
    except qpasses.ModelError as error:
        row.problem = str(error).splitlines()[0].removeprefix(f"{case.path}: ")
        return row, []
    summary, kept = made.report["summary"], made.report["kept"]
    left = summary["float_nodes"]
    row.verdict, row.integer_only = made.verdict, summary["integer_only"]
    row.nodes = len(made.evidence)
    row.left = dict(sorted(Counter(node["op_type"] for node in left).items()))
    row.reasons = sorted({_without_names(node["reason"]) for node in left})
    row.scales_kept = kept["scales"]
    row.scales_from_samples = len(kept["from_samples"])
    row.weights_not_kept = len(kept["weights_not_kept"])
    row.channels, row.moved = summary["channels"], summary["channels_moved"]
    row.moved_exactly = exact.report["summary"]["channels_moved"]
    return row, [each.model for each in (made, exact) if each.model is not None]


def _without_names(reason: str) -> str:
    """A reason that begins with the name of a tensor, for all tensors."""
    _, colon, rest = reason.rpartition("': ")
    return rest if colon else reason


def run(case: Case) -> Row:
    """All figures of one file."""
    row, made = integerized(case)
    if not made:
        return row
    given = given_source(case.path)
    plain, guesses = _answers(given.session(), case)
    ours, our_guesses = _answers(Session(made[0]), case)
    row.samples, row.same = len(case.feeds), float((plain == ours).mean())
    row.sqnr_db = _decibels(plain, ours)
    predictions = {"original": guesses, "integers": our_guesses}
    if _runs_optimized(case):
        optimized, predictions["optimized"] = _answers(Session(given.reference), case)
        row.optimized_sqnr_db = _decibels(plain, optimized)
        row.latency, row.milliseconds = _latency([given.reference, made[0]], case.feeds[0])
    if case.predicts:
        others = {"`--exact`": Session(made[1])}
        if case.form == "QOperator":
            others["as Q/DQ"] = Session(given.model, optimize=False)
        predictions |= {name: _answers(each, case)[1] for name, each in others.items()}
        row.agree = {name: int((guesses == each).sum()) for name, each in predictions.items()}
    if case.labels is not None:
        labels = case.labels[: row.samples]
        row.right = {name: int((each == labels).sum()) for name, each in predictions.items()}
    return row


def _runs_optimized(case: Case) -> bool:
    """Whether onnxruntime runs the file itself, optimized: it fails on one."""
    try:
        Session(onnx.load(case.path)).run(None, case.feeds[0])
    except qpasses.ModelError:
        return False
    return True


def _answers(session: Session, case: Case) -> tuple[Any, Any]:
    """All outputs of each sample in a row; where the largest number of the first one is."""
    values, places = [], []
    for feed in case.feeds:
        outputs = session.run(None, feed)
        values.append(np.concatenate([np.asarray(e, np.float64).ravel() for e in outputs]))
        places.append(int(np.asarray(outputs[0]).argmax()) - case.offset)
    return np.stack(values), np.array(places)


def _decibels(real: Any, found: Any) -> float:
    noise = max(float(np.square(real - found).sum()), 1e-30)
    return min(float(10 * np.log10(max(float(np.square(real).sum()), 1e-30) / noise)), 200.0)


def _latency(models: Sequence[Model], feed: Mapping[str, Any]) -> tuple[float, float]:
    """The median ratio of interleaved rounds on one thread, and our median in ms."""
    once = measure(models, dict(feed), 2).max()
    rounds = int(np.clip(SECONDS_PER_SIDE / max(once, 0.01), FEWEST_ROUNDS, MOST_ROUNDS))
    times = measure(models, dict(feed), rounds)
    return float(np.median(times[:, 1] / times[:, 0])), float(np.median(times[:, 1])) * 1e3


# Tables


def rows() -> list[Row]:
    """What was measured last."""
    return [Row(**row) for row in json.loads(FIGURES.read_text("utf-8"))]


def _of_static(row: Row) -> bool:
    return row.form in FORMS


def published_table() -> str:
    """Every published file: how much is integer, and how near it is to the original."""
    head = ["file", "form", "integer nodes", "integer only", "scales kept", "from samples"]
    head += ["channels", "that differ", "with `--exact`", "left in float"]
    return table(head, [_what_became(row) for row in rows() if not _of_static(row)])


def _what_became(row: Row) -> list[str]:
    if row.problem:
        return [row.name, row.form, *["-"] * 7, f"refused: {row.problem}"]
    left = ", ".join(f"{count} {op}" for op, count in row.left.items())
    reasons = "; ".join(row.reasons)
    return [
        row.name,
        row.form,
        f"{row.nodes}",
        "yes" if row.integer_only else "no",
        f"{row.scales_kept}",
        f"{row.scales_from_samples}",
        f"{row.channels}",
        f"{row.moved}",
        f"{row.moved_exactly}",
        f"{left}: {reasons}" if left else "-",
    ]


def outputs_table() -> str:
    """Every published file: its outputs beside the original's, latency."""
    head = ["file", "samples", "equal outputs", "SQNR", "SQNR of the original, optimized"]
    return table([*head, "ms", "latency"], [_outputs(r) for r in rows() if _is_run(r)])


def _is_run(row: Row) -> bool:
    return not row.problem and not _of_static(row)


def _outputs(row: Row) -> list[str]:
    of_data = (
        f"{row.samples}, {row.data}" if row.data == MADE_UP else f"{row.samples} {row.data}"
    )
    return [row.name, of_data, *_nearness(row)]


def _nearness(row: Row) -> list[str]:
    return [
        f"{row.same:.2%}",
        _in_decibels(row.sqnr_db),
        _in_decibels(row.optimized_sqnr_db),
        "-" if row.milliseconds is None else f"{row.milliseconds:.3g}",
        "-" if row.latency is None else f"{row.latency:.2f}",
    ]


def _in_decibels(figure: float | None) -> str:
    if figure is None:
        return "-"
    return "equal" if figure >= 200 else f"{figure:.1f} dB"


def scores_table() -> str:
    """Right answers, and predictions like those of the original."""
    head = ["file", "samples", *(f"right: {RUNS[0]}", *RUNS[1:])]
    head += [f"like the original: {RUNS[1]}", *RUNS[2:]]
    return table(head, [_scores(row) for row in rows() if row.agree])


def _scores(row: Row) -> list[str]:
    counts = [row.right.get(name) for name in RUNS]
    counts += [row.agree.get(name) for name in RUNS[1:]]
    shown = ["-" if count is None else f"{count}" for count in counts]
    return [row.name, f"{row.samples}, {row.data}", *shown]


def static_table() -> str:
    """Models of quantize_static."""
    head = ["model", "form", "integer only", "channels", "that differ", "with `--exact`"]
    head += ["equal outputs", "SQNR", "SQNR of the original, optimized", "ms", "latency"]
    found = []
    for row in filter(_of_static, rows()):
        if row.problem:
            found.append([row.name, row.form, "refused", *["-"] * 8])
            continue
        only = "yes" if row.integer_only else "no"
        counts = [f"{count}" for count in (row.channels, row.moved, row.moved_exactly)]
        found.append([row.name, row.form, only, *counts, *_nearness(row)])
    return table(head, found)


def main() -> None:
    """Measure, and write the figures of those that were measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as folder:
        chosen = [each for each in PUBLISHED if not names or each.name in names]
        static = [name for name in STATIC if not names or name in names]
        for each in track(chosen, "published"):
            write([run(published_case(each))])
        for case in track([*static_cases(static, Path(folder))], "static"):
            write([run(case)])
    print(f"written: {FIGURES.relative_to(ROOT)}; then: make docs")


def write(found: Sequence[Row]) -> None:
    """Put rows in place of those of the same name and form, in the order of the lists."""
    known = rows() if FIGURES.is_file() else []
    merged = {(row.name, row.form): row for row in [*known, *found]}
    order = [*(each.name for each in PUBLISHED), *STATIC]
    kept = sorted(merged.values(), key=lambda row: order.index(row.name))
    content = json.dumps([asdict(row) for row in kept], indent=2) + "\n"
    FIGURES.write_text(content, "utf-8")


if __name__ == "__main__":
    main()
