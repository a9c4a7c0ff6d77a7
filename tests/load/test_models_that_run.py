"""What onnxruntime loads comes through, however unusual: to integers that are verified."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import qpasses
from tests.support.small_models import cnn, model, numbers, pictures

MATRIX = "g (float[N, 4] x, string[N] t) => (float[N, 3] y, string[N] u)"


def changed(change):
    made = cnn()
    change(made)
    return made


def of_sizes_below_0(made):
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = -1


def without(*parts):
    def change(made):
        value = made.graph.output[0]
        (value if parts == ("type",) else value.type.tensor_type).ClearField(parts[-1])

    return change


def sparse(places):
    """The last weights by position and value; ``places`` says how positions count."""

    def change(made):
        tensor = next(each for each in made.graph.initializer if each.name == "w2")
        values = numpy_helper.to_array(tensor)
        made.graph.initializer.remove(tensor)
        named = numpy_helper.from_array(values.ravel(), "w2")
        at = numpy_helper.from_array(places(values), "w2_places")
        made.graph.sparse_initializer.append(
            helper.make_sparse_tensor(named, at, list(values.shape))
        )

    return change


def sparse_constant(made):
    sparse(lambda values: np.arange(values.size))(made)
    node = helper.make_node("Constant", [], ["w2"])
    node.attribute.append(
        helper.make_attribute("sparse_value", made.graph.sparse_initializer[0])
    )
    del made.graph.sparse_initializer[:]
    made.graph.node.insert(0, node)


def labels():
    made = model(
        """g (float[N, 4] x) => (float[N, 3] y, string[N] z) {
            y = MatMul (x, w)
            i = ArgMax <axis = 1, keepdims = 0> (y)
            z = Gather (labels, i)
        }""",
        w=numbers(4, 3),
    )
    names = helper.make_tensor("labels", TensorProto.STRING, [3], [b"a", b"b", b"c"])
    made.graph.initializer.append(names)
    return made


UNUSUAL = {
    "an output without a shape": (changed(without("shape")), pictures()),
    "an output without a type": (changed(without("type")), pictures()),
    "sizes of -1": (changed(of_sizes_below_0), pictures()),
    "sparse weights": (changed(sparse(lambda v: np.arange(v.size))), pictures()),
    "sparse weights by axis": (
        changed(sparse(lambda v: np.argwhere(np.ones_like(v)))),
        pictures(),
    ),
    "a sparse constant": (changed(sparse_constant), pictures()),
    "a scalar input": (
        model(
            """g (float[N, 4] x, float s) => (float[N, 3] y) {
                a = MatMul (x, w) y = Mul (a, s)
            }""",
            w=numbers(4, 3),
        ),
        [{"x": numbers(2, 4), "s": np.float32(each)} for each in (1, 2, 3)],
    ),
    "labels": (labels(), numbers(8, 4)),
    "texts as input": (
        model(f"{MATRIX} {{ u = Identity (t) y = MatMul (x, w) }}", w=numbers(4, 3)),
        [{"t": np.array(["a", "b"]), "x": numbers(2, 4, seed=i)} for i in range(3)],
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", UNUSUAL)
def test_a_model_comes_through_with(name):
    made, data = UNUSUAL[name]
    result = qpasses.quantize(made, data)
    assert result.verdict == "ok"
    assert min(each["sqnr_db"] or 99 for each in result.report["accuracy"]["outputs"]) > 30
    assert qpasses.verify(result.model, made, data).verdict == "ok"


def halved(kind):
    """The network with all numbers in another type."""
    made = cnn()
    for tensor in made.graph.initializer:
        values = numpy_helper.to_array(tensor).tolist()
        flat = np.ravel(values).tolist()
        tensor.CopyFrom(helper.make_tensor(tensor.name, kind, tensor.dims, flat))
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = kind
    return made


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_a_model_in_half_precision_is_converted_and_that_is_said(kind):
    made, data = halved(kind), pictures().astype(np.float16)
    result = qpasses.quantize(made, data)
    assert result.verdict == "ok"
    name = TensorProto.DataType.Name(kind).lower()
    assert any(
        f"the model is {name}: it was converted" in w for w in result.report["warnings"]
    )
    (given,) = result.model.graph.input
    assert given.type.tensor_type.elem_type == TensorProto.FLOAT
    assert qpasses.verify(result.model, made, data).verdict == "ok"
    assert qpasses.calibrate(made, data).report["warnings"][0].startswith("the model is")


LAYER = '<domain: "mine", opset_import: ["" : 17]> Layer (a, b) => (c) { c = MatMul (a, b) }'
BEHIND = {
    "a Transpose": ("t = Transpose (w) h = MatMul (x, t)", {}),
    "an Identity": ("t = Identity (w) h = MatMul (x, t)", {}),
    "a function": ("h = mine.Layer (x, w)", {"functions": LAYER, "domains": ["mine"]}),
}


@pytest.mark.parametrize("name", BEHIND)
def test_so_is_one_whose_weights_are_read_behind(name):
    body, options = BEHIND[name]
    text = f"g (float16[N, 4] x) => (float16[N, 4] y) {{ {body} y = Relu (h) }}"
    made = model(text, opset=17, w=numbers(4, 4, dtype=np.float16), **options)
    feeds = [{"x": numbers(2, 4, seed=seed, dtype=np.float16)} for seed in range(4)]
    result = qpasses.quantize(made, feeds)
    assert (result.verdict, result.report["summary"]["float_nodes"]) == ("ok", [])
    assert qpasses.verify(result.model, made, feeds).verdict == "ok"


def test_an_input_without_a_shape_takes_it_from_the_option():
    made = cnn()
    made.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(qpasses.ModelError, match="'x' has no shape"):
        qpasses.quantize(made, pictures())
    assert qpasses.quantize(made, pictures(), input_shape=["1,1,8,8"]).verdict == "ok"


# Weights near the ends of float32


FACTORS = {
    "Mul": ("y = Mul (a, k)", {"k": np.full((1, 4, 1, 1), 1e30, np.float32)}),
    "BatchNormalization": (
        "y = BatchNormalization (a, k, zero, zero, one)",
        {
            "k": np.full(4, 1e30, np.float32),
            "zero": np.zeros(4, np.float32),
            "one": np.ones(4, np.float32),
        },
    ),
}


@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_is_not_folded_where_float32_does_not_hold_the_product(name):
    after, constants = FACTORS[name]
    made = model(
        f"g (float[N, 1, 8, 8] x) => (float[N, 4, 6, 6] y) {{ a = Conv (x, w) {after} }}",
        w=numbers(4, 1, 3, 3) * np.float32(1e20),
        **constants,
    )
    result = qpasses.quantize(made, pictures() * np.float32(1e-30))
    weights = [numpy_helper.to_array(each) for each in result.model.graph.initializer]
    assert all(np.isfinite(each).all() for each in weights)
    assert result.verdict == "ok"


def test_a_normalization_by_factors_beyond_float32_stays_in_float_by_name():
    made = model(
        """g (float[N, 1, 8, 8] x) => (float[N, 4, 6, 6] y, float[N, 4, 6, 6] c) {
            c = Conv (x, w)
            [norm] y = BatchNormalization (c, one, one, mean, one)
        }""",
        w=numbers(4, 1, 3, 3),
        one=np.full(4, 1e30, np.float32),
        mean=np.full(4, 1e30, np.float32),
    )
    (left,) = qpasses.quantize(made, pictures()).report["summary"]["float_nodes"]
    assert (left["name"], "float32 does not hold" in left["reason"]) == ("norm", True)


@pytest.mark.parametrize("attribute", ["alpha", "beta"])
def test_a_gemm_whose_factor_float32_does_not_hold_stays_in_float_by_name(attribute):
    made = model(
        f"""g (float[N, 4] x) => (float[N, 3] y) {{
            [gemm] y = Gemm <{attribute} = 1e30> (x, w, b)
        }}""",
        w=numbers(4, 3) * np.float32(1e20),
        b=numbers(3) * np.float32(1e20 if attribute == "beta" else 1),
    )
    scale = np.float32(1e-20 if attribute == "beta" else 1e-30)
    result = qpasses.quantize(made, numbers(8, 4) * scale, on_bad_sample="skip")
    (left,) = result.report["summary"]["float_nodes"]
    assert (left["name"], attribute in left["reason"]) == ("gemm", True)
