"""onnxruntime, told before it is loaded to report nothing, nor write into HOME and TMPDIR.

From 1.32 on it keeps an id of the machine and a database there; its own switch comes too late.
"""

import os

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as state

__all__ = ["ort", "state"]
