"""Normalizations over groups of channels, as LayerNormalization of a reshaped tensor."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qpasses.ir.graph import Graph, Tensor, add_node, new_tensor
from qpasses.ir.rewriting import Context

Factors: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Gamma and beta: [G, C / G or 1, 1...], a 1 for each axis of positions."""


def normalize_groups(
    graph: Graph,
    name: str,
    ends: tuple[Tensor, Tensor],
    factors: Factors,
    epsilon: float,
    context: Context,
) -> None:
    """Let a LayerNormalization called ``name`` make the second of ``ends`` from the first.

    Channels and positions of the tensor are known.
    """
    x, y = ends
    gamma, beta = factors
    channels, *spatial = x.shape[1:]
    split = [gamma.shape[0], channels // gamma.shape[0], *spatial]
    rows, normal = (
        new_tensor(context.fresh(f"{y.name}_{what}"), x) for what in ("groups", "normal")
    )
    rows.shape = normal.shape = [x.shape[0], *split]
    for what, source, end, sizes in (
        ("to_groups", x, rows, split),
        ("from_groups", normal, y, [channels, *spatial]),
    ):
        shape = context.constant(f"{name}.{what}", np.array([0, *sizes], np.int64))
        called = context.fresh(f"{name}_{what}")
        add_node(graph, "Reshape", called, [source, shape], [end])
    inputs = [
        rows,
        context.constant(f"{name}.gamma", gamma.astype(np.float32)),
        context.constant(f"{name}.beta", beta.astype(np.float32)),
    ]
    attributes = {"axis": 2, "epsilon": float(epsilon)}
    add_node(graph, "LayerNormalization", name, inputs, [normal], attributes=attributes)
