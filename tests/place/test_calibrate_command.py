"""qpasses calibrate, merge and convert: what they write and print, and what they refuse."""

import errno
import json
import os
import sys
from time import sleep

import numpy as np
import pytest
from PIL import Image

import qpasses
from calibration import Samples
from calibration.methods import METHODS
from calibration.table import read_table
from qpasses.emit import whole_files as files
from tests.support.commands import (
    MODEL,
    USAGE,
    Desk,
    assert_refused,
    read_json,
    run,
    run_in_a_process,
)
from tests.support.small_models import cnn, model, numbers, one_conv, pictures, save


@pytest.fixture
def desk(tmp_path):
    """A model and twelve samples."""
    return Desk(tmp_path, cnn(), pictures(12))


def calibrated(desk, *options):
    """The table and the report of a command that ends well."""
    ended = desk.calibrate(*options)
    assert ended.code == 0, ended.err
    return read_table(desk.table), read_json(desk.report)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The table of the model and samples of ``desk`` without any option, as a file has it."""
    desk = Desk(tmp_path_factory.mktemp("plain"), cnn(), pictures(12))
    return calibrated(desk)[0].encoded()


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(desk, *options, code=USAGE):
    """The line a calibrate ends with; no file has come, gone or changed."""
    for path in (desk.table, desk.report):
        path.unlink(missing_ok=True)
    before = files_in(desk.folder)
    ended = desk.calibrate(*options)
    assert_refused(ended, code)
    assert files_in(desk.folder) == before
    return ended.err


def tensors_of(report):
    return {tensor["name"]: tensor for tensor in report["calibration"]["tensors"]}


# What is written and said


def test_the_table_and_the_report_are_those_of_the_function(desk):
    table, report = calibrated(desk)
    result = qpasses.calibrate(desk.model, desk.data)
    assert result.table.encoded() == desk.table.read_bytes() == table.encoded()
    assert json.loads(json.dumps(result.report)) == report
    assert repr(result) == f"CalibrationResult(12 samples, {len(table.tensors)} tensors)"


def test_nothing_but_table_and_report_is_written(desk):
    before = files_in(desk.folder).keys()
    calibrated(desk)
    assert files_in(desk.folder).keys() - before == {desk.table, desk.report}


def test_the_report_says_what_was_seen_of_each_tensor(desk):
    table, report = calibrated(desk)
    assert report["command"] == "calibrate"
    assert report["samples"] | {"source": ""} == {
        "source": "",
        "preprocessing": None,
        "calibration": 12,
        "resumed": 0,
        "skipped": [],
    }
    found = tensors_of(report)
    assert found.keys() == table.tensors.keys()
    data = np.load(desk.data)
    assert found["x"] == {
        "name": "x",
        "method": "minmax",
        "range": [float(data.min()), float(data.max())],
        "extremes": [float(data.min()), float(data.max())],
        "values": data.size,
        "zeros": 0,
        "mean": pytest.approx(float(data.mean()), abs=1e-3),
        "std": pytest.approx(float(data.std()), abs=1e-3),
    }


def test_the_terminal_shows_a_line_for_each_tensor(desk):
    ended = desk.calibrate()
    shown = [" ".join(line.split()) for line in ended.out.splitlines()]
    for name, tensor in tensors_of(read_json(desk.report)).items():
        (line,) = [each for each in shown if each.startswith(f"{name} {tensor['values']:,} ")]
        assert line.endswith(" minmax")
    assert shown[-1] == f"12 samples, {len(tensors_of(read_json(desk.report)))} tensors"
    assert ended.err == ""


def test_the_percentile_is_shown_only_where_a_method_looks_at_it(desk):
    def shown(*options):
        lines = [
            line.split() for line in desk.calibrate("--verbose", *options).out.splitlines()
        ]
        return ["percentile", "99.999"] in lines

    assert not shown()
    assert not shown("--calibration-method", "mse")
    assert not shown("--calibration-overrides", "x=percentile:99")
    assert shown("--calibration-method", "percentile")
    assert shown("--calibration-method", "auto")
    assert shown("--calibration-overrides", "x=percentile")


def test_quiet_prints_nothing_and_verbose_the_times(desk):
    ended = desk.calibrate("--quiet")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert "calibrate (12 steps)" in desk.calibrate("--verbose").err


def test_a_process_says_nothing_on_standard_error(desk):
    ended = desk.calibrate(runner=run_in_a_process)
    assert (ended.code, ended.err) == (0, "")


def test_calibrate_is_a_model_or_one_of_its_subcommands(desk):
    ended = run("calibrate", "-o", desk.table, "--data", desk.data, desk.model)
    assert ended.code == 0, ended.err
    for name in ("merge", "convert", "model"):
        odd = desk.folder / name
        odd.write_bytes(desk.model.read_bytes())
    given = "--data", desk.data, "-o", desk.table
    assert run("calibrate", desk.folder / "merge", *given).code == 0
    assert_refused(run("calibrate", "absent.onnx", *given), USAGE, "absent.onnx")
    assert run("calibrate", "model", *given).err.startswith("error: model: ")


# Every option


@pytest.mark.thinned
@pytest.mark.parametrize("method", METHODS)
def test_a_method_chooses_the_ranges_of_the_report_and_leaves_the_table_alone(
    desk, plain, method
):
    has_one = method in ("percentile", "auto")
    given = ["--percentile", "98"] if has_one else []
    table, report = calibrated(desk, "--calibration-method", method, *given)
    assert table.encoded() == plain
    direct = qpasses.quantize(
        desk.model,
        desk.data,
        calibration_method=method,
        **({"percentile": 98} if has_one else {}),
    ).report
    for name, tensor in tensors_of(direct).items():
        assert tensors_of(report)[name]["range"] == tensor["range"]
        assert tensors_of(report)[name]["method"] == tensor["method"]


def test_overrides_are_reported_tensor_by_tensor(desk):
    given = "--calibration-overrides", "x=mse", "--calibration-overrides", "y=-1,6"
    _, report = calibrated(desk, *given)
    found = tensors_of(report)
    assert found["x"]["method"] == "mse"
    assert (found["y"]["method"], found["y"]["range"]) == ("given", [-1, 6])
    assert report["configuration"]["calibration_overrides"] == ["x=mse", "y=-1,6"]


def test_symmetric_ranges_are_symmetric_and_the_table_is_the_same(desk, plain):
    table, report = calibrated(desk, "--symmetric", "--activation-type", "int8")
    assert table.encoded() == plain
    assert all(-low == high for low, high in (t["range"] for t in tensors_of(report).values()))


def test_samples_limits_how_many_are_counted(desk):
    table, report = calibrated(desk, "--samples", 5)
    assert (table.samples, report["samples"]["calibration"]) == (5, 5)
    assert report["samples"]["source"].startswith("5 of 12 samples")


def test_more_samples_than_there_are_are_all_of_them(desk):
    assert calibrated(desk, "--samples", 50)[0].samples == 12


@pytest.mark.thinned
@pytest.mark.parametrize("parts", [1, 2, 5, 12])
def test_shards_are_the_samples_in_order_and_merge_to_the_table_of_all(desk, plain, parts):
    tables = []
    for i in range(parts):
        table, report = calibrated(desk, "--shard", f"{i + 1}/{parts}")
        assert report["configuration"]["shard"] == f"{i + 1}/{parts}"
        assert table.samples in (12 // parts, -(-12 // parts))
        tables.append(save(desk.folder, f"{i}.json", table.encoded()))
    if parts == 1:
        assert tables[0].read_bytes() == plain
        return
    merged = desk.folder / "merged.json"
    ended = run("calibrate", "merge", *reversed(tables), "-o", merged)
    assert ended.code == 0, ended.err
    assert merged.read_bytes() == plain
    assert ended.out.strip().startswith(f"{merged}: 12 samples, ")


def test_a_shard_is_of_the_samples_that_are_used(desk):
    table, report = calibrated(desk, "--samples", 4, "--shard", "2/2")
    assert table.samples == 2
    assert report["samples"]["source"].startswith("2 of 12 samples")


@pytest.mark.parametrize("kind", ["tpumlir", "onnxruntime"])
def test_other_formats_hold_ranges_alone_and_the_function_gives_the_statistics(desk, kind):
    result = qpasses.calibrate(desk.model, desk.data, desk.table, table_format=kind)
    assert result.table.samples == 12
    assert "histogram" not in desk.table.read_text()
    assert desk.calibrate("--format", kind, "--calibration-method", "mse").code == 0


def test_without_histograms_only_extremes_are_kept(desk):
    table, report = calibrated(desk, "--no-histograms")
    assert {each.histogram for each in table.tensors.values()} == {None}
    assert {each["zeros"] for each in tensors_of(report).values()} == {None}
    calibrated(desk, "--no-histograms", "--calibration-method", "moving-average")


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        (["--calibration-method", "mse"], "'mse'"),
        (["--calibration-method", "auto"], "'auto'"),
        (["--calibration-overrides", "x=entropy"], "'entropy'"),
        (["--calibration-overrides", "x=percentile:99"], "'percentile'"),
    ],
)
def test_a_method_that_needs_histograms_and_none_exclude_each_other(desk, options, culprit):
    message = refused(desk, "--no-histograms", *options)
    assert culprit in message
    assert "--no-histograms" in message


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_number_of_workers_does_not_change_the_table(desk, plain, workers):
    assert calibrated(desk, "--workers", workers)[0].encoded() == plain


def test_what_is_observed_is_what_quantize_with_the_same_options_needs(desk):
    assert calibrated(desk)[0].tensors.keys() == {"x", "p", "f", "y"}
    few = "--op-types-to-quantize", "Conv,Relu"
    assert calibrated(desk, *few)[0].tensors.keys() == {"x", "r"}
    assert desk.quantize("--calibration-table", desk.table, *few).code == 0
    ended = desk.quantize("--calibration-table", desk.table)
    assert_refused(ended, USAGE, desk.table, "holds nothing for 3 tensors")


def test_pictures_are_preprocessed_and_the_table_says_how(desk):
    desk.data = desk.folder / "pictures"
    desk.data.mkdir()
    for i in range(3):
        pixels = (np.abs(numbers(8, 8, seed=i)) * 80).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(desk.data / f"{i}.png")
    table, report = calibrated(desk, "--preprocess", "unit")
    assert table.data["preprocessing"] == report["configuration"]["preprocessing"]
    assert "gray" in report["samples"]["preprocessing"]
    assert 0 <= table.tensors["x"].low <= table.tensors["x"].high <= 1
    assert "--preprocess" in refused(desk)


def test_an_older_table_is_replaced(desk, plain):
    desk.table.write_bytes(b"an older table")
    assert run("calibrate", desk.model, "--data", desk.data, "-o", desk.table).code == 0
    assert desk.table.read_bytes() == plain


# Sizes


MIXED = """
mixed (float[N, 1, H, W] x) => (float[N, 4, H, W] y) {
    y = Conv <pads = [1, 1, 1, 1]> (x, w)
}"""


def mixed_samples(desk):
    desk.data = desk.folder / "mixed"
    desk.data.mkdir()
    for i, size in enumerate([(1, 8, 8), (2, 5, 9), (1, 12, 3)]):
        save(desk.data, f"{i}.npy", numbers(size[0], 1, *size[1:], seed=i))


def test_samples_of_different_sizes_are_counted_where_the_model_leaves_sizes_free(desk):
    mixed_samples(desk)
    desk.model = save(desk.folder, "mixed.onnx", model(MIXED, w=numbers(4, 1, 3, 3)))
    table, _ = calibrated(desk)
    assert table.samples == 3
    assert table.tensors["x"].count == 64 + 90 + 36
    assert desk.quantize("--calibration-table", desk.table).code == 0


def test_a_sample_of_another_size_than_the_models_is_named(desk):
    mixed_samples(desk)
    message = refused(desk)
    assert "1.npy" in message
    assert "[2, 1, 5, 9]" in message


# Bad samples


@pytest.fixture
def bad_desk(desk):
    """Six samples, of which one is damaged, one does not fit, and one is NaN."""
    desk.data = desk.folder / "samples"
    desk.data.mkdir()
    for i, picture in enumerate(pictures(6)):
        save(desk.data, f"{i}.npy", picture[None])
    save(desk.data, "1.npy", b"no numbers")
    save(desk.data, "3.npy", numbers(1, 1, 8, 7))
    save(desk.data, "4.npy", np.full_like(pictures(1), np.nan))
    return desk


REASONS = {"1.npy": "cannot be read", "3.npy": "[1, 1, 8, 7]", "4.npy": "NaN"}


def test_the_first_bad_sample_is_an_error(bad_desk):
    message = refused(bad_desk)
    assert "1.npy" in message
    assert "cannot be read" in message


@pytest.mark.parametrize("command", ["calibrate", "quantize"])
def test_bad_samples_are_left_out_on_demand_and_named_with_the_reason(bad_desk, command):
    ended = getattr(bad_desk, command)("--on-bad-sample", "skip")
    assert ended.code == 0, ended.err
    report = read_json(bad_desk.report)
    assert report["samples"]["calibration"] == 3
    assert [each["name"] for each in report["samples"]["skipped"]] == list(REASONS)
    shown = " ".join(ended.out.split())
    for each in report["samples"]["skipped"]:
        assert REASONS[each["name"]] in each["reason"]
        assert each["name"] in each["reason"]
        assert f"skipped: {' '.join(each['reason'].split())}" in shown
    assert "3 bad samples were skipped: 1.npy, 3.npy, 4.npy" in report["warnings"]


def test_the_table_of_what_is_left_is_that_of_the_good_ones_but_for_the_names(bad_desk):
    table, _ = calibrated(bad_desk, "--on-bad-sample", "skip")
    assert table.skipped == tuple(REASONS)
    for name in REASONS:
        (bad_desk.data / name).unlink()
    good, _ = calibrated(bad_desk)
    assert table.tensors == good.tensors
    assert table.samples == good.samples == 3


def test_a_sample_that_overflows_inside_the_model_is_named_or_left_out(desk):
    data = pictures(4)
    data[1] *= np.float32(5e37)
    desk.model = save(desk.folder, "conv.onnx", one_conv(numbers(4, 1, 3, 3), numbers(4)))
    desk.data = save(desk.folder, "data.npy", data)
    message = refused(desk)
    assert "data.npy[1]" in message
    assert "'y'" in message
    assert calibrated(desk, "--on-bad-sample", "skip")[0].skipped == ("data.npy[1]",)


@pytest.mark.parametrize("mode", ["error", "skip"])
def test_nothing_but_bad_samples_is_an_error(desk, mode):
    desk.data = save(desk.folder, "bad.npy", np.full_like(pictures(2), np.nan))
    message = refused(desk, "--on-bad-sample", mode)
    assert "bad.npy[" in message
    assert "NaN" in message


def test_no_samples_at_all_are_an_error(desk):
    desk.data = save(desk.folder, "none.npy", pictures(0))
    assert "no samples" in refused(desk)


# Warnings


def test_random_numbers_are_warned_of(desk):
    table, report = calibrated(desk, "--data", "random:3")
    assert table.data["random"] is True
    assert report["warnings"][0].startswith("calibrated on random numbers")


def test_too_few_values_for_a_percentile_are_warned_of_with_how_many_it_takes(desk):
    (warning,) = calibrated(desk, "--calibration-method", "percentile")[1]["warnings"]
    assert "too few values for the percentile" in warning
    assert "of 200,000" in warning
    assert calibrated(desk, "--calibration-overrides", "x=percentile:99")[1]["warnings"] == []


def test_a_tensor_of_one_value_is_warned_of(desk):
    desk.data = save(desk.folder, "ones.npy", np.ones((3, 1, 8, 8), np.float32))
    warnings = calibrated(desk)[1]["warnings"]
    assert "tensor 'x' is 1 throughout: do the samples reach it?" in warnings


# What cannot be


@pytest.mark.parametrize(
    ("shard", "culprit"),
    [
        ("0/2", "1/2 to 2/2"),
        ("3/2", "1/2 to 2/2"),
        ("-1/2", "1/2 to 2/2"),
        ("1/0", "1/0"),
        ("x", "'x' is not I/N"),
        ("1/2/3", "'1/2/3' is not I/N"),
        ("1.5/2", "'1.5/2' is not I/N"),
        ("1/13", "holds none of the 12 samples"),
    ],
)
def test_a_shard_that_cannot_be_is_named(desk, shard, culprit):
    assert culprit in refused(desk, "--shard", shard)


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        (["--workers", "0"], "--workers"),
        (["--samples", "0"], "--samples"),
        (["--percentile", "50"], "percentile"),
        (["--format", "csv"], "--format"),
        (["--engine", "spark"], "--engine"),
        (["--ray-address", "far:1"], "'far:1'"),
        (["--on-bad-sample", "hide"], "--on-bad-sample"),
        (["--calibration-method", "median"], "--calibration-method"),
        (["--calibration-overrides", "xx=mse"], "'xx=mse' matches no tensor"),
        (["--nodes-to-exclude", "nope"], "'nope'"),
        (["--quiet", "--verbose"], "--quiet"),
    ],
)
def test_an_option_that_cannot_be_is_named(desk, options, culprit):
    assert culprit in refused(desk, *options)


@pytest.mark.parametrize("option", ["-o", "--json"])
@pytest.mark.parametrize("taken", ["model", "data"])
def test_an_input_is_never_written_to(desk, option, taken):
    assert "is an input" in refused(desk, option, getattr(desk, taken))


def test_a_sample_in_a_folder_is_never_written_to(bad_desk):
    assert "is an input" in refused(bad_desk, "-o", bad_desk.data / "0.npy")


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_a_folder_that_is_absent_is_named(desk, option):
    path = desk.folder / "absent" / "file"
    assert "does not exist" in refused(desk, option, path)


def test_table_report_and_checkpoint_are_different_files(desk):
    assert str(desk.table) in refused(desk, "--json", desk.table)
    checkpoint = f"{desk.table}.checkpoint"
    assert checkpoint in refused(desk, "--json", checkpoint)


def test_a_model_that_cannot_be_treated_is_a_model_error(desk):
    desk.model = save(desk.folder, "bad.onnx", b"no model")
    refused(desk, code=MODEL)


def test_ray_that_is_not_installed_is_named_with_the_cure(desk, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    message = refused(desk, "--engine", "ray")
    assert "pip install 'qpasses[ray]'" in message


class Full:
    """A stream on a disk without room."""

    def __init__(self, handle, _mode):
        self._handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._handle)

    def writelines(self, content):
        os.write(self._handle, next(iter(content))[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_named_with_the_table_and_leaves_nothing(desk, monkeypatch):
    monkeypatch.setattr(files.os, "fdopen", Full)
    message = refused(desk)
    assert str(desk.table) in message
    assert "No space left" in message


def test_a_full_disk_is_named_with_the_checkpoint_and_leaves_nothing(desk, monkeypatch):
    monkeypatch.setattr(files.os, "fdopen", Full)
    monkeypatch.setattr(sys.modules["calibration.collect"], "CHECKPOINT_SECONDS", 0.0)
    read = Samples.read

    def slowly(*given):
        sleep(0.01)
        return read(*given)

    monkeypatch.setattr(Samples, "read", slowly)
    message = refused(desk, "--workers", 1)
    assert f"{desk.table}.checkpoint: cannot be written: No space left" in message


# merge


def shards(desk, *options, parts=2):
    """The tables of the parts of the samples."""
    tables = []
    for i in range(1, parts + 1):
        table, _ = calibrated(desk, "--shard", f"{i}/{parts}", *options)
        tables.append(save(desk.folder, f"{'-'.join(options)}{i}.json", table.encoded()))
    return tables


def merge_refused(desk, *tables):
    merged = desk.folder / "merged.json"
    before = files_in(desk.folder)
    ended = run("calibrate", "merge", *tables, "-o", merged)
    assert_refused(ended, USAGE)
    assert files_in(desk.folder) == before
    return ended.err


def changed(table, name, **entries):
    """``table`` with other entries, beside it."""
    known = json.loads(table.read_text())
    return save(table.parent, name, json.dumps(known | entries).encode())


def test_one_table_alone_is_not_merged(desk):
    assert "at least two" in merge_refused(desk, *shards(desk)[:1])


def test_a_table_is_not_merged_with_itself_under_any_name(desk):
    table, _ = shards(desk)
    link = desk.folder / "link.json"
    link.symlink_to(table)
    for other in (table, link, desk.folder / "." / table.name):
        assert "would count twice" in merge_refused(desk, table, other)


def test_tables_of_other_models_versions_and_samples_are_not_merged(desk):
    table, _ = shards(desk)
    for other, culprit in (
        (changed(table, "model.json", model="0" * 64), "float model"),
        (changed(table, "tool.json", tool="0.0.1"), "version"),
        (changed(table, "data.json", data={"random": True, "preprocessing": None}), "samples"),
    ):
        message = merge_refused(desk, table, other)
        assert culprit in message
        assert str(table) in message
        assert str(other) in message


def test_tables_of_other_tensors_are_not_merged(desk):
    (table, _), (_, other) = shards(desk), shards(desk, "--op-types-to-quantize", "Conv,Relu")
    assert "in one table only" in merge_refused(desk, table, other)


def test_tables_with_and_without_histograms_are_not_merged(desk):
    (table, _), (_, bare) = shards(desk), shards(desk, "--no-histograms")
    assert "histogram in one table only" in merge_refused(desk, table, bare)
    assert "histogram in one table only" in merge_refused(desk, bare, table)


@pytest.mark.parametrize("spoil", ["cut off", "absent", "tpumlir", "onnxruntime", "text"])
def test_what_is_no_table_of_ours_is_not_merged_and_named(desk, spoil):
    table, other = shards(desk)
    bad = desk.folder / "bad.json"
    if spoil == "cut off":
        bad.write_bytes(other.read_bytes()[:-5])
    elif spoil == "text":
        bad.write_bytes(b"hello")
    elif spoil != "absent":
        run("calibrate", "convert", other, "-o", bad, "--format", spoil)
    message = merge_refused(desk, table, bad)
    assert str(bad) in message
    assert spoil not in ("tpumlir", "onnxruntime") or "only tables of qpasses" in message


def test_a_merged_table_keeps_what_was_skipped(bad_desk):
    tables = shards(bad_desk, "--on-bad-sample", "skip")
    merged = qpasses.merge_tables(tables, bad_desk.folder / "merged.json")
    assert merged.encoded() == (bad_desk.folder / "merged.json").read_bytes()
    assert merged.skipped == tuple(REASONS)
    assert merged.encoded() == calibrated(bad_desk, "--on-bad-sample", "skip")[0].encoded()


def test_the_merged_table_may_not_replace_one_of_them(desk):
    one, two = shards(desk)
    ended = run("calibrate", "merge", one, two, "-o", two)
    assert_refused(ended, USAGE, two, "is an input")


# convert


def convert_refused(desk, *options, table=None):
    written = desk.folder / "written"
    before = files_in(desk.folder)
    given = [table or desk.table, "-o", written, "--format", "tpumlir"]
    ended = run("calibrate", "convert", *given, *options)
    assert_refused(ended, USAGE)
    assert files_in(desk.folder) == before
    return ended.err


def test_convert_writes_what_the_function_gives(desk):
    calibrated(desk)
    for kind in ("tpumlir", "onnxruntime"):
        written = desk.folder / kind
        ended = run("calibrate", "convert", desk.table, "-o", written, "--format", kind)
        assert ended.code == 0, ended.err
        assert qpasses.convert_table(desk.table, table_format=kind) == written.read_bytes()


def test_convert_takes_the_options_of_methods(desk):
    calibrated(desk)
    plain = qpasses.convert_table(desk.table, table_format="tpumlir")
    written = desk.folder / "written"
    for options in (
        ["--symmetric"],
        ["--calibration-method", "mse"],
        ["--calibration-method", "percentile", "--percentile", "90"],
        ["--calibration-overrides", "x=0,1"],
    ):
        given = desk.table, "-o", written, "--format", "tpumlir"
        assert run("calibrate", "convert", *given, *options).code == 0
        assert written.read_bytes() != plain


def test_a_table_of_another_tool_is_not_converted(desk):
    calibrated(desk)
    for kind in ("tpumlir", "onnxruntime"):
        other = save(
            desk.folder, "other", qpasses.convert_table(desk.table, table_format=kind)
        )
        message = convert_refused(desk, table=other)
        assert "only tables of qpasses" in message
        assert str(other) in message


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        (["--format", "qpasses"], "--format"),
        (["--calibration-overrides", "zz=mse"], "'zz=mse'"),
        (["--percentile", "0"], "percentile"),
        (["-o", "absent/file"], "does not exist"),
    ],
)
def test_a_conversion_that_cannot_be_is_named(desk, options, culprit):
    calibrated(desk)
    assert culprit in convert_refused(desk, *options)


def test_a_table_without_histograms_is_converted_by_extremes_alone(desk):
    calibrated(desk, "--no-histograms")
    message = convert_refused(desk, "--calibration-method", "octav")
    assert str(desk.table) in message
    assert "needs a histogram" in message
    assert qpasses.convert_table(desk.table, table_format="tpumlir")


def test_the_converted_table_may_not_replace_the_table(desk):
    calibrated(desk)
    given = desk.table, "-o", desk.table, "--format", "tpumlir"
    assert_refused(run("calibrate", "convert", *given), USAGE, "is an input")
