"""Fragments: statements of op bodies that declare what they read and write, joined by names.

A fragment is written like a function in ONNX's text syntax::

    half_up (value) => (level) {
        half   = Constant <value = double {0.5}> ()
        raised = Add (value, half)
        level  = Floor (raised)
    }

``one + another``: what one writes the other may read. ``half_up(value="scaled")`` is the same
on other names, as a call gives a function its arguments. Between ``<`` and ``>`` behind its
name stand the attributes that it reads as ``@name``: those of the op, or what ``having`` puts
in their place. All other names are its own and meet no others, whatever it is joined with.

Names that do not fit are refused where they are joined, when the module is imported; what is
left to read, when the op is declared. Statements are written out when they are asked for.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

_Names = Mapping[str, str]


class Part(Protocol):
    """What a fragment is made of: a statement, a fragment under other names, a scan."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The names that it writes."""

    def written(
        self, names: _Names, values: _Names, taken: set[str], of: str | None
    ) -> Iterator[str]:
        """Its text, under the ``names`` and with the ``values`` it has there."""


class JoinError(ValueError):
    """Statements that do not make a body: the message names the fragment and the name."""


@dataclass(frozen=True)
class _Statement:
    """``writes = op <attributes> (reads)``."""

    writes: tuple[str, ...]
    op: str
    attributes: str
    reads: tuple[str, ...]

    def written(
        self, names: _Names, values: _Names, _taken: set[str], _of: str | None
    ) -> Iterator[str]:
        """The statement in text, under the ``names`` and with the ``values`` it has there."""
        attributes = f" <{_with_values(self.attributes, values)}>" if self.attributes else ""
        writes, reads = (", ".join(names[n] for n in ns) for ns in (self.writes, self.reads))
        yield f"    {writes} = {self.op}{attributes} ({reads})"


@dataclass(frozen=True)
class _Call:
    """A fragment under other ``names``, and with ``values`` for its attributes."""

    fragment: "Fragment"
    names: _Names
    values: _Names

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(self.names[each] for each in self.fragment.writes)

    def written(
        self, names: _Names, values: _Names, taken: set[str], of: str | None
    ) -> Iterator[str]:
        """Its statements; its own names say what it writes under another name."""
        renamed = (each for each in self.writes if each not in self.fragment.writes)
        if of is not None and (result := next(renamed, None)):
            of = f"_{names[result]}"
        inside = {formal: names[actual] for formal, actual in self.names.items()}
        given = {each: _with_values(value, values) for each, value in self.values.items()}
        return self.fragment.written(inside, given, taken, of)


@dataclass(frozen=True, eq=False)
class Fragment:
    """Statements, or fragments joined: what they read, what others may read of what they
    write, and the attributes that nothing has given them yet.
    """

    name: str
    attributes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parts: tuple[Part, ...]

    def __call__(self, **actual: str) -> "Fragment":
        """The fragment with ``actual`` names for those of its signature."""
        self._must_have(actual, {*self.reads, *self.writes}, "name")
        names = {each: actual.get(each, each) for each in (*self.reads, *self.writes)}
        call = _Call(self, names, {each: f"@{each}" for each in self.attributes})
        reads = _once(names[each] for each in self.reads)
        written = set(reads)
        for each in call.writes:
            if each in written:
                raise JoinError(f"fragment {self.name}: two of its names are called {each!r}")
            written.add(each)
        return Fragment(self.name, self.attributes, reads, call.writes, (call,))

    def having(self, **values: object) -> "Fragment":
        """The fragment with text in place of attributes, which may name attributes itself."""
        self._must_have(values, self.attributes, "attribute")
        given = {each: str(values.get(each, f"@{each}")) for each in self.attributes}
        left = _once(each for value in given.values() for each in _references(value))
        call = _Call(self, {each: each for each in (*self.reads, *self.writes)}, given)
        return Fragment(self.name, left, self.reads, self.writes, (call,))

    def __add__(self, behind: "Fragment") -> "Fragment":
        """This fragment, then the one ``behind``, which may read what this one writes."""
        if not self.parts:
            return behind
        for each in behind.writes:
            if each in self.writes:
                raise JoinError(
                    f"fragment {behind.source(each)} writes {each!r}, which fragment "
                    f"{self.source(each)} before it writes too"
                )
            if each in self.reads:
                raise JoinError(
                    f"fragment {self.source(each)} reads {each!r}, which only fragment "
                    f"{behind.source(each)} behind it writes"
                )
        return Fragment(
            f"{self.name} + {behind.name}",
            _once((*self.attributes, *behind.attributes)),
            _once((*self.reads, *(each for each in behind.reads if each not in self.writes))),
            (*self.writes, *behind.writes),
            (self._as_it_is, behind._as_it_is),
        )

    def only(self, *writes: str) -> "Fragment":
        """The fragment, of which others may read no more than ``writes``."""
        self._must_have(writes, self.writes, "written name")
        return Fragment(self.name, self.attributes, self.reads, writes, (self._as_it_is,))

    def must_fit(
        self,
        where: str,
        inputs: Collection[str],
        outputs: Collection[str],
        attributes: Collection[str],
    ) -> None:
        """Raise JoinError unless this can be the whole body of a function, at ``where``."""
        for each in self.reads:
            if each not in inputs:
                raise JoinError(
                    f"{where}: fragment {self.source(each)} reads {each!r}, which nothing "
                    f"before it writes and is no input: {', '.join(inputs)}"
                )
        for each in self.writes:
            if each in inputs:
                raise JoinError(f"{where}: fragment {self.source(each)} writes input {each!r}")
        for each in outputs:
            if each not in self.writes:
                raise JoinError(f"{where}: nothing in {self.name} writes {each!r}")
        for each in self.attributes:
            if each not in attributes:
                raise JoinError(
                    f"{where}: nothing gives @{each} in {self.name}, and the op has no "
                    "attribute of this name"
                )

    def __str__(self) -> str:
        """What ``fragment`` reads as the same."""
        attributes = f" <{', '.join(self.attributes)}>" if self.attributes else ""
        reads, writes = ", ".join(self.reads), ", ".join(self.writes)
        return f"{self.name}{attributes} ({reads}) => ({writes}) {{{self.text}}}"

    @cached_property
    def text(self) -> str:
        """All statements, in ONNX's text syntax."""
        names = {each: each for each in (*self.reads, *self.writes)}
        values = {each: f"@{each}" for each in self.attributes}
        return "\n" + "\n".join(self.written(names, values, set(names), None)) + "\n"

    def written(
        self, names: _Names, values: _Names, taken: set[str], of: str | None
    ) -> Iterator[str]:
        """The statements with ``names`` for those of the signature, and ``of`` behind its own,
        none of which are ``taken``; None: nothing stands beside it.
        """
        own = {each for part in self.parts for each in part.writes} - names.keys()
        inside = dict(names)
        for each in sorted(own):
            inside[each] = free(each + (of or ""), taken)
            taken.add(inside[each])
        if of is None and len(self.parts) > 1:
            of = ""
        for part in self.parts:
            yield from part.written(inside, values, taken, of)

    def source(self, name: str) -> str:
        """The fragment, of those joined in this one, that writes ``name``, or reads it."""
        for part in self.parts:
            if isinstance(part, _Call):
                for formal, actual in part.names.items():
                    if actual == name:
                        return part.fragment.source(formal)
        return self.name

    @cached_property
    def _as_it_is(self) -> _Call:
        names = {each: each for each in (*self.reads, *self.writes)}
        return _Call(self, names, {each: f"@{each}" for each in self.attributes})

    def _must_have(self, given: Collection[str], known: Collection[str], what: str) -> None:
        for each in given:
            if each not in known:
                has = ", ".join(sorted(known)) or "none"
                raise JoinError(f"fragment {self.name} has no {what} {each!r}: it has {has}")


NOTHING = Fragment("nothing", (), (), (), ())
"""No statement at all."""

_FRAGMENT = re.compile(
    r"\s*([\w +]+)\s*(?:<([\w\s,]*)>)?\s*\(([\w\s,]*)\)\s*=>\s*\(([\w\s,]*)\)\s*\{(.*)\}\s*",
    re.S,
)
_STATEMENT = re.compile(
    r"\s*([\w\s,]+?)\s*=\s*([\w.]+)\s*(?:<([^>]*)>)?\s*\(([\w\s,]*)\)\s*", re.S
)
_WORD = re.compile(r"\w+")
_REFERENCE = re.compile(r"@(\w+)")
_COMMENT = re.compile(r"#.*")


def joined(*parts: Fragment) -> Fragment:
    """Fragments joined, each behind the others."""
    whole = NOTHING
    for each in parts:
        whole = whole + each
    return whole


def fragment(text: str) -> Fragment:
    """The fragment that ``text`` declares and writes out.

    Raises JoinError unless it reads what it declares or has written, writes each name once,
    and uses and writes all that it declares.
    """
    found = _FRAGMENT.fullmatch(_COMMENT.sub("", text))
    if found is None:
        raise JoinError(f"no fragment 'name <attributes> (reads) => (writes) {{...}}': {text}")
    name = found[1].strip()
    attributes, reads, writes = (
        tuple(_WORD.findall(each or "")) for each in found.groups()[1:4]
    )
    statements = tuple(_statements(name, found[5]))
    written = _written_once(name, reads, statements)
    used = {each for statement in statements for each in statement.reads}
    asked = {each for statement in statements for each in _references(statement.attributes)}
    for each in sorted(asked.difference(attributes)):
        raise JoinError(f"fragment {name} does not declare its attribute @{each}")
    for names, there, what in (
        (attributes, asked, "does not use @{}"),
        (reads, used, "does not read {!r}"),
        (writes, written, "does not write {!r}"),
    ):
        for each in sorted(set(names) - there):
            raise JoinError(f"fragment {name} {what.format(each)}, which it declares")
    return Fragment(name, attributes, reads, writes, statements)


def _statements(name: str, text: str) -> Iterator[_Statement]:
    position = 0
    while found := _STATEMENT.match(text, position):
        writes, op, attributes, reads = found.groups()
        words = (tuple(_WORD.findall(each)) for each in (writes, reads))
        yield _Statement(next(words), op, attributes or "", next(words))
        position = found.end()
    if left := text[position:].strip():
        raise JoinError(f"fragment {name}: no statement 'names = Op <...> (names)': {left}")


def _written_once(
    name: str, reads: tuple[str, ...], statements: tuple[_Statement, ...]
) -> set[str]:
    """What they write, each name once, and none that they read before."""
    known = set(reads)
    for statement in statements:
        for each in statement.reads:
            if each not in known:
                raise JoinError(
                    f"fragment {name} reads {each!r}, which it neither declares nor writes "
                    "before"
                )
        for each in statement.writes:
            if each in known:
                raise JoinError(f"fragment {name} writes {each!r}, which is there already")
            known.add(each)
    return known.difference(reads)


def _references(text: str) -> list[str]:
    return _REFERENCE.findall(text)


def _with_values(text: str, values: _Names) -> str:
    return _REFERENCE.sub(lambda found: values[found[1]], text)


def _once(names: Iterator[str] | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def free(name: str, taken: set[str]) -> str:
    """``name``, numbered where it is ``taken``."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
