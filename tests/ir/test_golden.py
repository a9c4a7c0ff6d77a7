"""Golden files: a graph, what one pass makes of it, and what the pass declines."""

import ast
import inspect
import json
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

from calibration import Session
from qpasses.api import run_passes_alone
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.graph import STORING
from qpasses.ir.interchange import export_graph, import_graph
from qpasses.load.graph_text import AFTER, GraphText, typed
from qpasses.lowering import INTEGER_IO, INTEGERIZE
from qpasses.prepare import APART, PREPARE
from qpasses.report.text import whole_text, without_large
from tests.support.commands import Ended, run
from tests.support.plain_targets import plain
from tests.support.releases import needs_windowed_attention
from tests.support.small_models import save

FOLDER = Path(__file__).parents[1] / "golden"
PASSES = {each.name: each for each in (*PREPARE, *INTEGERIZE, *INTEGER_IO)}
CASES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.txt"))
DECLINED, TARGET = "# declined: ", "# target: "

FREE_DIMENSION = 5
"""What a symbolic dimension is when a golden graph is run."""

SHOWN_ELSEWHERE = {
    "{} sums so many products that int32 could overflow: those of channel {} up to {}, int32 "
    "with a bias holds {}: take the sum apart",
    "{} with a scale that is no number of float32",
    "{} over rows too long for an accumulator of {} bits",
    "Gemm with a bias times beta that float32 does not hold",
    "BatchNormalization by factors that float32 does not hold",
}
"""Reasons without a golden file: these take 33,000 numbers, or infinite ones (see
test_prepare_passes.py, test_log_softmax.py, test_softmax.py, test_take_apart.py and
test_models_that_run.py)."""

STEPS_OF_STATES = 64
"""States of 16 bits follow codes of 8, half a step off: that is 128 steps of theirs."""

every_pass = pytest.mark.parametrize("name", PASSES)
every_case = pytest.mark.parametrize("case", CASES)
NEWER = {"expand-attention/windows.txt": needs_windowed_attention}
runnable_case = pytest.mark.parametrize(
    "case", [pytest.param(case, marks=NEWER.get(case, ())) for case in CASES]
)


def read(case):
    """The graph before, and what follows ``# after``."""
    before, _, after = (FOLDER / case).read_text("utf-8").partition(AFTER)
    return before, after


def target_of(before):
    """The target that the first line names, with usual forms; None where it names none."""
    first = before.partition("\n")[0]
    return plain(first.removeprefix(TARGET)) if first.startswith(TARGET) else None


def parsed(text, inside=True):
    return typed(GraphText.of(text, Path("golden")).model(Path("golden")), inside)


@cache
def rewritten(case):
    """What the pass of the case's folder makes of its graph."""
    name = Path(case).parent.name
    return run_passes_alone(FOLDER / case, [name], target=target_of(read(case)[0]))


def random_feeds(model):
    rng, feeds = np.random.default_rng(0), {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value or FREE_DIMENSION for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        low, codes = (-32768, 65536) if dtype == np.int16 else (0, 256)
        low = -128 if dtype == np.int8 else low
        stored = rng.integers(low, low + codes, shape)
        feeds[value.name] = (rng.normal(size=shape) if dtype == np.float32 else stored).astype(
            dtype
        )
    return feeds


@every_case
def test_a_pass_makes_of_the_graph_what_its_file_shows(case, request):
    found = without_large(rewritten(case).as_text())
    before, after = read(case)
    if request.config.getoption("--update-golden"):
        (FOLDER / case).write_text(f"{before.rstrip()}\n\n{AFTER}{found}", "utf-8")
    else:
        assert found == after, "is this wanted? then: pytest --update-golden"


@pytest.mark.thinned
@every_case
def test_opt_prints_what_the_file_of_a_pass_shows(case, tmp_path):
    before, after = read(case)
    asked = ["-p", Path(case).parent.name]
    if target := target_of(before):
        rules = [f"{name} = {json.dumps(value)}" for name, value in target.rules().items()]
        save(tmp_path, "plain.toml", "\n".join(rules).encode())
        asked += ["--target", tmp_path / "plain.toml"]
    assert run("opt", FOLDER / case, *asked) == Ended(0, after, "")


@every_case
def test_a_printed_graph_is_read_again_as_it_was(case):
    text = whole_text(rewritten(case).model)
    assert whole_text(onnx.parser.parse_model(text)) == text


@runnable_case
def test_a_golden_graph_is_valid_and_computes_the_same_after_the_pass(case):
    before = without_stores(parsed(read(case)[0]))
    onnx.checker.check_model(before, full_check=True)
    made = rewritten(case)
    after = emit_integer(made.graph, made.record, Provenance("", "", {}))
    feeds = random_feeds(before)
    edges = Edges.between(before, after, made.record)
    ours = RealSession(Session(after, optimize=False), edges).run(None, feeds)
    theirs = Session(before, optimize=False).run(None, feeds)
    for expected, found in zip(theirs, ours, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        tolerance = 1
        if expected.dtype == np.float32:
            tolerance = 1e-5 * np.abs(expected).max(initial=0)
        elif expected.dtype == np.int16 and case.startswith("integerize-recurrent/"):
            tolerance = STEPS_OF_STATES
        gap = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        assert gap.max(initial=0) <= tolerance


def without_stores(model):
    """No runtime knows STORE, which changes nothing."""
    for node in model.graph.node:
        if node.domain == STORING:
            node.op_type, node.domain = "Identity", ""
    return model


@every_pass
def test_every_pass_has_a_rewriting_and_a_declining_case(name):
    cases = [case for case in CASES if case.startswith(f"{name}/")]
    changes = {case: read(case)[1] for case in cases}
    same = {case for case in cases if changes[case].startswith(printed_before(case))}
    assert same < set(cases), "no case where it rewrites"
    assert same, "no case where it changes nothing"
    source = inspect.getsource(sys.modules[type(PASSES[name]).__module__])
    if "Declined(" in source:
        assert any(DECLINED in changes[case] for case in same), "no case where it declines"


def printed_before(case):
    are_apart = PASSES[Path(case).parent.name] in APART
    before = parsed(read(case)[0], inside=not are_apart)
    return whole_text(export_graph(import_graph(before, are_apart)))


def test_every_golden_file_belongs_to_a_pass():
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert {path.parent.name for path in files} <= PASSES.keys()
    assert sorted(path.relative_to(FOLDER).as_posix() for path in files) == CASES


def reasons():
    """Every reason in the source of the passes, {} standing for what it names."""
    for path in sorted({inspect.getfile(type(each)) for each in PASSES.values()}):
        for node in ast.walk(ast.parse(Path(path).read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Declined":
                (text,) = node.args
                parts = text.values if isinstance(text, ast.JoinedStr) else [text]
                yield "".join(
                    part.value if isinstance(part, ast.Constant) else "{}" for part in parts
                )


@pytest.mark.parametrize("reason", sorted(set(reasons()) - SHOWN_ELSEWHERE))
def test_every_reason_to_decline_is_shown_in_a_golden_file(reason):
    pattern = re.escape(reason).replace(re.escape("{}"), ".+")
    shown_reasons = re.findall(
        f"^{DECLINED}\\S+: (.*)", "\n".join(read(c)[1] for c in CASES), re.M
    )
    assert any(re.fullmatch(pattern, each) for each in shown_reasons)
