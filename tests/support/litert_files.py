"""Models as TFLite files, run by LiteRT's reference kernels beside the process of tests."""

import numpy as np

from opsets.errors import ModelError
from qpasses.checking.beside.litert_check import as_laid, as_onnx
from qpasses.checking.beside.litert_tools import JUDGES
from qpasses.emit.tflite.emit_tflite import emit_tflite
from qpasses.ir.interchange import import_graph
from qpasses.ir.record import Record
from qpasses.load.integer_model import IntegerModel
from tests.support.litert_served import Served


def emitted_file(model, runtime="litert"):
    """A file of a model that has no record."""
    read = IntegerModel(model, import_graph(model), Record(), None, {})
    return emit_tflite(read, runtime=runtime)


def refusal_of(model, runtime="litert"):
    """Why it has no form as TFLite; nothing if it has one."""
    try:
        emitted_file(model, runtime)
    except ModelError as error:
        return str(error).partition(" as TFLite: ")[2] or str(error)
    return ""


def run_file(file, feed, folder, runtime="litert"):
    """Outputs by their tensors, as ONNX stores them."""
    place = folder / "model.tflite"
    place.write_bytes(b"".join(file.content()))
    given = {end.place: as_laid(np.asarray(feed[end.tensor]), end) for end in file.inputs}
    process = Served(place, JUDGES[runtime][0], folder, keep=False)
    made = process.run(given, [end.place for end in file.outputs])
    return {end.tensor: as_onnx(made[end.place], end) for end in file.outputs}
