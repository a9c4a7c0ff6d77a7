"""export --to vectors: the folder, its index, its C, and that it is there whole or not."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import qpasses
from opsets.errors import DataError, UsageError
from qpasses.emit.vectors.c_arrays import array_header
from qpasses.emit.vectors.tensor_names import file_stems, names_of_dumps
from qpasses.emit.whole_folders import write_folder
from qpasses.load.integer_model import read_integer_model
from tests.bench.bisecting import DATA, pictures, quantized
from tests.support.emulated_device import Device

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def model():
    return quantized("digits_cnn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model):
    output = tmp_path_factory.mktemp("vectors") / "vectors"
    qpasses.export(model, output, to="vectors", data=DATA / "test.npz", samples=3)
    return output


def index_of(folder):
    return json.loads((folder / "index.json").read_text("utf-8"))


# The folder


def test_every_stored_tensor_is_there_as_a_device_of_its_own_computes_it(folder, model):
    read, index = read_integer_model(model, "m"), index_of(folder)
    assert [each["tensor"] for each in index["tensors"]] == [*read.record.tensors]
    for sample in index["samples"]:
        with np.load(folder / sample["file"]) as real:
            expected = Device(read).run({"image": real["image"]})
        for each in index["tensors"]:
            codes = np.load(folder / sample["tensors"] / each["file"])
            np.testing.assert_array_equal(codes, expected[each["tensor"]])
            assert (list(codes.shape), codes.dtype.name) == (each["shape"], each["type"])


def test_the_index_says_what_codes_mean(folder, model):
    read = read_integer_model(model, "m")
    for each in index_of(folder)["tensors"]:
        stored = read.record.tensors[each["tensor"]]
        assert (each["scale"], each["zero_point"]) == (stored.scale, stored.zero_point)
        assert each["codes"] == list(stored.limits)


def test_the_index_lists_nodes_with_what_they_read(folder, model):
    read, index = read_integer_model(model, "m"), index_of(folder)
    assert [each["node"] for each in index["nodes"]] == [n.name for n in read.graph.nodes]
    named = {each["constant"] for each in index["constants"]}
    for each in index["nodes"]:
        assert {end["constant"] for end in each["inputs"] if "constant" in end} <= named
    for each in index["constants"]:
        values = np.load(folder / each["file"])
        assert (list(values.shape), values.dtype.name) == (each["shape"], each["type"])


def test_weights_have_their_axes_as_onnx_has_them(folder):
    (entry,) = (
        e for e in index_of(folder)["constants"] if "head/conv.weight" in e["constant"]
    )
    assert entry["shape"] == [32, 32, 3, 3]


def test_the_model_is_there_as_it_was_given(folder, model):
    assert onnx.load(folder / "model.onnx") == model


def test_a_folder_of_vectors_is_a_dump_that_is_equal(folder, model):
    found = qpasses.bisect(model, folder, folder / "samples")
    assert (found.verdict, len(found.samples)) == ("equal", 3)
    assert found.remarks == []


def test_four_samples_are_written_if_nothing_is_said(tmp_path, model):
    made = qpasses.export(model, tmp_path / "v", to="vectors", data=DATA / "test.npz")
    assert len(made.samples) == 4


def test_integer_inputs_take_samples_in_real_numbers(tmp_path, model):
    integer = quantized("digits_cnn", integer_io=True)
    qpasses.export(integer, tmp_path / "v", to="vectors", data=pictures(1))
    qpasses.export(model, tmp_path / "w", to="vectors", data=pictures(1))
    for name in ("image_quantized", "logits_quantized"):
        (one,) = (tmp_path / "v" / "tensors" / "0000").glob(f"*{name}.npy")
        (other,) = (tmp_path / "w" / "tensors" / "0000").glob(f"*{name}.npy")
        np.testing.assert_array_equal(np.load(one), np.load(other))


def test_the_python_of_the_document_compares_a_dump(tmp_path, folder, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "bisect.md").read_text("utf-8")
    (code,) = re.findall(r"^In Python:\n\n```\n(.*?)```", page, flags=re.M | re.S)
    shutil.copytree(folder, tmp_path / "vectors")
    shutil.copytree(folder / "tensors", tmp_path / "dump")
    wrong = tmp_path / "dump" / "0000" / "001_stem_relu_quantized.npy"
    np.save(wrong, np.load(wrong) ^ np.uint8(1))
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    counts = dict(line.rsplit(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert counts.pop("stem/conv") == "1024"
    assert {*counts.values()} == {"0"}


# Whole or not at all


def test_a_folder_that_is_not_empty_is_left_alone(folder, model):
    with pytest.raises(UsageError, match="is there already, and not empty"):
        qpasses.export(model, folder, to="vectors", data=pictures(1))


def test_with_check_nothing_is_written(tmp_path, model):
    made = qpasses.export(model, tmp_path / "v", to="vectors", data=pictures(2), check=True)
    assert (len(made.samples), [*tmp_path.iterdir()]) == (2, [])


def test_a_damaged_sample_leaves_nothing_behind(tmp_path, model):
    feeds = [*pictures(1), {"image": np.zeros((1, 1, 7, 8), np.float32)}]
    with pytest.raises(DataError):
        qpasses.export(model, tmp_path / "v", to="vectors", data=feeds)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_appears_when_all_is_written(tmp_path):
    seen = []

    def files():
        yield "a/one", [b"1"]
        seen.append((tmp_path / "v").exists())
        yield "two", [b"2"]

    write_folder(tmp_path / "v", files())
    assert seen == [False]
    assert (tmp_path / "v" / "a" / "one").read_bytes() == b"1"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["v"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"to": "vectors"}, "give them .--data"),
        ({"to": "vectors", "data": "nowhere"}, "nowhere"),
        ({"data": "random:1"}, "data with to 'tosa'"),
        ({"samples": 1}, "samples with to 'tosa'"),
    ],
)
def test_what_does_not_go_together_is_refused(model, options, said):
    with pytest.raises(UsageError, match=said):
        qpasses.export(model, **options)


# C


def compiled(folder, source, *more):
    program = folder / "program"
    strict = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable")
    subprocess.run(["cc", *strict, *more, str(source), "-o", str(program)], check=True)
    return program


@needs_cc
def test_the_headers_hold_the_codes_and_the_reader_compares_them(tmp_path, folder):
    source = tmp_path / "check.c"
    source.write_text(
        """
        #include "0001.h"
        int main(void) {
            size_t size = QP_COUNT(qp_s0001_tensors);
            for (size_t i = 0; i < size; i++) {
                const qp_tensor *each = &qp_s0001_tensors[i];
                printf("%s|%s|%d|%lu|", each->tensor, each->node, each->type,
                       (unsigned long)each->count);
                for (size_t j = 0; j < each->count; j++)
                    printf("%ld ", (long)qp_code(each->type, each->data, j));
                printf("\\n");
            }
            uint8_t wrong[1024];
            memcpy(wrong, qp_find(qp_s0001_tensors, size, "stem/relu_quantized")->data, 1024);
            long right = qp_check(qp_s0001_tensors, size, "stem/relu_quantized", wrong);
            wrong[7] ^= 3;
            long found = qp_check(qp_s0001_tensors, size, "stem/relu_quantized", wrong);
            long none = qp_check(qp_s0001_tensors, size, "none", wrong);
            return right == 0 && found == 1 && none < 0 ? 0 : 1;
        }
        """
    )
    program = compiled(tmp_path, source, f"-I{folder / 'c'}")
    ended = subprocess.run([program], capture_output=True, text=True, check=True)
    lines = ended.stdout.splitlines()
    for line, each in zip(lines, index_of(folder)["tensors"], strict=False):
        tensor, node, _, count, codes = line.split("|")
        expected = np.load(folder / "tensors" / "0001" / each["file"]).ravel()
        assert (tensor, node, int(count)) == (each["tensor"], each["node"], expected.size)
        assert list(map(int, codes.split())) == expected.tolist()
    assert "1 of 1024 codes differ" in lines[-2]


@needs_cc
def test_constants_are_headers_too(tmp_path, folder):
    source = tmp_path / "check.c"
    headers = [e["header"] for e in index_of(folder)["constants"] if e["header"]]
    (weights,) = (each for each in headers if "head_conv_weight" in each)
    stem = weights.removeprefix("c/constants/").removesuffix(".h")
    included = "".join(f'#include "{folder / each}"\n' for each in headers)
    source.write_text(
        f"{included}#include <stdio.h>\nint main(void) {{ long sum = 0; for (int i = 0; i < "
        f'9216; i++) sum += qp_constants_{stem}[i] * (i % 7); printf("%ld", sum); }}'
    )
    program = compiled(tmp_path, source)
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    values = np.load(folder / "constants" / f"{stem}.npy").ravel().astype(int)
    assert int(found) == int((values * (np.arange(values.size) % 7)).sum())


@needs_cc
def test_the_program_compares_npy_files(tmp_path, folder):
    program = compiled(tmp_path, folder / "c" / "compare.c")
    right = folder / "tensors" / "0000"
    files = sorted(right.glob("*.npy"))
    dump = tmp_path / "dump"
    shutil.copytree(right, dump)
    command = [program, right, dump, *(each.name for each in files)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    codes = np.load(files[4])
    codes.reshape(-1)[9] ^= 1
    np.save(dump / files[4].name, codes)
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert (
        "1 of 1024 codes differ, by 1 at most; the first at 9" in ended.stdout.splitlines()[-1]
    )
    for damage in (b"nothing", (dump / files[3].name).read_bytes()[:200]):
        (dump / files[2].name).write_bytes(damage)
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 2
        assert files[2].name in ended.stderr


@pytest.mark.parametrize(
    "values", [np.int64([-(1 << 63)]), np.int8([]), np.float32([1.5, -2])]
)
def test_numbers_are_written_as_c_reads_them(values):
    text = b"".join(array_header("qp_x", "x", values)).decode()
    body = text.partition("{")[2].partition("}")[0].split(",")[:-1]
    expected = {"int64": ["INT64_MIN"], "int8": ["0"], "float32": ["1.5", "-2.0"]}
    assert [each.strip() for each in body] == expected[values.dtype.name]


# Names


def test_files_have_the_order_of_nodes_and_names_that_c_takes():
    stems = file_stems(["/a/b.0_quantized", "/a/b_0_quantized", "ü*"])
    assert list(stems.values()) == ["000_a_b_0_quantized", "001_a_b_0_quantized", "002_"]


def test_a_name_that_means_two_tensors_means_none():
    meant = names_of_dumps(["/a/b_quantized", "a_b", "a_quantized"])
    assert meant["a_quantized"] == meant["a"] == meant["002_a_quantized"] == "a_quantized"
    assert meant["a_b"] == "a_b"
    assert "/a/b" in meant and "a_b_quantized" in meant
