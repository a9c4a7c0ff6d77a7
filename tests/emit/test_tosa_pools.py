"""Pools as TOSA programs: its reference model gives the integers of onnxruntime."""

from pathlib import Path

import pytest

from calibration import input_specs, open_samples
from opsets.errors import ModelError
from qpasses import quantize, verify
from qpasses.api import export
from qpasses.checking.beside.other_programs import check_with, runner_of
from qpasses.emit.tosa.profile import PRO_INT_8K
from qpasses.ir.progress import no_progress
from tests.support.small_models import model, numbers
from tests.support.tosa_nodes import needs_tools

FORMS = {
    "onnx": {},
    "int8": {"activation_type": "int8"},
    "tosa": {"target": "tosa"},
    "tosa int8": {"target": "tosa", "activation_type": "int8"},
    "tflite": {"target": "tflite"},
}

IMAGE, ROWS = "float[1, 3, 7, 6]", "float[2, 3, 11]"
POOLS = {
    "none padded": (IMAGE, "kernel_shape = [3, 2]"),
    "strides that leave rows": (IMAGE, "kernel_shape = [2, 2], strides = [2, 4]"),
    "padded": (IMAGE, "kernel_shape = [3, 3], pads = [1, 1, 1, 1]"),
    "padded, with strides": (
        IMAGE,
        "kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]",
    ),
    "padded on one side": (IMAGE, "kernel_shape = [2, 3], pads = [0, 2, 1, 0]"),
    "padded widely": (IMAGE, "kernel_shape = [5, 4], pads = [2, 3, 4, 1], strides = [3, 2]"),
    "ceil_mode": (IMAGE, "kernel_shape = [2, 4], strides = [2, 4], ceil_mode = 1"),
    "ceil_mode, padded": (
        IMAGE,
        "kernel_shape = [4, 3], pads = [1, 1, 0, 0], strides = [3, 2], ceil_mode = 1",
    ),
    "padding that counts": (
        IMAGE,
        "kernel_shape = [3, 2], pads = [1, 1, 1, 0], count_include_pad = 1",
    ),
    "padding that counts, ceil_mode": (
        IMAGE,
        "kernel_shape = [2, 2], pads = [1, 1, 0, 0], strides = [3, 2], ceil_mode = 1,"
        " count_include_pad = 1",
    ),
    "dilated": (IMAGE, "kernel_shape = [2, 2], dilations = [2, 3]"),
    "dilated and padded": (
        IMAGE,
        "kernel_shape = [3, 2], dilations = [2, 1], pads = [2, 1, 2, 1]",
    ),
    "rows": (ROWS, "kernel_shape = [4], strides = [2]"),
    "rows, padded": (ROWS, "kernel_shape = [4], pads = [2, 1], strides = [2]"),
    "rows, ceil_mode": (ROWS, "kernel_shape = [4], strides = [3], ceil_mode = 1"),
    "all rows": (ROWS, "kernel_shape = [11]"),
}


def pool(name, before="", reads="x"):
    """An AveragePool between two functions, so that it reads and gives what is stored."""
    source, attributes = POOLS[name]
    body = f"{before} [pool] y = AveragePool <{attributes}> ({reads})"
    return model(f"g ({source} x) => (float[] y) {{ {body} }}", opset=19)


def feeds(made, count=8, seed=1):
    shape = [each.dim_value for each in made.graph.input[0].type.tensor_type.shape.dim]
    return [{"x": each} for each in numbers(count, *shape, seed=seed)]


def check(made, **options):
    """Exported, run in the reference model: no integer differs. Its op, and the text."""
    samples = feeds(made)
    integer = quantize(made, samples, accuracy="fast", **options).model
    given = open_samples(samples[:3], input_specs(made))
    runner = runner_of("tosa-reference", PRO_INT_8K)
    found = check_with(runner, integer, Path("m"), made, given, no_progress)
    assert not found.problems
    assert (found.samples, found.differences, found.first) == (3, 0, "")
    (op,) = {node.op_type for node in integer.graph.node if "Pool" in node.op_type}
    return op, export(integer).text


@needs_tools
@pytest.mark.thinned
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", POOLS)
def test_averages_give_the_same_integers(name, form):
    """Some of a range beside zero, so that neither zero point nor padding is the middle."""
    if form == "tflite" and "that counts" in name:  # TFLite counts no padding
        with pytest.raises(ModelError, match=r"'pool' \(AveragePool\) is left in float"):
            check(pool(name, "a = Sigmoid (x)", "a"), **FORMS[form])
        return
    op, text = check(pool(name, "a = Sigmoid (x)", "a"), **FORMS[form])
    if "tosa" in form and "dilated" not in name:
        assert '"tosa.avg_pool2d"' in text
        assert '"tosa.depthwise_conv2d"' not in text
    elif form == "onnx":
        counted = (
            any(each in name for each in ("padded", "ceil_mode")) and name != "none padded"
        )
        assert op == ("IntCountedAveragePool" if counted else op)


TIES = "kernel_shape = [4, 2], pads = [3, 1, 2, 0], strides = [1, 2]"
"""Windows of 1 to 8 cells, six numbers of them."""


@needs_tools
@pytest.mark.thinned
@pytest.mark.parametrize("rounding", ["half_to_even", "half_up", "half_away"])
@pytest.mark.parametrize("ratio", [1, 2, 0.75, 3, 0.3])
def test_ties_are_rounded_as_the_node_rounds_them(tmp_path, rounding, ratio):
    """Of one scale, or of two whose ratio is a power of two, many sums are ties."""
    target = tmp_path / "mine.toml"
    rules = 'name = "mine"\ndescription = ""\nmultiplier_bits = 31\nfast_kernels = false\n'
    target.write_text(f'{rules}rounding = "{rounding}"\n', "utf-8")
    made = model(f"g ({IMAGE} x) => (float[] y) {{ y = AveragePool <{TIES}> (x) }}", opset=19)
    ends = [f"x={-ratio},{ratio}", "y=-1,1"]
    op, text = check(made, target=target, calibration_overrides=ends)
    assert op == "IntCountedAveragePool"
    if ratio in (1, 2) and rounding == "half_to_even":
        assert '"tosa.select"' in text  # a RESCALE would round up
    if ratio == 1 and rounding == "half_away":
        assert '"tosa.avg_pool2d"' in text


@needs_tools
def test_windows_of_one_number_of_cells_are_one_rescale():
    attributes = "kernel_shape = [2, 2], pads = [1, 1, 1, 1], strides = [3, 3]"
    made = model(
        f"g (float[1, 2, 3, 3] x) => (float[] y) {{ y = AveragePool <{attributes}> (x) }}",
        opset=19,
    )
    op, text = check(made)
    assert op == "IntCountedAveragePool"
    assert "per_channel = true" not in text


def test_an_average_over_three_dimensions_is_refused():
    attributes = "kernel_shape = [2, 2, 2], pads = [1, 1, 1, 1, 1, 1]"
    made = model(
        f"g (float[1, 2, 3, 4, 4] x) => (float[] y) {{ y = AveragePool <{attributes}> (x) }}",
        opset=19,
    )
    integer = quantize(made, feeds(made), accuracy="fast").model
    with pytest.raises(ModelError, match="an average over three dimensions"):
        export(integer)


@needs_tools
@pytest.mark.thinned
@pytest.mark.parametrize("form", ["onnx", "int8", "tosa", "tosa int8"])
@pytest.mark.parametrize("source", [IMAGE, ROWS, "float[1, 2, 3, 2, 4]"])
def test_averages_of_all_give_the_same_integers(form, source):
    made = model(f"g ({source} x) => (float[] y) {{ y = GlobalAveragePool (x) }}", opset=19)
    samples = feeds(made)
    integer = quantize(made, samples, accuracy="fast", **FORMS[form]).model
    found = verify(integer, made, samples[:3], other_programs=["tosa-reference"])
    assert found.verdict == "ok", found.report["summary"]["problems"]
    assert found.report["checks"]["tosa_reference"]["differences"] == 0
    is_target = "tosa" in form and len(made.graph.input[0].type.tensor_type.shape.dim) < 5
    assert ('"tosa.avg_pool2d"' in export(integer).text) == is_target
