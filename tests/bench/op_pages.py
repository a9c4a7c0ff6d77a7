"""Pages of ops: docs/ops/NAME.md and their index, from what each op declares.

make docs
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from textwrap import fill

from opsets.declaration import (
    BYTES,
    CLASSES,
    SIGNALS,
    WHOLE,
    Constant,
    Data,
    Scaling,
    Shift,
    text_of,
)
from opsets.op import Evidence, Op, condition
from opsets.qpasses_v1 import OPS

WIDTH = 95

FOLDER = Path(__file__).parents[2] / "docs" / "ops"

HEAD = "<!-- written by `make docs` from opsets/qpasses_v1/{module}.py: change it there -->\n"

LETTERS: Mapping[str, str] = {
    "T": f"{' or '.join(BYTES)}, one of them throughout a node",
    "W": f"{' or '.join(BYTES)}, each by itself",
    "X": f"{', '.join(SIGNALS[:-1])} or {SIGNALS[-1]}, one of them throughout a node",
    "Y": f"{', '.join(SIGNALS[:-1])} or {SIGNALS[-1]}, one of them throughout a node",
    "S": f"{', '.join(SIGNALS[:-1])} or {SIGNALS[-1]}, each by itself",
    "G": "int16 or uint16, each by itself",
    "N": f"{', '.join(WHOLE[:-1])} or {WHOLE[-1]}, each by itself",
}
"""What the letters for types stand for, in the words of the pages."""

EVIDENCE: Mapping[Evidence, str] = {
    "thresholds": "every step of the output of every channel lies at the same accumulator",
    "exhaustive": "body and meaning were compared on every input that there is",
    "bounded": "the distance from real arithmetic has a proved bound; the body was run on "
    "inputs made to find it wrong",
}
"""What is known of a node whose proof gives this word."""

INDEX = """# The ops of domain `qpasses`

What a node of an emitted model computes, on stored integers. Each op has one page: its node,
its formula, the bodies that compute it, and what proves them. docs/evidence.md says more of
the evidence.

{table}

{letters}
"""


def module_of(op: Op) -> str:
    """The name of the file that declares ``op``."""
    return op.reference.__module__.rpartition(".")[2]


def summary(op: Op) -> str:
    """What ``op`` is, in the first words of its file."""
    said = (sys.modules[op.reference.__module__].__doc__ or "").partition("\n")[0]
    return said.partition(": ")[2].rstrip(".")


def page(op: Op) -> str:
    """The page of ``op``."""
    parts = [
        f"# {op.name}\n\n{HEAD.format(module=module_of(op))}",
        _paragraph(summary(op)),
        f"```text\n{fill(op.formula, WIDTH)}\n```\n",
        _paragraph(op.source),
        _paragraph(op.note),
        f"## Node\n\n{_ends(op)}",
        _letters(op),
        _attributes(op),
        _constraints(op),
        _paragraph(f"what its numbers stand for: {op.scaling.value}"),
        f"## Evidence\n\n{_evidence(op)}",
        f"## Bodies\n\n{_bodies(op)}",
        f"## Laws\n\n{_list(op.laws)}",
    ]
    return "\n".join(filter(None, parts))


def index() -> str:
    """The index of all pages."""
    rows = [
        (f"[{op.name}]({module_of(op)}.md)", summary(op), _words(op)) for op in OPS.values()
    ]
    letters = "; ".join(f"{letter} is {said}" for letter, said in LETTERS.items())
    table = _table(("op", "computes", "evidence"), rows).rstrip()
    said = _paragraph(f"types: {letters}; all others stand for themselves")
    return INDEX.format(table=table, letters=said.rstrip())


def pages() -> dict[str, str]:
    """Every file of docs/ops with its content."""
    return {f"{module_of(op)}.md": page(op) for op in OPS.values()} | {"README.md": index()}


def _ends(op: Op) -> str:
    rows = [(f"`{name}`", *_end(each)) for name, each in op.inputs.items()]
    rows += [(f"`{name}`", each.type, "", "output") for name, each in op.outputs.items()]
    return _table(("name", "type", "shape", ""), rows)


def _end(each: Data) -> tuple[str, str, str]:
    if not isinstance(each, Constant):
        return each.type, "any", "data"
    shape = text_of(each.dims) if each.dims else "one number"
    limits = each.limits
    if limits is not None:
        return each.type, shape, f"constant, {limits.start} to {limits.stop - 1}"
    return each.type, shape, f"constant{', as the rounding allows' * isinstance(each, Shift)}"


def _letters(op: Op) -> str:
    types = {each.type for each in [*op.inputs.values(), *op.outputs.values()]}
    used = [f"{letter} is {LETTERS[letter]}" for letter in CLASSES if letter in types]
    sizes = {d for each in op.constants.values() for d in each.dims if isinstance(d, str)}
    if any(size.isupper() for size in sizes):
        used.append("a capital letter in a shape is one size throughout a node")
    return _paragraph("; ".join(used))


def _attributes(op: Op) -> str:
    if not op.attributes:
        return "It has no attributes.\n"
    rows = [
        (f"`{name}`", f"{each}{'' if each.required else ' (may be left out)'}")
        for name, each in op.attributes.items()
    ]
    return _table(("attribute", ""), rows)


def _constraints(op: Op) -> str:
    if not op.constraints:
        return ""
    return f"What must hold besides:\n\n{_list(each.says for each in op.constraints)}"


def _evidence(op: Op) -> str:
    said = [f"`{op.evidence}`: {EVIDENCE[op.evidence]}"]
    if word := op.evidence_of_words:
        said.append(f"with stored tensors of 16 bits `{word}`: {EVIDENCE[word]}")
    if op.probe:
        said.append(
            "`verify` also runs the kernel on its machine, at every threshold and the number "
            f"before it: the accumulator is brought there {op.probe.value}"
        )
    return "\n".join(map(_paragraph, said))


def _words(op: Op) -> str:
    return f"{op.evidence}, {op.evidence_of_words}" if op.evidence_of_words else op.evidence


def _bodies(op: Op) -> str:
    rows = [
        (f"`{body.overload}`", body.flavour, condition(body.accepts) or "any node")
        for body in op.bodies
    ]
    text = "the first of the wanted flavour that takes the node and is proved, else portable"
    if op.scaling is Scaling.TABLE:
        text = (
            "the cheapest that is proved, of these and of those that are made for one table: "
            "the tabulated function itself, in float (docs/decisions/0019-bodies-of-tables.md)"
        )
    return f"{_paragraph(text)}\n{_table(('body', 'flavour', 'for nodes where'), rows)}"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(_escaped, line))} |\n" for line in lines)


def _list(lines: Iterable[str]) -> str:
    return "".join(f"- {_escaped(each)}\n" for each in lines)


def _paragraph(text: str) -> str:
    """A sentence as a paragraph; nothing of nothing."""
    whole = f"{text[:1].upper()}{text[1:]}".rstrip(".")
    return f"{fill(_escaped(whole) + '.', WIDTH)}\n" if text else ""


def _escaped(text: str) -> str:
    """Powers as they are, for Markdown."""
    return text.replace("**", r"\*\*")


def main() -> None:
    """Write all pages, and remove those of ops that are no more."""
    FOLDER.mkdir(exist_ok=True)
    found = pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in found:
            path.unlink()
    for name, content in found.items():
        (FOLDER / name).write_text(content, "utf-8")
    print(f"{len(found)} pages in {FOLDER}")


if __name__ == "__main__":
    main()
