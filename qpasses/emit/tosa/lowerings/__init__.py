"""How each op of an integer graph becomes TOSA: a file for each family, a line for each op."""

from collections.abc import Callable, Mapping

from qpasses.emit.tosa.lowering import Lowering
from qpasses.emit.tosa.lowerings import (
    casts,
    fixed_point_softmax,
    logic,
    movements,
    norms,
    places,
    pools,
    products,
    published_algorithms,
    reductions,
    slopes,
    softmax,
    sums,
    tables,
    window_averages,
)
from qpasses.ir.graph import Node

Lower = Callable[[Lowering, Node], None]
"""Adds to the program what computes a node. Raises RefusedError for what TOSA cannot say."""

LOWERINGS: Mapping[str, Lower] = {
    **fixed_point_softmax.LOWERINGS,
    **products.LOWERINGS,
    **sums.LOWERINGS,
    **tables.LOWERINGS,
    **window_averages.LOWERINGS,
    **pools.LOWERINGS,
    **reductions.LOWERINGS,
    **slopes.LOWERINGS,
    **softmax.LOWERINGS,
    **published_algorithms.LOWERINGS,
    **norms.LOWERINGS,
    **logic.LOWERINGS,
    **movements.LOWERINGS,
    **casts.LOWERINGS,
    **places.LOWERINGS,
}
