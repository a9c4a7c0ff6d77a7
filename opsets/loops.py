"""Loops: a step, as a fragment, over all elements of sequences, as one statement of a body.

ONNX's Loop carries states from one step to the next and stacks what a step gives; elements are
taken by the number of the step. What else the step reads is what stands outside, by its name.
Scan would take elements itself, but onnxruntime's wants to know the rank of all that it
gives, which bodies of functions do not say.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opsets.fragments import Fragment, JoinError, fragment, free


class State(NamedTuple):
    """A state: what the step reads and gives, what it is at first, and at last."""

    read: str
    given: str
    first: str
    last: str


_COUNT = fragment("""
count (sequence) => (steps, goes_on) {
    one_size  = Shape <end = 1> (sequence)
    steps     = Squeeze (one_size)
    goes_on   = Constant <value = bool {1}> ()
}
""")

_ELEMENT = fragment("""
element (sequence, number) => (element) {
    element   = Gather <axis = 0> (sequence, number)
}
""")

_GOES_ON = fragment("""
goes_on (goes_on) => (still) {
    still     = Identity (goes_on)
}
""")


@dataclass(frozen=True)
class _Loop:
    """``writes = Loop <body = step> (steps, goes_on, first states)``."""

    step: Fragment
    states: Sequence[State]
    stacked: Mapping[str, str]

    @property
    def writes(self) -> tuple[str, ...]:
        return (*(each.last for each in self.states), *self.stacked.values())

    @property
    def reads(self) -> tuple[str, ...]:
        """What stands outside: the count, first states, and what the step takes from there."""
        formal = {"number", "goes_on", *(each.read for each in self.states)}
        captured = (each for each in self.step.reads if each not in formal)
        firsts = (each.first for each in self.states)
        return tuple(dict.fromkeys(("steps", "goes_on", *firsts, *captured)))

    def written(
        self,
        names: Mapping[str, str],
        values: Mapping[str, str],
        taken: set[str],
        of: str | None,
    ) -> Iterator[str]:
        """The statement in text, with those of the step inside of it."""
        inner = dict(names)
        formal = ["number", "goes_on", *(each.read for each in self.states)]
        given = ["still", *(each.given for each in self.states), *self.stacked]
        for each in (*formal, *given):
            inner[each] = free(each + (of or ""), taken)
            taken.add(inner[each])
        types = ("int64 ", "bool ", *[""] * len(self.states))
        formals = ", ".join(kind + inner[n] for kind, n in zip(types, formal, strict=True))
        givens = ", ".join(inner[each] for each in given)
        firsts = ", ".join(
            names[n] for n in ("steps", "goes_on", *(s.first for s in self.states))
        )
        writes = ", ".join(names[n] for n in self.writes)
        yield f"    {writes} = Loop <body = step ({formals}) => ({givens}) {{"
        signature = {each: inner[each] for each in (*self.step.reads, *self.step.writes)}
        for line in self.step.written(signature, values, taken, of):
            yield f"    {line}"
        yield f"    }}> ({firsts})"


def loop(
    step: Fragment,
    states: Sequence[State],
    elements: Mapping[str, str],
    stacked: Mapping[str, str],
) -> Fragment:
    """Statements that do ``step`` on each element of sequences, along their first axis.

    ``elements``: by what the step reads, the sequence that it comes from; ``stacked``: by what
    the step gives, the name of all of it. Raises JoinError if the step lacks one of these.
    """
    for each in (*(each.read for each in states), *elements):
        if each not in step.reads:
            raise JoinError(f"step {step.name} does not read {each!r}")
    given = [*(each.given for each in states), *stacked]
    for each in given:
        if each not in step.writes:
            raise JoinError(f"step {step.name} does not write {each!r}")
    whole = _GOES_ON
    for each, sequence in elements.items():
        whole = whole + _ELEMENT(sequence=sequence, element=each)
    part = _Loop((whole + step).only("still", *given), states, stacked)
    looped = Fragment(
        f"loop of {step.name}", step.attributes, part.reads, part.writes, (part,)
    )
    first, *_ = elements.values()
    return (_COUNT(sequence=first) + looped).only(*part.writes)
