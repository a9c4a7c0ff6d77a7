"""What the checker of integer graphs finds, the float graph prepared once for many of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper

from opsets.errors import QPassesError
from qpasses.checking.translation import check
from qpasses.ir.model_nodes import nested_graphs
from qpasses.ir.rewriting import Context
from qpasses.load.integer_model import read_integer_model
from qpasses.prepare.canonical import prepare


@dataclass(frozen=True)
class Floats:
    """The float graph that integer models of one set of options are checked against."""

    real: Any
    excluded: Any

    @classmethod
    def of(cls, integer, original, feed):
        """``original`` as it is prepared for the options that ``integer`` records."""
        context = Context(read_integer_model(integer, "the model").settings)
        return cls(prepare(original, feed, context), context.selection.excluded)

    def check(self, integer):
        """What the checker says of an integer model."""
        read = read_integer_model(integer, "the model")
        about = read.record, read.settings, read.about
        return check(read.graph, *about, self.real, self.excluded)

    def differences(self, integer):
        """What differs, sentence by sentence; a refusal counts as one."""
        try:
            return self.check(integer).differences
        except QPassesError as error:
            return [str(error)]


def one_off(integer, name):
    """A copy whose constant ``name`` differs by one in its last element."""
    copy = ModelProto.FromString(integer.SerializeToString())
    constants = (each for graph in nested_graphs(copy.graph) for each in graph.initializer)
    (tensor,) = (each for each in constants if each.name == name)
    values = numpy_helper.to_array(tensor).copy()
    last = values.reshape(-1)[-1:]
    if values.dtype == bool:
        np.invert(last, out=last)
    elif last >= 100:
        last -= 1
    else:
        last += 1
    tensor.CopyFrom(numpy_helper.from_array(values, name))
    return copy
