"""Far tables: chains of channels of which no table of 16 bits is near enough read 8 bits."""

from collections.abc import Callable, Collection, Container, Mapping

from opsets.errors import ModelError
from qpasses.ir.elementwise import differing_axes, made_of, takes_multipliers
from qpasses.ir.function import Function
from qpasses.ir.graph import Graph
from qpasses.ir.record import Quantization
from qpasses.ir.settings import Settings
from qpasses.lowering.numbers.knots import channel_lookup
from qpasses.place.planning import Plan
from qpasses.place.words import Words, words_of


def near_words(
    graph: Graph,
    chosen: Plan,
    settings: Settings,
    given: Container[str],
    narrow: Mapping[str, Quantization],
    wide: Callable[[str], Quantization],
    close: Collection[str] = (),
) -> Words:
    """``words_of``, without what tables of channels would be far from what they stand for.

    ``narrow``: by tensor, what 8 bits of it mean, ``wide`` gives what 16 do. Where a channel
    uses little of the range of its tensor, or a function is steep, lines between knots may
    leave it.
    """
    far = dict[str, str]()
    while True:
        words = words_of(graph, chosen, settings, given, far, close)
        found = _far_chains(graph, chosen, settings, words, narrow, wide)
        if not found:
            return words
        far |= found


def _far_chains(
    graph: Graph,
    chosen: Plan,
    settings: Settings,
    words: Words,
    narrow: Mapping[str, Quantization],
    wide: Callable[[str], Quantization],
) -> dict[str, str]:
    """By the name of what they read in 16 bits, why there are no tables for chains."""
    found = dict[str, str]()
    for source, end in chosen.chains:
        nodes, _ = made_of(end, (), {source.name})
        axes = differing_axes(nodes)
        form, target = settings.activation_form, settings.target
        is_table = len(axes) == 1 and not takes_multipliers(nodes, form, target)
        if source.name not in words.wanted or not is_table:
            continue
        x, y = (
            wide(each.name) if each.name in words else narrow[each.name]
            for each in (source, end)
        )
        function = Function.of(nodes, [source], end, graph.opset)
        try:
            channel_lookup(function, x, y, max(axes), target)
        except ModelError as error:
            found[source.name] = str(error)
    return found
