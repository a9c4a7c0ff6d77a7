"""What every kind of sample data has in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from calibration.inputs import Arrays


class Source(ABC):
    """Samples in a fixed order, each read when it is asked for, any number of times."""

    unit: ClassVar[str] = "sample"
    """What one of them is called."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where all of them are, as the end of a sentence: ``in test.npz``."""

    @property
    def paths(self) -> Sequence[Path]:
        """The files that hold them."""
        return ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, index: int) -> str:
        """What errors call a sample."""

    @abstractmethod
    def read(self, index: int) -> Arrays:
        """The arrays of a sample, not yet compared with the model; DataError if damaged."""


@dataclass(frozen=True)
class Files(Source):
    """Files of a folder, or one file, each a sample: ``names`` are paths in the folder."""

    path: Path
    names: Sequence[str]

    @property
    def place(self) -> str:
        """In which folder or file."""
        return f"in {self.path}"

    @property
    def folder(self) -> Path:
        """What the names are relative to."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def paths(self) -> Sequence[Path]:
        """The files."""
        return [self.folder / name for name in self.names]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """The path in the folder."""
        return self.names[index]
