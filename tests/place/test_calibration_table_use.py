"""quantize with a calibration table: what a run over the samples gives, without the run."""

import json

import numpy as np
import onnx
import pytest

import qpasses
from calibration.methods import METHODS
from opsets.errors import DataError
from tests.support.commands import USAGE, Desk, assert_refused, read_json, run
from tests.support.small_models import cnn, model, numbers, pictures, save

every_method = pytest.mark.parametrize("method", METHODS)

JOINED = """
joined (float[N, 1, 8, 8] x) => (float[N, 4, 8, 8] y) {
    [first] a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
    [relu] r = Relu (a)
    [second] b = Conv <pads = [1, 1, 1, 1]> (x, w2)
    [join] c = Concat <axis = 1> (r, b)
    [sum] y = Add (c, c)
}"""
"""A Relu that is folded, a Concat whose inputs are tied, an Add."""


def joined(**replaced):
    weights = {"w1": numbers(2, 1, 3, 3), "b1": numbers(2), "w2": 3 * numbers(2, 1, 3, 3)}
    return model(JOINED, **{**weights, **replaced})


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A model, its samples and a table of them."""
    made = Desk(tmp_path_factory.mktemp("desk"), joined(), pictures(12))
    qpasses.calibrate(made.model, made.data, made.table)
    return made


@pytest.fixture
def own_desk(tmp_path):
    """One whose files a test may change."""
    return Desk(tmp_path, joined(), pictures(12))


def with_table(desk, table, *options, data=None):
    """``qpasses quantize`` with a table, and with samples only if they are given."""
    for path in (desk.output, desk.report):
        path.unlink(missing_ok=True)
    given = ["--calibration-table", table, "-o", desk.output, "--json", desk.report]
    return run("quantize", desk.model, *given, *(["--data", data] if data else []), *options)


def without_configuration(made):
    """All of a model but the entry that tells where its ranges came from."""
    copy = onnx.ModelProto()
    copy.CopyFrom(made)
    (entry,) = [e for e in copy.metadata_props if e.key == "qpasses.configuration"]
    copy.metadata_props.remove(entry)
    return copy


def configuration(made):
    (entry,) = [e for e in made.metadata_props if e.key == "qpasses.configuration"]
    return json.loads(entry.value)


def seen_in(report):
    """What a report says of tensors, but zeros, which a run for extremes does not count."""
    unknown = {"zeros": None, "mean": None, "std": None}
    return [{**tensor, **unknown} for tensor in report["calibration"]["tensors"]]


def assert_same_model(one, other):
    assert without_configuration(one) == without_configuration(other)
    unlike = {"calibration_table"}
    mine, theirs = configuration(one), configuration(other)
    assert {k: v for k, v in mine.items() if theirs[k] != v}.keys() <= unlike


# A table of this tool


@pytest.mark.thinned
@every_method
@pytest.mark.parametrize(
    ("kind", "symmetric"), [("uint8", False), ("uint8", True), ("int8", True)]
)
def test_every_method_gives_the_very_model_from_a_table_and_verify_accepts_it(
    desk, method, symmetric, kind
):
    options = {"calibration_method": method, "symmetric": symmetric, "activation_type": kind}
    if method in ("percentile", "auto"):
        options["percentile"] = 99.5
    direct = qpasses.quantize(desk.model, desk.data, **options)
    from_table = qpasses.quantize(
        desk.model, desk.data, calibration_table=desk.table, **options
    )
    assert_same_model(direct.model, from_table.model)
    assert seen_in(direct.report) == seen_in(from_table.report)
    assert direct.verdict == "ok"
    assert qpasses.verify(from_table.model, desk.model, desk.data).verdict == "ok"


def test_overrides_do_the_same_from_a_table(desk):
    overrides = ["r=mse", "y=percentile:99", "x=-2,2"]
    options = {"calibration_overrides": overrides, "calibration_method": "entropy"}
    direct = qpasses.quantize(desk.model, desk.data, **options)
    from_table = qpasses.quantize(
        desk.model, desk.data, calibration_table=desk.table, **options
    )
    assert_same_model(direct.model, from_table.model)
    methods = {t["name"]: t["method"] for t in direct.report["calibration"]["tensors"]}
    assert methods["r"] == "mse"
    assert methods["y"] == "percentile"
    assert methods["x"] == "given"
    assert methods["b"] == "entropy"


def test_the_methods_give_different_models(desk):
    made = {
        qpasses.quantize(
            desk.model,
            calibration_table=desk.table,
            calibration_method=method,
            **({"percentile": 99} if method in ("percentile", "auto") else {}),
        ).model.SerializeToString(deterministic=True)
        for method in METHODS
    }
    assert len(made) >= 9


def test_auto_reports_for_each_tensor_which_method_it_took(desk):
    result = qpasses.quantize(
        desk.model, calibration_table=desk.table, calibration_method="auto"
    )
    methods = {tensor["method"] for tensor in result.report["calibration"]["tensors"]}
    assert methods <= set(METHODS) - {"auto"}


def test_without_samples_the_model_is_the_same_and_is_compared_on_random_numbers(desk):
    ended = with_table(desk, desk.table)
    assert ended.code == 0, ended.err
    report = read_json(desk.report)
    assert report["samples"]["calibration"] == 12
    assert report["configuration"]["calibration_table"] == {"kind": "qpasses", "samples": 12}
    assert report["configuration"]["random_data"] is False
    assert report["warnings"] == [
        "compared on random numbers: the accuracy is not that on real data"
    ]
    assert "on 1 sample" in ended.out
    direct = qpasses.quantize(desk.model, desk.data, accuracy="fast").model
    ours = without_configuration(onnx.load(desk.output)).graph
    assert ours == without_configuration(direct).graph
    assert desk.verify().code == 0


def test_a_table_of_random_numbers_is_warned_of_whatever_is_compared(own_desk):
    assert own_desk.calibrate("--data", "random:5").code == 0
    for data, warned in ((None, 2), (own_desk.data, 1)):
        assert with_table(own_desk, own_desk.table, data=data).code == 0
        report = read_json(own_desk.report)
        assert report["configuration"]["random_data"] is True
        about = [each for each in report["warnings"] if "random numbers" in each]
        assert len(about) == warned
        assert about[0].startswith("calibrated on random numbers")


def test_a_table_of_pictures_remembers_what_pictures_became(own_desk):
    from PIL import Image

    folder = own_desk.folder / "pictures"
    folder.mkdir()
    for i in range(3):
        pixels = (np.abs(numbers(8, 8, seed=i)) * 80).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    own_desk.data = folder
    assert own_desk.calibrate("--preprocess", "unit").code == 0
    table = own_desk.table
    fast = {"preprocessing": "unit", "accuracy": "fast"}
    direct = qpasses.quantize(own_desk.model, folder, **fast).model
    for data in (None, folder):
        ended = with_table(own_desk, table, "--accuracy", "fast", data=data)
        assert ended.code == 0, ended.err
        made = onnx.load(own_desk.output)
        found = configuration(made)["preprocessing"]
        assert found == configuration(direct)["preprocessing"]
        assert made.graph == direct.graph
        assert own_desk.verify().code == 0


def test_a_table_holds_for_fewer_nodes_than_it_was_made_for(desk):
    ended = with_table(desk, desk.table, "--nodes-to-exclude", "sum", data=desk.data)
    assert ended.code == 0, ended.err
    direct = qpasses.quantize(desk.model, desk.data, nodes_to_exclude=["sum"])
    assert_same_model(onnx.load(desk.output), direct.model)


# Tables that do not fit


def refused(desk, table, *options, data=True):
    """The line that quantize ends with; nothing is written, all else stays as it was."""
    before = {path: path.read_bytes() for path in desk.folder.iterdir() if path.is_file()}
    for path in (desk.output, desk.report):
        before.pop(path, None)
    ended = with_table(desk, table, *options, data=desk.data if data else None)
    assert_refused(ended, USAGE)
    after = {path: path.read_bytes() for path in desk.folder.iterdir() if path.is_file()}
    assert after == before
    return ended.err


def changed(desk, name, change):
    """The table of ``desk`` after ``change(entries)``, in another file."""
    entries = json.loads(desk.table.read_text())
    change(entries)
    return save(desk.folder, name, json.dumps(entries).encode())


def test_a_table_of_another_model_is_refused(own_desk):
    other = Desk(own_desk.folder, cnn(), pictures(12))
    other.calibrate()
    own_desk.model = save(own_desk.folder, "joined.onnx", joined())
    message = refused(own_desk, other.table)
    assert str(other.table) in message
    assert "another model" in message


def test_a_table_of_a_model_with_one_other_weight_is_refused(own_desk):
    own_desk.calibrate()
    weights = numbers(2)
    weights[1] = np.nextafter(weights[1], np.float32(9))
    own_desk.model = save(own_desk.folder, "other.onnx", joined(b1=weights))
    assert "other weights" in refused(own_desk, own_desk.table)


def test_a_table_of_another_version_of_the_tool_is_refused(desk):
    table = changed(desk, "old.json", lambda entries: entries.update(tool="0.0.9"))
    message = refused(desk, table)
    assert "qpasses 0.0.9" in message
    assert str(table) in message


def test_a_table_without_tensors_that_are_needed_names_them(own_desk):
    assert own_desk.calibrate("--nodes-to-exclude", "sum").code == 0
    message = refused(own_desk, own_desk.table)
    assert "holds nothing for tensor 'y'" in message
    assert "options" in message


def test_a_table_with_a_tensor_that_the_model_has_not_names_it(desk):
    def add(entries):
        entries["tensors"]["stranger"] = entries["tensors"]["x"]

    assert "'stranger'" in refused(desk, changed(desk, "more.json", add))


def test_a_table_without_histograms_serves_extremes_alone(own_desk):
    assert own_desk.calibrate("--no-histograms").code == 0
    for method in ("minmax", "moving-average"):
        direct = qpasses.quantize(own_desk.model, own_desk.data, calibration_method=method)
        assert (
            with_table(
                own_desk, own_desk.table, "--calibration-method", method, data=own_desk.data
            ).code
            == 0
        )
        assert_same_model(onnx.load(own_desk.output), direct.model)
    message = refused(own_desk, own_desk.table, "--calibration-method", "mse")
    assert str(own_desk.table) in message
    assert "needs a histogram" in message


@pytest.mark.parametrize("spoil", ["cut off", "empty", "binary", "absent", "a folder", "JSON"])
def test_a_file_that_is_no_table_is_refused_by_name(own_desk, spoil):
    own_desk.calibrate()
    table, whole = own_desk.folder / "bad.json", own_desk.table.read_bytes()
    contents = {"cut off": whole[:-9], "empty": b"", "binary": b"\xff\x00", "JSON": b"[1, 2]"}
    if spoil in contents:
        table.write_bytes(contents[spoil])
    elif spoil == "a folder":
        table.mkdir()
    assert str(table) in refused(own_desk, table)


def test_neither_samples_nor_table_is_an_error_that_names_both_options(own_desk):
    ended = run("quantize", own_desk.model, "-o", own_desk.output)
    assert_refused(ended, USAGE, "--data", "--calibration-table")
    with pytest.raises(qpasses.UsageError, match="calibration_table"):
        qpasses.quantize(own_desk.model)


@pytest.mark.parametrize("option", [("--samples", "3"), ("--preprocess", "unit")])
def test_an_option_about_samples_needs_samples(desk, option):
    assert "--data" in refused(desk, desk.table, *option, data=False)


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_the_table_is_never_written_to(desk, option):
    assert "is an input" in refused(desk, desk.table, option, desk.table)


def test_an_override_that_no_observed_tensor_matches_is_named_with_a_near_one(desk):
    message = refused(desk, desk.table, "--calibration-overrides", "yy=mse")
    assert "'yy=mse'" in message
    assert "'y'" in message


# Bad samples beside a table


def test_bad_samples_to_compare_on_are_an_error_or_left_out_by_name(own_desk):
    own_desk.calibrate()
    data = pictures(4)
    data[2, 0, 0, 0] = np.nan
    bad = save(own_desk.folder, "bad.npy", data)
    assert "bad.npy[2]" in refused(own_desk, own_desk.table, "--data", bad)
    ended = with_table(own_desk, own_desk.table, "--on-bad-sample", "skip", data=bad)
    assert ended.code == 0, ended.err
    samples = read_json(own_desk.report)["samples"]
    assert samples["accuracy"] == 3
    assert [each["name"] for each in samples["skipped"]] == ["bad.npy[2]"]
    assert "NaN" in samples["skipped"][0]["reason"]
    assert "skipped: bad.npy[2]: input 'x' holds NaN" in ended.out


def test_nothing_but_bad_samples_to_compare_on_is_an_error(own_desk):
    own_desk.calibrate()
    bad = save(own_desk.folder, "bad.npy", np.full_like(pictures(2), np.nan))
    message = refused(own_desk, own_desk.table, "--data", bad, "--on-bad-sample", "skip")
    assert "bad.npy[" in message


def test_samples_that_the_table_left_out_are_not_compared_on(own_desk):
    data = pictures(4)
    data[2, 0, 0, 0] = np.nan
    own_desk.data = save(own_desk.folder, "bad.npy", data)
    assert own_desk.calibrate("--on-bad-sample", "skip").code == 0
    ended = with_table(own_desk, own_desk.table, data=own_desk.data)
    assert ended.code == 0, ended.err
    samples = read_json(own_desk.report)["samples"]
    assert (samples["calibration"], samples["accuracy"]) == (3, 3)
    assert samples["skipped"] == [{"name": "bad.npy[2]", "reason": None}]
    assert "1 bad sample was skipped: bad.npy[2]" in ended.out


# Tables of other tools


def converted(desk, kind, *options):
    table = desk.folder / f"table.{kind}"
    ended = run("calibrate", "convert", desk.table, "-o", table, "--format", kind, *options)
    assert ended.code == 0, ended.err
    return table


def ranges_in(report):
    return {t["name"]: t["range"] for t in report["calibration"]["tensors"]}


@pytest.mark.thinned
@every_method
@pytest.mark.parametrize("kind", ["tpumlir", "onnxruntime"])
def test_converted_ranges_are_those_of_the_method_up_to_the_digits_of_the_format(
    desk, method, kind
):
    table = converted(desk, kind, "--calibration-method", method)
    direct = qpasses.quantize(desk.model, desk.data, calibration_method=method).report
    report = qpasses.quantize(desk.model, desk.data, calibration_table=table).report
    expected = ranges_in(direct)
    assert ranges_in(report).keys() == expected.keys()
    for name, found in ranges_in(report).items():
        assert found == pytest.approx(expected[name], rel=1e-6, abs=1e-6)
    methods = {tensor["method"] for tensor in report["calibration"]["tensors"]}
    assert methods == {f"{kind} table"}
    assert report["configuration"]["calibration_table"] == {"kind": kind, "samples": None}
    assert report["samples"]["calibration"] is None


@pytest.mark.parametrize("kind", ["tpumlir", "onnxruntime"])
def test_a_format_of_calibrate_writes_what_convert_does(own_desk, kind):
    own_desk.calibrate()
    options = "--calibration-method", "mse", "--symmetric"
    expected = converted(own_desk, kind, *options).read_bytes()
    assert own_desk.calibrate("--format", kind, *options).code == 0
    assert own_desk.table.read_bytes() == expected


def test_names_with_the_op_behind_them_are_those_of_tpu_mlir(desk):
    table = converted(desk, "tpumlir")
    ops = {"r": "Relu", "b": "Conv", "c": "Concat", "y": "Add"}
    header, *lines = table.read_text().splitlines()
    renamed = [header]
    for line in lines:
        name, rest = line.split(maxsplit=1)
        renamed.append(f"{name}_{ops[name]} {rest}" if name in ops else line)
    assert len([line for line in renamed if "_" in line.split()[0]]) >= 3
    renamed.append("of_its_own_making 1.0 -1.0 1.0")
    mlir = save(desk.folder, "mlir", "\n".join(renamed).encode())
    results = [
        qpasses.quantize(desk.model, desk.data, calibration_table=each).model
        for each in (table, mlir)
    ]
    assert_same_model(*results)


@pytest.mark.parametrize("kind", ["tpumlir", "onnxruntime"])
def test_a_table_of_ranges_and_a_method_exclude_each_other(desk, kind):
    table = converted(desk, kind)
    message = refused(desk, table, "--calibration-method", "entropy")
    assert str(table) in message
    assert "'entropy'" in message
    assert "'r=mse'" in refused(desk, table, "--calibration-overrides", "r=mse")


@pytest.mark.parametrize("kind", ["tpumlir", "onnxruntime"])
def test_a_range_that_is_given_stands_in_for_that_of_the_table_or_one_it_lacks(desk, kind):
    table = converted(desk, kind)
    given = "--calibration-overrides", "y=-1,6"
    assert with_table(desk, table, *given, data=desk.data).code == 0
    tensors = {t["name"]: t for t in read_json(desk.report)["calibration"]["tensors"]}
    assert (tensors["y"]["range"], tensors["y"]["method"]) == ([-1, 6], "given")
    assert tensors["x"]["method"] == f"{kind} table"
    lines = [line for line in table.read_text().splitlines() if "y" not in line.split()[0]]
    if kind == "tpumlir":
        short = save(desk.folder, "short", "\n".join(lines).encode())
        assert "'y'" in refused(desk, short)
        assert with_table(desk, short, *given, data=desk.data).code == 0


def test_a_table_of_ranges_of_nothing_in_the_model_is_refused(desk):
    table = save(
        desk.folder, "other", b"# op_name    threshold    min    max\nq 1 -1 1\nz 1 0 1"
    )
    message = refused(desk, table)
    assert "'q'" in message
    assert "another model" in message


@pytest.mark.parametrize("kind", ["tpumlir", "onnxruntime"])
def test_verify_accepts_a_model_made_from_ranges(desk, kind):
    assert with_table(desk, converted(desk, kind), data=desk.data).code == 0
    assert desk.verify().code == 0


def test_onnxruntimes_own_reader_loads_what_is_converted_for_it(desk):
    quantization = pytest.importorskip("onnxruntime.quantization.calibrate")
    table = converted(desk, "onnxruntime")
    loaded = quantization.load_tensors_data(table)
    report = qpasses.quantize(desk.model, desk.data, calibration_table=table).report
    for name, (low, high) in ranges_in(report).items():
        found = loaded[name].range_value
        assert [float(each) for each in found] == [low, high]


@pytest.mark.parametrize(
    "body",
    [
        "[mean] y = ReduceMean <axes = [2, 3], keepdims = 0> (x)",
        "[up] y = ConvTranspose <strides = [2, 2]> (x, w)",
    ],
)
def test_tensors_made_in_preparation_are_held_by_those_they_are_moved_to(tmp_path, body):
    """Tools that made their table of the model as it was know nothing of them."""
    rank = "A, B" if "mean" in body else "A, B, C, D"
    text = f"g (float[1, 3, 4, 4] x) => (float[{rank}] y) {{ {body} }}"
    made = model(text, w=numbers(3, 2, 3, 3))
    path = tmp_path / "cali_table"
    path.write_text("# op_name    threshold    min    max\nx 3 -3 3\ny 5 -5 5\n")
    feeds = [{"x": numbers(1, 3, 4, 4, seed=seed)} for seed in range(2)]
    result = qpasses.quantize(made, feeds, target="bm1684x", calibration_table=path)
    ranges = {each["name"]: each["range"] for each in result.report["calibration"]["tensors"]}
    assert result.verdict == "ok" and len(ranges) > 2
    assert {tuple(each) for name, each in ranges.items() if name != "x"} == {(-5.0, 5.0)}
    path.write_text("# op_name    threshold    min    max\nx 3 -3 3\n")
    with pytest.raises(DataError, match="holds nothing for"):
        qpasses.quantize(made, feeds, target="bm1684x", calibration_table=path)
