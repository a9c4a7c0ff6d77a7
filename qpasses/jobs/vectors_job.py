"""Test vectors of an integer model: samples are run, what is stored for them is written."""

from collections.abc import Iterator
from pathlib import Path

from calibration.inputs import tensors
from opsets.errors import UsageError
from qpasses.checking.bisecting.recomputed import Recomputed
from qpasses.checking.bisecting.stored_tensors import StoredTensors
from qpasses.emit.vectors.vector_folder import Sample, VectorFolder, Vectors
from qpasses.emit.whole_folders import check_folder, write_folder
from qpasses.ir.integer_commands import ExportOptions
from qpasses.jobs.feeding import RealSamples, real_samples
from qpasses.load.integer_model import IntegerModel

USUAL_SAMPLES = 4
"""So many samples are written if nothing else is said."""


def check_no_samples(asked: ExportOptions, what: str) -> None:
    """Raise UsageError for samples where none are used."""
    for name in ("data", "samples", "samples_to_exclude", "inputs", "preprocessing"):
        if getattr(asked, name):
            raise UsageError(f"{name} with {what}, which takes no samples: leave it away")


def export_vectors(read: IntegerModel, asked: ExportOptions) -> Vectors:
    """Run samples and write all that is stored to a folder, whole or not at all.

    Raises UsageError, DataError or ModelError.
    """
    stored = StoredTensors(read)
    if asked.data is None:
        raise UsageError("test vectors are made of samples: give them (--data, data)")
    if not stored.names:
        raise UsageError("no tensor of the model is stored as integers: there are no vectors")
    if asked.output is not None:
        check_folder(Path(asked.output))
    samples = real_samples(read, asked.data, asked, USUAL_SAMPLES)
    writers = {name: stored.writers.get(name) for name in stored.names}
    folder = VectorFolder(read, writers, _run(stored, samples))
    if asked.output is None or asked.check:
        for _, content in folder.files():
            for _ in content:
                pass
    else:
        write_folder(Path(asked.output), folder.files())
    return folder.done()


def _run(stored: StoredTensors, samples: RealSamples) -> Iterator[Sample]:
    session = Recomputed(stored, (), [*stored.writers])
    for name, real, feed in samples:
        given = {each: tensors(feed)[each] for each in stored.inputs}
        yield Sample(name, tensors(real), {**given, **session.run(feed, {}, name)})
