"""ExpandLpPool: the norm of a window is made of the mean of its powers."""

from math import prod
from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion

_LARGEST = 3
"""Of larger powers 8 bits leave most numbers few codes."""

_DILATED = 19
"""From this opset on a mean of a window may leave cells out."""


class ExpandLpPool(Pass):
    """Replace LpPool by AveragePool of absolute values or squares, GlobalLpPool by a norm.

    before: ``y = LpPool <p = 2, kernel_shape> (x)``
    after:  ``s = Mul (x, x); m = AveragePool <count_include_pad = 1> (s);
            t = Mul (m, cells of the window); y = Sqrt (t)``; for p = 1 without Sqrt, of Abs,
            for larger ones with Pow of Abs, and Pow
    **Exact** in real arithmetic: padding is zero, and counts as such.
    """

    op_types: ClassVar = frozenset({"GlobalLpPool", "LpPool"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite windows that a mean may have."""
        x, p, dims = node.inputs[0], node.attrs.get("p", 2), rank(node.inputs[0])
        if node.domain or x.dtype != np.float32 or p < 1:
            return NOT_MINE
        if node.op == "GlobalLpPool":
            if dims is None:
                return NOT_MINE
            if p > 2:
                return Declined(f"GlobalLpPool with p = {p}: 1 and 2 have integer forms")
            made = Expansion(graph, node, context)
            axes = made.constant("axes", np.arange(2, dims))
            made.add(f"ReduceL{p}", "norm", [x, axes], made.y, keepdims=1)
            return REWRITTEN
        if p > _LARGEST:
            return Declined(
                f"LpPool with p = {p}: powers beyond {_LARGEST} are no 8 bits' work"
            )
        windows = {key: value for key, value in node.attrs.items() if key != "p"}
        if windows.get("ceil_mode"):
            return Declined("LpPool with ceil_mode: a mean counts fewer cells at the end")
        if any(each != 1 for each in windows.get("dilations", [])) and graph.opset < _DILATED:
            return Declined(f"LpPool with dilations below opset {_DILATED}")
        windows.pop("ceil_mode", None)
        made = Expansion(graph, node, context)
        powers = made.add("Mul", "power", [x, x]) if p == 2 else made.add("Abs", "size", [x])
        powers.shape = x.shape
        if p > 2:
            powers = made.add("Pow", "power", [powers, made.number("p", p)])
            powers.shape = x.shape
        mean = made.add("AveragePool", "mean", [powers], count_include_pad=1, **windows)
        cells = made.number("cells", prod(windows["kernel_shape"]))
        if p == 1:
            made.add("Mul", "sum", [mean, cells], made.y)
            return REWRITTEN
        total = made.add("Mul", "sum", [mean, cells])
        if p == 2:
            made.add("Sqrt", "norm", [total], made.y)
        else:
            made.add("Pow", "norm", [total, made.number("root", 1 / p)], made.y)
        return REWRITTEN
