"""The TOSA text of a very small node of each op: golden files, and tosa-opt accepts them.

`pytest tests/emit/test_tosa_texts.py --update-golden` rewrites them.
"""

import subprocess
from pathlib import Path

import pytest

from opsets.qpasses_v1 import OPS
from qpasses.checking.beside.tosa_tools import program
from qpasses.emit.tosa.lowerings import LOWERINGS
from qpasses.emit.tosa.profile import PRO_INT_8K
from tests.support.small_ops import WORDS, small_case
from tests.support.standard_nodes import STANDARD, standard_model
from tests.support.tosa_nodes import emitted_program, model_of_nodes, needs_tools

FOLDER = Path(__file__).parent / "tosa"
WORDY = "_of_words"
NAMES = [*LOWERINGS, *(f"{name}{WORDY}" for name in WORDS)]
every_op = pytest.mark.parametrize("name", NAMES)


def text_of(name):
    op, comma, _ = name.partition(WORDY)
    if comma:
        case = small_case(op, of_words=True)
        return emitted_program(model_of_nodes(OPS[op], {"node": case})).text
    if name in OPS:
        return emitted_program(model_of_nodes(OPS[name], {"node": small_case(name)})).text
    kind = next(iter(STANDARD[name]))
    return emitted_program(standard_model(name, kind, "uint8")).text


@every_op
def test_the_text_of_a_node_is_what_its_file_shows(name, request):
    path, found = FOLDER / f"{name}.mlir", text_of(name)
    if request.config.getoption("--update-golden"):
        path.write_text(found, "utf-8")
    else:
        assert found == path.read_text("utf-8"), "is this wanted? then: pytest --update-golden"


def test_each_file_is_of_an_op_that_has_a_form():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.mlir" for name in NAMES}


@needs_tools
def test_tosa_opt_accepts_every_file():
    texts = [path.read_text("utf-8") for path in sorted(FOLDER.glob("*.mlir"))]
    done = subprocess.run(
        [
            program("tosa-opt"),
            "--split-input-file",
            f"--tosa-attach-target={PRO_INT_8K.with_words().as_target()}",
            "--tosa-validate=strict-op-spec-alignment",
        ],
        input="// -----\n".join(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("func.func @main") == len(texts)
