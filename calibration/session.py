"""onnxruntime as the toolkit uses it: quiet, on the CPU, its failures in the user's terms."""

import os
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from numpy.typing import NDArray

from calibration.draws import all_nodes, settled
from calibration.held_weights import are_many, unmap
from calibration.inputs import Feed, tensors
from calibration.large_weights import handed_over, held_in_place, of_products, put_apart
from calibration.revealed import BODIES, revealed
from calibration.silent import ort
from calibration.silent import state as _state
from opsets.errors import ModelError, UsageError
from opsets.native import KERNELS

_FAILURES = tuple(
    kind
    for kind in vars(_state).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)
"""onnxruntime's exceptions have no common base of their own."""

_FATAL = 4
"""The severity of log messages that are shown: errors come as exceptions, and warnings are not
the user's. Nothing else in the toolkit sets onnxruntime's loggers."""

ort.set_default_logger_severity(_FATAL)  # for what optimizers say to no session's logger


def takes_layouts(model: onnx.ModelProto) -> bool:
    """Whether blocked layouts pay: the time to find them is quadratic in the Convs.

    Of a model with bodies onnxruntime writes two tensors of one name for them.
    """
    if any(node.op_type in BODIES for node in model.graph.node):
        return False
    return [node.op_type for node in model.graph.node].count("Conv") <= _MANY_CONVS


_MANY_CONVS = 2048
"""For 20,000 in a row onnxruntime looks for layouts six times as long as for all else."""


def inference_session(
    source: str | bytes, options: ort.SessionOptions
) -> ort.InferenceSession:
    """onnxruntime's own, on the CPU. Raises ModelError if it cannot load the model."""
    try:
        return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except _FAILURES as error:
        raise ModelError(f"onnxruntime cannot load the model: {_reason(error)}") from error


def add_operators(
    options: ort.SessionOptions, place: Path, model: onnx.ModelProto | None = None
) -> None:
    """Let sessions with these options know the ops of a compiled library.

    All, or those alone that ``model`` has, which is loaded ten times as soon. Raises
    UsageError if the library refuses: where QPASSES_ISA names what is not there.
    """
    if model is not None:
        parts = [model.graph, *model.functions]
        present = {node.op_type for part in parts for node in all_nodes(part)}
        names = [name for name in KERNELS if name in present]
        options.add_session_config_entry("qpasses.ops", ",".join(["", *names, ""]))
    try:
        options.register_custom_ops_library(str(place))
    except _FAILURES as error:
        raise UsageError(f"{place}: {_reason(error)}") from error


class Session:
    """A model loaded in onnxruntime; ModelError if it cannot load or run it."""

    def __init__(
        self,
        model: onnx.ModelProto | bytes | Path,
        *,
        optimize: bool = True,
        threads: int = 0,
        config: Mapping[str, str] = MappingProxyType({}),
        optimized: Path | None = None,
        arena: bool | None = None,
        patterns: bool = False,
        operators: Path | None = None,
        layouts: bool = True,
        outputs: Sequence[onnx.ValueInfoProto] = (),
        in_place: bool = True,
    ) -> None:
        """Load ``model``; ``threads`` 0 leaves the number to onnxruntime.

        ``config`` holds entries of onnxruntime's session configuration; ``optimized`` is where
        to write the graph as the optimizer leaves it. ``arena``: keep memory between runs, by
        default where ``optimize``. ``patterns``: plan it for each size of the inputs, which is
        quadratic in the nodes and pays for small tensors in many runs. ``operators``: a
        library of custom ones; nodes then run in the order in which they stand. ``layouts``:
        let onnxruntime change that of tensors. ``outputs``: of a model in memory, instead of
        its own. ``in_place``: read held weights where they are; else they may be let go, they
        are in a file. What a model in memory draws is the same in each run.
        """
        if isinstance(model, onnx.ModelProto):
            whole = revealed(model, outputs)
            outputs = outputs if whole is model else ()
            model = settled(whole)
        options = ort.SessionOptions()
        options.log_severity_level = _FATAL
        options.intra_op_num_threads = threads
        if optimized is not None:
            options.optimized_model_filepath = str(optimized)
        for key, value in config.items():
            options.add_session_config_entry(key, value)
        # several sessions live at once: idle threads that spin would take each other's cores
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # without an arena memory is given back at once: good for a run or two
        options.enable_cpu_mem_arena = optimize if arena is None else arena
        options.enable_mem_pattern = patterns
        if operators is not None:
            options.execution_order = ort.ExecutionOrder.PRIORITY_BASED
            known = model if isinstance(model, onnx.ModelProto) else None
            add_operators(options, operators, known)
        if not optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        elif not layouts:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        self._weights: Sequence[ort.OrtValue] = ()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if isinstance(model, onnx.ModelProto) and are_many(model):
            options.add_session_config_entry("session.disable_prepacking", "1")
            self._folder = tempfile.TemporaryDirectory(prefix="qpasses-")
            kept = of_products(model) if optimize else None
            self._share(held_in_place(model) if in_place else {}, options, kept)
            model = put_apart(model, Path(self._folder.name), outputs)
            unmap()
        elif isinstance(model, onnx.ModelProto):
            kept = of_products(model) if optimize else None
            model, weights = handed_over(model, outputs)
            values = self._share(weights, options, kept)
            options.add_external_initializers([*weights], values)
        source = str(model) if isinstance(model, Path) else model
        self._session = inference_session(source, options)
        if self._folder is not None and os.name == "posix":  # what is mapped stays
            self._folder.cleanup()
        self.outputs: list[str] = [output.name for output in self._session.get_outputs()]

    def _share(
        self,
        weights: Mapping[str, NDArray[Any]],
        options: ort.SessionOptions,
        kept: Collection[str] | None,
    ) -> Sequence[ort.OrtValue]:
        """Let kernels read ``weights`` where they are: nothing else is kept of them.

        But of an optimized model those alone that are ``kept`` as they are.
        """
        self._weights = [*map(ort.OrtValue.ortvalue_from_numpy, weights.values())]
        for name, value in zip(weights, self._weights, strict=True):
            if kept is None or name in kept:
                options.add_initializer(name, value)
        return self._weights

    def run(
        self,
        outputs: Sequence[str] | None,
        feed: Feed,
        sample: str = "",
    ) -> list[NDArray[Any]]:
        """The named outputs (all, in order, for None) for one feed by input name.

        A ModelError names the ``sample``, where that is given, and the shapes of the feed.
        """
        try:
            found: list[NDArray[Any]] = self._session.run(outputs, dict(feed))
        except _FAILURES as error:
            shapes = {name: np.shape(array) for name, array in tensors(feed).items()}
            raise _cannot_run(error, sample, shapes) from error
        return found

    def run_in_place(
        self, outputs: Sequence[str], feed: Mapping[str, ort.OrtValue], sample: str = ""
    ) -> list[ort.OrtValue]:
        """``run`` on onnxruntime's own tensors, whose memory is not copied."""
        try:
            found: list[ort.OrtValue] = self._session.run_with_ort_values(outputs, feed)
        except _FAILURES as error:
            shapes = {name: value.shape() for name, value in feed.items()}
            raise _cannot_run(error, sample, shapes) from error
        return found


def serialized(model: onnx.ModelProto) -> bytes:
    """``model`` as bytes. Raises ModelError if there are too many."""
    try:
        content: bytes = model.SerializeToString()
    except EncodeError as error:
        raise ModelError(
            "the model is larger than the 2 GB that one ONNX file in memory may have"
        ) from error
    return content


def _cannot_run(
    error: Exception, sample: str, shapes: Mapping[str, Sequence[int]]
) -> ModelError:
    listed = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
    where = f" on {sample} ({listed})" if sample else ""
    return ModelError(f"onnxruntime cannot run the model{where}: {_reason(error)}")


def _reason(error: Exception) -> str:
    """What onnxruntime says, without its own framing and without places in its code."""
    text = str(error).rsplit("Status Message: ", 1)[-1].strip().splitlines()[0]
    for pattern, said in _FRAMING:
        text = pattern.sub(said, text)
    return text


_FRAMING = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", ""),
        (r"^\S*/onnxruntime_src/\S+:\d+ .*?\) (?=[A-Z])", ""),
        (
            r"^ONNX Runtime only \*guarantees\* support .* Opset (\d+) is under development "
            r".* for domain (\S+) is till opset (\d+)\.?.*$",
            rf"opset \1 of domain \2 is newer than onnxruntime {ort.__version__} knows (\3): "
            r"export the model at opset \3 or lower",
        ),
        (
            r"^Fatal error: (.*):(\S+?)\(-?\d+\) is not a registered function/op$",
            r"it has no operator \2 of domain \1, which the model needs",
        ),
        (r"^std::bad_alloc$", "a tensor does not fit into memory"),
    )
)
"""What stands around its messages, and those that are said otherwise to users."""
