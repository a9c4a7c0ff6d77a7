"""Freed memory goes back to the system: glibc keeps much of what onnxruntime frees."""

import ctypes
import gc
import sys

from calibration.large_weights import MUCH


def give_back(weight_bytes: int = MUCH) -> None:
    """Return free memory to the system, where the C library can do so.

    Graphs refer to themselves, and so keep their weights until garbage is collected: that is
    done unless there are too few to be worth the time.
    """
    if weight_bytes >= MUCH:
        gc.collect()
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
