"""Tables of ranges of other tools: read as these write them, written as these read them."""

import json

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnxruntime.quantization import quantize_static
from onnxruntime.quantization.calibrate import (
    CalibrationCacheEncoder,
    CalibrationMethod,
    TensorData,
    TensorsData,
    load_tensors_data,
    save_tensors_data,
)
from onnxruntime.quantization.quant_utils import write_calibration_table

from calibration.foreign_tables import read_ranges, table_kind, written
from calibration.methods import Wanted
from calibration.rules import Rules
from calibration.statistics import Range
from calibration.tpumlir_table import Entry, read_tpumlir
from opsets.errors import DataError, UsageError
from opsets.target import load_target
from qpasses.place.ranges import Given
from tests.support.table_cases import (
    FLOATS,
    STRANGE,
    changed,
    normal,
    places,
    refusal,
    saved,
    table_of,
)

# Tables of TPU-MLIR


TPU_MLIR = """# mlir version: v1.9 cali version 1.0
# genetated time: 2024-08-11 10:00:59.743675
# sample number: 100
###
# op_name    threshold    min    max
images 1.0000080 0.0000000 1.0000080
122_Conv 41.0432266 -102.5830978 97.6811905
tuned  0.01 -0.5  2e-1

#asym_op
122_Conv
tuned
#int4_th
images 0.9 -1 0.9
#weight_scale
122_Conv_weight 3 0.1 0.2 0.3
#int4_op
images
#tpu-mlir-fp8 caliration table
images 1 2 3 nonsense
"""


def test_scales_of_weights_in_a_table_are_not_passed_over_for_a_device(tmp_path):
    text = TPU_MLIR.replace("#asym_op\n122_Conv\ntuned\n", "")
    with pytest.raises(DataError, match="'122_Conv_weight', where scales of weights follow"):
        read_ranges(saved(tmp_path / "cali_table", text), symmetric=True)


def test_a_threshold_of_zero_with_values_is_damaged(tmp_path):
    path = saved(tmp_path / "cali_table", TPU_MLIR.replace("tuned  0.01", "tuned 0"))
    with pytest.raises(
        DataError, match=r"'tuned': the threshold is 0, the values are from -0\.5"
    ):
        read_ranges(path)


def test_a_table_of_tpu_mlir_is_read_as_it_writes_it(tmp_path):
    path = saved(tmp_path / "cali_table", TPU_MLIR)
    table = read_tpumlir(TPU_MLIR, str(path))
    assert table.entries["122_Conv"] == Entry(41.0432266, -102.5830978, 97.6811905)
    assert table.asym_ops == ("122_Conv", "tuned")
    assert table.weight_scales == ("122_Conv_weight",)
    ranges = {
        "images": Range(0, 1.000008),
        "122_Conv": Range(-41.0432266, 41.0432266),
        "tuned": Range(-0.01, 0.01),
    }
    assert read_ranges(path) == ("tpumlir", ranges)
    for text in (TPU_MLIR.replace("\n", "\r\n"), TPU_MLIR.partition("max\n")[2]):
        assert read_ranges(saved(path, text)) == ("tpumlir", ranges)


def test_a_threshold_below_all_values_leaves_the_range_at_the_threshold():
    assert Entry(1.0, 2.0, 3.0).range == Range(1.0, 1.0)
    assert Entry(9.0, -1.0, 3.0).range == Range(-1.0, 3.0)


def test_a_table_for_tpu_mlir_has_seven_decimals():
    ranges = {
        "y": Range(-102.5830978, 97.6811905),
        "images": Range(0.0, 1.000008),
        "dead": Range(-1e-9, 0.0),
    }
    assert written(ranges, "tpumlir").decode() == (
        "# op_name    threshold    min    max\n"
        "dead 0.0000100 0.0000000 0.0000000\n"
        "images 1.0000080 0.0000000 1.0000080\n"
        "y 102.5830978 -102.5830978 97.6811905\n"
    )


@pytest.mark.parametrize("name", ["a b", "", "a\tb", "#a", " a"])
def test_a_name_that_a_table_of_tpu_mlir_cannot_hold_is_refused(name):
    with pytest.raises(UsageError, match="no white space") as raised:
        written({"good": Range(0, 1), name: Range(0, 1)}, "tpumlir")
    assert repr(name) in str(raised.value)


BAD_LINES = {
    "three columns": ("b 1 2", "line 3: 'b 1 2' has 3 columns"),
    "five columns": ("b c 1 2 3", "line 3: 'b c 1 2 3' has 5 columns"),
    "no number": ("b 1 2 x", "line 3: tensor 'b': 'x' is not a number"),
    "underscore": ("b 1 2 1_0", "line 3: tensor 'b': '1_0' is not a number"),
    "NaN": ("b 1 nan 1", "line 3: tensor 'b': the lowest value nan is not finite"),
    "too large": ("b 1 0 1e999", "line 3: tensor 'b': the highest value inf is not finite"),
    "infinite threshold": ("b inf 0 1", "line 3: tensor 'b': the threshold inf must be"),
    "negative threshold": ("b -1 0 1", "line 3: tensor 'b': the threshold -1 must be"),
    "low above high": ("b 1 1 0.5", "line 3: tensor 'b': the lowest value 1 is above"),
    "twice": ("a 1 0 1", "line 3: tensor 'a' occurs twice"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_line_of_tpu_mlir_that_makes_no_sense_is_refused_by_number(name, tmp_path):
    line, reason = BAD_LINES[name]
    header = "# op_name    threshold    min    max"
    path = saved(tmp_path / "table", f"{header}\na 1 0 1\n{line}\n")
    assert reason in refusal(read_ranges, path)


# Tables of onnxruntime


def test_onnxruntime_reads_what_is_written_for_it(tmp_path):
    ranges = {"y": Range(-1.5, 0.1), "a b": Range(0.0, 3e38), 'ä"': Range(-1e-45, 0.0)}
    path = saved(tmp_path / "cache.json", written(ranges, "onnxruntime"))
    loaded = load_tensors_data(path)
    assert loaded.calibration_method == CalibrationMethod.MinMax
    assert set(loaded.keys()) == set(ranges)
    for name, found in ranges.items():
        low, high = loaded[name].range_value
        assert low.dtype == high.dtype == np.float32
        assert (low, high) == (np.float32(found.low), np.float32(found.high))
    kind, again = read_ranges(path)
    assert kind == "onnxruntime"
    assert written(again, kind) == path.read_bytes()


def tensors_data():
    """What a calibrator of onnxruntime gives, by minimum and maximum or by a histogram."""
    edges = np.linspace(-1, 2, 5, dtype=np.float32)
    low, high = np.array(-1, np.float32), np.array([2], np.float32)
    hist = np.array([1, 2, 3, 4])
    return [
        TensorsData(CalibrationMethod.MinMax, {"y": (low, high)}),
        TensorsData(CalibrationMethod.Entropy, {"y": (low, high, hist, edges)}),
        TensorsData(
            CalibrationMethod.Distribution,
            {"y": TensorData(avg=low, std=low, hist=hist, lowest=low, highest=high)},
        ),
    ]


@pytest.mark.parametrize("data", tensors_data(), ids=lambda data: data.calibration_method.name)
def test_what_onnxruntime_writes_is_read(data, tmp_path):
    whole = ("onnxruntime", {"y": Range(-1.0, 2.0)})
    save_tensors_data(data, tmp_path / "cache.json")
    assert read_ranges(tmp_path / "cache.json") == whole
    for cache in (data, data.data):
        write_calibration_table(cache, str(tmp_path))
        assert read_ranges(tmp_path / "calibration.json") == whole
        symmetric = ("onnxruntime", {"y": Range(-2.0, 2.0)})
        assert read_ranges(tmp_path / "calibration.cache") == symmetric


def test_plain_pairs_are_read(tmp_path):
    path = saved(tmp_path / "ranges.json", '{"a": [0, 1], "b c": [-1e-3, 2.5]}')
    assert read_ranges(path) == ("onnxruntime", {"a": Range(0, 1), "b c": Range(-0.001, 2.5)})


def test_quantize_static_takes_the_cache_that_is_written(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 0, 0, 1}>"
        "{ y = MatMul(x, w) }"
    )
    onnx.save(model, tmp_path / "m.onnx")
    ranges = {"x": Range(-1.0, 1.55), "y": Range(-1.0, 1.55)}
    path = saved(tmp_path / "cache.json", written(ranges, "onnxruntime"))
    made = tmp_path / "q.onnx"
    quantize_static(tmp_path / "m.onnx", made, None, calibration_cache_path=path)
    scales = {
        each.name: onnx.numpy_helper.to_array(each)
        for each in onnx.load(made).graph.initializer
    }
    assert scales["x_scale"] == np.float32(0.01)


BAD_RANGES = {
    "NaN": ('{"a": [0, 1], "b": [NaN, 1]}', "tensor 'b': the lowest value nan is not finite"),
    "infinite": ('{"b": [0, Infinity]}', "tensor 'b': the highest value inf is not finite"),
    "no float32": ('{"b": [-1e39, 0]}', "tensor 'b': the lowest value -1e+39 is larger than"),
    "huge": (f'{{"b": [0, {"9" * 400}]}}', "tensor 'b': 99999"),
    "low above high": ('{"b": [1, 0]}', "tensor 'b': the lowest value 1 is above the highest"),
    "twice": ('{"b": [0, 1], "b": [0, 1]}', "'b' occurs twice"),
    "three": ('{"a": [0, 1], "b": [0, 1, 2]}', "tensor 'b': must be [lowest, highest]"),
    "text": ('{"b": ["0", 1]}', "tensor 'b': '0' is not a number"),
    "bool": ('{"b": [false, 1]}', "tensor 'b': False is not a number"),
    "no extremes": ('{"b": {"CLS": "TensorData", "avg": 1}}', "tensor 'b': has no 'lowest'"),
    "channels": ('{"b": [{"CLS": "numpy.array", "data": [1, 2]}, 3]}', "'b': has 2 ranges"),
    "empty array": ('{"b": [{"CLS": "numpy.array", "data": []}, 3]}', "'b': [] is not a num"),
    "no data": ('{"CLS": "TensorsData"}', "the tensors must be a JSON object, not None"),
    "nothing": ('{"CLS": "TensorsData", "data": {}}', "holds no range"),
    "cut off": (written({"b": Range(0, 1)}, "onnxruntime").decode()[:-4], "is not JSON"),
    "text: twice": ("b 1\nb 2", "line 2: tensor 'b': occurs twice"),
    "text: NaN": ("a 1\nb nan", "line 2: tensor 'b': the lowest value nan is not finite"),
    "text: negative": ("a 1\n\nb -2", "line 3: tensor 'b': the threshold -2 is negative"),
    "text: no number": ("a 1\nb c", "line 2: tensor 'b': 'c' is not a number"),
    "text: one column": ("a 1\nb", "line 2: 'b' has one column"),
}


@pytest.mark.parametrize("name", BAD_RANGES)
def test_ranges_for_onnxruntime_that_make_no_sense_are_refused(name, tmp_path):
    text, reason = BAD_RANGES[name]
    assert reason in refusal(read_ranges, saved(tmp_path / "ranges.json", text))


def test_damage_to_a_cache_of_onnxruntime_is_a_data_error_or_harmless(tmp_path):
    save_tensors_data(tensors_data()[1], tmp_path / "cache.json")
    entries = json.loads((tmp_path / "cache.json").read_text())
    for path in [path for path in places(entries) if path]:
        for strange in STRANGE:
            damaged = changed(
                entries, path, lambda held, key, new=strange: held.__setitem__(key, new)
            )
            text = json.dumps(damaged, cls=CalibrationCacheEncoder)
            try:
                read_ranges(saved(tmp_path / "other.json", text))
            except DataError as error:
                assert str(error).startswith(f"{tmp_path / 'other.json'}: ")


# Which table it is


@given(st.dictionaries(st.text("abc/_.", min_size=1), st.tuples(FLOATS, FLOATS)))
def test_written_bytes_do_not_depend_on_the_order_of_ranges(pairs):
    ranges = {name: Range(min(pair), max(pair)) for name, pair in pairs.items()}
    for kind in ("tpumlir", "onnxruntime"):
        turned = dict(reversed(ranges.items()))
        assert written(turned, kind) == written(ranges, kind)


@pytest.mark.parametrize("kind", ["tpumlir", "onnxruntime"])
@given(st.dictionaries(st.text("abc/_.", min_size=1), st.tuples(FLOATS, FLOATS), min_size=1))
def test_written_ranges_are_read_as_the_same_kind(kind, tmp_path_factory, pairs):
    ranges = {name: Range(min(pair), max(pair)) for name, pair in pairs.items()}
    path = saved(tmp_path_factory.mktemp("tables") / "table", written(ranges, kind))
    found, again = read_ranges(path)
    assert found == kind == table_kind(path)
    assert again.keys() == ranges.keys()
    for name, each in ranges.items():
        close = {"abs": 5.1e-8, "rel": 1e-15} if kind == "tpumlir" else {"abs": 0, "rel": 0}
        assert (again[name].low, again[name].high) == pytest.approx(
            (each.low, each.high), **close
        )


def test_a_table_of_qpasses_is_no_table_of_ranges(tmp_path):
    path = saved(tmp_path / "table.json", table_of(normal()).encoded())
    assert "is a table of qpasses, with statistics" in refusal(read_ranges, path)


@pytest.mark.parametrize(
    "text",
    ["", "# comment\n", "a b c\n", "a b\n", "a b c d\n", "{}", '{"a": 1}', "[1, 2]", "7"],
)
def test_another_file_is_refused_with_the_formats_that_are_read(text, tmp_path):
    for read in (table_kind, read_ranges):
        message = refusal(read, saved(tmp_path / "table", text))
        for tool in ("qpasses", "TPU-MLIR", "onnxruntime"):
            assert tool in message


# Tables of TPU-MLIR for targets with symmetric codes


def test_symmetric_codes_follow_from_thresholds_alone(tmp_path):
    text = TPU_MLIR.replace("#asym_op\n122_Conv\ntuned\n", "")
    text = text.replace("#weight_scale\n122_Conv_weight 3 0.1 0.2 0.3\n", "")
    _, ranges = read_ranges(saved(tmp_path / "cali_table", text), symmetric=True)
    assert ranges == {
        "images": Range(0.0, 1.000008),
        "122_Conv": Range(-41.0432266, 41.0432266),
        "tuned": Range(-0.01, 0.01),
    }


def test_no_operator_is_asymmetric_among_symmetric_codes(tmp_path):
    path = saved(tmp_path / "cali_table", TPU_MLIR)
    with pytest.raises(DataError, match="wants '122_Conv' asymmetric, which codes of this"):
        read_ranges(path, symmetric=True)


def of_tpu_mlir(folder, lines, target):
    path = saved(folder / "cali_table", "\n".join(["# op_name threshold min max", *lines]))
    return Given.read(path, "", "", target).of(
        ["x", "y"], {"x", "y"}, Rules("minmax", Wanted(8, False, 99.999)), {}
    )


def test_a_target_with_symmetric_codes_reads_thresholds(tmp_path):
    lines = ["x 2.0 -1.0 1.5", "y_Relu 3.0 0.0 2.5"]
    found = of_tpu_mlir(tmp_path, lines, load_target("bm1684x")).ranges
    assert found == {"x": Range(-2.0, 2.0), "y": Range(0.0, 3.0)}
    found = of_tpu_mlir(tmp_path, lines, load_target("onnx")).ranges
    assert found == {"x": Range(-1.0, 1.5), "y": Range(0.0, 2.5)}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["x 2 -1 1"], "holds nothing for tensor 'y'"),
        (["x 2 -1 1", "y_Relu 3 0 2", "x 2 -1 1"], "line 4: tensor 'x' occurs twice"),
        (["x 2 -1 1", "y 3 0 2", "y_Relu 3 0 2"], "'y' occurs twice, as 'y' and as 'y_Relu'"),
    ],
)
def test_missing_and_double_tensors_are_errors_that_name_them(tmp_path, lines, reason):
    with pytest.raises(DataError, match=reason):
        of_tpu_mlir(tmp_path, lines, load_target("bm1684x"))
