"""Why a file is no model: what it is instead, and in one line what ONNX's checker says."""

import re
from pathlib import Path

from google.protobuf.message import DecodeError

from opsets.errors import ModelError

_KINDS = (
    (b"PK\x03\x04", "a zip archive: unpack it, or export the model to ONNX"),
    (b"\x1f\x8b", "compressed by gzip: unpack it"),
    (b"\x93NUMPY", "an array of numpy: samples go with --data"),
    (b"\x89HDF", "an HDF5 file, perhaps of Keras: export the model to ONNX"),
    (b"\x80\x02", "a pickle, perhaps of PyTorch: export the model to ONNX"),
    (b"\x80\x04", "a pickle, perhaps of PyTorch: export the model to ONNX"),
    (b"version https://git-lfs", "a pointer of Git LFS: `git lfs pull` fetches the file"),
    (b"<!", "a web page: was it downloaded by another address than the file's?"),
    (b"<html", "a web page: was it downloaded by another address than the file's?"),
    (b"{", "JSON: a model is stored as protobuf, as onnx.save writes it"),
)
"""What the first bytes of files that are no models say, and what to do about each."""

_SUFFIX = "truncated or damaged? Export or download it again"


def unreadable(path: Path, error: Exception) -> ModelError:
    """That the file at ``path`` cannot be parsed, which is why ``error`` was raised."""
    with path.open("rb") as stream:
        start = stream.read(32)
    if not start:
        return ModelError(f"{path}: not a valid ONNX model: the file is empty")
    if start[4:8] == b"TFL3":
        return ModelError(f"{path}: not a valid ONNX model: it is one of LiteRT (TFLite)")
    for first, kind in _KINDS:
        if start.startswith(first):
            return ModelError(f"{path}: not a valid ONNX model: it is {kind}")
    reason = "cannot be parsed" if isinstance(error, DecodeError) else one_line(error)
    return ModelError(f"{path}: not a valid ONNX model: {reason} ({_SUFFIX})")


def invalid(path: Path, error: Exception) -> ModelError:
    """That the model called ``path`` is no valid one, in the words of ONNX's checker."""
    text = one_line(error)
    for pattern, said in _PHRASES:
        text = pattern.sub(said, text)
    return ModelError(f"{path}: not a valid ONNX model: {text}")


def one_line(error: Exception) -> str:
    """What ``error`` says, as one line."""
    return " ".join(str(error).split()) or type(error).__name__


_NODE = r"[Nn]ame: (?P<name>.*?) OpType: (?P<op>\S+)"

_PHRASES = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (
            rf"^(?P<what>.*?) ==> Context: Bad node spec for node\. {_NODE}.*$",
            r"node '\g<name>' (\g<op>): \g<what>",
        ),
        (
            r"^Nodes in a graph must be topologically sorted, however input '(?P<x>.*)' of "
            rf"node: {_NODE} is not output of any previous nodes\.$",
            r"node '\g<name>' (\g<op>) reads '\g<x>', which nothing writes, or only what "
            "follows from it",
        ),
        (
            r"No Op registered for (\S+) with domain_version of (\S+)",
            r"opset \2 has no operator \1: is it of another domain, or of a newer opset?",
        ),
        (
            r"^model with IR version >= 3 must specify opset_import for ONNX$",
            "it does not say of which opset it is",
        ),
        (
            r"^Your model ir_version (\d+) is higher than the checker's \((\d+)\)\.$",
            r"its IR version \1 is newer than the installed onnx knows (\2): update onnx, or "
            "save the model in an older one",
        ),
    )
)
"""What ONNX's checker says, and how it is said to users."""
