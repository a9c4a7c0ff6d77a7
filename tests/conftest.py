"""Options of the test suite."""

import gc
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads spin, on the others' cores
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # for the processes that tests start

import pytest

from tests.support import made_sessions
from tests.support.thoroughness import THOROUGH, thinned

if not THOROUGH:
    made_sessions.remember()
sys.dont_write_bytecode = False  # to compile all tests again takes most of collecting them


@pytest.hookimpl(tryfirst=True)  # before -k
def pytest_collection_modifyitems(items):
    items[:] = thinned(items)


def pytest_collection_finish():
    gc.freeze()  # thousands of tests: a collection of garbage need not look at them each time
    gc.set_threshold(50_000)  # graphs are many small objects: 7 % less time


def pytest_runtest_teardown(item, nextitem):
    made_sessions.forget_behind(item, nextitem)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite what follows '# after' in tests/golden instead of comparing it",
    )
