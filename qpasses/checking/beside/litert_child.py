"""What runs a .tflite file, in a process of its own: a wrong file may end it.

Started as ``python -P litert_child.py FILE RESOLVER KEEP``; KEEP is 1 to keep what is between
inputs and outputs. Then it reads two paths a line, of inputs by name of
their tensor and of the file that is to hold the tensors by place, and answers with a line:
nothing where it is written, else what went wrong.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(model: str, resolver: str, keep: str) -> None:
    """Answer until nothing is asked any more."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_path=model,
        num_threads=1,
        experimental_op_resolver_type=OpResolverType[resolver],
        experimental_preserve_all_tensors=keep == "1",
    )
    interpreter.allocate_tensors()
    print(flush=True)
    for line in sys.stdin:
        print(_answer(interpreter, *line.rstrip("\n").split("\t")), flush=True)


def _answer(interpreter: Any, given: str, made: str) -> str:
    try:
        with np.load(given) as arrays:
            wanted = arrays["wanted"].tolist()
            for name in arrays.files:
                if name != "wanted":
                    interpreter.set_tensor(int(name), arrays[name])
        interpreter.invoke()
        found = {str(place): interpreter.get_tensor(place) for place in wanted}
        with Path(made).open("wb") as file:
            np.savez(file, **found)
    except (OSError, RuntimeError, ValueError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
