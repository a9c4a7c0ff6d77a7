"""The house: one name, one module; nothing that is declared in a file and listed nowhere."""

import tomllib
from collections import Counter
from importlib import import_module
from pathlib import Path

from opsets.qpasses_v1 import OPS
from qpasses.evidence.prove import PROOFS
from qpasses.ir.rewriting import Pass
from qpasses.pipeline import passes_by_name

ROOT = Path(__file__).parents[1]
PACKAGES = ("qpasses", "calibration", "opsets")

FOR_PYTHON_ALONE = {"Requantize"}
"""The op that no pass makes: the step that others share."""


def test_a_module_name_occurs_once():
    modules = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    names = Counter(path.stem for path in modules if not path.stem.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_package_holds_rooms_and_four_modules():
    modules = {path.stem for path in (ROOT / "qpasses").glob("*.py")}
    assert modules == {"__init__", "__main__", "api", "pipeline"}


def test_every_op_has_a_prover():
    assert OPS.keys() - PROOFS.keys() == FOR_PYTHON_ALONE
    assert PROOFS.keys() <= OPS.keys()


def test_every_pass_is_listed():
    for room in ("prepare", "lowering"):
        for path in (ROOT / "qpasses" / room).glob("[!_]*.py"):
            import_module(f"qpasses.{room}.{path.stem}")
    declared = {each.__name__ for each in subclasses(Pass)}
    assert declared == {type(each).__name__ for each in passes_by_name().values()}


def subclasses(kind):
    """Those of the package that are no base of others."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("qpasses."):
            below = list(subclasses(each))
            yield from below or [each]


def test_what_is_compiled_is_listed_and_so_in_a_source_distribution():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    listed = [each["sources"] + each.get("depends", []) for each in tools["ext-modules"]]
    there = {str(path.relative_to(ROOT)) for path in ROOT.glob("opsets/native/*.*")}
    named = {name for names in listed for name in names if name.startswith("opsets/native/")}
    assert named == {name for name in there if name.endswith((".cpp", ".h", ".map"))}
