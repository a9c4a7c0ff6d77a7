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
from calibration.inputs import Arrays, InputSpec, Value, fitted_value
from calibration.source import Source
from opsets.errors import DataError
from opsets.ordinary_files import bytes_of


def data_sets(folder: Path) -> list[Path]:
    """The test data sets in a folder, in natural order; or the folder itself if it is one."""
    sets = [path for path in folder.glob("test_data_set_*") if path.is_dir()]
    if not sets and files_in(folder, _is_input):
        return [folder]
    return sorted(sets, key=lambda path: natural(path.name))


@dataclass(frozen=True)
class DataSets(Source):
    """Folders that hold a file for each input, numbered in the model's order.

    A tensor, a sequence or an optional value, as the input is; what is optional may lack one.
    """

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
        """A value for each input; DataError for a file too many, too few or in error."""
        folder = self.sets[index]
        expected = [f"input_{i}.pb" for i in range(len(self.specs))]
        listed = "; ".join(map(str, self.specs))
        found = files_in(folder, _is_input)
        for extra in [name for name in found if name not in expected]:
            raise DataError(f"{folder / extra}: the model has no such input ({listed})")
        needed = zip(self.specs, expected, strict=True)
        for missing in [n for spec, n in needed if n not in found and not spec.is_optional]:
            raise DataError(f"{folder / missing}: no such file (inputs: {listed})")
        return {
            spec.name: fitted_value(_value(folder / name, spec), spec, str(folder / name))
            for spec, name in zip(self.specs, expected, strict=True)
            if name in found
        }


def _is_input(name: str) -> bool:
    return re.fullmatch(r"input_\d+\.pb", name) is not None


def _is_tensor(name: str) -> bool:
    return name.endswith(".pb")


def _value(path: Path, spec: InputSpec) -> Value:
    """What a file holds, which is of the kind that the input takes."""
    try:
        content = bytes_of(path)
        if spec.is_optional:
            return _optional(onnx.OptionalProto.FromString(content))
        if spec.is_sequence:
            return _sequence(onnx.SequenceProto.FromString(content))
        tensor = onnx.TensorProto.FromString(content)
        # the tensors of a SequenceProto or OptionalProto come under the number of `segment`
        if tensor.HasField("segment"):
            raise ValueError("it is a sequence or an optional value")
        return _array(tensor)
    except (DecodeError, OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).splitlines()[0]
        kind = spec.holds if spec.holds != "tensor" else "ONNX tensor"
        article = "a" if kind == "sequence" else "an"
        raise DataError(f"{path}: cannot be read as {article} {kind}: {reason}") from error


def _optional(found: onnx.OptionalProto) -> Value:
    if found.elem_type == onnx.OptionalProto.UNDEFINED:
        return None
    if found.elem_type == onnx.OptionalProto.TENSOR:
        return _array(found.tensor_value) if found.HasField("tensor_value") else None
    if found.elem_type == onnx.OptionalProto.SEQUENCE:
        is_given = found.HasField("sequence_value")
        return _sequence(found.sequence_value) if is_given else None
    raise ValueError("it holds neither a tensor nor a sequence")


def _sequence(found: onnx.SequenceProto) -> list[NDArray[Any]]:
    # an empty one need not say what it would hold
    if found.elem_type not in (onnx.SequenceProto.TENSOR, onnx.SequenceProto.UNDEFINED):
        raise ValueError("its elements are no tensors")
    return [_array(each) for each in found.tensor_values]


def _array(tensor: onnx.TensorProto) -> NDArray[Any]:
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ValueError("its numbers are in another file")
    return numpy_helper.to_array(tensor)
