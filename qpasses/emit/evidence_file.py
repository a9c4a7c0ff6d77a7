"""The evidence file: where it lies, how it is written with its model, how it is read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from opsets.errors import UsageError
from opsets.ordinary_files import text_of
from qpasses.emit.certificate import SCHEMA, Certificate
from qpasses.emit.whole_files import Content, write_together
from qpasses.ir.choices import Emit

ENDING = ".evidence.json"


def evidence_path(model: Path) -> Path:
    """Where the evidence of ``model`` lies: model.evidence.json beside model.onnx."""
    stem = model.stem if model.suffix.lower() == ".onnx" else model.name
    return model.parent / (stem + ENDING)


def place_to_write(
    given: str | Path | None, output: str | Path | None, emit: Emit, stop_after: str | None
) -> Path | None:
    """Where ``quantize`` puts the evidence; None where there is none, or no place for it.

    Raises UsageError if a place is given for what there cannot be.
    """
    if emit != "qdq" and stop_after is None:
        beside = None if output is None else evidence_path(Path(output))
        return beside if given is None else Path(given)
    if given is not None:
        what = f"stop_after {stop_after!r}" if stop_after is not None else "emit 'qdq'"
        raise UsageError(
            f"evidence_file (--evidence) with {what}, which writes no integer model: there "
            "is no evidence, leave one of the two away"
        )
    return None


def place_to_read(
    given: str | Path | None, integer: str | Path | onnx.ModelProto
) -> Path | None:
    """The evidence that ``verify`` compares: the user's, else what lies beside ``integer``."""
    if given is not None:
        return Path(given)
    if isinstance(integer, onnx.ModelProto):
        return None
    beside = evidence_path(Path(integer))
    try:
        return beside if beside.exists() else None
    except OSError:  # a name too long for a file
        return None


def write_outputs(
    files: Mapping[Path, Content], certificate: Certificate | None, evidence: Path | None
) -> None:
    """Write what has a place: all or nothing. Raises UsageError if the disk refuses."""
    contents = dict(files)
    if evidence is not None:
        contents[evidence] = [as_bytes(certificate)]
    write_together(contents)


def as_bytes(content: Certificate | None) -> bytes:
    """The file: the same bytes for the same content."""
    return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def read_certificate(path: Path) -> Certificate:
    """The evidence file at ``path``. Raises UsageError if it is none, or of another schema."""
    try:
        content = json.loads(text_of(path), object_pairs_hook=_unique)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: damaged, no evidence file: {error}") from error
    found = content.get("schema") if isinstance(content, dict) else None
    if found != SCHEMA:
        shown = f"of schema {found!r}" if isinstance(found, str) else "without a schema"
        raise UsageError(f"{path}: {shown}, an evidence file has schema {SCHEMA!r}")
    return dict(content)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, of which no key may stand twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice")
        found[key] = value
    return found
