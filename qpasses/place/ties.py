"""Disjoint sets of names: which tensors belong together."""

from collections.abc import Container, Iterable, Sequence


class Ties:
    """Union-find with path halving: nearly constant time per call."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The name that stands for the set of ``name``."""
        parent = self._parent
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    def tie(self, first: str, second: str) -> None:
        """Unite two sets."""
        self._parent[self.of(second)] = self.of(first)


def stand_ins(
    names: Iterable[str], pairs: Sequence[tuple[str, str]], original: Container[str]
) -> dict[str, str]:
    """For each of ``names`` that is not ``original`` one that is, moved to or from it.

    ``pairs``: what is moved to what. The one next to it if there is one, else any it is
    connected with, the first in their order.
    """
    ties, first, near = Ties(), dict[str, str](), dict[str, str]()
    for pair in pairs:
        ties.tie(*pair)
        for name, other in (pair, pair[::-1]):
            if other in original:
                near.setdefault(name, other)
    for name in (each for pair in pairs for each in pair):
        if name in original:
            first.setdefault(ties.of(name), name)
    made = [name for name in names if name not in original]
    found = {name: near.get(name) or first.get(ties.of(name)) for name in made}
    return {name: other for name, other in found.items() if other is not None}
