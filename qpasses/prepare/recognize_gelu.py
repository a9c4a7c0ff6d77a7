"""RecognizeGelu: a GELU that is written out, or a fused one, is one standard node."""

from collections.abc import Container, Iterator
from math import erf, pi, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError
from qpasses.ir.elementwise import is_elementwise
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph, Node, Tensor, input_at, producer, varies
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.written_out import are_inner

_X = np.linspace(-8, 8, 257)
_TOLERANCE = 1e-5
"""Constants are written with five digits and more."""

_MOST_NODES = 24
"""More than any way to write a GELU takes."""


class RecognizeGelu(Pass):
    """Replace what computes GELU of one tensor, however it is written, by Gelu.

    before: ``e = Erf (Div (x, 1.4142)); y = Mul (Mul (x, Add (e, 1)), 0.5)``, products in any
            order, or by Tanh; Gelu and FastGelu of com.microsoft
    after:  ``y = Gelu <approximate> (x)``
    **Exact** in real arithmetic, but for digits of the constants: its results from -8 to 8 are
    those of the definition, within 1e-5.
    """

    op_types: ClassVar = frozenset({"Mul", "Div", "Gelu", "FastGelu"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite where nothing else reads what lies between, and the user excludes none."""
        if graph.opset < 20 or node.outputs[0].dtype != np.float32:
            return NOT_MINE
        if node.op in ("Gelu", "FastGelu"):
            return _standardized(node)
        for nodes, x in _candidates(node, context):
            form = _form(nodes, x, node, graph.opset)
            if not form:
                continue
            if not are_inner(graph, nodes[:-1], node, context.selection.excluded):
                return Declined("parts of a GELU are read by something else as well")
            node.op, node.domain, node.inputs = "Gelu", "", [x]
            node.attrs.clear()
            node.attrs["approximate"] = form
            return REWRITTEN
        return NOT_MINE


def _standardized(node: Node) -> Outcome:
    """The fused ops of onnxruntime have a domain of their own."""
    if node.domain != "com.microsoft" or input_at(node, 1) is not None:
        return NOT_MINE
    form = "tanh" if node.op == "FastGelu" else "none"
    node.op, node.domain, node.inputs = "Gelu", "", node.inputs[:1]
    node.attrs.clear()
    node.attrs["approximate"] = form
    return REWRITTEN


def _candidates(end: Node, context: Context) -> Iterator[tuple[list[Node], Tensor]]:
    """The few nodes that make what ``end`` writes of one of its factors, and that factor.

    Those with an Erf or a Tanh among them; ``end`` comes last.
    """
    for x in _factors(end) if _is_near_a_function(end) else ():
        inside = _between(x, end, context.selection.excluded)
        if any(each.op in ("Erf", "Tanh") for each in inside):
            yield inside, x


def _is_near_a_function(end: Node) -> bool:
    """Whether an Erf or a Tanh is among the few nodes before ``end``."""
    waiting, count = [end], 0
    while waiting and count < _MOST_NODES:
        node, count = waiting.pop(0), count + 1
        if node.op in ("Erf", "Tanh"):
            return True
        waiting += [before for t in node.inputs if (before := producer(t)) is not None]
    return False


def _factors(end: Node) -> list[Tensor]:
    """What is multiplied to give what ``end`` writes, the products too, the nearest first."""
    found: list[Tensor] = []
    waiting = [end]
    while waiting and len(found) < _MOST_NODES:
        for tensor in filter(varies, waiting.pop(0).inputs):
            node = producer(tensor)
            if all(tensor is not each for each in found):
                found.append(tensor)
            if node is not None and node.op in ("Mul", "Div"):
                waiting.append(node)
    return found


def _between(x: Tensor, end: Node, excluded: Container[str]) -> list[Node]:
    """The elementwise nodes from ``x`` to ``end``, in order; none if there are others."""
    order: list[Node] = []
    seen: set[int] = set()
    waiting = [(end, False)]
    while waiting:
        node, is_done = waiting.pop()
        if is_done:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        if len(seen) > _MOST_NODES or node.name in excluded or not is_elementwise(node):
            return []
        waiting.append((node, True))
        for tensor in filter(varies, node.inputs):
            before = producer(tensor)
            if tensor is x:
                continue
            if before is None:
                return []
            waiting.append((before, False))
    return order


def _form(nodes: list[Node], x: Tensor, end: Node, opset: int) -> str:
    """Which GELU of ``x`` the ``nodes`` compute; "" if none."""
    wanted = "none" if any(each.op == "Erf" for each in nodes) else "tanh"
    try:
        found = Function.of(nodes, [x], end.outputs[0], opset).real(_X)
    except ModelError:
        return ""
    return wanted if np.allclose(found, _GELU[wanted], rtol=0, atol=_TOLERANCE) else ""


def _tanh_form(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))))


_GELU = {
    "none": np.array([0.5 * each * (1 + erf(each / sqrt(2))) for each in _X.tolist()]),
    "tanh": _tanh_form(_X),
}
