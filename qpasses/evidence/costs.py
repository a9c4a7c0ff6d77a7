"""What bodies of tables cost in onnxruntime, by a table of measured times."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from onnx import FunctionProto

from opsets.op import Body
from opsets.qpasses_v1 import OPS
from qpasses.ir.elementwise import COMBINING

FILE = "costs.toml"
"""The table, beside this file. `make costs` measures it (tests/bench/costs.py)."""

TWO = " of two"
"""Behind an op type: both operands are tensors."""

NOMINAL = 1 << 16
"""So many elements has a tensor whose size is not known."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds on one thread: of each node that runs, and by op type of each element.

    ``TWO`` behind an op that combines numbers says that none of them is a constant.
    ``element`` holds the declared onnxruntime bodies of Lut, LutPair and LutPerChannel as a
    whole, and Transpose for 8-bit integers.
    """

    node: float
    element: Mapping[str, float]

    def of(self, op: str, body: Body, elements: int, transposes: int = 0) -> float:
        """What ``body`` of ``op`` costs for ``elements``.

        A declared body flattens its input, and so do made ones of channels, so that
        ``transposes`` of it, which onnxruntime would cancel or move on, have to be done.
        """
        nodes = _run(OPS[op].function(body, 1))
        if body.proto:
            each = sum(self.element[name] for name in nodes if name not in _OF_SIZES)
        else:
            each = self.element[op]
        flattens = not body.proto or "Reshape" in nodes
        if flattens:
            each += transposes * self.element["Transpose"]
        return self.node * (len(nodes) + transposes * flattens) + each * elements


_OF_SIZES = frozenset({"Concat", "ReduceProd", "Reshape", "Shape"})
"""What looks at sizes, and is done when a model is loaded, or copies nothing."""


def _run(function: FunctionProto) -> Sequence[str]:
    """What runs, as the table names it: onnxruntime dequantizes for each reader anew."""
    found = []
    constants = {n.output[0] for n in function.node if n.op_type == "Constant"}
    readers = Counter(name for node in function.node for name in set(node.input))
    for node in function.node:
        tensors = [name for name in node.input if name not in constants]
        if node.op_type == "DequantizeLinear":
            found += max(1, readers[node.output[0]]) * [node.op_type]
        elif node.op_type in COMBINING and len(tensors) > 1:
            found.append(node.op_type + TWO)
        elif node.op_type != "Constant":
            found.append(node.op_type)
    return found


@lru_cache(maxsize=1)
def measured() -> Costs:
    """The table that comes with the package."""
    content = (resources.files("qpasses.evidence") / FILE).read_text("utf-8")
    found = tomllib.loads(content)
    return Costs(found["node"], found["element"])
