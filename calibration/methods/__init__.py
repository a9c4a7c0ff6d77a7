"""Calibration methods: from the statistics of a tensor to the range its integers span.

A method is a function in a file of its family, and a line in METHODS.
"""

from difflib import get_close_matches

from calibration.methods.aciq import aciq_gauss, aciq_laplace
from calibration.methods.auto import least_error
from calibration.methods.entropy import entropy
from calibration.methods.expected_error import expected_error
from calibration.methods.extremes import minmax, moving_average
from calibration.methods.mse import mse
from calibration.methods.octav import octav
from calibration.methods.percentile import percentile
from calibration.methods.tpumlir import kl_of, octav_of, tpumlir_kl, tpumlir_octav
from calibration.methods.wanted import Method, Wanted
from calibration.statistics import Range, Statistics
from opsets.errors import UsageError

__all__ = [
    "METHODS",
    "NEEDS_HISTOGRAM",
    "Method",
    "Wanted",
    "auto_choice",
    "expected_error",
    "kl_of",
    "octav_of",
    "threshold",
]


def auto(seen: Statistics, wanted: Wanted) -> Range:
    """The range of the method with the least expected error."""
    return auto_choice(seen, wanted)[1]


METHODS: dict[str, Method] = {
    "minmax": minmax,
    "moving-average": moving_average,
    "percentile": percentile,
    "entropy": entropy,
    "mse": mse,
    "octav": octav,
    "aciq-gauss": aciq_gauss,
    "aciq-laplace": aciq_laplace,
    "tpumlir-kl": tpumlir_kl,
    "tpumlir-octav": tpumlir_octav,
    "auto": auto,
}

NEEDS_HISTOGRAM = frozenset(METHODS) - {"minmax", "moving-average"}

AUTO_CHOOSES_AMONG = tuple(
    name for name in METHODS if name != "auto" and not name.startswith("tpumlir-")
)


def threshold(method: str, seen: Statistics, wanted: Wanted) -> Range:
    """The range of real numbers that ``method`` wants stored, within the extremes.

    Symmetric ranges are -T to T. A tensor of one value, and one of which a method would keep
    nothing but zero, keep their extremes. UsageError: no such method. ValueError: it needs a
    histogram and there is none.
    """
    if method not in METHODS:
        raise UsageError(f"no calibration method {method!r}{_near(method)}")
    if method in NEEDS_HISTOGRAM and seen.histogram is None:
        raise ValueError(f"method {method!r} needs a histogram, and the statistics hold none")
    if seen.low == seen.high:
        return minmax(seen, wanted)
    found = METHODS[method](seen, wanted)
    return minmax(seen, wanted) if found == Range(0.0, 0.0) else found


def auto_choice(seen: Statistics, wanted: Wanted) -> tuple[str, Range]:
    """The name and the range of the method of least expected error; of equals the first.

    TPU-MLIR's own rules, which are there to be compared with, are not considered.
    """
    return least_error(AUTO_CHOOSES_AMONG, threshold, seen, wanted)


def _near(method: str) -> str:
    matches = get_close_matches(method, METHODS, 1)
    return (
        f"; did you mean {matches[0]!r}?" if matches else f"; use one of {', '.join(METHODS)}"
    )
