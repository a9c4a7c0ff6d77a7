"""Arguments: what the functions of the Python interface take, checked and read."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from importlib.metadata import version
from pathlib import Path

import onnx

from calibration import Engine, Preprocessing, Session, input_specs, presets
from calibration.collect import collect
from calibration.held_weights import with_held
from calibration.inputs import InputSpec
from calibration.session import takes_layouts
from opsets.argument_kinds import check_kind, check_path, shown
from opsets.errors import ModelError, UsageError
from opsets.target import Target, load_target
from qpasses.ir.choices import EngineName
from qpasses.ir.input_shape import as_texts
from qpasses.ir.model_nodes import nodes_of
from qpasses.load.added_masks import added_masks
from qpasses.load.double_precision import is_double, narrowed
from qpasses.load.foreign import is_quantized, standard_qdq
from qpasses.load.half_precision import half_type, widened
from qpasses.load.input_sizes import with_input_shapes
from qpasses.load.reading import (
    check_float,
    check_not_ours,
    check_weights,
    check_zero_points,
    checked_model,
    digest,
    read_model,
)
from qpasses.load.upgrade import runnable


def given_paths(*given: str | Path | None) -> list[Path]:
    """Those that are not None."""
    for path in given:
        check_path("the path to write", path)
    return [Path(path) for path in given if path is not None]


def given_model(
    model: str | Path | onnx.ModelProto, lenient: bool = False
) -> tuple[onnx.ModelProto, Path]:
    """The checked model, and its path or what stands for one in messages."""
    check_kind("model", model, "str | Path | onnx.ModelProto")
    if isinstance(model, onnx.ModelProto):
        path = Path("<ModelProto>")
        return checked_model(with_held(model), path, lenient), path
    return read_model(Path(model), lenient), Path(model)


Shapes = Sequence[str] | Mapping[str, Sequence[int]]
"""What ``input_shape`` is given as."""


@dataclass(frozen=True)
class Source:
    """A model to make integers of, at an opset that onnxruntime runs.

    ``model``: as it is rewritten; ``reference``: as it is run for comparison, which is the
    model itself where onnxruntime runs it. ``is_quantized``: it says itself how tensors are
    stored; ``dynamic``: the nodes that find scales at run time; ``notes``: by node, what could
    not be taken over; ``is_sized``: free sizes of its inputs are fixed;
    ``remarks``: what users have to know of how it was read; ``narrowed``: its inputs in
    float64 that are read in float32, which they were not.
    """

    model: onnx.ModelProto
    path: Path
    reference: onnx.ModelProto
    is_quantized: bool = False
    dynamic: Sequence[str] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    is_sized: bool = False
    remarks: Sequence[str] = ()
    narrowed: Collection[str] = ()

    @cached_property
    def sha256(self) -> str:
        """Of the model as it was given."""
        return digest(self.reference)

    def sized(self, shapes: Shapes) -> "Source":
        """With free sizes of its inputs fixed; the model as it was given keeps them free.

        Raises UsageError for shapes that do not fit.
        """
        texts = as_texts(shapes)
        made = with_input_shapes(self.model, texts, self.path)
        return replace(self, model=made, is_sized=bool(texts) or self.is_sized)

    @property
    def specs(self) -> Sequence[InputSpec]:
        """What a feed must give."""
        with naming(self.path):
            found, masks = input_specs(self.model, self.is_sized), added_masks(self.model)
            return [replace(each, drops=each.name in masks) for each in found]

    def session(self) -> Session:
        """The model as it was given, in onnxruntime.

        If it is quantized without optimizations, which change its results.
        """
        layouts = takes_layouts(self.reference)
        return Session(self.reference, optimize=not self.is_quantized, layouts=layouts)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let a ModelError from here on say which file it is about, if it does not yet."""
    try:
        yield
    except ModelError as error:
        if str(path) in str(error):
            raise
        raise ModelError(f"{path}: {error}") from error


def given_source(model: str | Path | onnx.ModelProto) -> Source:
    """A float model, or one that says itself how its tensors are stored.

    Raises ModelError for what cannot be treated.
    """
    return source_of(*given_model(model, lenient=True))


def source_of(given: onnx.ModelProto, path: Path) -> Source:
    """``given_source`` of a model that was read, leniently, from ``path``."""
    with naming(path):
        return _source(given, path)


def _source(given: onnx.ModelProto, path: Path) -> Source:
    check_not_ours(given, path)
    if not is_quantized(given):
        return _float_source(given, path)
    check_weights(given, path)
    check_zero_points(given, path)
    translated = standard_qdq(given, path)
    made = runnable(translated.model, path)
    reference = runnable(given, path) if _runs(given) else made
    return Source(made, path, reference, True, translated.dynamic, translated.notes)


def _float_source(given: onnx.ModelProto, path: Path) -> Source:
    half, remarks, inputs = half_type(given), [], frozenset[str]()
    if half is not None:
        given = widened(given)
        remarks.append(
            f"the model is {half}: it was converted to float32 first, inputs and outputs too"
        )
    if is_double(given):
        made = narrowed(given)
        if is_double(made.model):
            raise ModelError(
                f"{path}: all its weights are float64, and need it ({made.reasons}): convert "
                "the model to float32 first, where that does no harm"
            )
        given = made.model
        remarks += made.remarks
        inputs = frozenset(made.inputs)
    check_float(given, path)
    plain = runnable(given, path)
    return Source(plain, path, plain, remarks=remarks, narrowed=inputs)


def _runs(model: onnx.ModelProto) -> bool:
    """Whether onnxruntime knows the domains of all nodes; what else is imported is unused."""
    known = {function.domain for function in model.functions} | _RUN_BY_ONNXRUNTIME
    return all(node.domain in known for node in nodes_of(model))


_RUN_BY_ONNXRUNTIME = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"}


def given_float_model(model: str | Path | onnx.ModelProto) -> Source:
    """``given_source``, of a float model alone."""
    source = given_source(model)
    if source.is_quantized:
        raise ModelError(
            f"{source.path}: is quantized already, it says itself how tensors are stored: "
            "`qpasses integerize` makes integers of it, with --data for what it does not say"
        )
    return source


def given_preprocessing(given: Preprocessing | str | None) -> Preprocessing | None:
    """It, or that of its name."""
    if given is None or isinstance(given, Preprocessing):
        return given
    if isinstance(given, str):
        return presets.preprocessing(given)
    raise UsageError(
        f"preprocessing: a name or a qpasses.Preprocessing is needed, got {shown(given)}"
    )


def given_target(target: str | Path | Target, exact: bool) -> Target:
    """Its rules; ``exact`` stands for the target of that name."""
    if not isinstance(target, str | Path | Target):
        raise UsageError(f"target: a name, a path or a Target is needed, got {shown(target)}")
    rules = target if isinstance(target, Target) else load_target(target)
    if not exact:
        return rules
    if target not in ("onnx", "exact"):
        raise UsageError(f"exact with target {rules.name!r}: they choose the arithmetic both")
    return load_target("exact")


def given_engine(name: EngineName, address: str | None) -> Engine:
    """What collects statistics, here or on a Ray cluster at ``address``."""
    if name == "ray":
        from calibration.ray_engine import collect_on_ray

        return partial(collect_on_ray, address=address)
    if address is not None:
        raise UsageError(f"ray_address {address!r} is for engine 'ray'")
    return collect


@cache
def tool_version() -> str:
    """The installed version of this package."""
    return version("qpasses")
