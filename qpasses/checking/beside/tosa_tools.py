"""TOSA's own programs: tosa-opt validates and serializes, tosa_reference_model runs."""

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from opsets.errors import ModelError
from qpasses.checking.beside.tools import Arrays, called, results_of, tool
from qpasses.emit.tosa.emit import TosaProgram
from qpasses.emit.tosa.profile import Profile
from qpasses.emit.whole_files import write_together

_INSTALL = "pip install --no-deps tosa-tools"


class ReferenceModel:
    """Holds programs to the specification, and to a profile."""

    title, key = "TOSA's reference model", "tosa_reference"

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        names = "tosa-opt", "tosa_reference_model"
        self._opt, self._model = map(program, names)

    def prepared(self, program: TosaProgram, place: Path) -> Path:
        """A flatbuffer."""
        source = place.with_suffix(".mlir")
        write_together({source: program.content()})
        return self.serialized(source, place, program.program.profile)

    def serialized(self, source: Path, place: Path, profile: Profile) -> Path:
        """A flatbuffer of MLIR, validated. Raises ModelError."""
        made, validated = place.with_suffix(".tosa"), place.with_suffix(".validated")
        target = f"--tosa-attach-target={profile.as_target()}"
        strict = "--tosa-validate=strict-op-spec-alignment"
        called(
            "tosa-opt does not validate the program",
            [self._opt, source, target, strict, "-o", validated],
        )
        flatbuffer = f"--tosa-flatbuffer-filename={made}"
        called(
            "tosa-opt does not serialize the program",
            [self._opt, source, "--tosa-serialize", flatbuffer, "-o", validated],
        )
        return made

    def run(self, prepared: Path, given: Arrays, results: int, folder: Path) -> Arrays:
        """By files of numpy."""
        if not given:
            raise ModelError(f"{self.title} runs no program without inputs")
        inputs = [folder / f"input_{k}.npy" for k in range(len(given))]
        for path, array in zip(inputs, given, strict=True):
            np.save(path, array)
        outputs = [folder / f"output_{k}.npy" for k in range(results)]
        names = (f"TosaInput_{k}" for k in range(len(inputs)))
        ends = (f"TosaOutput_{k}" for k in range(results))
        called(
            f"{self.title} fails",
            [
                *(self._model, "--tosa_file", prepared, *self._profile.as_options()),
                *("--ifm_name", ",".join(names), "--ifm_file", ",".join(map(str, inputs))),
                *("--ofm_name", ",".join(ends), "--ofm_file", ",".join(map(str, outputs))),
            ],
        )
        return results_of(self.title, outputs)


def program(name: str) -> Path:
    """Where it is itself: what tosa-tools installs is a script that only starts it.

    Raises UsageError, saying how to install it.
    """
    script = tool(name, "tosa-reference", _INSTALL)
    if script.parent != Path(sys.executable).parent:
        return script
    try:
        found = Path(str(distribution("tosa-tools").locate_file(f"bin/{name}")))
    except PackageNotFoundError:
        return script
    return found if found.is_file() else script
