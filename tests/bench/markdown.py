"""Markdown as the documents have it: paragraphs of one width, parts that a script writes."""

import re
import textwrap
from collections.abc import Iterator

WIDTH = 95

_FENCE = re.compile(r" *(```|~~~)")
_VERBATIM = re.compile(r" *(\||#|<|!\[|\[[^\]]+\]: )|    ")
_ITEM = re.compile(r"( *)([-*+]|\d+\.) +")
_MARKUP = re.compile(r"([-*+>|]|\d+[.)]|#+)$")


def rewrapped(text: str) -> str:
    """The same text, each paragraph that has a line beyond the width filled anew.

    Code, tables, headings, pictures and HTML stay as they are.
    """
    lines: list[str] = []
    for paragraph, is_prose in _blocks(text.split("\n")):
        too_long = any(len(line) > WIDTH and " " in line.strip() for line in paragraph)
        lines += _filled(paragraph) if is_prose and too_long else paragraph
    return "\n".join(lines)


def _blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Paragraphs and items of lists, and between them the lines that are no prose."""
    block: list[str] = []
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        starts_item = _ITEM.match(line) is not None
        is_prose = not fence and not found and line.strip() != ""
        if is_prose and not (block and line.startswith(" ")) and not starts_item:
            is_prose = not _VERBATIM.match(line)
        if block and (not is_prose or starts_item):
            yield block, True
            block = []
        if is_prose:
            block.append(line)
        else:
            yield [line], False
        if found:
            fence = "" if fence else found[1]
    if block:
        yield block, True


def _filled(lines: list[str]) -> list[str]:
    item = _ITEM.match(lines[0])
    first = lines[0][: item.end()] if item else re.match(" *", lines[0])[0]  # type: ignore[index]
    hanging = " " * len(first)
    words = [lines[0][len(first) :], *(line.strip() for line in lines[1:])]
    text = _held_together(" ".join(words))
    filled = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_SPACE, " ") for line in filled]


_SPACE = "\x00"
"""Stands for a space where no line may break."""


def _held_together(text: str) -> str:
    """No break inside code, nor before what would be markup at the begin of a line."""
    text = re.sub(r"`+[^`]+`+", lambda code: code[0].replace(" ", _SPACE), text)
    words = text.split(" ")
    return words[0] + "".join(
        (_SPACE if _MARKUP.match(word) else " ") + word for word in words[1:]
    )


def replaced(text: str, name: str, content: str) -> str:
    """``text`` with ``content`` in the part called ``name``, which two comments enclose."""
    begin, end = f"<!-- {name}: written by a script -->\n", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the document has no part {name!r}: put {begin}{end} there")
    return f"{before}{begin}\n{content.strip()}\n\n{end}{after}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
