"""Names of tensors in files and in C, and the tensors that names of a dump mean."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

_STORED = "_quantized"
"""What the stored integers of a float tensor have behind its name."""


def file_stems(names: Sequence[str]) -> Mapping[str, str]:
    """By tensor a name for files and C, which begins with its place among ``names``."""
    digits = max(3, len(str(len(names))))
    return {name: f"{i:0{digits}}_{_plain(name)}"[:_LONGEST] for i, name in enumerate(names)}


_LONGEST = 120
"""Of the names of files, which have an ending and a sample's folder too."""


def names_of_dumps(names: Sequence[str]) -> Mapping[str, str]:
    """The tensor that is meant by each name that a dump may have for it.

    That is its own name, that of its file in a folder of vectors, and the name of the float
    tensor; where a device's files cannot have a name, with other characters in it. A name
    that may mean two tensors means none, but its own.
    """
    stems = file_stems(names)
    meant = [(each, name) for name in names for each in {*_spellings(name), stems[name]}]
    counts = Counter(each for each, _ in meant)
    found = {each: name for each, name in meant if counts[each] == 1}
    return found | {name: name for name in names}


def _spellings(name: str) -> Iterator[str]:
    for each in {name, name.removesuffix(_STORED)}:
        bare = each.strip("/")
        yield from (each, bare, _plain(each), _plain(bare))
        yield from (bare.replace("/", sign) for sign in ("_", "__", "."))


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
