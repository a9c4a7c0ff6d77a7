"""IREE: an MLIR compiler and its runtime, for this processor."""

from pathlib import Path

import numpy as np

from qpasses.checking.beside.tools import Arrays, called, results_of, tool
from qpasses.emit.tosa.emit import TosaProgram
from qpasses.emit.whole_files import write_together

_INSTALL = "pip install iree-base-compiler iree-base-runtime"

_COMPILED = (
    "--iree-input-type=tosa",
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)


class Iree:
    """Compiles TOSA to machine code."""

    title, key = "IREE", "iree"

    def __init__(self) -> None:
        names = "iree-compile", "iree-run-module"
        self._compile, self._run = (tool(each, "iree", _INSTALL) for each in names)

    def prepared(self, program: TosaProgram, place: Path) -> Path:
        """A module of machine code."""
        source, made = place.with_suffix(".mlir"), place.with_suffix(".vmfb")
        write_together({source: program.content()})
        called(
            "IREE does not compile the program",
            [self._compile, source, *_COMPILED, "-o", made],
        )
        return made

    def run(self, prepared: Path, given: Arrays, results: int, folder: Path) -> Arrays:
        """By files of numpy."""
        inputs = [folder / f"input_{k}.npy" for k in range(len(given))]
        for path, array in zip(inputs, given, strict=True):
            np.save(path, array)
        outputs = [folder / f"output_{k}.npy" for k in range(results)]
        called(
            f"{self.title} fails",
            [
                *(self._run, "--device=local-task", f"--module={prepared}", "--function=main"),
                *(f"--input=@{path}" for path in inputs),
                *(f"--output=@{path}" for path in outputs),
            ],
        )
        return results_of(self.title, outputs)
