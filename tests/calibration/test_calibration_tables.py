"""Calibration tables: what is written is read, merged and refused as it should be."""

import copy
import json
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibration.foreign_tables import read_ranges, table_kind
from calibration.table import SCHEMA, Table, read_table
from opsets.errors import DataError
from tests.support.table_cases import (
    MODEL,
    SAMPLES,
    STRANGE,
    changed,
    normal,
    places,
    refusal,
    saved,
    table_of,
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

ENTRIES = json.loads(table_of(normal(), skipped=("a", "b")).encoded())
PATHS = [path for path in places(ENTRIES) if path]
NEEDED = [
    path
    for path in PATHS
    if path[:2] != ("data", "preprocessing")  # has defaults
    and path[0] != "skipped"
    and (path[0] != "tensors" or len(path) != 2)
]


@pytest.mark.thinned
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
