"""Freed memory goes back to the system: glibc keeps much of what onnxruntime frees."""

import ctypes
import gc
import sys

from calibration.large_weights import MUCH


def give_back(weight_bytes: int) -> None:
    """Return free memory to the system, where the C library can do so.

    Graphs refer to themselves, and so keep their weights until garbage is collected. Neither
    is worth its time where the weights are few: activations take the memory again.
    """
    if weight_bytes < MUCH:
        return
    gc.collect()
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
