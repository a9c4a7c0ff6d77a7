"""The exceptions a user can meet: one tree, each with its exit code."""

from typing import ClassVar


class QPassesError(Exception):
    """A problem the user can act on: the message says what, where and what to do."""

    exit_code: ClassVar[int] = 1


class VerificationError(QPassesError):
    """An integer model that is not what it should be, found before it could be compared."""


class UsageError(QPassesError):
    """A wrong option, path, sample or input name."""

    exit_code: ClassVar[int] = 2


class DataError(UsageError):
    """A sample that cannot be read or does not fit the model."""


class ModelError(QPassesError):
    """A model that is malformed or that the toolkit cannot treat."""

    exit_code: ClassVar[int] = 3
