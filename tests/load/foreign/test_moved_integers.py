"""Standard ops on integers between quantized ones: on real numbers, with the same integers."""

from itertools import pairwise

import numpy as np
import pytest

from qpasses.load.foreign import standard_qdq
from tests.support.small_models import model
from tests.support.translations import (
    PATH,
    differences,
    operations,
    random_feed,
    run,
    translated,
)

WEIGHTS = {
    "s": np.float32(0.0317),
    "z": np.uint8(37),
    "n": np.int8(-3),
    "other_s": np.float32(0.05),
    "zero": np.uint8(0),
    "order": np.int64([0, 1, 3, 2]),
    "sizes": np.int64([2, 3, 32]),
    "pads": np.int64([0, 0, 1, 2, 0, 0, 2, 1]),
    "fill": np.uint8(90),
    "low": np.uint8(20),
    "high": np.uint8(100),
    "starts": np.int64([1]),
    "ends": np.int64([3]),
    "axes": np.int64([2]),
    "parts": np.int64([1, 2]),
    "picked": np.int64([2, 0]),
    "scales": np.float32([1, 1, 2, 2]),
    "roi": np.float32([]),
    "row": np.arange(12, dtype=np.uint8).reshape(1, 3, 1, 4) * 20,
    "repeats": np.int64([1, 1, 2, 1]),
    "target": np.int64([2, 3, 8, 4]),
}

MOVERS = [
    "m = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (q)",
    "m = Transpose <perm = [0, 2, 3, 1]> (q)",
    "m = Reshape (q, sizes)",
    "m = Flatten (q)",
    "m = Pad (q, pads)",
    "m = Pad (q, pads, fill)",
    'm = Pad <mode = "edge"> (q, pads)',
    "m = Clip (q, low, high)",
    "m = Clip (q, , high)",
    "m = Slice (q, starts, ends, axes)",
    "m = Gather <axis = 1> (q, picked)",
    "m = Concat <axis = 2> (q, q)",
    "m = Concat <axis = 2> (q, row_tall)",
    "a, b = Split <axis = 1> (q, parts) m = Concat <axis = 1> (b, a)",
    "m = Max (q, row)",
    "m = Min (q, high)",
    'm = Resize <mode = "nearest"> (q, roi, scales)',
    "m = Tile (q, repeats)",
    "e = Unsqueeze (q, axes) m = Squeeze (e, axes)",
    "t = Transpose (q) p = Relu (t) m = Identity (p)",
    "m = ReduceMax <axes = [3]> (q)",
    "m = com.microsoft.NhwcMaxPool <kernel_shape = [2, 2]> (q)",
]
"""Ops on the integers q, to m."""


def between(line, *, opset=13, kind="uint8", rank=4, after="y = Identity (m)"):
    zero = "z" if kind == "uint8" else "n"
    rank = 3 if "sizes" in line else 2 if "Flatten" in line else rank
    dims = ",".join("ABCDEF"[:rank])
    text = f"""moved (float[2,3,4,8] x) => ({kind}[{dims}] y) {{
        q = QuantizeLinear (x, s, {zero}) {line} {after} }}"""
    weights = {**WEIGHTS, "row_tall": np.arange(24 * 2, dtype=np.uint8).reshape(2, 3, 1, 8)}
    if "MaxPool" not in line or "Nhwc" in line:
        weights["row"] = weights["row_tall"][:1]
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    used = {name: value for name, value in weights.items() if name in words}
    if kind == "int8":
        used = {
            name: value.astype(np.int8) if value.dtype == np.uint8 else value
            for name, value in used.items()
        }
    return model(text, opset=opset, domains=["com.microsoft"], **used)


def runs(line, opset, kind):
    """Whether onnxruntime has the op for these integers at that opset."""
    if "Relu" in line or "Tile" in line:
        return kind == "int8" and (opset >= 14 or "Relu" not in line)
    if any(op in line for op in ("Split", "Squeeze")):
        return opset >= 13
    return not ("ReduceMax" in line and opset >= 18)


CASES = [
    (line, opset, kind)
    for line in MOVERS
    for opset in (12, 13, 17, 21)
    for kind in ("uint8", "int8")
    if runs(line, opset, kind)
]


@pytest.mark.thinned
@pytest.mark.parametrize(("line", "opset", "kind"), CASES)
def test_what_moves_integers_moves_real_numbers_with_the_same_integers(line, opset, kind):
    made = between(line, opset=opset, kind=kind)
    different, _, _ = differences(made)
    assert different == 0
    ops = operations(translated(made))
    pairs = pairwise(ops)
    assert ("QuantizeLinear", "DequantizeLinear") in pairs or "Split" in ops


def test_the_meaning_of_integers_that_come_in_is_told_by_what_reads_them():
    text = """g (uint8[2,3,4,8] x) => (float[A,B,C,D] y) {
        p = MaxPool <kernel_shape = [2, 2]> (x) [turn] t = Transpose (p)
        [read] y = DequantizeLinear (t, s, z) }"""
    made = model(text, opset=13, s=WEIGHTS["s"], z=WEIGHTS["z"])
    assert operations(translated(made)) == [
        *("DequantizeLinear", "MaxPool", "QuantizeLinear"),
        *("DequantizeLinear", "Transpose", "QuantizeLinear", "DequantizeLinear"),
    ]
    assert differences_of_reals(made) == 0


def differences_of_reals(made):
    feed = random_feed(made)
    pairs = zip(run(made, feed), run(translated(made), feed), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def test_constants_that_are_moved_are_moved_before():
    text = """g (float[2,4] x) => (float[A,B] y) {
        t = Transpose (w) r = DequantizeLinear <axis = 1> (t, each, each_z)
        y = MatMul (x, r) }"""
    each = np.float32([0.1, 0.2, 0.3])
    made = model(
        text, opset=13, w=np.int8([[1, 2, 3, 4]] * 3), each=each, each_z=np.int8([0, 1, 2])
    )
    result = translated(made)
    assert operations(result) == ["DequantizeLinear", "MatMul"]
    assert differences_of_reals(made) == 0


def test_an_index_of_the_largest_is_of_real_numbers():
    made = between("m = ArgMax <axis = 1> (q)", after="y = Cast <to = 2> (m)")
    assert operations(translated(made)) == [
        *("QuantizeLinear", "DequantizeLinear", "ArgMax", "Cast"),
    ]


LEFT = [
    ("o = QuantizeLinear (x, other_s, z) m = [] Concat <axis = 1> (q, o)",
     "it puts integers of different scales together"),
    ("[odd] c = Cast <to = 1> (q) m = QuantizeLinear (c, s, z)",
     "it computes with the stored integers 'q'"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "reason"), LEFT)
def test_what_computes_with_integers_stays_with_a_reason(line, reason):
    made = between(line.replace("m = [] ", "[odd] m = "))
    assert standard_qdq(made, PATH).notes == {"odd": reason}


def test_integers_of_which_nothing_tells_the_scale_stay():
    text = """g (float[2,4] x, uint8[2,4] i) => (uint8[2,4] y, uint8[2,4] q) {
        y = Max (i, i) q = QuantizeLinear (x, s, z) }"""
    made = model(text, opset=13, s=WEIGHTS["s"], z=WEIGHTS["z"])
    result = standard_qdq(made, PATH)
    assert result.model is made and not result.notes


def test_what_interpolates_does_so_on_real_numbers():
    text = """g (float[2, 3, 4, 4] x) => (float[2, 3, 8, 8] y) {
        q = QuantizeLinear (x, s, z)
        m = Resize <mode = "linear"> (q, roi, scales)
        y = DequantizeLinear (m, s, z)
    }"""
    names = ("s", "z", "roi", "scales")
    made = model(text, **{name: WEIGHTS[name] for name in names})
    found = standard_qdq(made, PATH)
    assert [node.op_type for node in found.model.graph.node].count("DequantizeLinear") == 2
    assert "rounded" in " ".join(found.notes.values())
    feed = random_feed(made)
    (ours,), (theirs,) = run(found.model, feed), run(made, feed)
    assert np.abs(ours - theirs).max() <= 1.01 * WEIGHTS["s"]
