"""The house: one name, one module, so that a name says where to look."""

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("qpasses", "calibration", "opsets")


def test_a_module_name_occurs_once():
    modules = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    names = Counter(path.stem for path in modules if not path.stem.startswith("__"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_package_holds_rooms_and_four_modules():
    modules = {path.stem for path in (ROOT / "qpasses").glob("*.py")}
    assert modules == {"__init__", "__main__", "api", "pipeline"}
