"""States that the user names: both ends exist, and can hold the same values."""

from collections.abc import Sequence
from pathlib import Path

import onnx

from opsets.errors import UsageError
from qpasses.ir.state_names import state_pairs

_OPTION = "states (--states)"


def check_states(model: onnx.ModelProto, texts: Sequence[str], path: Path) -> None:
    """Raise UsageError, naming what is wrong, for ``texts`` that are no states of ``model``.

    Sizes that the model leaves free, or does not say, may be any.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {each.name: each for each in model.graph.input if each.name not in constants}
    outputs = {each.name: each for each in model.graph.output}
    for start, end in state_pairs(texts):
        given = _end_called(start, "input", inputs, path)
        following = _end_called(end, "output", outputs, path)
        types = [onnx.TensorProto.DataType.Name(_type_of(v)) for v in (given, following)]
        if types[0] != types[1]:
            raise UsageError(
                f"{_OPTION}: input {start!r} of {path} is {types[0]}, output {end!r} "
                f"{types[1]}: a state has one type"
            )
        sizes, others = _sizes(given), _sizes(following)
        if sizes is None or others is None:
            continue
        known = zip(sizes, others, strict=False)
        if len(sizes) != len(others) or any(a != b for a, b in known if a and b):
            raise UsageError(
                f"{_OPTION}: input {start!r} of {path} has sizes {_shown(sizes)}, output "
                f"{end!r} {_shown(others)}: a state keeps its sizes"
            )


def _end_called(
    name: str, what: str, known: dict[str, onnx.ValueInfoProto], path: Path
) -> onnx.ValueInfoProto:
    if name not in known:
        listed = ", ".join(map(repr, known)) or "none"
        raise UsageError(f"{_OPTION}: {path} has no {what} {name!r}, but {listed}")
    return known[name]


def _type_of(value: onnx.ValueInfoProto) -> int:
    return value.type.tensor_type.elem_type


def _sizes(value: onnx.ValueInfoProto) -> list[int] | None:
    """Those of each dimension, 0 where it is free; None where nothing is said."""
    kind = value.type.tensor_type
    return [dim.dim_value for dim in kind.shape.dim] if kind.HasField("shape") else None


def _shown(sizes: Sequence[int]) -> str:
    return f"[{', '.join(str(size) if size else 'free' for size in sizes)}]"
