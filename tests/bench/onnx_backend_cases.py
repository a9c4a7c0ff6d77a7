"""The cases of onnx's own backend test suite: models with inputs, made from the package.

Node cases are made by the definitions that the package holds, the others lie in it as files.
The real networks, which it would download, are left away.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

FOLDERS = ("pytorch-converted", "pytorch-operator")
"""Families that lie in the package as files."""

SEVERAL = "several ops"

_FLOATS = {
    getattr(onnx.TensorProto, name) for name in ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16")
}


@dataclass(frozen=True)
class Case:
    """A model with one or more feeds; ``op``: the op type that it is about."""

    name: str
    family: str
    op: str
    model: onnx.ModelProto
    feeds: Sequence[Mapping[str, Any]]

    @property
    def has_float_inputs(self) -> bool:
        """Whether there is anything to quantize at the entrance."""
        kinds = {value.type.tensor_type.elem_type for value in _fed(self.model.graph)}
        return bool(kinds & _FLOATS)


@cache
def cases() -> Sequence[Case]:
    """All of them, sorted by family and name, the same ones each time."""
    # onnx draws inputs while its modules are imported, at first without a seed of its own
    state = np.random.get_state()
    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, on infinities that are meant
        found = _defined()
    np.random.set_state(state)
    for family in FOLDERS:
        found += [_stored(path) for path in _data().joinpath(family).iterdir()]
    return sorted(found, key=lambda case: (case.family, case.name))


def _data() -> Path:
    return Path(onnx.__file__).parent / "backend" / "test" / "data"


def _defined() -> list[Case]:
    """The cases of nodes, and the small models that are defined beside them."""
    from onnx.backend.test.case.model import collect_testcases
    from onnx.backend.test.loader import load_node_model_tests

    # outputs are not looked at, but for their shapes, nor is the source of cases
    quick = {
        "onnx.reference.ops.op_pool_common.pool": _zeros,
        "onnx.backend.test.case.base.process_snippet": lambda *_: ("", ""),
    }
    with ExitStack() as stack:
        for name, instead in quick.items():
            stack.enter_context(patch(name, instead))
        nodes = load_node_model_tests()
    models = [each for each in collect_testcases() if each.kind == "simple"]
    ops = {each.name: _op(_model(each)) for each in nodes}
    made = []
    for each in (*nodes, *models):
        # a function's body stands for its op: test_celu_expanded_ver18 is about Celu
        base = each.name.partition("_expanded")[0]
        op = ops.get(base) or _op(_model(each))
        made.append(_case(each.name, each.kind, op, _model(each), each.data_sets or []))
    return made


def _zeros(
    padded: NDArray[Any],
    x_shape: Sequence[int],
    _kernel: Sequence[int],
    _strides: Sequence[int],
    out_shape: Sequence[int],
    *_rest: Any,
    **_options: Any,
) -> NDArray[Any]:
    """In place of onnx's pools, each window of which takes it a loop."""
    return np.zeros([*x_shape[:2], *out_shape], padded.dtype)


def _model(case: TestCase) -> onnx.ModelProto:
    assert case.model is not None
    return case.model


def _op(model: onnx.ModelProto) -> str:
    types = {node.op_type for node in model.graph.node} - {"Constant"}
    return types.pop() if len(types) == 1 else SEVERAL


def _stored(folder: Path) -> Case:
    """A case of a folder, with all its sets of inputs."""
    model = onnx.load(folder / "model.onnx")
    sets = []
    for path in sorted(folder.glob("test_data_set_*")):
        count = len([*path.glob("input_*.pb")])
        tensors = [onnx.load_tensor(path / f"input_{index}.pb") for index in range(count)]
        sets.append((tensors, ()))
    return _case(folder.name, folder.parent.name, _op(model), model, sets)


def _case(
    name: str, family: str, op: str, model: onnx.ModelProto, sets: Sequence[Any]
) -> Case:
    names = [value.name for value in _fed(model.graph)]
    feeds = []
    for inputs, _ in sets:
        if len(inputs) > len(names):  # weights are given with them
            names = [value.name for value in model.graph.input]
        feeds.append(dict(zip(names, map(_array, inputs), strict=False)))
    return Case(name, family, op, model, feeds)


def _fed(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def _array(value: Any) -> Any:
    """As onnxruntime takes it: an array, or a list of arrays for a sequence."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if value is None or isinstance(value, list) else np.asarray(value)
