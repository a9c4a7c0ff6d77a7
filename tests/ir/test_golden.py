"""Golden files: a graph, what one pass makes of it, and what the pass declines."""

import ast
import hashlib
import inspect
import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx.printer
import pytest

from calibration import Session
from opsets.target import load_target
from qpasses.emit.integer import emit_integer
from qpasses.emit.provenance import Provenance
from qpasses.integerize import INTEGER_IO, INTEGERIZE
from qpasses.ir.edges import Edges, RealSession
from qpasses.ir.graph import export_graph, import_graph
from qpasses.ir.rewriting import Context, run_passes
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.prepare import PREPARE
from qpasses.report.text import broken_up
from tests.support.plain_targets import plain

FOLDER = Path(__file__).parents[1] / "golden"
PASSES = {each.name: each for each in (*PREPARE, *INTEGERIZE, *INTEGER_IO)}
CASES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.txt"))
AFTER, DECLINED = "# after\n", "# declined: "
TARGET, RULES = "# target: ", "# rules = "

FREE_DIMENSION = 5
"""What a symbolic dimension is when a golden graph is run."""

LARGE = re.compile(r"\{[^{}=]{20000,}\}")
"""A constant of thousands of numbers, of which a file shows a digest."""

SHOWN_ELSEWHERE = {
    "{} sums so many products that int32 could overflow",
    "LogSoftmax over rows too long for an accumulator of {} bits",
    "Softmax over rows too long for an accumulator of {} bits",
}
"""Reasons without a golden file: these take 33,000 numbers (see test_prepare_passes.py,
test_log_softmax.py and test_softmax.py)."""

every_pass = pytest.mark.parametrize("name", PASSES)
every_case = pytest.mark.parametrize("case", CASES)


def read(case):
    """The graph before, and what follows ``# after``."""
    before, _, after = (FOLDER / case).read_text("utf-8").partition(AFTER)
    return before, after


def target_of(before):
    """The target that the first line names, or onnx."""
    first = before.partition("\n")[0]
    return (
        plain(first.removeprefix(TARGET)) if first.startswith(TARGET) else load_target("onnx")
    )


def parsed(text):
    lines = text.splitlines()
    graph = lines[lines[0].startswith((TARGET, RULES)) :]
    return infer_shapes(onnx.parser.parse_model("\n".join(graph)))


def settings_of(text):
    """Those of target onnx, or with a first line ``# rules = {NAME = VALUE}`` of exact with
    these rules, in TOML.
    """
    if not text.startswith(RULES):
        target = target_of(text)
        return Settings(target, bodies="onnxruntime" if target.fast_kernels else "portable")
    rules = tomllib.loads(text.splitlines()[0].removeprefix("# "))["rules"]
    return Settings(replace(load_target("exact"), name="golden", **rules), bodies="portable")


def rewritten(case):
    """The graph after the pass of the case's folder, and the context it wrote to."""
    text = read(case)[0]
    graph, context = import_graph(parsed(text)), Context(settings_of(text))
    run_passes([PASSES[Path(case).parent.name]], graph, context)
    return graph, context


def shown(graph, context):
    """The text that follows ``# after``."""
    reasons = context.record.declined.items()
    lines = [f"{DECLINED}{node}: {reason}\n" for node, reason in reasons]
    return LARGE.sub(_digest, printed(export_graph(graph))) + "".join(lines)


def _digest(numbers):
    digest = hashlib.sha256(numbers[0].encode()).hexdigest()[:16]
    return f"{{{numbers[0].count(',') + 1} numbers, {digest}}}"


def printed(model):
    """ONNX's text of ``model`` without the producer, one tensor a line."""
    for field in ("producer_name", "producer_version"):
        model.ClearField(field)
    raw = onnx.printer.to_text(model)
    text = broken_up(raw)
    assert onnx.printer.to_text(onnx.parser.parse_model(text)) == raw
    return text


def random_feeds(model):
    rng, feeds = np.random.default_rng(0), {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [dim.dim_value or FREE_DIMENSION for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        low = -128 if dtype == np.int8 else 0
        stored = rng.integers(low, low + 256, shape)
        feeds[value.name] = (rng.normal(size=shape) if dtype == np.float32 else stored).astype(
            dtype
        )
    return feeds


@every_case
def test_a_pass_makes_of_the_graph_what_its_file_shows(case, request):
    found = shown(*rewritten(case))
    before, after = read(case)
    if request.config.getoption("--update-golden"):
        (FOLDER / case).write_text(f"{before.rstrip()}\n\n{AFTER}{found}", "utf-8")
    else:
        assert found == after, "is this wanted? then: pytest --update-golden"


@every_case
def test_a_golden_graph_is_valid_and_computes_the_same_after_the_pass(case):
    before = parsed(read(case)[0])
    onnx.checker.check_model(before, full_check=True)
    graph, context = rewritten(case)
    after = emit_integer(graph, context.record, Provenance("", "", {}))
    feeds = random_feeds(before)
    edges = Edges.between([value.name for value in before.graph.input], after, context.record)
    ours = RealSession(Session(after, optimize=False), edges).run(None, feeds)
    theirs = Session(before, optimize=False).run(None, feeds)
    for expected, found in zip(theirs, ours, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        tolerance = (
            1e-5 * np.abs(expected).max(initial=0) if expected.dtype == np.float32 else 1
        )
        gap = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        assert gap.max(initial=0) <= tolerance


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
    return printed(export_graph(import_graph(parsed(read(case)[0]))))


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
