"""Free sizes of a model's inputs, fixed where the user says what they are."""

from collections.abc import Sequence
from pathlib import Path

import onnx

from opsets.errors import UsageError
from qpasses.ir.input_shape import FREE, InputShape

_OPTION = "input_shape (--input-shape)"


def with_input_shapes(
    model: onnx.ModelProto, texts: Sequence[str], path: Path
) -> onnx.ModelProto:
    """``model`` whose inputs have the sizes that ``texts`` say; itself if there are none.

    A free size that has a name is the same number wherever the model has that name, unless
    the sizes that are given contradict each other there: some exporters call all by one.
    Raises UsageError, naming the input, for what the model does not take.
    """
    if not texts:
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    found = _by_input(made, [InputShape.parsed(text) for text in texts], path)
    symbols: dict[str, set[int]] = {}
    for value, sizes in found:
        _check(value, sizes, path)
        shape = value.type.tensor_type.shape
        if not value.type.tensor_type.HasField("shape"):
            shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in sizes)
        for dim, size in zip(shape.dim, sizes, strict=True):
            if size != FREE:
                symbols.setdefault(dim.dim_param, set()).add(size)
                dim.dim_value = size
    known = {name: size for name, (size, *others) in symbols.items() if name and not others}
    graph = made.graph
    for value in [*graph.input, *graph.output, *graph.value_info]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in known:
                dim.dim_value = known[dim.dim_param]
    return made


def _by_input(
    model: onnx.ModelProto, shapes: Sequence[InputShape], path: Path
) -> list[tuple[onnx.ValueInfoProto, Sequence[int]]]:
    """The inputs that ``shapes`` name, each with its sizes."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {each.name: each for each in model.graph.input if each.name not in constants}
    listed = ", ".join(map(repr, inputs)) or "none"
    found: dict[str, Sequence[int]] = {}
    for each in shapes:
        if not each.name and len(inputs) != 1:
            raise UsageError(
                f"{_OPTION}: {_shown(each.sizes)} names no input, and {path} has "
                f"{len(inputs)} ({listed}): write NAME:{_shown(each.sizes)}"
            )
        name = each.name or next(iter(inputs))
        if name not in inputs:
            raise UsageError(f"{_OPTION}: {path} has no input {name!r}, its inputs: {listed}")
        if name in found:
            raise UsageError(f"{_OPTION}: input {name!r} is given twice")
        found[name] = each.sizes
    return [(inputs[name], sizes) for name, sizes in found.items()]


def _check(value: onnx.ValueInfoProto, sizes: Sequence[int], path: Path) -> None:
    """Raise UsageError if the input ``value`` cannot have these sizes."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        raise UsageError(f"{_OPTION}: input {value.name!r} of {path} is not a tensor")
    if not kind.HasField("shape"):
        return
    said = [dim.dim_value if dim.dim_value > 0 else FREE for dim in kind.shape.dim]
    shown = ", ".join("?" if size == FREE else str(size) for size in said)
    if len(said) != len(sizes):
        raise UsageError(
            f"{_OPTION}: input {value.name!r} of {path} has {len(said)} dimensions, "
            f"[{shown}], not the {len(sizes)} of {_shown(sizes)}"
        )
    if any(FREE not in pair and pair[0] != pair[1] for pair in zip(said, sizes, strict=True)):
        raise UsageError(
            f"{_OPTION}: input {value.name!r} of {path} is [{shown}], which {_shown(sizes)} "
            "contradicts: only free sizes (?) can be fixed"
        )


def _shown(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))
