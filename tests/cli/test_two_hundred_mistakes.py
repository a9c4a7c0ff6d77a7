"""Two hundred mistakes: each ends in its exit code and one line, and writes nothing.

A row is a command in a folder with sound files, the mistake in it, the exit code, and what the
line must say: which node, tensor or file it is about, and what to do.
"""

import json
import os
import shlex
import shutil
import zipfile
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.support.commands import MODEL, USAGE, run
from tests.support.small_models import (
    cnn,
    convolutions_around,
    model,
    numbers,
    pictures,
    save,
)

BAD = "quantize bad.onnx --data data.npy -o out.onnx"
RANDOM = "quantize bad.onnx --data random:1 -o out.onnx"
DATA = "quantize cnn.onnx --data bad.npy -o out.onnx"
ARRAYS = "quantize cnn.onnx --data bad.npz -o out.onnx"
FOLDER = "quantize cnn.onnx --data folder -o out.onnx"
GOOD = "quantize cnn.onnx --data data.npy -o out.onnx"
TABLE = "quantize cnn.onnx --calibration-table bad.json -o out.onnx"
CALIBRATE = "calibrate cnn.onnx --data data.npy -o new.json"
VERIFY = "verify int.onnx --against cnn.onnx --data data.npy"
FORGED = "verify bad.onnx --against cnn.onnx --data data.npy"


@dataclass(frozen=True)
class Mistake:
    """``files``: by name, what they hold, or what makes them: it is called with the path."""

    command: str
    code: int
    said: tuple[str, ...]
    files: dict = field(default_factory=dict)


def mistake(command, code, *said, **files):
    """``bad_onnx`` stands for a file called bad.onnx."""
    return Mistake(command, code, said, {n.replace("_", "."): c for n, c in files.items()})


def changed(change, made=cnn):
    """A model after ``change``."""
    made = made()
    change(made)
    return made


def setting(**values):
    return lambda made: [setattr(made, name, value) for name, value in values.items()]


def fifo(path):
    os.mkfifo(path)


def folder(**files):
    def make(path):
        path.mkdir()
        for name, content in files.items():
            place = path / name.replace("_", ".")
            content(place) if callable(content) else save(path, place.name, content)

    return make


def link(to):
    return lambda path: path.symlink_to(to)


# Models


def archive(path):
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("cnn.onnx", b"")


def reads(node, name):
    return lambda made: made.graph.node[node].input.__setitem__(0, name)


def writes(node, name):
    return lambda made: made.graph.node[node].output.__setitem__(0, name)


def with_attribute(name, value):
    def change(made):
        kept = [each for each in made.graph.node[0].attribute if each.name != name]
        del made.graph.node[0].attribute[:]
        made.graph.node[0].attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def without(part):
    return lambda made: made.graph.ClearField(part)


def doubled(part):
    return lambda made: getattr(made.graph, part).append(getattr(made.graph, part)[0])


def weights(**values):
    return lambda made: setting(**values)(made.graph.initializer[0])


def of_dims(*dims):
    return lambda made: made.graph.initializer[0].dims.__setitem__(slice(None), dims)


def no_text():
    whole = changed(lambda made: setting(name="x")(made.graph.node[0])).SerializeToString()
    return whole.replace(b"\x1a\x01x", b"\x1a\x01\xff")


WHOLE = cnn().SerializeToString()
INVALID = "bad.onnx: not a valid ONNX model"

FILES = {
    "absent": mistake(
        "quantize no.onnx --data data.npy -o out.onnx", USAGE, "no.onnx: no such"
    ),
    "an unset variable": mistake("quantize '' --data data.npy -o out.onnx", USAGE, "is empty"),
    "empty": mistake(BAD, MODEL, "bad.onnx", "the file is empty", bad_onnx=b""),
    "text": mistake(BAD, MODEL, INVALID, "cannot be parsed", bad_onnx=b"no model"),
    "cut short": mistake(BAD, MODEL, INVALID, "truncated", bad_onnx=WHOLE[:200]),
    "cut at its end": mistake(BAD, MODEL, INVALID, "truncated", bad_onnx=WHOLE[:-3]),
    "JSON": mistake(BAD, MODEL, INVALID, "JSON", bad_onnx=b'{"a": 1}'),
    "a web page": mistake(BAD, MODEL, INVALID, "web page", bad_onnx=b"<!DOCTYPE html>"),
    "a pointer": mistake(
        BAD, MODEL, INVALID, "git lfs pull", bad_onnx=b"version https://git-lfs.github.com/"
    ),
    "a zip archive": mistake(BAD, MODEL, INVALID, "unpack", bad_onnx=archive),
    "gzip": mistake(BAD, MODEL, INVALID, "unpack", bad_onnx=b"\x1f\x8b\x08" + bytes(40)),
    "samples": mistake(BAD, MODEL, INVALID, "--data", bad_onnx=b"\x93NUMPY" + bytes(99)),
    "a pickle": mistake(BAD, MODEL, INVALID, "PyTorch", bad_onnx=b"\x80\x02}q\x00."),
    "TFLite": mistake(BAD, MODEL, INVALID, "TFLite", bad_onnx=b"\x1c\0\0\0TFL3" + bytes(9)),
    "Keras": mistake(BAD, MODEL, INVALID, "Keras", bad_onnx=b"\x89HDF\r\n" + bytes(40)),
    "a folder": mistake(BAD, USAGE, "bad.onnx", "is a folder", bad_onnx=folder()),
    "a pipe": mistake(BAD, USAGE, "bad.onnx", "is a pipe", bad_onnx=fifo),
    "a device": mistake("quantize /dev/null -o out.onnx", USAGE, "/dev/null", "device"),
    "a link to nothing": mistake(BAD, USAGE, "bad.onnx", "link", bad_onnx=link("nothing")),
    "a link to itself": mistake(BAD, USAGE, "bad.onnx", "links", bad_onnx=link("bad.onnx")),
    "too long a name": mistake(f"quantize {'x' * 300} -o out.onnx", USAGE, "name too long"),
    "in a file": mistake("quantize cnn.onnx/x -o out.onnx", USAGE, "not a directory"),
    "no graph": mistake(
        BAD, MODEL, INVALID, "no graph", bad_onnx=onnx.ModelProto(ir_version=8)
    ),
    "of an IR to come": mistake(
        BAD,
        MODEL,
        INVALID,
        "IR version 99",
        "update",
        bad_onnx=changed(setting(ir_version=99)),
    ),
    "of no opset": mistake(
        BAD, MODEL, INVALID, "opset", bad_onnx=changed(lambda m: m.ClearField("opset_import"))
    ),
    "of an opset to come": mistake(
        BAD, MODEL, "bad.onnx", "opset 99", "export", bad_onnx=cnn(opset=99)
    ),
    "of opset 0": mistake(BAD, MODEL, INVALID, "'a' (Conv)", "opset 0", bad_onnx=cnn(opset=0)),
    "not UTF-8": mistake(BAD, MODEL, INVALID, "NodeProto.name", bad_onnx=no_text()),
}

GRAPHS = {
    "no nodes": (("no nodes",), model("g (float[N] x) => (float[N] x) {}")),
    "no outputs": (("no outputs",), changed(without("output"))),
    "no inputs": (("'a' (Conv)", "'x'"), changed(without("input"))),
    "an input of no type": (
        ("'type'",),
        changed(lambda m: m.graph.input[0].ClearField("type")),
    ),
    "a loose end": (("'p' (MaxPool)", "'nowhere'"), changed(reads(2, "nowhere"))),
    "an output that nothing writes": (
        ("'nothing'",),
        changed(lambda m: setting(name="nothing")(m.graph.output[0])),
    ),
    "a cycle": (("'r' (Relu)", "'p'", "follows"), changed(reads(1, "p"))),
    "a node that reads itself": (("'r' (Relu)", "'r'"), changed(reads(1, "r"))),
    "a tensor that two nodes write": (("'a'",), changed(writes(1, "a"))),
    "an input twice": (("'x'",), changed(doubled("input"))),
    "weights twice": (("w1",), changed(doubled("initializer"))),
    "an unknown op": (("'middle' (Twist)", "opset 17"), convolutions_around("Twist")),
    "an unknown domain": (
        ("Twist", "domain mine"),
        convolutions_around("mine.Twist", domains=["mine"]),
    ),
    "a domain that is not imported": (
        ("'r' (Relu)", "'mine'"),
        changed(lambda m: setting(domain="mine")(m.graph.node[1])),
    ),
    "an unknown op of onnxruntime's": (
        ("Nope", "com.microsoft"),
        convolutions_around("com.microsoft.Nope", domains=["com.microsoft"]),
    ),
    "an unknown attribute": (("'a' (Conv)", "colour"), changed(with_attribute("colour", 1))),
    "an attribute of another kind": (
        ("'a' (Conv)", "pads"),
        changed(with_attribute("pads", "red")),
    ),
    "too few pads": (("Conv", "pads"), changed(with_attribute("pads", [1, 1]))),
    "weights of another shape": (("channels",), cnn(w1=numbers(4, 2, 3, 3))),
    "matrices that do not fit": (("Gemm", "5", "4"), cnn(w2=numbers(5, 3))),
    "too long a bias": (("bias",), cnn(b1=numbers(7))),
    "weights of another type": (("w1", "int64"), cnn(w1=np.ones((4, 1, 3, 3), np.int64))),
    "weights of NaN": (("'b1'", "NaN"), cnn(b1=np.float32([1, np.nan, 1, 1]))),
    "infinite weights": (("'w2'", "infinite"), cnn(w2=np.full((4, 3), np.inf, np.float32))),
    "weights cut short": (("'w1'", "bytes"), changed(weights(raw_data=bytes(140)))),
    "weights of huge sizes": (("'w1'",), changed(of_dims(1 << 40, 1, 3, 3))),
    "weights of sizes below 0": (("'w1'", "-36"), changed(of_dims(-4, 1, 3, 3))),
    "weights of type 77": (("'w1'", "type"), changed(weights(data_type=77))),
    "weights of no type": (("w1", "UNDEFINED"), changed(weights(data_type=0))),
}

HUGE = np.array([10**5, 10**6, 4])

OF_SHAPES = {
    "an input beyond all memory": mistake(
        *(RANDOM, USAGE, "'x'", "GiB", "smaller"),
        bad_onnx=model("g (float[1000000, 1000000] x) => (float[N, M] y) { y = Relu (x) }"),
    ),
    "an Expand beyond all memory": mistake(
        *(RANDOM, MODEL, "'e' of Expand", "400,000,000,000 numbers", "GiB"),
        bad_onnx=model(
            "g (float[4] x) => (float[A, B, C] y) { e = Expand (x, s) y = Relu (e) }", s=HUGE
        ),
    ),
    "a constant beyond all memory": mistake(
        *(RANDOM, MODEL, "'e' of ConstantOfShape", "GiB"),
        bad_onnx=model(
            "g (float[4] x) => (float[A, B, C] y) { e = ConstantOfShape (s) y = Add (e, x) }",
            s=HUGE,
        ),
    ),
    "sizes beyond all memory": mistake(
        *(f"{RANDOM} --input-shape 1000000,1000000", USAGE, "'x'", "GiB"),
        bad_onnx=model("g (float[N, M] x) => (float[N, M] y) { y = Relu (x) }"),
    ),
    "a sequence as input": mistake(
        *(BAD, USAGE, "data.npy: the model has 2 inputs ('x', 's')", "use .npz files"),
        bad_onnx=model("g (float[N] x, seq(float[N]) s) => (float[N] y) { y = Relu (x) }"),
    ),
    "free sizes for made-up numbers": mistake(
        *(RANDOM, USAGE, "'x'", "--input-shape x:1,?"),
        bad_onnx=model("g (float[N, L] x) => (float[N, L] y) { y = Relu (x) }"),
    ),
    "sizes of another input": mistake(
        f"{GOOD} --input-shape z:1,1,8,8", USAGE, "no input 'z'", "'x'"
    ),
    "sizes of another rank": mistake(
        f"{GOOD} --input-shape 1,8", USAGE, "'x'", "4 dimensions"
    ),
    "sizes that contradict": mistake(f"{GOOD} --input-shape 1,3,8,8", USAGE, "'x'", "[?, 1,"),
    "sizes that samples lack": mistake(
        f"{GOOD} --input-shape 3,1,8,8", USAGE, "data.npy", "'x'", "multiple of"
    ),
    "an array of no input": mistake(f"{GOOD} --inputs z=a", USAGE, "no input 'z'", "'x'"),
    "an array that there is not": mistake(
        f"{ARRAYS} --inputs x=a", USAGE, "no array 'a'", "'z'", bad_npz={"z": pictures()}
    ),
    "no names": mistake(f"{GOOD} --inputs x", USAGE, "'x'", "INPUT=ARRAY"),
    "a name twice": mistake(f"{GOOD} --inputs x=a --inputs x=b", USAGE, "given twice"),
    "names for made-up numbers": mistake(
        "quantize cnn.onnx --data random:2 --inputs x=a -o out.onnx", USAGE, "no arrays"
    ),
    "sizes that are none": mistake(f"{GOOD} --input-shape x:a", USAGE, "'x:a'", "NAME:1,3,"),
}


# Weights beside the model


def apart(location, offset=None, length=None, beside=None):
    """A model whose w1 is elsewhere; ``beside`` is called with its folder and the bytes."""

    def make(path):
        made = cnn()
        tensor = made.graph.initializer[0]
        content = tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        entries = {"location": location, "offset": offset, "length": length}
        for key, value in entries.items():
            if value is not None:
                tensor.external_data.add(key=key, value=str(value))
        path.write_bytes(made.SerializeToString())
        if beside:
            beside(path.parent, content)

    return make


def stored(place, content):
    (place / "w.bin").write_bytes(content)


def outside(place, content):
    (place.parent / "blob").write_bytes(content)
    (place / "w.bin").symlink_to("../blob")


ELSEWHERE = {
    "missing": (MODEL, ("missing: w.bin",), apart("w.bin")),
    "outside": (MODEL, ("'../w.bin'", "copy the file"), apart("../w.bin")),
    "at an absolute path": (MODEL, ("'/etc/passwd'",), apart("/etc/passwd")),
    "behind a link that leads outside": (
        MODEL,
        ("'w.bin'", "copy the file"),
        apart("w.bin", beside=outside),
    ),
    "shorter than said": (
        MODEL,
        ("0 to 100000", "'w.bin'", "has 144"),
        apart("w.bin", 0, 100000, stored),
    ),
    "beyond the end": (MODEL, ("100000", "has 144"), apart("w.bin", 100000, None, stored)),
    "of another length": (MODEL, ("36 numbers", "8 bytes"), apart("w.bin", 0, 8, stored)),
    "at a place below 0": (MODEL, ("offset", "'-4'"), apart("w.bin", -4, None, stored)),
    "at a place that is none": (MODEL, ("offset", "'abc'"), apart("w.bin", "abc", 0, stored)),
    "at 5,000 characters": (MODEL, ("5000 characters",), apart("x" * 5000)),
    "nowhere": (MODEL, ("without a name",), apart("")),
    "not said where": (MODEL, ("without a name",), apart(None)),
    "in a folder": (
        USAGE,
        ("w.bin", "is a directory"),
        apart("w.bin", beside=lambda place, _: (place / "w.bin").mkdir()),
    ),
    "in a pipe": (
        USAGE,
        ("w.bin", "is a pipe"),
        apart("w.bin", beside=lambda place, _: fifo(place / "w.bin")),
    ),
}

WEIGHTS = {
    f"weights {name}": mistake(BAD, code, "bad.onnx", "'w1'", *said, bad_onnx=made)
    for name, (code, said, made) in ELSEWHERE.items()
}


# Samples


def with_value(value):
    data = pictures()
    data[5, 0, 3, 3] = value
    return data


def header(path):
    """An array that says it is larger than any disk."""
    said = {"descr": "<f4", "fortran_order": False, "shape": (10**9, 1, 8, 8)}
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, said)


def data_set(content):
    def make(path):
        (path / "test_data_set_0").mkdir(parents=True)
        if content is not None:
            (path / "test_data_set_0" / "input_0.pb").write_bytes(content)

    return make


TWO = model("g (float[N, 4] a, float[N, 4] b) => (float[N, 4] y) { y = Add (a, b) }")
OBJECTS = np.array([{}, []], dtype=object)
PAIR = helper.make_tensor("x", TensorProto.FLOAT, [2], [1, 2]).SerializeToString()

ONE_ARRAY = {
    "no samples": (("bad.npy", "no samples"), pictures(0)),
    "an empty file": (("bad.npy", "cannot be read"), b""),
    "text": (("bad.npy", "not numbers"), b"no numbers"),
    "a pickle": (("bad.npy", "not numbers"), b"\x80\x04}\x94."),
    "objects": (("bad.npy", "objects"), OBJECTS),
    "a header that says too much": (("bad.npy", "shorter"), header),
    "a header that is code": (("bad.npy",), b"\x93NUMPY\x01\0\x0c\0{'a':f('b')}\n"),
    "a pipe": (("bad.npy", "is a pipe"), fifo),
    "a link to nothing": (("bad.npy", "no such file"), link("nothing")),
    "float64": (("bad.npy[0]", "'x'", ".astype(np.float32)"), pictures().astype(float)),
    "whole numbers": (("bad.npy[0]", "int64"), pictures().astype(np.int64)),
    "bytes": (("bad.npy[0]", "uint8"), np.zeros((3, 1, 8, 8), np.uint8)),
    "complex numbers": (("bad.npy[0]", "complex64"), pictures().astype(np.complex64)),
    "dates": (("bad.npy[0]", "datetime64"), np.zeros((3, 1, 8, 8), "datetime64[s]")),
    "words": (("bad.npy", "'x'", "[2]"), np.array(["a", "b"])),
    "records": (("bad.npy", "'x'", "[3]"), np.zeros(3, [("a", "f4")])),
    "one number": (("bad.npy", "'x'", "[]"), np.float32(3)),
    "too few dimensions": (("bad.npy", "'x'", "[8, 8]", "stacked"), pictures()[0, 0]),
    "another size": (("bad.npy[0]", "'x'", "[1, 1, 8, 7]"), pictures()[..., :7]),
    "channels behind": (("bad.npy[0]", "[1, 8, 8, 1]"), np.moveaxis(pictures(), 1, -1)),
    "NaN": (("bad.npy[5]", "'x'", "NaN"), with_value(np.nan)),
    "infinity": (("bad.npy[5]", "'x'", "infinite"), with_value(-np.inf)),
}

SEVERAL = {
    "other names": (
        ("bad.npz", "'x'", "--inputs x=image"),
        {"image": pictures(), "b": pictures()},
    ),
    "another name, of no input's shape": (("bad.npz", "'x'"), {"image": numbers(3, 4)}),
    "no arrays": (("bad.npz", "'x'"), {}),
    "a damaged archive": (("bad.npz", "zip"), b"PK\x03\x04aaaa"),
    "objects in an archive": (("bad.npz", "not numbers"), {"x": OBJECTS}),
}

FOLDERS = {
    "an empty folder": (("folder", ".npy"), folder()),
    "arrays and pictures": (
        ("folder", "a.npy", "b.png"),
        folder(a_npy=pictures(1), b_png=b"x"),
    ),
    "pictures of which nothing is said": (("folder", "--preprocess"), folder(b_png=b"x")),
    "a pipe in a folder": (("folder/a.npy", "is a pipe"), folder(a_npy=fifo)),
    "a folder called .npy": (("folder", ".npy"), folder(a_npy=folder())),
    "a damaged file in a folder": (("folder/a.npy",), folder(a_npy=b"x")),
    "a data set without input": (("input_0.pb", "no such file"), data_set(None)),
    "a damaged tensor": (("input_0.pb", "cannot be read"), data_set(b"garbage!")),
    "a tensor of another shape": (("input_0.pb", "'x'", "[2]"), data_set(PAIR)),
}

SAMPLES = (
    {n: mistake(DATA, USAGE, *said, bad_npy=c) for n, (said, c) in ONE_ARRAY.items()}
    | {n: mistake(ARRAYS, USAGE, *said, bad_npz=c) for n, (said, c) in SEVERAL.items()}
    | {n: mistake(FOLDER, USAGE, *said, folder=c) for n, (said, c) in FOLDERS.items()}
    | {
        f"{data} for samples": mistake(
            f"quantize cnn.onnx --data {data} -o out.onnx", USAGE, data, "random:N"
        )
        for data in ("random", "random:", "random:0", "random:-1", "random:x", "random:1.5")
    }
    | {
        "no data": mistake("quantize cnn.onnx -o out.onnx", USAGE, "--data"),
        "no path": mistake("quantize cnn.onnx --data '' -o out.onnx", USAGE, "is empty"),
        "absent data": mistake("quantize cnn.onnx --data no -o o.onnx", USAGE, "no: no such"),
        "a model for samples": mistake(
            "quantize cnn.onnx --data cnn.onnx -o out.onnx", USAGE, "cnn.onnx", ".npy"
        ),
        "none that are good": mistake(
            *(f"{DATA} --on-bad-sample skip", USAGE, "none of 8 samples", "bad.npy[0]"),
            bad_npy=pictures() * np.float32(np.nan),
        ),
        "inputs of different lengths": mistake(
            *("quantize bad.onnx --data bad.npz -o out.onnx", USAGE, "'a' 3, 'b' 5"),
            bad_onnx=TWO,
            bad_npz={"a": numbers(3, 4), "b": numbers(5, 4)},
        ),
        "one array for two inputs": mistake(
            *(BAD, USAGE, "data.npy", "'a', 'b'", ".npz"), bad_onnx=TWO
        ),
        "a damaged picture": mistake(
            f"{FOLDER} --preprocess mnist", USAGE, "b.png", folder=folder(b_png=b"x")
        ),
        "a picture that is a pipe": mistake(
            f"{FOLDER} --preprocess mnist", USAGE, "b.png", "pipe", folder=folder(b_png=fifo)
        ),
    }
)


# Options

CHOICES = (
    *("bodies", "weight-type", "activation-type", "residual-type", "activation-form"),
    *("alignment", "softmax", "softmax-bits", "softmax-nodes", "gelu", "layernorm", "emit"),
    *("calibration-method", "engine", "on-bad-sample", "layout", "channels", "resize"),
    "table-ranges",
)

VALUES = {
    "--samples 0": "1",
    "--samples -3": "1",
    "--samples x": "integer",
    "--activation-bits 9": "8",
    "--activation-bits 1": "2",
    "--percentile 200": "at most 100",
    "--percentile nan": "finite",
    "--percentile 99.9": "--calibration-method percentile",
    "--calibration-overrides x": "REGEX=RULE",
    "--calibration-overrides x=foo": "'foo'",
    "--calibration-overrides (=mse": "regular expression",
    "--calibration-overrides x=percentile:300": "at most 100",
    "--calibration-overrides x=3,1": "no range",
    "--calibration-overrides zzz=mse": "'zzz=mse' matches no tensor",
    "--nodes-to-exclude (": "regular expression",
    "--nodes-to-exclude zzz": "no node is called 'zzz'",
    "--op-types-to-quantize Foo": "in this model: Conv",
    "--op-types-to-quantize ,": "no ONNX operator",
    "--share-tables -1": "at least 0",
    "--share-tables nan": "finite",
    "--stop-after foo": "no pass 'foo'",
    "--print-after foo": "no pass 'foo'",
    "--format mlir": "add --print-after PASS",
    "--format json --print-after place": "'onnx', 'mlir'",
    "--stop-after integer-edges": "integer_io",
    "--workers 0": "1",
    "--ray-address a:1": "engine 'ray'",
    "--preprocess x": "imagenet",
    "--preprocess mnist": "data.npy",
    "--size 0": "at least 1",
    "--size axb": "HEIGHTxWIDTH",
    "--scale x": "'x'",
    "--mean 1,2": "1 or 3 numbers",
    "--target nope": "tflite",
    "--target nope.toml": "no such file",
    "--target cnn.onnx": ".toml",
    "--exact --target tflite": "'tflm'",
    "--emit standard --bodies onnxruntime": "portable",
    "--emit qdq --integer-io": "leave one",
    "--emit qdq --stop-after place": "leave one",
    "--emit qdq --evidence e.json": "leave one",
    "--quiet --verbose": "exclude each other",
    "--colour red": "No such option",
    "--samples": "requires an argument",
    "extra": "unexpected extra argument",
    "--calibration-table no.json": "no.json",
    "--calibration-table cnn.onnx": "cnn.onnx",
    "--config no.toml": "no.toml: cannot be read: no such file",
    "--config cnn.onnx": "cnn.onnx",
    "--evidence out.onnx": "out.onnx: is written already",
    "--evidence cnn.onnx": "cnn.onnx: is an input",
    "--json out.onnx": "out.onnx: is written already",
    "--json data.npy": "data.npy: is an input",
    "--json /dev/full": "/dev/full: is not an ordinary file",
    "--json no/r.json": "folder no does not exist",
    "-o /dev/full": "/dev/full: is not an ordinary file",
    "-o no/out.onnx": "folder no does not exist",
    "-o .": "is a folder",
    "-o cnn.onnx": "cnn.onnx: is an input",
    "-o data.npy": "data.npy: is an input",
}

SETTINGS = {
    "an entry that is none": (("'colour'", "known: "), b"colour = 'red'"),
    "an entry of another type": (("samples = 'x'", "whole number"), b"samples = 'x'"),
    "a value that is none": (("'--emit'", "'foo'"), b"emit = 'foo'"),
    "no TOML": (("c.toml", "line 1"), b"= ="),
    "bytes": (("c.toml",), b"\xff\xfe"),
    "a table that is none": (("'colours'",), b"[colours]\nx = 1"),
    "a folder": (("c.toml", "directory"), folder()),
    "a pipe": (("c.toml", "is a pipe"), fifo),
}

OPTIONS = (
    {
        f"--{name} that there is not": mistake(
            f"{GOOD} --{name} none", USAGE, f"--{name}", "'"
        )
        for name in CHOICES
    }
    | {text: mistake(f"{GOOD} {text}", USAGE, said) for text, said in VALUES.items()}
    | {
        f"{name} in a configuration": mistake(
            f"{GOOD} --config c.toml",
            USAGE,
            "c.toml" if name[:3] != "a v" else "",
            *said,
            c_toml=c,
        )
        for name, (said, c) in SETTINGS.items()
    }
    | {
        "no model": mistake("quantize", USAGE, "MODEL"),
        "an unknown command": mistake("quantise cnn.onnx", USAGE, "'quantize'"),
        "no output": mistake("quantize cnn.onnx --data data.npy", USAGE, "--output"),
        "samples without data": mistake(
            "quantize cnn.onnx --calibration-table table.json --samples 3 -o out.onnx",
            *(USAGE, "samples", "--data"),
        ),
        "preprocessing without data": mistake(
            "quantize cnn.onnx --calibration-table table.json --preprocess mnist -o out.onnx",
            *(USAGE, "preprocessing", "--data"),
        ),
    }
)


# What other commands read


def json_of(name, change):
    """The sound file of this name after ``change``."""

    def make(path):
        content = json.loads((path.parent / name).read_text())
        change(content)
        path.write_text(json.dumps(content))

    return make


def forged(key, value):
    """The sound integer model, which says ``value`` of itself under ``key``."""

    def make(path):
        made = onnx.load(path.parent / "int.onnx")
        entries = {each.key: each.value for each in made.metadata_props} | {key: value}
        del made.metadata_props[:]
        for name, text in entries.items():
            made.metadata_props.add(key=name, value=text)
        onnx.save(made, path)

    return make


def first(tensors):
    return next(iter(tensors))


DEEP = b"[" * 100_000

FORGERIES = {
    "channels that are none": ("raised_weight_scales", '{"Conv": 3}', "'Conv'"),
    "channels that are texts": ("raised_weight_scales", '{"Conv": ["a"]}', "'Conv'"),
    "channels of no form": ("raised_weight_scales", "null", "by name"),
    "tensors that are none": ("kept", "3", "kept"),
    "tensors without names": ("kept", "[1]", "kept"),
    "a list of what is declined": ("declined", "[]", "by name"),
    "inputs that are a number": ("inputs", "3", "by name"),
    "a configuration that is none": ("configuration", "[]", "configuration"),
    "a configuration that is empty": ("configuration", "{}", "configuration lacks"),
    "a digest that is no text": ("float_sha256", "3", "texts"),
    "what is no JSON": ("sizes", "nonsense", "damaged"),
    "a thousand brackets": ("sizes", "[" * 5000, "damaged"),
}

TABLES = {
    "no model": (("'model' is missing",), lambda t: t.pop("model")),
    "no tensors": (("holds nothing for",), lambda t: t.update(tensors={})),
    "a list of tensors": (("'tensors'",), lambda t: t.update(tensors=[])),
    "samples below 0": (("'samples'", "-1"), lambda t: t.update(samples=-1)),
    "samples that are a text": (("'samples'", "'x'"), lambda t: t.update(samples="x")),
    "a format to come": (
        ("/99", "newer"),
        lambda t: t.update(schema="qpasses.calibration/99"),
    ),
    "a tensor that is nothing": (
        ("tensor 'f'",),
        lambda t: t["tensors"].update({first(t["tensors"]): None}),
    ),
    "a tensor less": (("tensor 'f'",), lambda t: t["tensors"].pop(first(t["tensors"]))),
}

BYTES = {"text": b"garbage", "brackets": DEEP, "bytes": b"\xff\xfe", "a pipe": fifo}

READ = (
    {
        f"forged: {name}": mistake(
            FORGED, MODEL, "bad.onnx", said, bad_onnx=forged(f"qpasses.{key}", value)
        )
        for name, (key, value, said) in FORGERIES.items()
    }
    | {
        f"a table with {name}": mistake(
            TABLE, USAGE, "bad.json", *said, bad_json=json_of("table.json", change)
        )
        for name, (said, change) in TABLES.items()
    }
    | {
        f"a table of {name}": mistake(TABLE, USAGE, "bad.json", bad_json=content)
        for name, content in BYTES.items()
    }
    | {
        f"evidence of {name}": mistake(
            f"{VERIFY} --evidence bad.json", USAGE, "bad.json", bad_json=content
        )
        for name, content in {**BYTES, "a list": b"[]", "a folder": folder()}.items()
    }
    | {
        f"a checkpoint of {name}": mistake(
            CALIBRATE, USAGE, "new.json.checkpoint", **{"new.json_checkpoint": content}
        )
        for name, content in {**BYTES, "a list": b"[]", "a folder": folder()}.items()
    }
    | {
        f"a target of {name}": mistake("targets show t.toml", USAGE, "t.toml", t_toml=content)
        for name, content in {**BYTES, "nothing": b"", "a folder": folder()}.items()
    }
    | {
        f"a graph of {name}": mistake(
            "opt g.txt -p remove-identity", code, "g.txt", g_txt=content
        )
        for name, code, content in (
            *(("text", MODEL, b"garbage"), ("nothing", MODEL, b"")),
            *(("bytes", MODEL, b"\xff\xfe"), ("a pipe", USAGE, fifo)),
        )
    }
)

COMMANDS = {
    "verify cnn.onnx --against cnn.onnx": (MODEL, ("cnn.onnx", "no record")),
    "verify qdq.onnx --against cnn.onnx": (MODEL, ("qdq.onnx", "--emit qdq")),
    "verify cnn.onnx --against int.onnx": (MODEL, ("int.onnx", "already")),
    "verify no.onnx --against cnn.onnx": (USAGE, ("no.onnx: no such file",)),
    "verify int.onnx --against no.onnx": (USAGE, ("no.onnx: no such file",)),
    "verify int.onnx --data data.npy": (USAGE, ("--against",)),
    "verify int.onnx --against cnn.onnx --samples 3": (USAGE, ("--data",)),
    "verify int.onnx --against cnn.onnx --input-shape 1": (USAGE, ("--data",)),
    f"{VERIFY} --evidence no.json": (USAGE, ("no.json: cannot be read",)),
    f"{VERIFY} --json int.onnx": (USAGE, ("int.onnx: is an input",)),
    "inspect cnn.onnx --node Conv": (USAGE, ("cnn.onnx", "--node", "--json")),
    "inspect cnn.onnx --input-shape 3": (USAGE, ("--input-shape", "4 dimensions")),
    "inspect int.onnx --input-shape 1": (USAGE, ("int.onnx", "--input-shape")),
    "inspect int.onnx --diff no.onnx": (USAGE, ("no.onnx: no such file",)),
    "inspect int.onnx --diff data.npy": (MODEL, ("data.npy",)),
    "inspect int.onnx --diff cnn.onnx --text": (USAGE, ("--diff and --text",)),
    "inspect int.onnx --diff cnn.onnx --node a": (USAGE, ("--diff and --node",)),
    "inspect int.onnx --view --json": (USAGE, ("--view and --json",)),
    "inspect int.onnx --serve 0": (USAGE, ("--serve",)),
    "inspect int.onnx --serve 70000": (USAGE, ("--serve",)),
    "inspect no.onnx": (USAGE, ("no.onnx: no such file",)),
    "inspect .": (USAGE, ("is a folder",)),
    "inspect int.onnx --node nope": (USAGE, ("'nope'",)),
    "inspect int.onnx --text --json": (USAGE, ("--json and --text",)),
    "inspect int.onnx --text --node Conv": (USAGE, ("--node and --text",)),
    "integerize cnn.onnx -o out.onnx": (MODEL, ("cnn.onnx", "qpasses quantize")),
    "integerize int.onnx -o out.onnx": (MODEL, ("int.onnx", "already")),
    "quantize int.onnx --data data.npy -o out.onnx": (MODEL, ("int.onnx", "made from")),
    "integerize qdq.onnx -o out.onnx --activation-bits 4": (USAGE, ("--activation-bits",)),
    "integerize qdq.onnx -o out.onnx --samples 4": (USAGE, ("samples", "--data")),
    "integerize qdq.onnx": (USAGE, ("--output",)),
    "calibrate cnn.onnx -o new.json": (USAGE, ("--data",)),
    "calibrate cnn.onnx --data data.npy": (USAGE, ("--output",)),
    "calibrate qdq.onnx --data data.npy -o new.json": (MODEL, ("qdq.onnx", "integerize")),
    "calibrate int.onnx --data data.npy -o new.json": (MODEL, ("int.onnx", "already")),
    f"{CALIBRATE} --shard 0/2": (USAGE, ("shard 0/2", "from 1/2 to 2/2")),
    f"{CALIBRATE} --shard 3/2": (USAGE, ("shard 3/2",)),
    f"{CALIBRATE} --shard 1/0": (USAGE, ("shard 1/0",)),
    f"{CALIBRATE} --shard x": (USAGE, ("--shard", "I/N")),
    f"{CALIBRATE} --shard 9/100": (USAGE, ("shard 9/100", "8 samples")),
    f"{CALIBRATE} --format x": (USAGE, ("--format", "tpumlir")),
    f"{CALIBRATE} --no-histograms --calibration-method mse": (USAGE, ("'mse'", "histograms")),
    f"{CALIBRATE} --percentile 99.9": (USAGE, ("--calibration-method percentile",)),
    f"{CALIBRATE} -o cnn.onnx": (USAGE, ("cnn.onnx: is an input",)),
    f"{CALIBRATE} -o no/t.json": (USAGE, ("folder no does not exist",)),
    f"{CALIBRATE} --json new.json": (USAGE, ("new.json: is written already",)),
    f"{CALIBRATE} --json new.json.checkpoint": (USAGE, ("new.json.checkpoint",)),
    "calibrate merge -o new.json": (USAGE, ("TABLE",)),
    "calibrate merge table.json -o new.json": (USAGE, ("at least two",)),
    "calibrate merge table.json table.json -o new.json": (USAGE, ("count twice",)),
    "calibrate merge table.json no.json -o new.json": (USAGE, ("no.json", "cannot be read")),
    "calibrate merge table.json cnn.onnx -o new.json": (USAGE, ("cnn.onnx",)),
    "calibrate convert table.json -o new.txt": (USAGE, ("--format",)),
    "calibrate convert no.json -o t.txt --format tpumlir": (USAGE, ("no.json",)),
    "calibrate convert table.json -o t.txt --format x": (USAGE, ("--format",)),
    "calibrate convert table.json -o table.json --format tpumlir": (USAGE, ("is an input",)),
    "targets show nope": (USAGE, ("'nope'", "tflite")),
    "targets show no.toml": (USAGE, ("no.toml: no such file",)),
    "targets show": (USAGE, ("NAME",)),
    "targets nope": (USAGE, ("'nope'",)),
    "passes nope": (USAGE, ("nope",)),
    "opt cnn.onnx": (USAGE, ("--pass",)),
    "opt cnn.onnx -p nope": (USAGE, ("no pass 'nope'",)),
    "opt cnn.onnx -p integerize-con": (USAGE, ("did you mean 'integerize-conv'",)),
    "opt cnn.onnx -p place": (USAGE, ("'place'", "qpasses quantize")),
    "opt no.txt -p remove-identity": (USAGE, ("no.txt: no such file",)),
    "opt cnn.onnx -p remove-identity -o cnn.onnx": (USAGE, ("cnn.onnx: is an input",)),
    "opt cnn.onnx -p remove-identity -o .": (USAGE, ("is a folder",)),
    "opt cnn.onnx -p remove-identity --target nope": (USAGE, ("'nope'",)),
}

MISTAKES = (
    FILES
    | {
        n: mistake(BAD, MODEL, "bad.onnx", *said, bad_onnx=m)
        for n, (said, m) in GRAPHS.items()
    }
    | OF_SHAPES
    | WEIGHTS
    | SAMPLES
    | OPTIONS
    | READ
    | {command: mistake(command, code, *said) for command, (code, said) in COMMANDS.items()}
)


# The test


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A folder with a model, its samples, its table, and what is made of it."""
    place = tmp_path_factory.mktemp("sound")
    path, data = save(place, "cnn.onnx", cnn()), save(place, "data.npy", pictures())
    given = path, "--data", data
    assert run("quantize", *given, "-o", place / "int.onnx").code == 0
    assert run("quantize", *given, "-o", place / "qdq.onnx", "--emit", "qdq").code == 0
    assert run("calibrate", *given, "-o", place / "table.json").code == 0
    return place


def contents(place):
    return {
        path: path.read_bytes() if path.is_file() else path.lstat().st_mode
        for path in place.rglob("*")
    }


def test_there_are_two_hundred():
    assert len(MISTAKES) >= 200


@pytest.mark.thinned
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_in_one_line_that_names_it_and_nothing_is_written(
    name, sound, tmp_path, monkeypatch
):
    made = MISTAKES[name]
    place = tmp_path / "desk"
    shutil.copytree(sound, place)
    monkeypatch.chdir(place)
    for file, content in made.files.items():
        content(place / file) if callable(content) else save(place, file, content)
    before = contents(place)
    ended = run(*shlex.split(made.command))
    assert ended.code == made.code, ended.err or ended.out
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1, ended.err
    for said in made.said:
        assert said in ended.err
    assert contents(place) == before
