"""Where a model loses its accuracy: SQNR of each stored tensor against float.

`make losses MODEL=yolox_nano` prints one row per tensor, in the order of the graph.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from calibration import Session
from opsets.target import load_target
from qpasses.api import quantize
from qpasses.ir.edges import dequantize
from qpasses.ir.interchange import prepared_model
from qpasses.ir.metadata import read_record
from qpasses.ir.rewriting import Context
from qpasses.ir.settings import Settings
from qpasses.prepare.canonical import prepare
from tests.bench.manifest import ZOO, zoo_script

Model = onnx.ModelProto
STORED = "_quantized"


def watched(model: Model, names: Sequence[str]) -> Session:
    """``model`` with the tensors ``names`` as outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    known = {value.name: value for value in made.graph.value_info}
    present = {value.name for value in made.graph.output}
    made.graph.output.extend(known[name] for name in names if name not in present)
    return Session(made, optimize=False)


def losses(model: Model, integer: Model, feeds: Sequence[Any]) -> list[list[Any]]:
    """Rows of tensor, integer op, SQNR in dB, largest code used, root mean square in steps."""
    record, _ = read_record(integer)
    prepared = prepared_model(prepare(model, feeds[0], Context(Settings(load_target("onnx")))))
    real = {name for node in prepared.graph.node for name in node.output}
    written = {name: node.op_type for node in integer.graph.node for name in node.output}
    stored = [n for n in written if n in record.tensors and n.removesuffix(STORED) in real]
    names = [name.removesuffix(STORED) for name in stored]
    sessions = watched(prepared, names), watched(integer, stored)
    signal, noise, square = (np.zeros(len(stored)) for _ in range(3))
    for feed in feeds:
        wanted, found = (
            each.run(outputs, feed)
            for each, outputs in zip(sessions, (names, stored), strict=True)
        )
        for index, name in enumerate(stored):
            meaning = record.tensors[name]
            steps = wanted[index] / meaning.factors(wanted[index].ndim)
            gap: NDArray[Any] = wanted[index] - dequantize(found[index], meaning, np.float64)
            signal[index] += np.square(wanted[index], dtype=np.float64).sum()
            noise[index] += np.square(gap).sum()
            square[index] += np.square(steps).mean() / len(feeds)
    decibels = 10 * np.log10(signal / np.maximum(noise, 1e-30))
    return [
        [name, written[kept], f"{sqnr:.1f}", f"{steps:.1f}"]
        for name, kept, sqnr, steps in zip(
            names, stored, decibels, np.sqrt(square), strict=True
        )
    ]


def main() -> None:
    """Print the table of one zoo model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--samples", type=int, default=20)
    name, count = vars(parser.parse_args()).values()
    model = onnx.load(ZOO / "models" / f"{name}.onnx")
    calibration, tested = (
        zoo_script().feeds(name, split, root=str(ZOO)) for split in ("calib", "test")
    )
    made = quantize(model, calibration).model
    assert made is not None
    table = Table("tensor", "integer op", "SQNR dB", "rms in steps of 255")
    for row in losses(model, made, tested[:count]):
        table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
