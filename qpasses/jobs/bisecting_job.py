"""A dump of a device, and the samples that it was given, to be compared."""

from pathlib import Path

from opsets.errors import UsageError
from qpasses.checking.bisecting.bisect_dump import bisected
from qpasses.checking.bisecting.bisection import Bisection
from qpasses.checking.bisecting.dump_files import open_dump, paired
from qpasses.checking.bisecting.stored_tensors import StoredTensors
from qpasses.ir.integer_commands import BisectOptions
from qpasses.jobs.feeding import real_samples
from qpasses.load.integer_model import IntegerModel


def bisect_job(read: IntegerModel, asked: BisectOptions) -> Bisection:
    """What ``asked`` wants to know of a dump. Raises UsageError, DataError or ModelError."""
    stored = StoredTensors(read)
    if not stored.names:
        raise UsageError("no tensor of the model is stored as integers: nothing to compare")
    dump = open_dump(Path(asked.dump), stored.names)
    if asked.data is None:
        _check_alone(asked)
        return bisected(stored, dump, None, asked.progress)
    samples = real_samples(read, asked.data, asked)
    places = paired(dump, samples.samples.names)
    return bisected(stored, dump, lambda name: samples.fed(places[name]), asked.progress)


def _check_alone(asked: BisectOptions) -> None:
    """Raise UsageError for what is said of samples that are not given."""
    for name in ("samples", "samples_to_exclude", "inputs", "preprocessing"):
        if getattr(asked, name):
            raise UsageError(f"{name} is about data: give them (--data, data)")
