"""Ranges spread as in TPU-MLIR: golden files of graphs with ranges before and after."""

from itertools import product
from pathlib import Path

import onnx
import onnx.parser
import pytest

from calibration import Range
from qpasses.ir.interchange import import_graph
from qpasses.place.alignment.spreading import OPS, View, called
from qpasses.place.alignment.tpu_mlir_rules import ALL, STAGES, spread, spread_thresholds

FOLDER = Path(__file__).parents[1] / "golden_ranges"
CASES = sorted(path.stem for path in FOLDER.glob("*.txt"))
BEFORE, AFTER = "# ranges on ", "# after\n"

every_case = pytest.mark.parametrize("case", CASES)


def read(case):
    """The text up to the result, the graph, the chip, the ranges before and the text after."""
    text, _, after = (FOLDER / f"{case}.txt").read_text("utf-8").partition(AFTER)
    graph, _, rest = text.partition(BEFORE)
    chip, *lines = rest.split("\n")
    rows = [line.split() for line in lines if line]
    ranges = {name: Range(float(low), float(high)) for name, low, high in rows}
    return text, onnx.parser.parse_model(graph), chip, ranges, after


@every_case
def test_ranges_spread_as_their_file_shows(case, request):
    text, model, chip, ranges, after = read(case)
    onnx.checker.check_model(model, full_check=True)
    found = spread(import_graph(model), ranges, chip)
    shown = "".join(f"{name} {each.low:g} {each.high:g}\n" for name, each in found.items())
    if request.config.getoption("--update-golden"):
        (FOLDER / f"{case}.txt").write_text(f"{text}{AFTER}{shown}", "utf-8")
    else:
        assert shown == after, "is this wanted? then: pytest --update-golden"


def outcomes():
    """What each rule says of each node of its op, in the cases of its chips."""
    for _, model, chip, ranges, _ in map(read, CASES):
        graph = import_graph(model)
        for rule, node in product({rule for stage in STAGES for rule in stage}, graph.nodes):
            if chip in rule.chips and rule.op == called(node):
                yield rule, rule.apply(View(graph, dict(ranges)), node)


def test_every_rule_is_shown_where_it_changes_a_range_and_where_it_changes_none():
    seen = set(outcomes())
    assert {(rule, True) for stage in STAGES for rule in stage} <= seen
    assert {rule.apply for rule, _ in seen} == {rule.apply for rule, done in seen if not done}


@pytest.mark.parametrize("chip", sorted(ALL))
@every_case
def test_spreading_ends_and_keeps_to_the_tensors_that_have_ranges(case, chip):
    _, model, _, ranges, _ = read(case)
    graph = import_graph(model)
    assert spread(graph, ranges, chip).keys() == ranges.keys()
    assert spread(graph, {}, chip) == {}


def test_ops_of_onnx_that_are_called_otherwise_exist():
    assert set(OPS) <= {schema.name for schema in onnx.defs.get_all_schemas()}


def thresholds(body, **ranges):
    head = '<ir_version: 10, opset_import: ["" : 21]>'
    text = f"{head} g (float[1, 4] x) => (float[1, 4] y) {body}"
    given = {name: Range(*ends) for name, ends in ranges.items()}
    return spread_thresholds(import_graph(onnx.parser.parse_model(text)), given)


def test_thresholds_are_the_larger_end_before_and_after_ranges_spread():
    """What a LeakyRelu reads takes the maximum of what it writes, and keeps its minimum."""
    found = thresholds("{ y = LeakyRelu (x) }", x=(-3.0, 1.0), y=(-0.5, 2.0))
    assert found == {"x": Range(-3.0, 3.0), "y": Range(-3.0, 3.0)}
    found = thresholds("{ y = LeakyRelu (x) }", x=(-3.0, 1.0), y=(-0.5, 4.0))
    assert found == {"x": Range(-4.0, 4.0), "y": Range(-4.0, 4.0)}
    found = thresholds("{ y = Sigmoid (x) }", x=(-3.0, -1.0), y=(0.1, 0.9))
    assert found == {"x": Range(-3.0, 3.0), "y": Range(0.0, 0.9)}
