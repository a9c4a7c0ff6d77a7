"""Float ONNX in, proven integer-only ONNX out."""

from typing import TYPE_CHECKING, Any

from opsets.errors import DataError, ModelError, QPassesError, UsageError, VerificationError

if TYPE_CHECKING:
    from calibration import Preprocessing
    from calibration.presets import preprocessing
    from qpasses.api import (
        analyze,
        bench,
        bisect,
        diff,
        export,
        inspect,
        integerize,
        preview,
        quantize,
        verify,
    )
    from qpasses.checking.bisecting.bisection import Bisection
    from qpasses.emit.tflite.emit_tflite import TfliteFile
    from qpasses.emit.tosa.emit import TosaProgram
    from qpasses.emit.vectors.vector_folder import Vectors
    from qpasses.ir.native_sessions import native_library, register, session
    from qpasses.ir.record import Quantization
    from qpasses.jobs.result import Result
    from qpasses.lowering.wide_tables import WideTables, wide_table
    from qpasses.place.calibrating import (
        CalibrationResult,
        calibrate,
        convert_table,
        merge_tables,
    )

__all__ = [
    "Bisection",
    "CalibrationResult",
    "DataError",
    "ModelError",
    "Preprocessing",
    "QPassesError",
    "Quantization",
    "Result",
    "TfliteFile",
    "TosaProgram",
    "UsageError",
    "Vectors",
    "VerificationError",
    "WideTables",
    "analyze",
    "bench",
    "bisect",
    "calibrate",
    "convert_table",
    "diff",
    "export",
    "inspect",
    "integerize",
    "merge_tables",
    "native_library",
    "preprocessing",
    "preview",
    "quantize",
    "register",
    "session",
    "verify",
    "wide_table",
]


def __getattr__(name: str) -> Any:
    """Import the interface on first use: the command line must start in a moment."""
    if name in __all__:
        from calibration import presets
        from qpasses import api
        from qpasses.ir import native_sessions
        from qpasses.lowering import wide_tables
        from qpasses.place import calibrating

        places = (api, calibrating, native_sessions, presets, wide_tables)
        return next(getattr(place, name) for place in places if hasattr(place, name))
    raise AttributeError(f"module 'qpasses' has no attribute {name!r}")


def __dir__() -> list[str]:
    """What is imported on first use is there for completion too."""
    return __all__
