"""Average pools whose windows differ in size: onnxruntime's cells, proofs, whole networks."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from opsets.division import DIVIDED_IN_DOUBLE, fits_double
from opsets.errors import ModelError
from opsets.fixed_point import rounding_divide
from opsets.fragments import fragment
from opsets.qpasses_v1 import OPS
from qpasses import quantize, verify
from qpasses.evidence.prove_reductions import reduced_thresholds, sums
from qpasses.evidence.prove_windows import differing_means, window_sizes
from tests.support.small_models import model, numbers
from tests.support.stage_checks import (
    flags,
    net,
    run,
    seeds,
    stages,
    stored_integers,
)
from tests.support.thoroughness import thoroughly

OP = OPS["IntCountedAveragePool"]


@st.composite
def pools(draw):
    """A model of one AveragePool of any geometry, and its input."""
    dims, seed = draw(st.integers(1, 3)), draw(seeds)

    def each(low, high, count=dims):
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    kernel = each(1, 3)
    attributes = {
        "kernel_shape": kernel,
        "strides": each(1, 3),
        "dilations": each(1, 2),
        "pads": [min(n, k - 1) for n, k in zip(each(0, 2, 2 * dims), kernel * 2, strict=True)],
        "ceil_mode": int(draw(flags)),
        "count_include_pad": int(draw(flags)),
    }
    sizes = each(1, 6)
    shown = [f"s{i}" for i in range(dims)] if draw(flags) else sizes
    made = net(["N", 2, *shown], "y = Identity (x)")
    made.graph.node[0].CopyFrom(
        onnx.helper.make_node("AveragePool", ["x"], ["y"], "pool", **attributes)
    )
    return made, {"x": numbers(2, 2, *sizes, seed=seed)}


def window_fits(made, x):
    """Whether it fits into what it reads and its padding; onnxruntime does not mind."""
    attributes = made.graph.node[0].attribute
    given = {each.name: onnx.helper.get_attribute_value(each) for each in attributes}
    reach = np.multiply(np.subtract(given["kernel_shape"], 1), given["dilations"]) + 1
    begin, end = np.reshape(given["pads"], (2, -1))
    more = np.multiply(np.subtract(given["strides"], 1), given["ceil_mode"])
    return (x.shape[2:] + begin + np.minimum(end + more, reach - 1) >= reach).all()


@thoroughly(150)
@given(case=pools())
def test_any_pool_is_an_integer_node_near_the_float_of_onnxruntime(case):
    made, feeds = case
    try:
        (expected,) = run(made, feeds)
    except ModelError:
        assume(False)  # a geometry that onnxruntime refuses
    assume(expected.size and np.isfinite(expected).all())
    assume(window_fits(made, feeds["x"]))
    found = stages(made, feeds)
    (node,) = (n for n in found.integer.graph.node if n.name == "pool")
    pools = "IntAveragePool", "IntCountedAveragePool", "IntGlobalAveragePool"
    assert node.op_type in pools
    assert [each.name for each in found.evidence.values() if not each.proved] == []
    ours, theirs = (stored_integers(found, m, feeds) for m in (found.integer, found.placed))
    for (
        name
    ) in ours:  # onnx's reference evaluator counts other cells where there are dilations
        assert np.abs(ours[name].astype(int) - theirs[name]).max() <= 1


OF_BYTES = [body.overload for body in OP.bodies if "planes" not in body.overload]


@pytest.mark.parametrize("overload", OF_BYTES)
@pytest.mark.parametrize("cells", [1, 6, 9])
def test_the_proof_sees_a_division_that_rounds_otherwise(overload, cells):
    """Powers of two and even sizes: full of ties."""
    body = OP.overload(overload)
    rounding = overload.partition("_")[2] or "half_to_even"
    given = {name: np.array(0, np.uint8) for name in ("x_zero", "y_zero", "y_min")}
    given |= {"y_max": np.array(255, np.uint8), "shift": np.array(24, np.int32)}
    given["multiplier"] = np.array(1 << 23, np.int32)
    attributes = {"kernel_shape": [3, 3], "rounding": rounding}
    ours = reduced_thresholds(given, cells, rounding)
    rest = cells, attributes, ours, sums(cells, 0, "uint8")
    assert differing_means(body, given, *rest) == 0
    text = str(body.statements)
    broken = text.replace("Round (quotient)", "Ceil (quotient)")
    broken = broken.replace("goes_up = Or (more, tie_up)", "goes_up = Or (more, more)")
    assert broken != text
    wrong = replace(body, statements=fragment(broken))
    assert differing_means(wrong, given, *rest) > 0
    fewer = text.replace("counted = Cast <to = 7> (cells)", "counted = Add (unit, unit)")
    assert fewer != text
    wrong = replace(body, statements=fragment(fewer))
    assert differing_means(wrong, given, *rest) > 0


def test_the_sizes_of_windows():
    assert window_sizes([3, 3], [1, 0, 0, 1]) == [1, 2, 3, 4, 6, 9]
    assert window_sizes([3, 3], [0, 1, 0, 0]) == [3, 6, 9]
    assert window_sizes([4], [0, 2]) == [1, 2, 3, 4]
    assert window_sizes([4, 2], [0] * 4) == [8]


@thoroughly(300)
@given(data=st.data())
def test_the_quotient_in_double_rounds_as_integers_do(data):
    """At the thresholds of any level, where they lie next to ties, and at the bound."""
    cells = data.draw(st.integers(1, 1 << 10))
    shift = data.draw(st.integers(1, 44 - cells.bit_length()))
    multiplier = data.draw(st.integers(1, (1 << 31) - 1))
    largest = min(255 * cells, (1 << 53) // multiplier)
    assert fits_double(multiplier, shift, largest, cells)
    level = data.draw(st.integers(-300, 300))
    near = (2 * level - 1) * (cells << shift) // (2 * multiplier)
    sums_near = np.clip(near + np.arange(-2, 3), -largest, largest)
    product = sums_near * multiplier
    exact = rounding_divide(product, cells << shift, "half_to_even")
    quotient = product.astype(np.float64) / np.float64(cells << shift)
    inside = np.abs(exact) < 256
    np.testing.assert_array_equal(np.rint(quotient)[inside], exact[inside])
    assert (np.abs(np.rint(quotient)) >= 256)[~inside].all()


@pytest.mark.parametrize("numbers_of_one", [(1 << 31, 1, 1 << 23, 1), (1, 34, 1, 1 << 10)])
def test_what_doubles_might_round_wrong_is_refused(numbers_of_one):
    assert not fits_double(*numbers_of_one)
    assert "= Div (" in DIVIDED_IN_DOUBLE.text


def pooling(sizes, attributes):
    shape = ", ".join(map(str, ["N", 3, *sizes]))
    return model(
        f"""g (float[{shape}] x) => (float[N, 3, p, q] y) {{
            [first] a = Conv (x, w)
            [pool] b = AveragePool <kernel_shape = [3, 3], {attributes}> (a)
            [clamp] c = Relu (b)
            [last] y = Conv (c, w)
        }}""",
        opset=21,
        ir_version=10,
        w=numbers(3, 3, 1, 1),
    )


ATTRIBUTES = {
    "padding": "pads = [1, 1, 1, 1]",
    "ceil": "ceil_mode = 1, strides = [2, 2]",
    "both": "pads = [1, 1, 1, 1], ceil_mode = 1, strides = [2, 2]",
    "counted": "pads = [1, 0, 1, 0], ceil_mode = 1, strides = [2, 2], count_include_pad = 1",
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("sizes", [("H", "W"), (6, 5)])
@pytest.mark.parametrize("activation_type", ["uint8", "int8"])
def test_a_network_with_such_a_pool_is_integer_and_verified(name, sizes, activation_type):
    made = pooling(sizes, ATTRIBUTES[name])
    feeds = [{"x": numbers(1, 3, 6, 5, seed=i)} for i in range(4)]
    result = quantize(made, feeds, activation_type=activation_type)
    assert result.report["summary"]["integer_only"]
    (proof,) = (each for each in result.evidence if each.name == "pool")
    assert (proof.op, proof.mismatches) == ("IntCountedAveragePool", 0)
    assert proof.body == "onnxruntime" and proof.reference_max_lsb <= 1
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 30
    assert verify(result.model, made, feeds).verdict == result.verdict == "ok"
    portable = quantize(made, feeds, activation_type=activation_type, bodies="portable")
    for feed in feeds:
        (fast,), (slow,) = (run(m, feed) for m in (result.model, portable.model))
        np.testing.assert_array_equal(fast, slow)
