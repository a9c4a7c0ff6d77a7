"""A piece of a graph: some of its nodes, loaded when they first run."""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
import onnx
from onnx import helper

from calibration import Session
from calibration.pieces import Parts

Values = Mapping[str, Any]
"""By name: arrays, in the order of axes that the graph has them in."""


class Piece:
    """Some nodes of ``parts`` in a session of their own, on one thread.

    ``optimize``: let onnxruntime do so.
    """

    def __init__(
        self,
        parts: Parts,
        nodes: Sequence[onnx.NodeProto],
        writes: Sequence[str],
        *,
        optimize: bool = True,
    ) -> None:
        self._parts, self._nodes, self.writes = parts, nodes, writes
        self._optimize = optimize
        self._session: Session | None = None
        self._lock = Lock()

    def run(self, values: Values) -> list[Any]:
        """What is written, for what is read. Raises ModelError."""
        with self._lock:
            if self._session is None:
                self._session = self._loaded(values)
        return self._session.run(self.writes, values)

    def _loaded(self, values: Values) -> Session:
        inputs = [_info(*each) for each in values.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.writes]
        made = self._parts.model_of(self._nodes, inputs, outputs)
        config = {"session.disable_quant_qdq": "1"}
        return Session(made, threads=1, arena=False, config=config, optimize=self._optimize)


def _info(name: str, value: Any) -> onnx.ValueInfoProto:
    """Of a tensor, or a sequence of tensors, as ``value`` is one."""
    is_sequence = isinstance(value, list)
    first = np.asarray(value[0] if is_sequence and value else value)
    kind = helper.np_dtype_to_tensor_dtype(first.dtype)
    if not is_sequence:
        return helper.make_tensor_value_info(name, kind, [None] * first.ndim)
    return helper.make_tensor_sequence_value_info(name, kind, None)
