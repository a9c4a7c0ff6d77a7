"""onnxruntime with the compiled kernels: the same file and the same integers, sooner."""

from pathlib import Path

import onnxruntime as ort

from calibration.session import add_operators, inference_session
from opsets.errors import UsageError
from opsets.native import library


def native_library() -> Path:
    """The library of kernels, which any onnxruntime from 1.17 on loads.

    Raises UsageError where it was not built.
    """
    found = library()
    if found is None:
        raise UsageError(
            "the kernels were not compiled: install a C++ compiler (Debian: apt-get install "
            "g++) and qpasses again; without them bodies run, which give the same integers"
        )
    return found


def has_kernels() -> bool:
    """Whether the library was built."""
    return library() is not None


def register(options: ort.SessionOptions) -> bool:
    """Let sessions with these ``options`` run the kernels; False where there are none.

    Raises UsageError if QPASSES_ISA names an instruction set that is not there.
    """
    found = library()
    if found is not None and not _is_registered(options):
        add_operators(options, found)
        options.add_session_config_entry(_REGISTERED, "1")
    return found is not None


_REGISTERED = "qpasses.kernels"
"""An entry of options that have them: onnxruntime takes a domain once."""


def _is_registered(options: ort.SessionOptions) -> bool:
    try:
        return bool(options.get_session_config_entry(_REGISTERED))
    except RuntimeError:
        return False


def session(path: str | Path, *, threads: int = 0) -> ort.InferenceSession:
    """A session of onnxruntime on an integer model, with the kernels if there are any.

    ``threads``: how many a node runs on, 0 for all cores. The model may be any: what is no op
    of qpasses is left to onnxruntime. Raises ModelError if it cannot be loaded.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    register(options)
    return inference_session(str(path), options)
