"""What is asked for ahead comes to an end whatever the thread meets."""

import pytest

from qpasses.checking.running_ahead import Ahead


class Panic(BaseException):
    """As libraries raise that were not written in Python."""


def test_what_is_no_exception_is_raised_too_instead_of_waiting_forever():
    def items():
        yield 1
        raise Panic

    made = Ahead(items(), lambda _: 1)
    assert next(made) == 1
    with pytest.raises(Panic):
        next(made)
    made.close()
