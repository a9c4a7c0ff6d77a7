"""Statements of bodies that are written more than once, under names of their own."""

import re
from collections.abc import Mapping


def instance(text: str, result: str, given: Mapping[str, str]) -> str:
    """``text`` with names replaced: as ``given`` says; what else it defines is named after
    ``result``.
    """
    names = {each: f"{each}_{result}" for each in re.findall(r"^\s*(\w+)\s*=", text, re.M)}
    names |= given
    return re.sub(rf"\b({'|'.join(names)})\b", lambda found: names[found[0]], text)
