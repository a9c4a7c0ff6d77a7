"""Float ONNX in, proven integer-only ONNX out."""

from typing import TYPE_CHECKING, Any

from opsets.errors import DataError, ModelError, QPassesError, UsageError, VerificationError

if TYPE_CHECKING:
    from qpasses.api import Result, inspect, quantize, verify

__all__ = [
    "DataError",
    "ModelError",
    "QPassesError",
    "Result",
    "UsageError",
    "VerificationError",
    "inspect",
    "quantize",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import the interface on first use: the command line must start in a moment."""
    if name in __all__:
        from qpasses import api

        return getattr(api, name)
    raise AttributeError(f"module 'qpasses' has no attribute {name!r}")
