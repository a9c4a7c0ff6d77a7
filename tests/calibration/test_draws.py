"""What a model draws is the same in each run of a Session, and of the right distribution."""

import numpy as np
import pytest

import qpasses
from calibration import Session
from calibration.draws import settled
from tests.support.small_models import model, numbers, session

SHARES = np.float32([0.1, 0.2, 0.7])
LIKE = "g (float[N, M] x) => (float[N, M] y)"
ALONE = "g (float[N, M] x) => (float[a, b] y)"
DRAWS = {
    "normal": (LIKE, "y = RandomNormalLike <mean = 2.0, scale = 3.0> (x)", 2, 3),
    "uniform": (LIKE, "y = RandomUniformLike <low = -1.0, high = 5.0> (x)", 2, 3**0.5),
    "normal of nothing": (ALONE, "y = RandomNormal <shape = [99, 98], scale = 2.0> ()", 0, 2),
    "uniform of nothing": (ALONE, "y = RandomUniform <shape = [99, 98]> ()", 0.5, 12**-0.5),
    "a number": (
        "g () => (float y)",
        "y = RandomUniform <shape: ints = [], low = 1.99, high = 2.01> ()",
        *(2, 0),
    ),
    "in training": (LIKE, "y = Dropout (ones, share, yes)", 1, 3**-0.5),
    "in training, by half": (LIKE, "y = Dropout (ones, , yes)", 1, 1),
    "of a type": (
        "g (float[N, M] x) => (double[N, M] y)",
        "y = RandomNormalLike <dtype = 11> (x)",
        *(0, 1),
    ),
    "coins": (
        "g (float[N, M] x) => (int32[N, M] y)",
        "y = Bernoulli <dtype = 6> (p)",
        0.3,
        0.458,
    ),
    "rows": (
        "g (float[N, M] x) => (int32[N, M] y)",
        "l = Log (shares) y = Multinomial <sample_size = 9999> (l)",
        *(1.6, 0.663),
    ),
}


def drawing(name, opset):
    ends, body, *_ = DRAWS[name]
    constants = {
        "ones": np.ones((99, 98), np.float32),
        "share": np.float32(0.25),
        "yes": np.array(True),
        "p": np.full((99, 98), 0.3, np.float32),
        "shares": SHARES[None],
    }
    used = {key: value for key, value in constants.items() if key in body}
    return model(f"{ends} {{ {body} }}", opset=opset, **used)


@pytest.mark.parametrize("opset", [12, 17, 21, 24])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_the_same_in_each_run_and_have_their_mean_and_deviation(name, opset):
    if (name == "coins" and opset < 15) or (opset > 21 and "training" not in name):
        pytest.skip("Bernoulli is of opset 15; from 22 on onnxruntime has no noise")
    made = drawing(name, opset)
    feed = {each.name: numbers(99, 98) for each in made.graph.input}
    first = Session(made)
    (found,), (again,) = first.run(None, feed), first.run(None, feed)
    (other,) = Session(made, optimize=False).run(None, feed)
    (real,) = session(made).run(None, feed)
    assert np.array_equal(found, again) and np.array_equal(found, other)
    assert (found.dtype, found.shape) == (real.dtype, real.shape)
    mean, deviation = DRAWS[name][2:]
    assert abs(found.mean() - mean) < 0.05 * (1 + deviation)
    assert abs(found.std() - deviation) < 0.05 * (1 + deviation)


def test_tensors_of_other_names_are_drawn_apart():
    text = """g (float[N, M] x) => (float[N, M] z, float[N, M] v) {
        z = RandomNormalLike (x) v = RandomNormalLike (x)
    }"""
    z, v = Session(model(text)).run(None, {"x": numbers(99, 98)})
    assert abs(np.corrcoef(z.ravel(), v.ravel())[0, 1]) < 0.05


def test_a_model_that_draws_nothing_stays_as_it_is():
    made = model("g (float[N] x) => (float[N] y) { y = Dropout (x) }")
    assert settled(made) is made


NETS = {
    "noise": "r = RandomNormalLike (h) s = Mul (r, h)",
    "noise of nothing": "r = RandomUniform <shape = [2, 4]> () s = Add (r, h)",
    "noise with a seed": "r = RandomUniform <shape = [2, 4], seed = 1.0> () s = Add (r, h)",
    "coins": "p = Sigmoid (h) b = Bernoulli (p) s = Mul (b, h)",
    "training": "s = Dropout (h, half, yes)",
    "noise in a branch": """t = ReduceSum <keepdims = 0> (h) c = Greater (t, zero)
        s = If (c) <
            then_branch = t () => (float[N, 4] a) { a = RandomNormalLike (h) },
            else_branch = e () => (float[2, 4] b) { b = RandomNormal <shape = [2, 4]> () }
        >""",
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", NETS)
def test_a_model_that_draws_comes_through_and_draws_anew_as_before(name):
    constants = {"half": np.float32(0.5), "yes": np.array(True), "zero": np.float32(0)}
    used = {key: value for key, value in constants.items() if key in NETS[name]}
    body = f"h = MatMul (x, w) {NETS[name]} y = MatMul (s, w)"
    ends = "g (float[N, 4] x) => (float[N, 4] y)"
    made = model(f"{ends} {{ {body} }}", w=numbers(4, 4), **used)
    feeds = [{"x": numbers(2, 4, seed=seed)} for seed in range(4)]
    result = qpasses.quantize(made, feeds)
    assert qpasses.verify(result.model, made, feeds).verdict == result.verdict
    (accuracy,) = result.report["accuracy"]["outputs"]
    assert accuracy["sqnr_db"] > 30
    assert draws(result.model, feeds[0]) == draws(made, feeds[0]) == (name != "training")


def draws(made, feed):
    """In onnxruntime as it is, whose optimizer takes a Dropout out, of training too."""
    running = session(made)
    found = [running.run(None, feed)[0] for _ in range(8)]
    return any(not np.array_equal(found[0], each) for each in found)
