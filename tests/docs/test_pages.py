"""Documents say what is true: what commands print, what is supported, what examples give."""

import re
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from calibration.methods import METHODS
from calibration.presets import PRESETS
from opsets.qpasses_v1 import OPS
from opsets.target import Target, target_names
from qpasses import quantize
from qpasses.cli import cli
from qpasses.ir.flow import VALUES
from qpasses.ir.graph import STORE
from qpasses.ir.moving import MOVING
from qpasses.ir.stages import CLAMPING
from tests.support.examples import examples, printed

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits_cnn"
README, DOCS = ROOT / "README.md", ROOT / "docs"

MOVED = MOVING.keys() - {STORE} - VALUES
"""Ops of ONNX that move."""


def text(name):
    return (DOCS / name).read_text("utf-8")


def lines_of(output):
    return [line.rstrip() for line in output.rstrip().splitlines()]


def invoked(*arguments):
    return CliRunner().invoke(cli, [str(each) for each in arguments]).output


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder as the examples find it, and what `quantize` printed when it made the model."""
    folder = tmp_path_factory.mktemp("desk")
    shutil.copy(DIGITS / "digits_cnn.onnx", folder / "model.onnx")
    shutil.copy(DIGITS / "calibration.npz", folder / "samples.npz")
    data = ("--data", DIGITS / "calibration.npz")
    output = folder / "model.int8.onnx"
    return folder, invoked("quantize", DIGITS / "digits_cnn.onnx", *data, "-o", output)


def ran(page, folder, **names):
    """What the examples of a page print, beside what it says that they print."""
    found = [(printed(code, folder, names), shown) for code, shown in examples(DOCS / page)]
    return [each for each, _ in found], [shown for _, shown in found]


# What commands print


@pytest.fixture(scope="module")
def told(desk):
    """What `quantize --verbose` prints of it."""
    given = "--data", desk[0] / "samples.npz", "-o", desk[0] / "verbose.onnx", "--verbose"
    return lines_of(invoked("quantize", desk[0] / "model.onnx", *given))


def between(lines, start, end):
    """The lines from the first that begins with ``start`` to before that with ``end``."""
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    return lines[first : next(i for i in range(first, len(lines)) if lines[i].startswith(end))]


def test_the_demo_prints_the_report_and_the_evidence_shown(desk, told):
    lines, page = lines_of(desk[1]), text("verification.md")
    assert "\n".join(between(lines, "Against", "for latency")) in page
    assert "\n".join(between(told, "nodes  ", "verdict:")).rstrip() in page
    assert "for latency: qpasses bench build/demo" in page
    assert lines[-1].startswith("for latency: qpasses bench ")
    shown = page[page.index("qpasses quantize models") :].splitlines()[:2]
    names = [
        [option.split()[0] for option in each.split(", ")] for each in (shown[1], lines[1])
    ]
    assert [name for name in names[0] if name != "json"] == names[1]


def test_the_front_page_shows_lines_of_the_demo_in_their_order(desk, told):
    page = README.read_text("utf-8")
    blocks = [
        page[page.index(start) :].partition("\n```")[0]
        for start in ("Against the float model", "Evidence\nop ")
    ]
    for block, lines in zip(blocks, (lines_of(desk[1]), told), strict=True):
        rest = iter(lines)
        shown = [line for line in block.splitlines() if line != "..."]
        assert [line for line in shown if line not in rest] == []
        assert len(shown) > 5


def test_calibrate_prints_the_tensors_shown(tmp_path):
    options = ("-o", tmp_path / "t.json", "--calibration-method", "auto")
    data = ("--data", DIGITS / "calibration.npz")
    output = invoked("calibrate", DIGITS / "digits_cnn.onnx", *data, *options)
    assert "\n".join(lines_of(output[output.index("Tensors") :])) in text("ranges.md")


def test_inspect_prints_what_is_shown(desk):
    output = invoked("inspect", desk[0] / "model.int8.onnx", "--node", "down/add")
    assert "\n".join(lines_of(output)) in text("verification.md")


def test_inspect_prints_of_a_float_model_what_is_shown(desk):
    output = invoked("inspect", desk[0] / "model.onnx")
    shown = output.replace(str(desk[0] / "model.onnx"), "model.onnx")
    assert "\n".join(lines_of(shown)) in text("inspect.md")


# What examples give


def test_the_examples_of_python_print_what_is_shown(desk, tmp_path):
    for name in ("model.onnx", "samples.npz"):
        shutil.copy(desk[0] / name, tmp_path)
    found, shown = ran("python.md", tmp_path)
    assert found == shown
    assert len(found) >= 6


def test_the_lines_that_read_the_evidence_print_every_node(desk):
    ((found,), _) = ran("verification.md", desk[0])
    lines = found.splitlines()
    assert len(lines) == 12
    assert lines[0] == (
        "stem/conv thresholds 0 of 2271046 - the first onnxruntime body of IntConv that "
        "computes such a node"
    )


def test_the_lines_that_deploy_a_model_run_it(desk, tmp_path):
    image = np.load(DIGITS / "calibration.npz")["image"][:1]
    (plain, _), (compiled, _), (stored, _) = examples(DOCS / "deploying.md")
    names = {"image": image}
    printed(plain, desk[0], names)
    real = names["logits"]
    printed(compiled, desk[0], names)
    np.testing.assert_array_equal(names["session"].run(None, {"image": image})[0], real)
    assert (real.shape, real.dtype) == ((1, 10), np.float32)
    stored_io = tmp_path / "model.int8.onnx"
    quantize(
        DIGITS / "digits_cnn.onnx", DIGITS / "calibration.npz", stored_io, integer_io=True
    )
    printed(stored, tmp_path, names)
    (logits,) = names["session"].run(None, names["feed"])
    assert logits.dtype == np.uint8 and len(np.unique(logits)) > 5
    assert logits.argmax() == real.argmax()


def test_the_arithmetic_of_a_target_is_what_is_shown(tmp_path):
    found, shown = ran("targets.md", tmp_path)
    assert found == shown


# What is named


def test_every_op_is_named():
    page = text("supported-ops.md")
    assert [op for op in {*OPS, *MOVED, *CLAMPING} if op not in page] == []


def test_every_calibration_method_is_named():
    page = text("ranges.md")
    assert [name for name in METHODS if f"`{name}`" not in page] == []


def test_every_preset_is_named():
    page = text("samples.md")
    assert [name for name in PRESETS if f"`{name}`" not in page] == []


def test_every_shipped_target_and_every_rule_is_named():
    page = text("targets.md")
    names = {*target_names(), *(field.name for field in fields(Target))}
    assert [
        name for name in names if f"`{name}`" not in page and f"{name} =" not in page
    ] == []


# The front page


def test_the_front_page_is_short():
    assert len(README.read_bytes()) <= 8_000


def test_the_front_page_counts_the_moving_ops():
    row = re.search(r"\| (MaxPool, .*) and (\d+) more \|", README.read_text("utf-8"))
    named = row[1].split(", ")
    assert set(named) <= MOVED
    assert len(named) + int(row[2]) == len(MOVED)


def test_the_front_page_has_the_means_of_the_measured_latencies():
    table = text("figures.md").partition("<!-- latency")[2].partition("<!-- end")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    head, _, *models, means = ([c.strip() for c in line.split("|")[1:-1]] for line in lines)
    assert head[2:5] == ["quantize_static (1)", "bodies (1)", "kernels (1)"]
    assert len(models) == 20
    for model in models:
        assert float(model[4]) <= min(1, float(model[2])), model[0]
    page = " ".join(README.read_text("utf-8").split())
    assert f"stock onnxruntime {means[3]} of float" in page
    assert f"compiled kernels {means[4]}, none slower than float or" in page
    assert f"quantize_static ({means[2]})" in page
