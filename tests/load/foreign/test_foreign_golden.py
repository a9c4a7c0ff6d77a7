"""Golden files of foreign models: a graph, and what it is with standard Q/DQ."""

from pathlib import Path

import pytest

from qpasses.load.foreign import standard_qdq
from qpasses.load.graph_text import AFTER, GraphText
from qpasses.report.text import whole_text

FOLDER = Path(__file__).parent / "golden"
CASES = sorted(path.name for path in FOLDER.iterdir())


def shown(case):
    """The graph of a file as it is translated, then what is said of its nodes."""
    path = FOLDER / case
    found = standard_qdq(GraphText.of(path.read_text("utf-8"), path).model(path), path)
    notes = [f"# note: {node}: {text}\n" for node, text in found.notes.items()]
    dynamic = [f"# quantized at run time: {node}\n" for node in found.dynamic]
    return "".join([whole_text(found.model), *dynamic, *notes])


@pytest.mark.parametrize("case", CASES)
def test_a_graph_is_translated_to_what_its_file_shows(case, request):
    before, _, after = (FOLDER / case).read_text("utf-8").partition(AFTER)
    if request.config.getoption("--update-golden"):
        (FOLDER / case).write_text(f"{before.rstrip()}\n\n{AFTER}{shown(case)}", "utf-8")
    else:
        assert shown(case) == after, "is this wanted? then: pytest --update-golden"


def test_every_family_has_a_file():
    modules = {path.stem for path in Path("qpasses/load/foreign").glob("*.py")}
    families = {Path(case).stem for case in CASES}
    assert families <= modules
