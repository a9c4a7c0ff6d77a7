"""Float ONNX in, proven integer-only ONNX out."""

from typing import TYPE_CHECKING, Any

from opsets.errors import DataError, ModelError, QPassesError, UsageError, VerificationError

if TYPE_CHECKING:
    from calibration import Preprocessing
    from calibration.presets import preprocessing
    from qpasses.api import Result, inspect, quantize, verify

__all__ = [
    "DataError",
    "ModelError",
    "Preprocessing",
    "QPassesError",
    "Result",
    "UsageError",
    "VerificationError",
    "inspect",
    "preprocessing",
    "quantize",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import the interface on first use: the command line must start in a moment."""
    if name in __all__:
        from calibration import presets
        from qpasses import api

        return presets.preprocessing if name == "preprocessing" else getattr(api, name)
    raise AttributeError(f"module 'qpasses' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is imported on first use is there for completion too."""
    return __all__
