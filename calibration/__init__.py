"""Which values occur: samples, observers, and the streaming run that feeds them."""

from calibration.collect import collect
from calibration.inputs import InputSpec, input_specs
from calibration.observers import MinMax, Range
from calibration.preprocessing import Preprocessing
from calibration.presets import PRESET_NOTES, PRESETS
from calibration.samples import Samples, open_samples
from calibration.session import Session

__all__ = [
    "PRESETS",
    "PRESET_NOTES",
    "InputSpec",
    "MinMax",
    "Preprocessing",
    "Range",
    "Samples",
    "Session",
    "collect",
    "input_specs",
    "open_samples",
]
