"""Attention masks: however they are written, scores keep their resolution on integers."""

from functools import cache
from math import log

import numpy as np
import pytest
from onnx import numpy_helper

from opsets.errors import DataError
from qpasses import quantize, verify
from tests.support.small_models import model, numbers, recorded, session

LENGTH, WIDTH = 6, 8
WEIGHTS = {
    name: numbers(WIDTH, WIDTH, seed=seed) * np.float32(0.5)
    for seed, name in enumerate(("wq", "wk", "wv", "wo"))
}
SCORES = """
    q = MatMul (x, wq) k = MatMul (x, wk) v = MatMul (x, wv)
    kt = Transpose <perm = [0, 2, 1]> (k) raw = MatMul (q, kt) s = Mul (raw, root)
"""
RESULT = "p = Softmax <axis = -1> (masked) h = MatMul (p, v) y = MatMul (h, wo)"
LOWEST = np.finfo(np.float32).min
CAUSAL = np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1)
SQUARE = "n = Shape <start = 1, end = 2> (x) square = Concat <axis = 0> (n, n)"
MASK = "float[N, 6] m"
IDS = "int64[N, 6] m"
BOOLS = "bool[N, 6] m"
TURNED = "u = Unsqueeze (m, axis) f = Cast <to = 1> (u) t = Sub (one, f)"

FORMS = {
    "constant": ("masked = Add (s, c)", "", {"c": CAUSAL}),
    "constant lowest": ("masked = Add (c, s)", "", {"c": np.where(CAUSAL < 0, LOWEST, 0)}),
    "constant infinite": ("masked = Add (s, c)", "", {"c": np.where(CAUSAL < 0, -np.inf, 0)}),
    "where": ("u = Unsqueeze (m, axis) masked = Where (u, s, c)", BOOLS, {"c": -1e9}),
    "where infinite": (
        "u = Unsqueeze (m, axis) d = Not (u) masked = Where (d, c, s)",
        BOOLS,
        {"c": -np.inf},
    ),
    "ids": (
        "e = Equal (m, nothing) u = Unsqueeze (e, axis) masked = Where (u, c, s)",
        IDS,
        {"c": -1e9},
    ),
    "floats": (f"{TURNED} b = Mul (t, c) masked = Add (s, b)", MASK, {"c": -10000}),
    "integers": (f"{TURNED} b = Mul (t, c) masked = Add (s, b)", IDS, {"c": -10000}),
    "subtracted": (f"{TURNED} b = Mul (t, c) masked = Sub (s, b)", MASK, {"c": 10000}),
    "float condition": (
        "u = Unsqueeze (m, axis) e = Equal (u, zero) masked = Where (e, c, s)",
        MASK,
        {"c": -np.inf},
    ),
    "filled": (
        f"{TURNED} d = Cast <to = 9> (t) b = Where (d, c, t) masked = Add (s, b)",
        IDS,
        {"c": LOWEST},
    ),
    "trilu of ones": (
        f"{SQUARE} o = ConstantOfShape <value = int64[1] {{1}}> (square)"
        "l = Trilu <upper = 0> (o) d = Cast <to = 9> (l) b = Where (d, zero, c)"
        "masked = Add (s, b)",
        "",
        {"c": -np.inf},
    ),
    "trilu of numbers": (
        f"{SQUARE} f = ConstantOfShape <value = float[1] {{-3e38}}> (square)"
        "b = Trilu <upper = 1> (f, above) masked = Add (s, b)",
        "",
        {},
    ),
    "range": (
        "n = Shape (x) l = Gather (n, above) r = Range (nothing, l, above)"
        "rows = Unsqueeze (r, axis) d = Less (rows, r) b = Where (d, c, zero)"
        "masked = Add (s, b)",
        "",
        {"c": -1e9},
    ),
    "with a bias": (
        f"{TURNED} b = Mul (t, c) both = Add (bias, b) masked = Add (s, both)",
        IDS,
        {"c": -1e9, "bias": numbers(1, LENGTH, LENGTH)},
    ),
    "two": (
        f"{TURNED} b = Mul (t, c) both = Add (b, causal) masked = Add (s, both)",
        IDS,
        {"c": -1e9, "causal": CAUSAL},
    ),
    "twice": (
        f"{TURNED} b = Mul (t, c) half = Add (s, b) masked = Add (half, causal)",
        IDS,
        {"c": -1e9, "causal": CAUSAL},
    ),
}
MASKED = [name for name, (_, given, _) in FORMS.items() if given]

every_form = pytest.mark.parametrize("name", FORMS)
every_mask = pytest.mark.parametrize("name", MASKED)


def attention(body="masked = Identity (s)", given="", constants=(), result=RESULT):
    """One head over rows of x; ``body`` makes ``masked`` of the scores ``s``."""
    inputs = f"float[N, {LENGTH}, {WIDTH}] x" + f", {given}" * bool(given)
    floats = {key: np.asarray(value, np.float32) for key, value in dict(constants).items()}
    return model(
        f"g ({inputs}) => (float[N, L, D] y) {{ {SCORES} {body} {result} }}",
        root=np.float32(0.35),
        one=np.float32(1),
        zero=np.float32(0),
        nothing=np.int64(0),
        above=np.int64(1),
        axis=np.array([1], np.int64),
        **WEIGHTS,
        **floats,
    )


def feeds(made, seed=3, shortest=2):
    """Sixteen rows, of which masks keep the first ``shortest`` to six."""
    found = {"x": numbers(16, LENGTH, WIDTH, seed=seed)}
    lengths = np.random.default_rng(seed).integers(2, LENGTH + 1, 16)
    lengths[0] = shortest
    mask = np.arange(LENGTH) < lengths[:, None]
    for value in made.graph.input[1:]:
        kind = {1: np.float32, 7: np.int64, 9: np.bool_}[value.type.tensor_type.elem_type]
        found["m"] = mask.astype(kind)
    return found


def decibels(expected, found):
    return 10 * np.log10((expected**2).sum() / ((expected - found) ** 2).sum())


def run(made, given):
    return session(made).run(None, given)[0]


@cache
def quantized(name):
    made = attention(*FORMS[name])
    return made, quantize(made, [feeds(made)])


@cache
def unmasked(**options):
    """The result without a mask, on the same rows."""
    plain = attention()
    return quantize(plain, [feeds(plain)], **options)


def float_nodes(made):
    ends = ("QuantizeLinear", "DequantizeLinear")
    floats = {
        value.name for value in made.graph.value_info if value.type.tensor_type.elem_type == 1
    }
    return [
        n.op_type
        for n in made.graph.node
        if n.op_type not in ends and floats & {*n.input, *n.output}
    ]


@pytest.mark.thinned
@every_form
def test_masked_attention_is_on_integers_and_keeps_the_resolution_of_scores(name):
    made, result = quantized(name)
    test = feeds(made, seed=9)
    assert float_nodes(result.model) == []
    reference = decibels(*(run(m, {"x": test["x"]}) for m in (attention(), unmasked().model)))
    found = decibels(run(made, test), run(result.model, test))
    assert found > reference - 2
    assert verify(result.model, made, [test]).verdict == "ok"


@pytest.mark.thinned
@every_mask
def test_what_is_masked_changes_nothing(name):
    made, result = quantized(name)
    test = feeds(made, seed=9)
    other = {**test, "x": np.where(test["m"][..., None] != 0, test["x"], 5).astype(np.float32)}
    kept = test["m"] != 0
    ours, theirs = (run(result.model, each)[kept] for each in (test, other))
    np.testing.assert_array_equal(ours, theirs)


@every_mask
def test_a_row_that_is_masked_as_a_whole_is_as_in_float_or_has_equal_shares(name):
    made, result = quantized(name)
    test = feeds(made, seed=9, shortest=0)
    expected, found = run(made, test)[0], run(result.model, test)[0]
    assert np.isfinite(found).all()
    if np.isfinite(expected).all() and name not in ("two", "twice"):
        assert decibels(expected, found) > 15
    else:
        assert np.ptp(found, axis=0).max() == 0


@pytest.mark.thinned
@every_mask
def test_such_rows_may_be_among_the_samples(name):
    made = attention(*FORMS[name])
    bad = feeds(made, shortest=0)
    result = quantize(made, [bad])
    assert np.isfinite(run(result.model, bad)).all()


def test_a_masked_code_is_so_low_that_all_of_a_row_are_less_than_half_a_step():
    _made, result = quantized("constant")
    seen = {each["name"]: each for each in result.report["calibration"]["tensors"]}
    low, high = seen["masked"]["range"]
    assert seen["masked"]["method"] == "masked"
    assert [low, high] != seen["s"]["range"]
    step = recorded(result.model)["p_quantized"][0]
    assert low == pytest.approx(seen["s"]["range"][0] - log(2 * LENGTH / step), abs=1e-3)
    assert high == seen["s"]["range"][1]
    assert result.report["warnings"] == []


def test_where_rows_of_a_finite_mask_are_asked_for_nan_none_is():
    guard = "p1 = Softmax (masked) i = IsNaN (p1) p = Where (i, zero, p1)"
    result = f"{guard} h = MatMul (p, v) y = MatMul (h, wo)"
    made = attention(*FORMS["where"], result=result)
    found = quantize(made, [feeds(made, shortest=0)])
    test = feeds(made, seed=9, shortest=0)
    assert decibels(run(made, test)[0], run(found.model, test)[0]) > 15


def test_rows_without_any_score_are_zero_where_the_graph_asks_for_nan():
    guard = "p1 = Softmax (masked) i = IsNaN (p1) p = Where (i, zero, p1)"
    result = f"{guard} h = MatMul (p, v) y = MatMul (h, wo)"
    made = attention(*FORMS["where infinite"], result=result)
    found = quantize(made, [feeds(made, shortest=0)])
    test = feeds(made, seed=9, shortest=0)
    assert float_nodes(found.model) == []
    assert not run(found.model, test)[0].any()
    assert decibels(run(made, test), run(found.model, test)) > 20
    assert verify(found.model, made, [test]).verdict == "ok"


@pytest.mark.thinned
@pytest.mark.parametrize(
    "options",
    [
        {"activation_type": "int8"},
        {"symmetric": True},
        {"activation_bits": 6},
        {"softmax": "shiftmax"},
        {"softmax": "ibert"},
        {"target": "ivit"},
        {"target": "tflite"},
        {"target": "tosa"},
        {"target": "bm1684x"},
        {"alignment": "tpu-mlir"},
        {"calibration_method": "mse"},
        {"table_ranges": "function"},
        {"bodies": "portable"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["where infinite", "integers"])
def test_masks_are_on_integers_whatever_the_options_say(name, options):
    made = attention(*FORMS[name])
    test = feeds(made)
    result = quantize(made, [test], **options)
    assert result.verdict == "ok" and float_nodes(result.model) == []
    reference, found = (
        each.report["accuracy"]["outputs"][0]["sqnr_db"]
        for each in (unmasked(**options), result)
    )
    assert found > reference - 4
    assert verify(result.model, made, [test]).verdict == "ok"


@pytest.mark.parametrize(
    "body",
    [
        "a = Add (s, c) masked = Reshape (a, whole)",
        "a = Add (s, c) masked = Max (a, low)",
        "t = Reshape (s, whole) a = Add (t, c) m = Max (low, a) masked = Reshape (m, whole)",
    ],
)
def test_a_reshape_or_a_lower_end_may_lie_between_mask_and_softmax(body):
    made = attention(body, constants={"c": CAUSAL, "low": LOWEST})
    whole = np.array([-1, LENGTH, LENGTH], np.int64)
    made.graph.initializer.append(numpy_helper.from_array(whole, "whole"))
    samples = [feeds(made)]
    result = quantize(made, samples)
    assert result.verdict == "ok" and float_nodes(result.model) == []
    assert "Lut" not in [node.op_type for node in result.model.graph.node]
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 24
    assert result.report["warnings"] == []


def test_a_mask_of_other_numbers_than_0_and_1_is_an_error():
    made = attention(*FORMS["floats"])
    given = feeds(made)
    with pytest.raises(DataError, match="'m' of the first sample holds other numbers than 0"):
        quantize(made, [{**given, "m": given["m"] * 0.5}])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("u = Unsqueeze (m, axis) keep = Cast <to = 9> (u) masked = Where (keep, s, c)", IDS),
        ("u = Unsqueeze (m, axis) d = Equal (u, zero) masked = Where (d, c, s)", MASK),
        (
            "u = Unsqueeze (m, axis) keep = Cast <to = 9> (u) f = Cast <to = 1> (keep)"
            "t = Sub (one, f) n = Mul (t, c) masked = Add (s, n)",
            IDS,
        ),
    ],
)
def test_what_is_not_0_keeps_a_score_where_the_graph_says_so(body, kind):
    made = attention(body, kind, {"c": -1e9})
    given = feeds(made)
    samples = [{**given, "m": given["m"] * given["m"].dtype.type(7)}]
    result = quantize(made, samples)
    assert result.verdict == "ok" and float_nodes(result.model) == []
    assert result.report["accuracy"]["outputs"][0]["sqnr_db"] > 25
    assert verify(result.model, made, samples).verdict == "ok"


def test_an_excluded_mask_is_added_in_float():
    made = attention(*FORMS["floats"])
    made.graph.node[-4].name = "mask"
    found = quantize(made, [feeds(made)], nodes_to_exclude=["mask"])
    assert "Add" in [node.op_type for node in found.model.graph.node]


def _encoder(layer, x):
    """A layer of an encoder of two heads, from ``x`` to n0 or n1."""
    text = """
        q# = MatMul (X, wq#) k# = MatMul (X, wk#) v# = MatMul (X, wv#)
        qh# = Reshape (q#, heads) kh# = Reshape (k#, heads) vh# = Reshape (v#, heads)
        qt# = Transpose <perm = [0, 2, 1, 3]> (qh#) kt# = Transpose <perm = [0, 2, 3, 1]> (kh#)
        vt# = Transpose <perm = [0, 2, 1, 3]> (vh#) raw# = MatMul (qt#, kt#)
        s# = Div (raw#, two) m# = Add (s#, mask) p# = Softmax <axis = -1> (m#)
        c# = MatMul (p#, vt#) t# = Transpose <perm = [0, 2, 1, 3]> (c#)
        r# = Reshape (t#, whole) o# = MatMul (r#, wo#) a# = Add (o#, X)
        n# = LayerNormalization (a#, gamma, beta)
    """
    return text.replace("#", str(layer)).replace("X", x)


@pytest.mark.parametrize("low", [-10000.0, LOWEST])
def test_an_encoder_with_a_mask_is_integer_from_ids_to_scores(low):
    head = """
        u = Unsqueeze (attention_mask, inner) f = Cast <to = 1> (u) d = Sub (one, f)
        mask = Mul (d, low) e = Gather (table, ids) x = LayerNormalization (e, gamma, beta)
    """
    tail = "first = Gather <axis = 1> (n1, zero) z = MatMul (first, w) y = LogSoftmax (z)"
    weights = {
        f"w{name}{layer}": numbers(WIDTH, WIDTH, seed=10 * layer + place) * np.float32(0.5)
        for layer in range(2)
        for place, name in enumerate("qkvo")
    }
    made = model(
        f"""g (int64[N, T] ids, int64[N, T] attention_mask) => (float[N, 3] y) {{
            {head} {_encoder(0, "x")} {_encoder(1, "n0")} {tail}
        }}""",
        table=numbers(30, WIDTH),
        gamma=np.ones(WIDTH, np.float32),
        beta=np.zeros(WIDTH, np.float32),
        heads=np.array([0, 0, 2, WIDTH // 2]),
        whole=np.array([0, 0, WIDTH]),
        two=np.float32(2),
        one=np.float32(1),
        low=np.float32(low),
        inner=np.array([1, 2]),
        zero=np.int64(0),
        w=numbers(WIDTH, 3),
        **weights,
    )

    def texts(seed):
        rng = np.random.default_rng(seed)
        kept = np.arange(12) < rng.integers(2, 13, 16)[:, None]
        ids = rng.integers(0, 30, (16, 12))
        return {"ids": ids, "attention_mask": kept.astype(np.int64)}

    samples = [texts(seed) for seed in range(4)]
    result = quantize(made, samples)
    assert result.verdict == "ok" and result.report["summary"]["float_nodes"] == []
    ops = [node.op_type for node in result.model.graph.node]
    assert ops.count("Where") == 2 and ops.count("Or") == (low == -10000.0)
    assert decibels(run(made, texts(9)), run(result.model, texts(9))) > 20
    assert verify(result.model, made, samples).verdict == "ok"
