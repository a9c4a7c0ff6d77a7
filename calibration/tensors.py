"""Samples as ONNX test data: folders test_data_set_0, 1, ... of input_0.pb, input_1.pb, ..."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import numpy_helper

from calibration.files import files_in, natural
from calibration.inputs import Arrays, InputSpec, fitted_array
from calibration.source import Source
from opsets.errors import DataError


def data_sets(folder: Path) -> list[Path]:
    """The test data sets in a folder, in natural order; or the folder itself if it is one."""
    sets = [path for path in folder.glob("test_data_set_*") if path.is_dir()]
    if not sets and files_in(folder, _is_input):
        return [folder]
    return sorted(sets, key=lambda path: natural(path.name))


@dataclass(frozen=True)
class DataSets(Source):
    """Folders that hold one tensor for each input, numbered in the model's order."""

    unit = "test data set"

    folder: Path
    sets: Sequence[Path]
    specs: Sequence[InputSpec]

    @property
    def place(self) -> str:
        """In which folder."""
        return f"in {self.folder}"

    @property
    def paths(self) -> Sequence[Path]:
        """The tensors of the sets; those of the outputs are not read."""
        return [path / name for path in self.sets for name in files_in(path, _is_tensor)]

    def __len__(self) -> int:
        return len(self.sets)

    def name(self, index: int) -> str:
        """The name of the set's folder."""
        return self.sets[index].absolute().name

    def read(self, index: int) -> Arrays:
        """One array for each input; DataError for a file too many, too few or in error."""
        folder = self.sets[index]
        expected = [f"input_{i}.pb" for i in range(len(self.specs))]
        listed = "; ".join(map(str, self.specs))
        found = files_in(folder, _is_input)
        for extra in [name for name in found if name not in expected]:
            raise DataError(f"{folder / extra}: the model has no such input ({listed})")
        for missing in [name for name in expected if name not in found]:
            raise DataError(f"{folder / missing}: no such file (inputs: {listed})")
        return {
            spec.name: fitted_array(_array(folder / name), spec, str(folder / name))
            for spec, name in zip(self.specs, expected, strict=True)
        }


def _is_input(name: str) -> bool:
    return re.fullmatch(r"input_\d+\.pb", name) is not None


def _is_tensor(name: str) -> bool:
    return name.endswith(".pb")


def _array(path: Path) -> NDArray[Any]:
    try:
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        # the tensors of a SequenceProto or OptionalProto come under the number of `segment`
        if tensor.HasField("segment"):
            raise ValueError("sequences and optional values are not supported")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError("its numbers are in another file")
        return numpy_helper.to_array(tensor)
    except (DecodeError, OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: cannot be read as an ONNX tensor: {reason}") from error
