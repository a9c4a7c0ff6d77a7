"""Which values occur: samples, observers, and the streaming run that feeds them."""

from calibration.collect import Collected, Engine, Run, collect
from calibration.inputs import InputSpec, input_specs
from calibration.preprocessing import Preprocessing
from calibration.presets import PRESET_NOTES, PRESETS
from calibration.samples import Samples, open_samples
from calibration.session import Session
from calibration.statistics import Range, Statistics

__all__ = [
    "PRESETS",
    "PRESET_NOTES",
    "Collected",
    "Engine",
    "InputSpec",
    "Preprocessing",
    "Range",
    "Run",
    "Samples",
    "Session",
    "Statistics",
    "collect",
    "input_specs",
    "open_samples",
]
