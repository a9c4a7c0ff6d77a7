"""Test vectors of CMSIS-NN's LSTM as tests/opsets/cmsis_nn_lstm.json.

python -m tests.opsets.write_cmsis_nn_lstm FOLDER: the folder Tests/UnitTest/TestCases/TestData
of CMSIS-NN, whose headers say numbers and no code that is kept. Those that are here are of its
commit that made them with tflite_micro 0.dev20240814 (Apache 2.0, Arm Limited), as it stands
in TrampolineRTOS/trampoline at 634e58a1, machines/cortex-m/CMSIS-NN.
"""

import json
import re
import sys
from pathlib import Path

CASES = "lstm_2", "lstm_2_s16"
ARRAYS = "input_tensor", "output"
GATES = "input", "forget", "cell", "output"
PARTS = "input_weights", "hidden_weights", "bias"


def numbers(header: Path) -> list[int]:
    """Those in the braces."""
    (inside,) = re.findall(r"\{([^}]*)\}", header.read_text("utf-8"))
    return [int(each) for each in inside.split(",")]


def case(folder: Path) -> dict[str, object]:
    """Definitions by name, without that of the case, and arrays by name."""
    text = (folder / "config_data.h").read_text("utf-8")
    start = len(folder.name) + 1
    found: dict[str, object] = {
        name[start:].lower(): int(value)
        for name, value in re.findall(r"#define (\w+) (-?\d+)", text)
    }
    arrays = [*ARRAYS, *(f"{gate}_gate_{part}" for gate in GATES for part in PARTS)]
    return found | {name: numbers(folder / f"{name}.h") for name in arrays}


def main(folder: str) -> None:
    """Write the file."""
    found = {name: case(Path(folder) / name) for name in CASES}
    text = json.dumps(found, indent=0).replace("\n", "")
    Path(__file__).with_name("cmsis_nn_lstm.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
