"""Disjoint sets of names: which tensors belong together."""


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
