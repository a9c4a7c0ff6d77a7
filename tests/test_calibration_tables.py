"""Calibration tables: what is written is read, merged and refused as it should be."""

import copy
import json
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np
import onnx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
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

from calibration import Preprocessing
from calibration.foreign_tables import read_ranges, table_kind, written
from calibration.histogram import Histogram
from calibration.statistics import Range, Statistics
from calibration.table import SCHEMA, Table, read_table
from calibration.tpumlir_table import Entry, read_tpumlir
from opsets.errors import DataError, UsageError

MODEL = "0123456789abcdef" * 4
PICTURES = {"random": False, "preprocessing": Preprocessing(mean=(1, 2, 3)).as_json()}


def statistics_of(samples, histograms=True):
    """Of one array of values per sample, from their definition."""
    values = np.concatenate([np.ravel(sample) for sample in samples])
    return Statistics(
        float(values.min()),
        float(values.max()),
        values.size,
        int(np.sum(values == 0)),
        len(samples),
        sum((Fraction(float(sample.min())) for sample in samples), Fraction(0)),
        sum((Fraction(float(sample.max())) for sample in samples), Fraction(0)),
        Histogram.of(values) if histograms else None,
    )


def table_of(samples, histograms=True, **changes):
    """Of one dict of arrays per sample."""
    tensors = {
        name: statistics_of([sample[name] for sample in samples], histograms)
        for name in samples[0]
    }
    made = Table(MODEL, "1.2.3", len(samples), tensors, PICTURES)
    return replace(made, **changes)


def normal(count=3, seed=0):
    """Samples of three tensors: positive with many zeros, of both signs, constant."""
    numbers = np.random.Generator(np.random.PCG64(seed))
    found = []
    for _ in range(count):
        values = numbers.standard_normal(60).astype(np.float32)
        found.append(
            {
                "relu/out 1": np.maximum(values, 0),
                "x": values * np.float32(1e-3),
                "ä": np.full(2, 0.1, np.float32),
            }
        )
    return found


def saved(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(read, path):
    """What DataError, and no other, says: it begins with the path."""
    with pytest.raises(DataError) as raised:
        read(path)
    message = str(raised.value)
    assert message.startswith(f"{path}")
    assert "\n" not in message
    return message


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
SAMPLES = st.lists(
    st.fixed_dictionaries(
        {name: arrays.arrays(np.float32, st.integers(1, 9), elements=FLOATS) for name in "ab"}
    ),
    min_size=1,
    max_size=6,
)


# Our own table


@given(SAMPLES, st.booleans())
@example([{"a": np.zeros(1, np.float32)}], True)
@example([{"a": np.array([-0.0, 0.0, 1e-45, -1e-45], np.float32)}], True)
@example([{"a": np.array([-3.4028235e38, 3.4028235e38], np.float32)}] * 3, True)
@example([{"a": np.array([5e-39, 7.5e-39], np.float32)}], True)
def test_a_table_that_is_read_has_the_same_values_and_bytes(samples, histograms):
    made = table_of(samples, histograms)
    content = made.encoded()
    again = Table.from_json(json.loads(content), "file")
    assert again == made
    assert again.encoded() == content


def test_a_table_is_read_from_a_file_byte_for_byte(tmp_path):
    made = table_of(normal(), skipped=("a.png", "b.png"))
    content = made.encoded()
    path = saved(tmp_path / "table.json", content)
    assert read_table(path) == made
    assert read_table(path).encoded() == content
    assert table_kind(path) == "qpasses"


@given(SAMPLES, st.randoms(use_true_random=False), st.booleans())
def test_merged_parts_are_the_whole_for_any_split_and_order(samples, random, histograms):
    whole = table_of(samples, histograms, skipped=("bad", "bad", "worse"))
    shuffled = random.sample(samples, len(samples))
    cuts = sorted(random.choices(range(len(samples) + 1), k=2))
    parts = [
        table_of(part, histograms)
        for part in np.split(np.array(shuffled, object), cuts)
        if len(part)
    ]
    parts[0] = replace(parts[0], skipped=("bad", "worse"))
    parts[-1] = replace(parts[-1], skipped=tuple(sorted([*parts[-1].skipped, "bad"])))
    merged = reduce(Table.merged, parts)
    assert merged == whole
    assert merged.encoded() == whole.encoded()


def test_minus_zero_is_written_as_zero_whatever_came_first():
    zeros = [{"a": np.array([value], np.float32)} for value in (0.0, -0.0)]
    one, two = (table_of([sample]) for sample in zeros)
    assert one.merged(two).encoded() == two.merged(one).encoded()
    assert b'"low": 0.0, "high": 0.0' in two.encoded()


def test_each_tensor_has_a_line_and_they_are_sorted_by_name():
    made = table_of(normal())
    turned = replace(made, tensors=dict(reversed(made.tensors.items())))
    assert turned.encoded() == made.encoded()
    text = made.encoded().decode()
    assert text.endswith("}\n")
    assert [line.partition('": ')[0] for line in text.splitlines()[8:-2]] == [
        '"relu/out 1',
        '"x',
        '"\\u00e4',
    ]


def test_the_text_of_a_table_is_what_it_is():
    values = np.array([-0.75, 0, 0, 2.5], np.float32)
    text = table_of([{"y": values}], data={"random": True, "preprocessing": None}).encoded()
    counts = "[1, -767, 2, -2559, 1]"
    assert (
        text.decode()
        == f"""{{
"schema": "qpasses.calibration/1",
"model": "{MODEL}",
"tool": "1.2.3",
"samples": 1,
"data": {{"preprocessing": null, "random": true}},
"skipped": [],
"tensors": {{
"y": {{"low": -0.75, "high": 2.5, "count": 4, "zeros": 2, "samples": 1, \
"low_sum": [-3, -2], "high_sum": [5, -1], \
"histogram": {{"exponent": -10, "first": -768, "counts": {counts}}}}}
}}
}}
"""
    )


def test_a_table_that_was_laid_out_anew_is_still_read(tmp_path):
    made = table_of(normal())
    entries = json.loads(made.encoded())
    for text in (
        json.dumps(entries, indent=4, sort_keys=True),
        "\ufeff" + made.encoded().decode().replace("\n", "\r\n"),
        json.dumps(entries).replace("0.0,", "0,"),
    ):
        path = saved(tmp_path / "table.json", text)
        assert table_kind(path) == "qpasses"
        assert read_table(path).encoded() == made.encoded()


NOT_MERGED = {
    "model": ({"model": "f" * 64}, "SHA-256 of the float model differs, ffff"),
    "tool": ({"tool": "1.2.4"}, "version of the tool differs, 1.2.4 instead of 1.2.3"),
    "data": (
        {"data": {"random": True, "preprocessing": None}},
        "what the samples were differs",
    ),
    "more tensors": (
        {"tensors": {**table_of(normal()).tensors, "z": None}},
        "tensor 'z' is in",
    ),
    "histograms": (
        {"tensors": table_of(normal(), False).tensors},
        "'relu/out 1' has a histogram",
    ),
}


@pytest.mark.parametrize("name", NOT_MERGED)
def test_tables_of_different_things_are_not_merged(name):
    changes, reason = NOT_MERGED[name]
    made = table_of(normal())
    for one, two in ((made, replace(made, **changes)), (replace(made, **changes), made)):
        with pytest.raises(DataError) as raised:
            one.merged(two)
        assert reason in str(raised.value) or one is not made


# Damaged tables


def places(entries, path=()):
    """The path of everything in a JSON value, the first two and the last of each list."""
    yield path
    if isinstance(entries, dict):
        keys = list(entries)
    elif isinstance(entries, list):
        keys = sorted({0, 1, len(entries) - 1} & set(range(len(entries))))
    else:
        keys = []
    for key in keys:
        yield from places(entries[key], (*path, key))


def changed(entries, path, change):
    """A copy in which ``change`` was called with what holds the last of ``path``."""
    found = copy.deepcopy(entries)
    change(reduce(lambda inner, key: inner[key], path[:-1], found), path[-1])
    return found


ENTRIES = json.loads(table_of(normal(), skipped=("a", "b")).encoded())
PATHS = [path for path in places(ENTRIES) if path]
NEEDED = [
    path
    for path in PATHS
    if path[:2] != ("data", "preprocessing")  # has defaults
    and path[0] != "skipped"
    and (path[0] != "tensors" or len(path) != 2)
]
STRANGE = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e-50, 1e39, -1e300, 10**400, -(2**63)),
    *(float("nan"), float("inf"), "", "a", "qpasses.calibration/2", [], [0], [0, 0], [1, 0]),
    *([3, 10**9], [True, 0], [1, 2.0], {}, {"a": 1}, {"CLS": 0}, "\ud800"),
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_a_table_with_another_value_is_refused_or_is_that_table(path, tmp_path):
    where = tmp_path / "table.json"
    for strange in STRANGE:
        entries = changed(
            ENTRIES,
            path,
            lambda held, key, new=strange: held.__setitem__(key, new),
        )
        try:
            found = read_table(saved(where, json.dumps(entries)))
        except DataError as error:
            assert str(error).startswith(f"{where}: ")
            for name in path[:2]:
                if path[0] == "tensors" and name != "tensors":
                    assert repr(name) in str(error)
        else:
            assert json.loads(found.encoded()) == entries


@pytest.mark.parametrize("path", NEEDED, ids=lambda path: ".".join(map(str, path)))
def test_a_table_that_lacks_or_repeats_something_is_refused(path, tmp_path):
    where = tmp_path / "table.json"
    lacking = changed(ENTRIES, path, lambda held, key: held.pop(key))
    message = refusal(read_table, saved(where, json.dumps(lacking)))
    if len(path) > 1 and path[0] == "tensors":
        assert repr(path[1]) in message
    if path == ("schema",):
        assert "no calibration table of qpasses" in message
    elif isinstance(path[-1], str):
        assert f"{path[-1]!r} is missing" in message
        extra = changed(ENTRIES, path, lambda held, key: held.update({f"{key}2": 0}))
        message = refusal(read_table, saved(where, json.dumps(extra)))
        assert f"'{path[-1]}2'" in message
        text = json.dumps(ENTRIES).replace(
            f'"{path[-1]}": ', f'"{path[-1]}": 0, "{path[-1]}": '
        )
        message = refusal(read_table, saved(where, text))
        assert f"{path[-1]!r} occurs twice" in message


def tensor(**entries):
    """The table with other entries of tensor x; a histogram's by their own names."""
    made = copy.deepcopy(ENTRIES)
    for key, value in entries.items():
        held = made["tensors"]["x"]
        (held["histogram"] if key in held["histogram"] else held)[key] = value
    return made


X = ENTRIES["tensors"]["x"]
COUNTS = X["histogram"]["counts"]
BAD_TENSORS = {
    "low above high": ({"low": 1.0}, "lowest value 1 is above"),
    "low not reached": ({"low": 2 * X["low"]}, "must be"),
    "no float32": ({"high": 0.1}, "'high' is no float32 number: 0.1"),
    "bool": ({"zeros": False}, "'zeros' must be a whole number"),
    "more zeros than values": ({"zeros": X["count"] + 1}, "'zeros' must be"),
    "zeros that are not in their bin": ({"zeros": 100}, "'zeros' is 100, which"),
    "no values": ({"count": 0}, "'count' must be a whole number, 1 to"),
    "other count": ({"count": X["count"] + 1}, f"counts {X['count']} values, 'count' is"),
    "more samples than the table": ({"samples": 4}, "has 4 samples, the table 3"),
    "even numerator": ({"low_sum": [2 * X["low_sum"][0], X["low_sum"][1] - 1]}, "'low_sum' m"),
    "huge exponent": ({"low_sum": [-1, 10**15]}, "'low_sum' must be [n, e]"),
    "impossible low": ({"low_sum": [-1, 20]}, "'low_sum' is impossible for 3 samples"),
    "impossible high": ({"high_sum": [1, 20]}, "'high_sum' is impossible for 3 samples"),
    "exponent": ({"exponent": X["histogram"]["exponent"] + 1}, "'exponent' must be"),
    "first": ({"first": X["histogram"]["first"] + 1}, "'first' must be"),
    "too short": ({"counts": COUNTS[:-2]}, "bins where the range has"),
    "too long": ({"counts": [*COUNTS, 1]}, "bins where the range has"),
    "much too long": ({"counts": [1] * 5000}, "more than 4096 bins"),
    "long runs": ({"counts": [1, -4000, 1, -4000, 1]}, "more than 4096 bins"),
    "endless run": ({"counts": [1, -(10**12), 1]}, "-1000000000000, which is no count"),
    "a plain zero": ({"counts": [1, 0, *COUNTS[1:]]}, "'counts' hold 0"),
    "empty to begin with": ({"counts": [-1, *COUNTS]}, "'counts' begin with empty bins"),
    "empty in the end": ({"counts": [*COUNTS, -1]}, "'counts' end with empty bins"),
    "packed twice": ({"counts": [1, -1, -1, 1]}, "packed twice"),
    "too large together": ({"counts": [2**63 - 1, *COUNTS[1:]]}, "histogram counts"),
    "no list": ({"counts": {}}, "'counts' must be a list"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_a_tensor_that_contradicts_itself_is_refused_by_name(name, tmp_path):
    entries, reason = BAD_TENSORS[name]
    path = saved(tmp_path / "table.json", json.dumps(tensor(**entries)))
    message = refusal(read_table, path)
    assert f"{path}: tensor 'x': " in message
    assert reason in message
    assert "make the table again" in message


BAD_FILES = {
    "empty": (b"", "is not JSON"),
    "no JSON": (b"images 1.0 0.0 1.0\n", "is not JSON (line 1, column 1"),
    "cut off": (table_of(normal()).encoded()[:-3], "or was cut off"),
    "not UTF-8": (b'{"schema": "\xff"}', "is not UTF-8 text (byte 12)"),
    "other JSON": (b'{"a": [0, 1]}', "is no calibration table of qpasses"),
    "a list": (b"[]", "is no calibration table of qpasses"),
    "a number": (b"7", "is no calibration table of qpasses"),
    "many brackets": (b"[" * 100000, "is not a table"),
    "many digits": (b"1" * 5000, "is not a table"),
    "newer": (
        table_of(normal()).encoded().replace(SCHEMA.encode(), b"qpasses.calibration/2"),
        "made by a newer qpasses?",
    ),
    "two of a tensor": (
        table_of(normal()).encoded().replace(b'"relu/out 1"', b'"x"'),
        "'x' occurs twice",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_table_is_refused(name, tmp_path):
    content, reason = BAD_FILES[name]
    assert reason in refusal(read_table, saved(tmp_path / "table.json", content))


@pytest.mark.parametrize("read", [read_table, table_kind, read_ranges])
def test_a_missing_file_and_a_folder_are_refused(read, tmp_path):
    assert "No such file" in refusal(read, tmp_path / "none.json")
    assert "directory" in refusal(read, tmp_path)


def test_a_table_cut_off_anywhere_is_refused(tmp_path):
    content = table_of(normal(1)).encoded()
    for end in range(0, len(content) - 2, 97):
        refusal(read_table, saved(tmp_path / "table.json", content[:end]))


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


def test_a_table_of_tpu_mlir_is_read_as_it_writes_it(tmp_path):
    path = saved(tmp_path / "cali_table", TPU_MLIR)
    table = read_tpumlir(TPU_MLIR, str(path))
    assert table.entries["122_Conv"] == Entry(41.0432266, -102.5830978, 97.6811905)
    assert table.asym_ops == ("122_Conv", "tuned")
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
