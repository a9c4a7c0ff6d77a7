"""What bodies of tables cost in onnxruntime, by a table of measured times."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from onnx import FunctionProto

from opsets.op import Body
from opsets.qpasses_v1 import OPS

FILE = "costs.toml"
"""The table, beside this file. `make costs` measures it (tests/bench/costs.py)."""

NOMINAL = 1 << 16
"""So many elements has a tensor whose size is not known."""


@dataclass(frozen=True)
class Costs:
    """Nanoseconds on one thread: of each node that runs, and by op type of each element.

    ``element`` holds the declared onnxruntime bodies of Lut, LutPair and LutPerChannel as a
    whole, and Transpose for 8-bit integers.
    """

    node: float
    element: Mapping[str, float]

    def of(self, op: str, body: Body, elements: int, transposes: int = 0) -> float:
        """What ``body`` of ``op`` costs for ``elements``.

        A declared body flattens its input, so that ``transposes`` of it, which onnxruntime
        would cancel or move on, have to be done.
        """
        nodes = _run(OPS[op].function(body, 1))
        if body.proto:
            each = sum(self.element[name] for name in nodes)
        else:
            each = self.element[op] + transposes * self.element["Transpose"]
        return self.node * (len(nodes) + transposes * (not body.proto)) + each * elements


def _run(function: FunctionProto) -> Sequence[str]:
    """The op types of the nodes that run: onnxruntime dequantizes for each reader anew."""
    found = []
    for node in function.node:
        readers = sum(node.output[0] in other.input for other in function.node)
        if node.op_type != "Constant":
            copies = max(1, readers) if node.op_type == "DequantizeLinear" else 1
            found += copies * [node.op_type]
    return found


@lru_cache(maxsize=1)
def measured() -> Costs:
    """The table that comes with the package."""
    content = (resources.files("qpasses") / FILE).read_text("utf-8")
    found = tomllib.loads(content)
    return Costs(found["node"], found["element"])
