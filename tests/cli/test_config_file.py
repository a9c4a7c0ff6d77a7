"""--config FILE.toml: options from a file, under the same names."""

import numpy as np
import onnx
import pytest
from PIL import Image

import qpasses
from qpasses.cli import cli
from tests.support.commands import USAGE, Desk, assert_refused, read_json, run
from tests.support.small_models import model, numbers, pictures, save

MODEL = """
g (float[N, 1, 8, 8] x) => (float[N, 4] y) {
    [conv] a = Conv <pads = [1, 1, 1, 1]> (x, w1)
    [relu] r = Relu (a)
    [mean] p = GlobalAveragePool (r)
    [flat] y = Flatten (p)
}"""


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, model(MODEL, w1=numbers(4, 1, 3, 3)), pictures())


@pytest.fixture
def picture_desk(desk):
    """The samples are three small pictures."""
    desk.data = desk.folder / "pictures"
    desk.data.mkdir()
    for i in range(3):
        pixels = (np.abs(numbers(9, 10, seed=i)) * 80).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(desk.data / f"{i}.png")
    return desk


def configured(desk, text, *options, command="quantize"):
    """A command with ``text`` as its config file."""
    config = desk.folder / "config.toml"
    config.write_bytes(text.encode() if isinstance(text, str) else text)
    return getattr(desk, command)("--config", config, *options)


# Every option

PLAIN = {
    "samples": ("3", ["--samples", "3"]),
    "input-shape": ('["x:1,1,8,8"]', ["--input-shape", "x:1,1,8,8"]),
    "samples-to-exclude": (
        '["data.npy\\\\[3\\\\]"]',
        ["--samples-to-exclude", r"data.npy\[3\]"],
    ),
    "inputs": ('["x=x"]', ["--inputs", "x=x"]),
    "target": ('"exact"', ["--target", "exact"]),
    "bodies": ('"portable"', ["--bodies", "portable"]),
    "exact": ("true", ["--exact"]),
    "activation-type": ('"int8"', ["--activation-type", "int8"]),
    "layout": ('"nchw"', ["--layout", "nchw"]),
    "residual-type": ('"int16"', ["--residual-type", "int16"]),
    "tensor-types": (
        '["r=int16", "p=int8"]',
        ["--tensor-types", "r=int16", "--tensor-types", "p=int8"],
    ),
    "min-sqnr": ("1.5", ["--min-sqnr", "1.5"]),
    "max-drop": ('"agreement=1"', ["--max-drop", "agreement=1"]),
    "metric": (
        '"cosine"\nmax-drop = "metric=1"',
        ["--metric", "cosine", "--max-drop", "metric=1"],
    ),
    "weight-type": ('"int8"', ["--weight-type", "int8"]),
    "weight-rounding": ('"sum-preserving"', ["--weight-rounding", "sum-preserving"]),
    "bias-correction": ('"in-sequence"', ["--bias-correction", "in-sequence"]),
    "accuracy": ('"balanced"', ["--accuracy", "balanced"]),
    "activation-scales": ('"auto"', ["--activation-scales", "auto"]),
    "per-channel": ("false", ["--no-per-channel"]),
    "activation-bits": ("4", ["--activation-bits", "4"]),
    "narrow-range": ("true", ["--narrow-range"]),
    "activation-form": ('"multiplier"', ["--activation-form", "multiplier"]),
    "table-ranges": ('"function"', ["--table-ranges", "function"]),
    "softmax": ('"shiftmax"', ["--softmax", "shiftmax"]),
    "softmax-nodes": ('"inner"', ["--softmax-nodes", "inner"]),
    "gelu": ('"shift"', ["--gelu", "shift"]),
    "layernorm": ('"ivit"', ["--layernorm", "ivit"]),
    "softmax-bits": ("24", ["--softmax-bits", "24"]),
    "symmetric": ("true", ["--symmetric"]),
    "calibration-method": ('"mse"', ["--calibration-method", "mse"]),
    "percentile": (
        '99\ncalibration-method = "percentile"',
        ["--percentile", "99", "--calibration-method", "percentile"],
    ),
    "calibration-overrides": (
        '["x=percentile", "r=0,1.5"]',
        ["--calibration-overrides", "x=percentile", "--calibration-overrides", "r=0,1.5"],
    ),
    "on-bad-sample": ('"skip"', ["--on-bad-sample", "skip"]),
    "workers": ("1", ["--workers", "1"]),
    "engine": ('"local"', ["--engine", "local"]),
    "nodes-to-exclude": (
        '["conv", "mea."]',
        ["--nodes-to-exclude", "conv", "--nodes-to-exclude", "mea."],
    ),
    "op-types-to-quantize": (
        '["Conv", "Relu"]',
        ["--op-types-to-quantize", "Conv", "--op-types-to-quantize", "Relu"],
    ),
    "alignment": ('"tpu-mlir"', ["--alignment", "tpu-mlir"]),
    "integer-io": ("true", ["--integer-io"]),
    "share-tables": ("1.5", ["--share-tables", "1.5"]),
    "emit": ('"qdq"', ["--emit", "qdq"]),
    "save-as-external-data": ("true", ["--save-as-external-data"]),
    "print-after": ('["place"]', ["--print-after", "place"]),
    "format": (
        '"mlir"\nprint-after = ["place"]',
        ["--format", "mlir", "--print-after", "place"],
    ),
    "stop-after": ('"place"', ["--stop-after", "place"]),
    "analyze": ('"no"', ["--analyze", "no"]),
    "quiet": ("true", ["--quiet"]),
    "verbose": ("true", ["--verbose"]),
}

OF_CALIBRATE = {
    "shard": ('"2/3"', ["--shard", "2/3"]),
    "format": ('"tpumlir"', ["--format", "tpumlir"]),
    "histograms": ("false", ["--no-histograms"]),
    "restart": ("true", ["--restart"]),
    "samples": PLAIN["samples"],
    "calibration-method": PLAIN["calibration-method"],
    "calibration-overrides": PLAIN["calibration-overrides"],
    "nodes-to-exclude": PLAIN["nodes-to-exclude"],
}
"""What ``calibrate`` has of its own, and some of what it shares with ``quantize``."""

OF_PICTURES = {
    "preprocess": ('"mnist"', ["--preprocess", "mnist"]),
    "scale": ('"1/255"', ["--scale", "1/255"]),
    "mean": ("0.25", ["--mean", "0.25"]),
    "std": ("[0.5]", ["--std", "0.5"]),
    "size": ("8", ["--size", "8"]),
    "picture-layout": ('"NCHW"', ["--picture-layout", "NCHW"]),
    "channels": ('"gray"', ["--channels", "gray"]),
    "resize": ('"pad"', ["--resize", "pad"]),
}

GIVEN = {
    *("data", "output", "evidence", "json", "against", "calibration-table", "ray-address"),
    *("with", "all-tensors", "tosa-profile", "html", "detections", "labels", "states"),
}
"""What test_paths_may_stand_in_the_file_too gives, and tests of their own."""

COMMANDS = {
    "quantize": cli.commands["quantize"],
    "calibrate": cli.commands["calibrate"].commands["model"],
    "verify": cli.commands["verify"],
}


def options_of(command):
    names = {name for param in COMMANDS[command].params for name in param.opts}
    return {name[2:] for name in names if name.startswith("--")} - {"config"}


def test_these_tests_know_every_option():
    everything = PLAIN.keys() | OF_CALIBRATE.keys() | OF_PICTURES.keys() | GIVEN
    assert set().union(*map(options_of, COMMANDS)) == everything


def outcome(desk, ended):
    """All that a command did; not in which order it says so, nor what times it prints."""
    report = read_json(desk.report) if desk.report.exists() else None
    written = [p.read_bytes() if p.exists() else None for p in (desk.output, desk.table)]
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    said = sorted(line for line in lines if not line.startswith("config "))
    return ended.code, said, bool(ended.err), report, written


def assert_same_in_the_file(desk, text, options, command="quantize"):
    by_file = outcome(desk, configured(desk, text, command=command))
    assert by_file[0] == 0
    assert by_file == outcome(desk, getattr(desk, command)(*options))


@pytest.mark.thinned
@pytest.mark.parametrize("name", PLAIN)
def test_an_option_in_the_file_does_what_it_does_on_the_command_line(desk, name):
    value, options = PLAIN[name]
    assert_same_in_the_file(desk, f"{name} = {value}", options)


@pytest.mark.thinned
@pytest.mark.parametrize("name", OF_CALIBRATE)
def test_an_option_of_calibrate_may_stand_in_the_file(desk, name):
    value, options = OF_CALIBRATE[name]
    assert_same_in_the_file(desk, f"{name} = {value}", options, "calibrate")


def test_a_calibration_table_may_stand_in_the_file(desk):
    assert desk.calibrate().code == 0
    text = f"calibration-table = '{desk.table}'"
    assert_same_in_the_file(desk, text, ["--calibration-table", desk.table])
    assert read_json(desk.report)["configuration"]["calibration_table"]["samples"] == 8


def test_the_address_of_a_cluster_may_stand_in_the_file(desk):
    ended = configured(desk, 'ray-address = "far:1"', command="calibrate")
    assert_refused(ended, USAGE, "'far:1'", "ray")


def test_labels_may_stand_in_the_file(desk):
    labels = save(desk.folder, "labels.npy", np.arange(8) % 4)
    text = f"max-drop = 'top1=1'\nlabels = '{labels}'"
    assert_same_in_the_file(desk, text, ["--max-drop", "top1=1", "--labels", labels])
    assert read_json(desk.report)["widths"]["metric"]["name"] == "top1"


def test_states_may_stand_in_the_file(tmp_path):
    text = "g (float[1, 4] x) => (float[1, 4] y) { a = MatMul (x, w) y = Relu (a) }"
    desk = Desk(tmp_path, model(text, w=numbers(4, 4)), numbers(8, 4))
    assert_same_in_the_file(desk, 'states = ["x=y"]', ["--states", "x=y"])
    assert read_json(desk.report)["states"][0]["tied"]


@pytest.mark.thinned
@pytest.mark.parametrize("name", OF_PICTURES)
def test_an_option_for_pictures_may_stand_in_the_file(picture_desk, name):
    value, options = OF_PICTURES[name]
    assert_same_in_the_file(picture_desk, f"{name} = {value}", options)


@pytest.mark.parametrize("name", ["per-channel", "nodes-to-exclude", "stop-after"])
def test_underscores_do_for_dashes(desk, name):
    value, options = PLAIN[name]
    assert_same_in_the_file(desk, f"{name.replace('-', '_')} = {value}", options)


def test_paths_may_stand_in_the_file_too(desk):
    config = desk.folder / "config.toml"
    evidence = desk.folder / "evidence.json"
    paths = {"data": desk.data, "output": desk.output, "json": desk.report}
    paths["evidence"] = evidence
    config.write_text("\n".join(f"{name} = '{path}'" for name, path in paths.items()))
    assert run("quantize", desk.model, "--config", config).code == 0
    assert desk.output.exists()
    assert desk.report.exists()
    paths = {"data": desk.data, "against": desk.model, "json": desk.report}
    paths["evidence"] = evidence
    config.write_text("\n".join(f"{name} = '{path}'" for name, path in paths.items()))
    assert run("verify", desk.output, "--config", config).code == 0
    report = read_json(desk.report)
    assert report["command"] == "verify"
    assert report["checks"]["evidence_file"]["path"] == str(evidence)


def test_verify_takes_a_file_as_well(desk):
    desk.quantize()
    ended = configured(desk, "samples = 3\nquiet = true", command="verify")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert read_json(desk.report)["samples"]["accuracy"] == 3


def test_several_entries_together_give_what_the_function_gives(desk):
    text = """
        per-channel = false
        activation_type = "int8"
        symmetric = true   # about zero
        nodes-to-exclude = []
    """
    assert configured(desk, text).code == 0
    options = {"per_channel": False, "activation_type": "int8", "symmetric": True}
    made = qpasses.quantize(desk.model, desk.data, **options).model
    assert made.SerializeToString(deterministic=True) == desk.output.read_bytes()


def test_an_empty_file_changes_nothing(desk):
    assert outcome(desk, configured(desk, "")) == outcome(desk, desk.quantize())


# The command line wins

WINS = {
    "samples": ("3", ["--samples", "5"], 5),
    "activation_type": ('"int8"', ["--activation-type", "uint8"], "uint8"),
    "per_channel": ("false", ["--per-channel"], True),
    "nodes_to_exclude": ('["conv", "mean"]', ["--nodes-to-exclude", "relu"], ["relu"]),
}


@pytest.mark.parametrize("name", WINS)
def test_what_is_given_on_the_command_line_wins(desk, name):
    value, options, expected = WINS[name]
    assert configured(desk, f"{name} = {value}", *options).code == 0
    assert read_json(desk.report)["configuration"][name] == expected


def test_the_place_of_config_among_the_options_does_not_matter(desk):
    config = save(desk.folder, "config.toml", b"samples = 3\nsymmetric = true")
    for options in (
        ["--samples", 5, "--config", config],
        ["--config", config, "--samples", 5],
    ):
        assert desk.quantize(*options).code == 0
        found = read_json(desk.report)["configuration"]
        assert (found["samples"], found["symmetric"]) == (5, True)


# What is wrong with a file


def assert_named(desk, ended, *culprits):
    """One line that names the file and the culprits; nothing written."""
    assert_refused(ended, USAGE, desk.folder / "config.toml", *culprits)
    assert not desk.output.exists()
    assert not desk.report.exists()


@pytest.mark.parametrize(
    "entry",
    ["sampels", "colour", "no-per-channel", "config", "help", "model", "json_file", "o"],
)
def test_an_unknown_entry_is_named_with_the_file(desk, entry):
    assert_named(desk, configured(desk, f"{entry} = 1"), repr(entry))


def test_a_table_named_after_a_command_is_for_that_command(desk):
    text = "[quantize]\nsamples = 3\n[verify]\nsamples = 2\n[calibrate]\nsamples = 4\n"
    assert_same_in_the_file(desk, text, ["--samples", "3"])
    assert_same_in_the_file(desk, text, ["--samples", "4"], "calibrate")


def test_another_table_is_an_unknown_entry(desk):
    assert_named(desk, configured(desk, "[tool]\nsamples = 3"), "'tool'")
    assert_named(desk, configured(desk, "quantize = 3"), "'quantize'")


def test_an_option_of_quantize_is_unknown_to_verify(desk):
    desk.quantize()
    ended = configured(desk, "symmetric = true", command="verify")
    assert_refused(ended, USAGE, desk.folder / "config.toml", "'symmetric'", "samples")


WRONG = {
    "samples": ["2.5", "true", "[1]", "{a = 1}", "1979-05-27"],
    "symmetric": ["1", "0.5", "[true]"],
    "per-channel": ["3"],
    "quiet": ["[]"],
    "nodes-to-exclude": ['"conv"', "3", "[[1]]", "[3]", "true"],
    "op-types-to-quantize": ["[1]"],
    "print-after": ['"place"'],
    "format": ["1", '["mlir"]'],
    "stop-after": ["3", '["place"]'],
    "emit": ['["qdq"]', "1"],
    "bodies": ["true"],
    "target": ["3", '["onnx"]'],
    "json": ["true", "3", '["out.json"]'],
    "mean": ["true", "{}"],
    "scale": ["[]"],
    "size": ["8.5", "true", "[[8], [8]]"],
    "preprocess": ["3"],
    "percentile": ['"99"', "true"],
    "share-tables": ['"1"', "true", "[1]"],
    "tensor-types": ['"x=int16"', "[1]"],
    "min-sqnr": ['"40"', "true"],
    "max-drop": ["0.01", '["top1=0.01"]', "{top1 = 0.01}"],
    "metric": ["3", '["top1"]'],
    "labels": ["3", "[1, 2]"],
    "calibration-method": ["3", '["mse"]'],
    "calibration-overrides": ['"x=mse"', "[1]"],
    "calibration-table": ["3"],
    "workers": ['"2"', "1.5"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_value_of_the_wrong_type_is_named_with_file_and_entry(desk, name, value):
    assert_named(desk, configured(desk, f"{name} = {value}"), name)


UNFIT = {
    "samples": ['"many"', "0", "-1", "nan"],
    "symmetric": ['"perhaps"'],
    "activation-bits": ["1", "9"],
    "activation-form": ['"lut"'],
    "residual-type": ['"int8"'],
    "table-ranges": ['"guessed"'],
    "softmax": ['"outer"'],
    "softmax-nodes": ['"outer"'],
    "gelu": ['"erf"'],
    "layernorm": ['"float"'],
    "softmax-bits": ["8", "31"],
    "emit": ['"tflite"'],
    "format": ['"json"'],
    "mean": ['["a"]'],
    "scale": ['"1/0"'],
    "size": ["[8, 8, 8]"],
    "layout": ['"HWCN"'],
    "percentile": ["nan", "50", "100.1"],
    "share-tables": ["nan", "inf", "-1"],
    "min-sqnr": ["nan", "inf", "-1"],
    "max-drop": ['"top1"', '"top1=many"', '"top1=-1"', '"top1=nan"', '"top2=1"', '"=1"'],
    "workers": ["0"],
    "engine": ['"spark"'],
    "on-bad-sample": ['"hide"'],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in UNFIT.items() for value in values]
)
def test_a_value_that_is_out_of_range_or_unknown_is_named_with_the_entry(desk, name, value):
    assert_refused(configured(desk, f"{name} = {value}"), USAGE, name)
    assert not desk.output.exists()


@pytest.mark.parametrize("text", ["x", "x=median", "x=percentile:9", "x=2,1", "(=mse"])
def test_an_override_that_is_none_is_named(desk, text):
    ended = configured(desk, f'calibration-overrides = ["{text}"]')
    assert_refused(ended, USAGE, "calibration override", repr(text))


@pytest.mark.parametrize("name", ["data", "output"])
@pytest.mark.parametrize("value", ["3", "true", '["a"]'])
def test_a_path_that_is_no_text_is_named_with_file_and_entry(desk, name, value):
    paths = {"data": f"'{desk.data}'", "output": f"'{desk.output}'", name: value}
    text = "\n".join(f"{key} = {given}" for key, given in paths.items())
    config = save(desk.folder, "config.toml", text.encode())
    assert_named(desk, run("quantize", desk.model, "--config", config), name)


@pytest.mark.parametrize(
    "content", ["samples = ", "samples 3", "samples = 3\nsamples = 4", b"samples = '\xff'"]
)
def test_a_file_that_is_no_toml_is_named(desk, content):
    assert_named(desk, configured(desk, content), "TOML")


def test_a_file_that_is_absent_is_named(desk):
    assert_named(desk, desk.quantize("--config", desk.folder / "config.toml"))


def test_a_folder_instead_of_a_file_is_named(desk):
    (desk.folder / "config.toml").mkdir()
    assert_named(desk, desk.quantize("--config", desk.folder / "config.toml"))


def test_a_name_in_the_file_that_matches_no_node_is_named(desk):
    ended = configured(desk, 'nodes-to-exclude = ["convv"]')
    assert_refused(ended, USAGE, "'convv'", "'conv'")


def test_conflicts_between_file_and_command_line_are_found(desk):
    ended = configured(desk, "quiet = true", "--verbose")
    assert_refused(ended, USAGE, "--quiet", "--verbose")


def test_the_file_is_only_read(desk):
    config = save(desk.folder, "config.toml", b"samples = 3")
    desk.quantize("--config", config)
    assert config.read_bytes() == b"samples = 3"
    assert onnx.load(desk.output).graph.node


def test_the_file_is_not_overwritten_by_what_is_emitted(desk):
    config = save(desk.folder, "config.toml", b"samples = 3")
    given = "--data", desk.data, "--config", config
    assert_refused(run("quantize", desk.model, *given, "-o", config), USAGE, config)
    assert config.read_bytes() == b"samples = 3"
