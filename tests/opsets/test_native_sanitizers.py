"""Compiled kernels stay inside of their buffers, and no integer of theirs overflows."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.thoroughness import THOROUGH

ROOT = Path(__file__).parents[2]
SETS = ["avx512", "avx2", "dotprod", "neon", "plain"]
SANITIZED = ["-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
OPTIONS = "detect_leaks=0:allocator_may_return_null=1"  # what is too large is refused


def runtime(name):
    """A library of g++, or nothing where it has not that."""
    asked = subprocess.run(
        ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    found = Path(asked.stdout.strip())
    return found if found.is_absolute() else None


@pytest.fixture(scope="module")
def preloaded():
    if not THOROUGH:
        pytest.skip("building and running takes minutes: make thorough")
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    found = [runtime(name) for name in ("libasan.so", "libubsan.so")]
    if None in found:
        pytest.skip("g++ has no libasan or no libubsan")
    return " ".join(map(str, found))


@pytest.fixture(scope="module")
def library(preloaded, tmp_path_factory):
    """The sources and flags of the package, but for sanitizers."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (extension,) = (
        each
        for each in declared["tool"]["setuptools"]["ext-modules"]
        if each["name"] == "opsets.native._kernels"
    )
    made = tmp_path_factory.mktemp("sanitized") / "kernels.so"
    flags = [*extension["extra-compile-args"], *SANITIZED, "-fPIC", "-shared"]
    subprocess.run(["g++", *flags, *extension["sources"], "-o", made], cwd=ROOT, check=True)
    return made


def test_kernels_stay_inside_of_their_buffers_and_of_int64(library, preloaded):
    """Of legal and of malformed nodes. One test, so that one library is built."""
    assert b"__asan_report_load1" in library.read_bytes()
    for isa in SETS:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.sanitized_runs", library],
            env={
                **os.environ,
                "QPASSES_ISA": isa,
                "LD_PRELOAD": preloaded,
                "ASAN_OPTIONS": OPTIONS,
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=3600,
            check=False,
        )
        if "QPASSES_ISA names" in done.stderr:
            continue  # this processor has it not
        *_, last = done.stdout.splitlines() or ["nothing was run"]
        assert done.returncode == 0, f"{isa}, {last}:\n{done.stderr[-4000:]}"
