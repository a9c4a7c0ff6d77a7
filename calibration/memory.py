"""Freed memory goes back to the system: glibc keeps much of what onnxruntime frees."""

import ctypes
import gc
import os
import sys

from calibration.held_weights import MANY, unmap

GIB = 1 << 30


def physical_bytes() -> int | None:
    """The memory of this machine; None where the system does not say."""
    names = getattr(os, "sysconf_names", {})
    if not {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= names.keys():
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def beyond_memory(numbers: int, size: int) -> str:
    """How so many numbers of ``size`` bytes exceed the machine's memory, or nothing."""
    whole = physical_bytes()
    if whole is None or numbers * size <= whole:
        return ""
    return (
        f"{numbers:,} numbers, {numbers * size // GIB:,} GiB, and this machine has "
        f"{whole // GIB:,}"
    )


def give_back(weight_bytes: int) -> None:
    """Return free memory to the system, where the C library can do so.

    Graphs refer to themselves, and so keep their weights until garbage is collected. Neither
    is worth its time where the weights are few: activations take the memory again, and page
    faults of what comes and goes cost more.
    """
    if weight_bytes < MANY:
        return
    gc.collect()
    unmap()
    trim()


def trim() -> None:
    """Return what is free in the C library to the system, where it can do so."""
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
