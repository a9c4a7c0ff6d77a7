"""What every kind of sample data has in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
