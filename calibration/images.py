"""Samples as pictures: a folder of them with the folders inside it, or one file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from calibration.files import has_suffix
from calibration.inputs import Arrays, InputSpec, only_input
from calibration.preprocessing import Preprocessing
from calibration.presets import PRESETS
from calibration.source import Files
from opsets.errors import UsageError

_SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")
)


def is_picture(name: str) -> bool:
    """Whether a file is a picture by its name."""
    return has_suffix(name, _SUFFIXES)


@dataclass(frozen=True)
class Pictures(Files):
    """Pictures for one input, each decoded when it is reached."""

    unit = "picture"

    spec: InputSpec
    how: Preprocessing

    def read(self, index: int) -> Arrays:
        """The picture as the input takes it."""
        pixels = _decoder()(self.folder / self.names[index], self.how)
        return {self.spec.name: self.how.array(pixels, self.spec)}


def pictures(
    path: Path, names: Sequence[str], specs: Sequence[InputSpec], how: Preprocessing | None
) -> Pictures:
    """The pictures ``names`` in the folder ``path``, or the one that ``path`` is.

    Raises UsageError without preprocessing or Pillow, DataError if the model takes none.
    """
    if how is None:
        known = "|".join(PRESETS)
        raise UsageError(
            f"{path}: pictures need to know what the model expects: give "
            f"--preprocess {known} or --scale/--mean/--std"
        )
    _decoder()
    spec = only_input(specs, str(path), ".npz files, pictures are for one input")
    return Pictures(path, names, spec, how.resolved(spec))


def _decoder() -> Callable[[Path, Preprocessing], NDArray[Any]]:
    try:
        from calibration.decoding import decode
    except ImportError as error:
        raise UsageError("pictures need Pillow: pip install pillow") from error
    return decode
