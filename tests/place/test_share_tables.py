"""Tables that chains share because their scales are tied, and what that costs."""

import json
from itertools import pairwise
from math import inf, log10, nan
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import Range
from opsets.target import load_target
from qpasses import UsageError, pipeline, quantize, verify
from qpasses.ir.interchange import import_graph
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.ir.shapes import infer_shapes
from qpasses.place.chains import find_chains
from qpasses.place.planning import plan
from qpasses.place.sharing import share
from tests.support import zoo_models
from tests.support.commands import Desk
from tests.support.small_models import model, numbers, recorded, session
from tests.support.thoroughness import only_thorough, thoroughly

DOCS = Path(__file__).parents[2] / "docs"

WEIGHTS = np.eye(2, dtype=np.float32)[:, :, None, None]


def net(body, *outputs, **constants):
    """The model of ``body``, from x [N, 2, 4, 4]; ``w`` are weights of a convolution."""
    ends = ", ".join(f"float[N, 2, 4, 4] {name}" for name in outputs)
    text = f"g (float[N, 2, 4, 4] x) => ({ends}) {{ {body} }}"
    return model(text, w=WEIGHTS, **constants)


def columns(*functions):
    """A convolution c0, c1... of x for each function, which makes t0, t1... of it."""
    lines = [f"c{i} = Conv (x, w) t{i} = {f} (c{i})" for i, f in enumerate(functions)]
    return net(" ".join(lines), *(f"t{i}" for i in range(len(functions))))


def samples():
    return [{"x": numbers(2, 2, 4, 4, seed=seed)} for seed in range(4)]


def overrides(ranges):
    return [f"{name}={low!r},{high!r}" for name, (low, high) in ranges.items()]


def shared(made, limit, ranges, **options):
    """The model quantized with these ranges, sharing tables within ``limit``."""
    given = overrides(ranges)
    return quantize(
        made, samples(), share_tables=limit, calibration_overrides=given, **options
    )


def sharing(result):
    return result.report["sharing"]


def losses(result):
    return {each["name"]: each["loss_db"] for each in sharing(result)["tensors"]}


def lookups(result):
    """The name of the table of each Lut, by the tensor that it reads."""
    nodes = [node for node in result.model.graph.node if node.op_type == "Lut"]
    return {node.input[0].removesuffix("_quantized"): node.input[1] for node in nodes}


THREE = {
    **{"c0": (-1.0, 1.0), "c1": (-1.05, 1.05), "c2": (-1.3, 1.3)},
    **{"t0": (-0.8, 0.8), "t1": (-0.8, 0.8), "t2": (-0.8, 0.8)},
}


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_sources_within_the_limit_share_a_table_and_the_report_says_what_it_costs(kind):
    result = shared(columns("Tanh", "Tanh", "Tanh"), 1, THREE, activation_type=kind)
    tables = lookups(result)
    assert tables["c0"] == tables["c1"] != tables["c2"]
    scales = recorded(result.model)
    for name, width in {"c0": 2.1, "c1": 2.1, "c2": 2.6}.items():
        assert scales[f"{name}_quantized"][0] == np.float32(width / 255)
    price = 20 * log10(1.05)
    assert losses(result) == pytest.approx({"c0": price, "c1": 0})
    counts = {"chains": 3, "tables_before": 3, "tables": 2, "bytes_before": 768, "bytes": 512}
    assert {name: sharing(result)[name] for name in counts} == counts
    assert sharing(result)["limit_db"] == 1
    assert sharing(result)["largest_loss_db"] == pytest.approx(price)
    assert sharing(result)["mean_loss_db"] == pytest.approx(price / 2)
    assert result.report["summary"]["tables"]["stored"] == 2


def test_without_the_option_nothing_is_tied_and_nothing_is_said():
    result = shared(columns("Tanh", "Tanh"), None, {"c0": (-1.0, 1.0), "c1": (-1.0, 1.1)})
    assert sharing(result) is None
    assert result.report["configuration"]["share_tables"] is None


def test_both_ends_of_a_chain_must_fit():
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.0, 1.0), "t0": (-0.8, 0.8), "t1": (-0.7, 0.7)}
    price = 20 * log10(8 / 7)
    made = columns("Tanh", "Tanh")
    assert losses(shared(made, price - 0.01, ranges)) == {}
    assert losses(shared(made, price + 0.01, ranges)) == pytest.approx({"t0": 0, "t1": price})


def test_a_union_that_is_wider_than_each_costs_both():
    ranges = {"c0": (-3.0, 1.0), "c1": (-2.0, 2.0), "t0": (-1.0, 1.0), "t1": (-1.0, 1.0)}
    price = 20 * log10(5 / 4)
    found = shared(columns("Tanh", "Tanh"), 2, ranges)
    assert losses(found) == pytest.approx({"c0": price, "c1": price})
    (entry,) = [each for each in sharing(found)["tensors"] if each["name"] == "c0"]
    assert (entry["range"], entry["shared_range"]) == ((-3, 1), (-3, 2))


def test_symmetric_ranges_cost_what_their_larger_sides_differ_by():
    ranges = {"c0": (-3.0, 1.0), "c1": (-2.0, 2.0), "t0": (-1.0, 1.0), "t1": (-1.0, 1.0)}
    found = shared(columns("Tanh", "Tanh"), 4, ranges, symmetric=True)
    assert losses(found) == pytest.approx({"c0": 0, "c1": 20 * log10(3 / 2)})


@pytest.mark.parametrize(
    ("setting", "ranges"),
    [
        ({}, {"c0": (0.5, 2.0), "c1": (0.25, 2.0)}),
        ({"symmetric": True}, {"c0": (-2.0, 1.0), "c1": (-1.0, 2.0)}),
    ],
)
def test_ranges_that_are_stored_alike_share_a_table_and_nothing_is_tied(setting, ranges):
    ends = {"t0": (-1.0, 1.0), "t1": (-1.0, 1.0)}
    result = shared(columns("Tanh", "Tanh"), 0, ranges | ends, **setting)
    assert losses(result) == {}
    assert sharing(result)["tables"] == sharing(result)["tables_before"] == 1


def test_a_tensor_that_is_zero_throughout_is_never_tied_to_one_that_is_not():
    ranges = {"c0": (0.0, 0.0), "c1": (-1.0, 1.0), "t0": (-1.0, 1.0), "t1": (-1.0, 1.0)}
    result = shared(columns("Tanh", "Tanh"), 100, ranges)
    scales = recorded(result.model)
    assert scales["c0_quantized"][0] == 1
    assert scales["c1_quantized"][0] == np.float32(2 / 255)
    assert losses(result) == {}


def test_a_range_that_does_not_hold_zero_costs_what_it_is_stored_with():
    ranges = {"c0": (0.5, 2.0), "c1": (0.25, 2.2), "t0": (-1.0, 1.0), "t1": (-1.0, 1.0)}
    found = shared(columns("Tanh", "Tanh"), 3, ranges)
    assert losses(found) == pytest.approx({"c0": 20 * log10(1.1), "c1": 0})
    assert sharing(found)["tensors"][0]["range"] == (0, 2)


def test_those_that_cost_least_are_tied_first():
    widths = {"c0": 1.0, "c1": 1.1, "c2": 1.15}
    ranges = {name: (-width, width) for name, width in widths.items()}
    ranges |= dict.fromkeys(("t0", "t1", "t2"), (-1.0, 1.0))
    found = shared(columns("Tanh", "Tanh", "Tanh"), 20 * log10(1.12), ranges)
    assert losses(found) == pytest.approx({"c1": 20 * log10(1.15 / 1.1), "c2": 0})


@pytest.mark.parametrize("second", ["Sigmoid", "LeakyRelu <alpha = 0.5>"])
def test_chains_of_different_functions_are_not_tied(second):
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.0, 1.5), "t0": (-1.0, 1.0), "t1": (-1.0, 1.0)}
    first = "LeakyRelu <alpha = 0.25>" if "Leaky" in second else "Tanh"
    assert losses(shared(columns(first, second), 100, ranges)) == {}
    assert losses(shared(columns(second, second), 100, ranges)).keys() == {"c0", "c1"}


def test_constants_are_part_of_a_function():
    body = "c0 = Conv (x, w) t0 = Min (c0, p) c1 = Conv (x, w) t1 = Min (c1, q)"
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.0, 1.5), "t0": (-1.0, 3.0), "t1": (-1.0, 3.0)}
    for q, tied in ((1, {"c0", "c1"}), (2, set())):
        made = net(body, "t0", "t1", p=np.float32(1), q=np.float32(q))
        assert losses(shared(made, 100, ranges)).keys() == tied


def test_a_source_of_several_chains_is_tied_for_all_of_them():
    body = " ".join(
        f"c{i} = Conv (x, w) t{i} = Tanh (c{i}) s{i} = Sigmoid (c{i})" for i in range(2)
    )
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.2, 1.0), "t0": (-0.8, 0.8), "t1": (-0.8, 0.8)}
    ranges |= {"s0": (0.0, 0.8), "s1": (0.0, 0.9)}
    made = net(body, "t0", "t1", "s0", "s1")
    results = [shared(made, limit, ranges) for limit in (0.9, 1.1)]
    assert [sharing(each)["tables"] for each in results] == [3, 2]
    assert losses(results[0]).keys() == {"c0", "c1"}
    assert losses(results[1]) == pytest.approx(
        {"c0": 20 * log10(1.1), "c1": 0, "s0": 20 * log10(9 / 8), "s1": 0}
    )


def test_chains_in_a_row_share_where_source_between_and_end_fit():
    pool = "p = MaxPool <kernel_shape = [1, 1]> (t)"
    made = net(f"c = Conv (x, w) t = Tanh (c) {pool} u = Tanh (p)", "t", "u")
    ranges = {"c": (-1.0, 1.0), "t": (-0.9, 0.9), "p": (-0.9, 0.9), "u": (-0.8, 0.8)}
    price = 20 * log10(10 / 8)
    assert losses(shared(made, price - 0.01, ranges)) == {}
    result = shared(made, price + 0.01, ranges)
    assert losses(result) == pytest.approx(
        {"c": 0, **dict.fromkeys("tp", 20 * log10(10 / 9)), "u": price}
    )
    assert sharing(result)["tables"] == 1
    assert verify(result.model, made, samples()).verdict == "ok"


@pytest.mark.parametrize("limit", [1.5, 2])
def test_what_is_tied_to_an_end_anyway_is_tied_to_the_others_with_it(limit):
    body = """c0 = Conv (x, w) t0 = Tanh (c0) p0 = Conv (x, w) y0 = Concat <axis = 2> (t0, p0)
        c1 = Conv (x, w) t1 = Tanh (c1)"""
    made = net(body, "y0", "t1")
    made.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 8
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.0, 1.0), "t0": (-0.1, 0.1), "p0": (-0.8, 0.8)}
    ranges |= {"y0": (-0.8, 0.8), "t1": (-1.0, 1.0)}
    price = 20 * log10(10 / 8)
    result = shared(made, limit, ranges)
    scales = {recorded(result.model)[f"{name}_quantized"] for name in ("t0", "p0", "y0")}
    assert len(scales) == 1
    expected = {"t0": price, "p0": price, "y0": price, "t1": 0} if limit > price else {}
    assert losses(result) == pytest.approx(expected)


def test_a_relu_that_clips_stored_integers_still_does():
    body = """c0 = Conv (x, w) t0 = Tanh (c0) m0 = MaxPool <kernel_shape = [1, 1]> (t0)
        r0 = Relu (m0) c1 = Conv (x, w) t1 = Tanh (c1)"""
    made = net(body, "t0", "r0", "t1")
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.0, 1.0), "t0": (-0.1, 0.9), "t1": (-0.2, 1.0)}
    result = shared(made, 3, {"r0": (0.0, 0.9), **ranges})
    assert losses(result).keys() == {"t0", "m0", "r0", "t1"}
    assert "Clip" in result.report["summary"]["nodes"]


def test_a_limit_of_zero_changes_nothing():
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.0, 1.0), "c2": (-1.0, 1.05)}
    ends = dict.fromkeys(("t0", "t1", "t2"), (-0.8, 0.8))
    made = columns("Tanh", "Tanh", "Tanh")
    without, with_zero = (shared(made, limit, ranges | ends) for limit in (None, 0))
    assert sharing(with_zero)["tensors"] == []
    assert sharing(with_zero)["tables"] == sharing(with_zero)["tables_before"] == 2
    graphs = [
        each.model.graph.SerializeToString(deterministic=True) for each in (without, with_zero)
    ]
    assert graphs[0] == graphs[1]


def test_the_predicted_loss_is_that_of_rounding():
    """Of evenly spread numbers, stored with its own and with the shared parameters."""
    ranges = {"c0": (-1.0, 1.0), "c1": (-1.5, 1.2), "t0": (-0.8, 0.8), "t1": (-0.8, 0.8)}
    real = np.random.default_rng(0).uniform(-1, 1, 200_000)
    made = columns("Tanh", "Tanh")
    noise = []
    for limit in (0, 3):
        result = shared(made, limit, ranges)
        scale, zero = recorded(result.model)["c0_quantized"]
        stored = np.clip(np.rint(real / scale) + zero, 0, 255)
        noise.append(np.mean(((stored - zero) * scale - real) ** 2))
    assert losses(result)["c0"] == pytest.approx(10 * log10(noise[1] / noise[0]), abs=0.05)
    assert losses(result)["c0"] == pytest.approx(20 * log10(2.7 / 2))


# Any ranges


RICH = """
c0 = Conv (x, w) t0 = Tanh (c0) c1 = Conv (x, w) t1 = Tanh (c1) c2 = Conv (x, w) t2 = Tanh (c2)
s0 = Sigmoid (c0) d = Conv (x, w) s1 = Sigmoid (d) e = Conv (x, w)
q = MaxPool <kernel_shape = [1, 1]> (t1) u = Tanh (q)
m = MaxPool <kernel_shape = [1, 1]> (t2) r = Relu (m) j = Concat <axis = 2> (s0, e)
"""
"""A source of two functions, a row, a MaxPool, a Concat, a Relu on its own."""

MOVED = [{"t1", "q"}, {"t2", "m"}, {"s0", "e", "j"}]
SAME = {"Tanh": ["c0", "c1", "c2", "q"], "Sigmoid": ["c0", "d"]}


def rich():
    graph = import_graph(infer_shapes(net(RICH, "m", "j", "s1", "r", "t0", "t1", "u")))
    context = Context(Settings(load_target("onnx")))
    return graph, plan(graph, context), context


@st.composite
def any_ranges(draw, names):
    """A range for each tensor; one for those that a moving node ties."""
    ends = st.sampled_from([0.5, 0.55, 0.7, 1, 1.1, 1.4, 2, 9])
    found = {name: Range(-draw(ends), draw(ends)) for name in names}
    return found | {name: found[min(tied)] for tied in MOVED for name in tied}


def price(own, given):
    return 20 * log10(given.width / own.width)


LIMITS = [0.0, 0.3, 1.0, 2.0, 4.0, 100.0]


@thoroughly(150)
@given(data=st.data())
def test_no_tensor_loses_more_than_the_limit_and_a_higher_one_ties_more(data):
    graph, chosen, context = rich()
    ranges = data.draw(any_ranges(list(chosen.tensors)))
    chains = find_chains(graph, chosen)
    assert sorted(each.source for each in chains) == sorted([*SAME["Tanh"], *SAME["Sigmoid"]])
    kinds = []
    for limit in LIMITS:
        after, found = share(graph, chosen, ranges, limit, context)
        again = share(graph, chosen, ranges, limit, context)
        assert (after, found) == again
        assert after.keys() == ranges.keys()
        for name, own in ranges.items():
            assert after[name].union(own) == after[name]
            assert price(own, after[name]) <= limit
        assert all(len({after[name] for name in tied}) == 1 for tied in MOVED)
        assert ranges["m"] != ranges["r"] or after["m"] == after["r"]
        listed = {each.name: each.loss_db for each in found.tensors}
        for name, own in ranges.items():
            if after[name] != own:
                assert listed[name] == pytest.approx(price(own, after[name]))
        kinds.append(
            len({(c.function.as_text(), after[c.source], after[c.end]) for c in chains})
        )
    assert all(later <= earlier for earlier, later in pairwise(kinds))
    assert kinds[-1] == len(SAME)


def test_what_is_in_no_chain_and_tied_to_none_keeps_its_range():
    graph, chosen, context = rich()
    ranges = {name: Range(-1.0, 1.0 + i) for i, name in enumerate(chosen.tensors)}
    ranges |= {name: ranges[min(tied)] for tied in MOVED for name in tied}
    after, _ = share(graph, chosen, ranges, 100.0, context)
    assert {name for name in ranges if after[name] == ranges[name]} >= {"x"}


# What is made of them


CHANNELS = {"slope": numbers(2, 1, 1)}


@pytest.mark.thinned
@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"activation_type": "int8"},
        {"symmetric": True},
        {"bodies": "portable"},
        {"calibration_method": "mse"},
    ],
)
def test_models_with_shared_tables_are_proved_and_derived_without_sharing(
    setting, monkeypatch
):
    body = """a = Conv (x, w) f = PRelu (a, slope) b = Conv (f, w) g = PRelu (b, slope)
        c = Conv (g, w) s = Sigmoid (c) h = Mul (c, s)
        d = Conv (h, w) t = Sigmoid (d) y = Mul (d, t)"""
    made = net(body, "y", **CHANNELS)
    plain, result = (quantize(made, samples(), share_tables=db, **setting) for db in (None, 9))
    assert result.verdict == "ok"
    counts = [each.report["summary"]["tables"] for each in (plain, result)]
    assert counts[0]["lookups"] == counts[1]["lookups"] == 4
    assert counts[1]["stored"] == sharing(result)["tables"] == 2
    assert counts[0]["stored"] == sharing(result)["tables_before"] > 2
    assert sharing(result)["bytes"] == counts[1]["bytes"]
    assert sharing(result)["bytes_before"] == counts[0]["bytes"]
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "share", None)
        assert verify(result.model, made, samples()).verdict == "ok"
    feed = samples()[0]
    found, float_found = (session(m).run(None, feed)[0] for m in (result.model, made))
    assert np.abs(found - float_found).max() < np.abs(float_found).max() / 10


def test_verify_finds_a_scale_that_was_tied_and_changed():
    made = columns("Tanh", "Tanh")
    result = shared(made, 1, {name: r for name, r in THREE.items() if name[1] != "2"})
    changed = onnx.ModelProto.FromString(result.model.SerializeToString())
    (about,) = [v for v in changed.graph.value_info if v.name == "c1_quantized"]
    (entry,) = [each for each in about.metadata_props if each.key == "qpasses.scale"]
    entry.value = json.dumps(json.loads(entry.value) * 1.5)
    assert verify(changed, made, samples()).verdict == "failed"


# What a user gives and sees


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, columns("Tanh", "Tanh", "Tanh"), numbers(8, 2, 4, 4))


def options(ranges):
    return [word for text in overrides(ranges) for word in ("--calibration-overrides", text)]


def spaced(ended):
    return [" ".join(line.split()) for line in ended.out.splitlines()]


def test_the_terminal_shows_tables_bytes_and_what_each_tensor_lost(desk):
    ended = desk.quantize("--share-tables", "1", "--verbose", *options(THREE))
    assert ended.code == 0, ended.err
    lines = spaced(ended)
    expected = (
        "tables of chains, shared within 1 dB 2 for 3 lookups, 512 bytes (3 and 768 without)",
        "Tied to share tables: 2 tensors, "
        "predicted to lose at most 0.42 dB, 0.21 dB on average",
        "c0 -1 .. 1 -1.05 .. 1.05 0.42",
        "c1 -1.05 .. 1.05 -1.05 .. 1.05 0.00",
    )
    for line in expected:
        assert line in lines
    assert desk.verify().code == 0


def test_the_terminal_says_that_nothing_could_be_tied(desk):
    ended = desk.quantize("--share-tables", "0.25", "--verbose", *options(THREE))
    assert "No tensors could be tied within 0.25 dB to share tables." in spaced(ended)
    assert "share tables" not in desk.quantize(*options(THREE)).out


def test_the_terminal_shows_the_costliest_of_many(tmp_path):
    many = 30
    ranges = {f"c{i}": (-1.0, 1 + i / 100) for i in range(many)}
    ranges |= {f"t{i}": (-0.8, 0.8) for i in range(many)}
    made = columns(*["Tanh"] * many)
    desk = Desk(tmp_path, made, numbers(8, 2, 4, 4))
    lines = spaced(desk.quantize("--share-tables", "3", "--verbose", *options(ranges)))
    assert "and 10 more: --json lists them all" in lines
    assert any(line.startswith("c0 -1 .. 1 ") for line in lines)
    assert not any(line.startswith("c29 -1 .. ") for line in lines)


def test_every_key_of_the_report_is_described(desk):
    desk.quantize("--share-tables", "1", *options(THREE))
    found = json.loads(desk.report.read_text())["sharing"]
    described = (DOCS / "report.md").read_text("utf-8")
    assert found["tensors"]
    assert [key for key in (*found, *found["tensors"][0]) if f"`{key}`" not in described] == []


@pytest.mark.parametrize("given", ["-1", "-0.001", "nan", "inf", "much"])
def test_a_limit_that_is_no_number_of_decibels_is_refused(desk, given):
    message = desk.refused("--share-tables", given)
    assert "share" in message
    assert given in message


@pytest.mark.parametrize("given", [-1, nan, inf, "1", True, [1]])
def test_such_a_limit_is_refused_from_python_too(given):
    with pytest.raises(UsageError, match=r"share_tables.*decibels"):
        quantize(columns("Tanh"), samples(), share_tables=given)


def test_the_limit_is_recorded_and_the_same_from_python(desk):
    desk.quantize("--share-tables", "1")
    assert json.loads(desk.report.read_text())["configuration"]["share_tables"] == 1
    made = quantize(desk.model, desk.data, share_tables=1)
    assert made.model.SerializeToString(deterministic=True) == desk.output.read_bytes()


# A real network


@zoo_models.NEEDS_ZOO[0]
@zoo_models.NEEDS_ZOO[1]
@only_thorough
def test_real_activations_share_tables_within_a_decibel():
    """YOLOX-nano has 104 SiLU and 6 Sigmoid."""
    name = "yolox_nano"
    calibration = zoo_models.feeds(name, "calib")[:6]
    path = zoo_models.path(name)
    plain, result = (quantize(path, calibration, share_tables=db) for db in (None, 1))
    assert result.verdict == plain.verdict
    before, after = (each.report["summary"]["tables"] for each in (plain, result))
    assert before["lookups"] == after["lookups"] == sharing(result)["chains"]
    assert sharing(result)["tables_before"] == before["stored"]
    assert sharing(result)["tables"] == after["stored"] <= before["stored"] * 2 / 3
    assert 0 < sharing(result)["largest_loss_db"] <= 1
    checked = verify(result.model, path, calibration[:1])
    assert checked.report["summary"]["problems"] == []
    assert checked.verdict == result.verdict
