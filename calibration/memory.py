"""Freed memory goes back to the system: glibc keeps much of what onnxruntime frees."""

import ctypes
import gc
import sys


def give_back() -> None:
    """Drop what nothing refers to, and return free memory where the C library can do so.

    Graphs refer to themselves, and their weights with them: that is found by collection only.
    """
    gc.collect()
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
