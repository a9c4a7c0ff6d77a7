"""Which values occur: samples, observers, and the streaming run that feeds them."""

from calibration.collect import collect
from calibration.observers import MinMax, Range
from calibration.samples import InputSpec, Samples, input_specs, open_samples
from calibration.session import Session

__all__ = [
    "InputSpec",
    "MinMax",
    "Range",
    "Samples",
    "Session",
    "collect",
    "input_specs",
    "open_samples",
]
