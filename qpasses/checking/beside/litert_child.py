"""What runs a .tflite file, in a process of its own: a wrong file may end it.

Started as ``python -P litert_child.py FILE RESOLVER KEEP``; KEEP is 1 to keep what is between
inputs and outputs. Then it reads two paths a line, of inputs by name of
their tensor and of the file that is to hold the tensors by place, and answers with a line:
nothing where it is written, else what went wrong.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ARENA = 1 << 28
"""Bytes in which TensorFlow Lite Micro holds tensors."""


class Litert:
    """LiteRT's interpreter."""

    def __init__(self, model: str, resolver: str, *, keep: bool) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self._interpreter = Interpreter(
            model_path=model,
            num_threads=1,
            experimental_op_resolver_type=OpResolverType[resolver],
            experimental_preserve_all_tensors=keep,
        )
        self._interpreter.allocate_tensors()

    def run(self, given: Mapping[int, NDArray[Any]], wanted: Sequence[int]) -> list[Any]:
        """The tensors that are wanted, by place; variables start anew."""
        self._interpreter.reset_all_variables()
        for place, values in given.items():
            self._interpreter.set_tensor(place, values)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(place) for place in wanted]


class Micro:
    """TensorFlow Lite Micro's, which keeps all tensors; it takes inputs in order."""

    def __init__(self, model: str) -> None:
        from tflite_micro import runtime

        content = Path(model).read_bytes()
        keep = runtime.InterpreterConfig.kPreserveAllTensors
        self._interpreter = runtime.Interpreter(content, [], ARENA, keep)

    def run(self, given: Mapping[int, NDArray[Any]], wanted: Sequence[int]) -> list[Any]:
        """The same."""
        self._interpreter.reset()
        for place, values in enumerate(given.values()):
            self._interpreter.set_input(values, place)
        self._interpreter.invoke()
        return [self._interpreter.GetTensor(place, 0)["tensor_data"] for place in wanted]


def main(model: str, resolver: str, keep: str) -> None:
    """Answer until nothing is asked any more."""
    program = Micro(model) if resolver == "TFLM" else Litert(model, resolver, keep=keep == "1")
    print(flush=True)
    for line in sys.stdin:
        print(_answer(program, *line.rstrip("\n").split("\t")), flush=True)


def _answer(program: Litert | Micro, given: str, made: str) -> str:
    try:
        with np.load(given) as arrays:
            wanted = arrays["wanted"].tolist()
            fed = {int(name): arrays[name] for name in arrays.files if name != "wanted"}
        found = zip(wanted, program.run(fed, wanted), strict=True)
        with Path(made).open("wb") as file:
            np.savez(file, **{str(place): values for place, values in found})
    except (OSError, RuntimeError, ValueError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
