"""onnxruntime as the toolkit uses it: quiet, on the CPU, its failures in the user's terms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from google.protobuf.message import EncodeError
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from opsets.errors import ModelError

_FAILURES = tuple(
    kind
    for kind in vars(_state).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)
"""onnxruntime's exceptions have no common base of their own."""


class Session:
    """A model loaded in onnxruntime; ModelError if it cannot load or run it."""

    def __init__(
        self,
        model: onnx.ModelProto | bytes | Path,
        *,
        optimize: bool = True,
        threads: int = 0,
    ) -> None:
        """Load ``model``; ``threads`` 0 leaves the number to onnxruntime."""
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        # several sessions live at once: idle threads that spin would take each other's cores
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if not optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        if isinstance(model, onnx.ModelProto):
            try:
                model = model.SerializeToString(deterministic=True)
            except EncodeError as error:
                raise ModelError(
                    "the model is larger than the 2 GB that one ONNX file in memory may have"
                ) from error
        source = str(model) if isinstance(model, Path) else model
        try:
            self._session = ort.InferenceSession(
                source, options, providers=["CPUExecutionProvider"]
            )
        except _FAILURES as error:
            raise ModelError(f"onnxruntime cannot load the model: {_reason(error)}") from error
        self.outputs: list[str] = [output.name for output in self._session.get_outputs()]

    def run(
        self,
        outputs: Sequence[str] | None,
        feed: Mapping[str, NDArray[Any]],
        sample: str = "",
    ) -> list[NDArray[Any]]:
        """The named outputs (all, in order, for None) for one feed by input name.

        A ModelError names the ``sample``, where that is given, and the shapes of the feed.
        """
        try:
            found: list[NDArray[Any]] = self._session.run(outputs, dict(feed))
        except _FAILURES as error:
            shapes = ", ".join(f"{name} {list(np.shape(a))}" for name, a in feed.items())
            where = f" on {sample} ({shapes})" if sample else ""
            reason = f"onnxruntime cannot run the model{where}: {_reason(error)}"
            raise ModelError(reason) from error
        return found


def _reason(error: Exception) -> str:
    """What onnxruntime says, without its own framing."""
    return str(error).rsplit("Status Message: ", 1)[-1].strip().splitlines()[0]
