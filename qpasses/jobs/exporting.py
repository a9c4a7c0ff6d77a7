"""What an integer model is exported as."""

from collections.abc import Mapping
from pathlib import Path

from opsets.errors import UsageError
from qpasses.ir.choices import ExportFormat
from qpasses.ir.integer_commands import ExportOptions

_SUFFIXES: Mapping[str, ExportFormat] = {".mlir": "tosa", ".tflite": "tflite"}

_OF_TFLITE = "tflite_runtime", "inference_input_type", "inference_output_type", "io_layout"


def export_format(asked: ExportOptions) -> ExportFormat:
    """What is asked for, or how the output is called. Raises UsageError where neither says it,
    and for what is asked of another form.
    """
    found = asked.to or _by_suffix(asked.output)
    usual = ExportOptions(integer=asked.integer)
    for name in _OF_TFLITE:
        if found != "tflite" and getattr(asked, name) != getattr(usual, name):
            flag = name.replace("_", "-")
            raise UsageError(f"{name} (--{flag}) is about TFLite files: give --to tflite")
    if found != "tosa" and asked.tosa_profile != usual.tosa_profile:
        raise UsageError("tosa_profile (--tosa-profile) is about TOSA: give --to tosa")
    return found


def _by_suffix(output: str | Path | None) -> ExportFormat:
    if output is None:
        return "tosa"
    suffix = Path(output).suffix
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"{output}: say what it is to be, --to tosa, tflite or vectors, or call it .mlir "
            "or .tflite"
        )
    return _SUFFIXES[suffix]
