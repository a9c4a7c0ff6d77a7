"""What an option is: the words it is explained with, the values it takes, and their check.

An option is a field of a dataclass, made by ``option``. The command line, the configuration
file, the keywords of the Python interface and docs/options.md are read off these fields.
Nothing heavy is imported: the command line begins here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cache
from sys import float_info
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

from opsets.argument_kinds import check_kind, shown
from opsets.errors import UsageError

Value = TypeVar("Value")

_DECLARED = "option"
"""Under this key the metadata of a field hold its Option."""


@dataclass(frozen=True)
class Kind:
    """What an option holds: ``needed`` says it to users, ``fits`` tells it of a value.

    ``read``: what a text of the command line, or an entry of a configuration file, becomes;
    it raises ValueError, saying what is wrong. None where click knows the type.
    """

    needed: str
    fits: Callable[[Any], bool]
    read: Callable[[Any], Any] | None = None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    return listed and all(map(_is_text, value))


def _are_whole(value: Any) -> bool:
    return isinstance(value, Sequence) and all(type(each) is int for each in value)


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= float_info.max  # nor NaN


TEXT = Kind("a text", _is_text)
FILE = Kind("a text", _is_text)
FILE_OR_NAME = Kind("a text", _is_text)
TEXTS = Kind("a list of texts", _are_texts)
THREADS = Kind(
    "a text as 1,2, or whole numbers", lambda value: _is_text(value) or _are_whole(value)
)
SWITCH = Kind("True or False", lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", lambda value: type(value) is int)
NUMBER = Kind("a finite number", _is_finite)

_KINDS: Mapping[Any, Kind] = {bool: SWITCH, int: WHOLE, float: NUMBER, str: TEXT}


@dataclass(frozen=True)
class Option:
    """One option. What stands below ``heading`` is left out where it follows from the field.

    ``unset``: what it is where nobody says it, if the default is None. ``flag``: its name on
    the command line and in a configuration file. ``kind`` and ``choices`` follow from the
    type. ``least``, ``most``: bounds of a number; ``unit``: what it counts. ``kept``: gives
    the value to keep, or raises UsageError. ``opposite``: a switch has its ``--no-`` too.
    ``required``: the command line must have it, whatever the field says. ``any_case``:
    capitals or not in a choice.
    """

    help: str
    heading: str
    unset: str = ""
    flag: str = ""
    short: str = ""
    metavar: str = ""
    kind: Kind | None = None
    choices: Sequence[Any] = ()
    least: int | None = None
    most: int | None = None
    unit: str = ""
    kept: Callable[[Any], Any] | None = None
    opposite: bool = False
    required: bool = False
    any_case: bool = False


def option(default: Value, help: str, heading: str, **more: Any) -> Value:
    """A field of a dataclass with an Option; typed as its default, so that mypy checks it."""
    made: Value = field(default=default, metadata=described(help, heading, **more))
    return made


def described(help: str, heading: str, **more: Any) -> Mapping[str, Option]:
    """The metadata of a field without a default, which every caller must give."""
    return {_DECLARED: Option(help, heading, **more)}


@dataclass(frozen=True)
class Declared:
    """An Option with what follows from its field."""

    name: str
    default: Any
    option: Option
    kind: Kind
    flag: str
    is_typed: bool
    """Whether the annotation is the whole type: others are checked by what reads them."""

    @property
    def is_required(self) -> bool:
        """Whether the command line must have it."""
        return self.option.required or self.default is MISSING

    @property
    def needed(self) -> str:
        """What a value must be, in words."""
        least, most, unit = self.option.least, self.option.most, self.option.unit
        what = f"{self.kind.needed} of {unit}" if unit else self.kind.needed
        if least is None:
            return what
        return f"{what} " + (
            f"of at least {least}" if most is None else f"from {least} to {most}"
        )

    def checked(self, value: Any) -> Any:
        """The value to keep. Raises UsageError for one that cannot be."""
        if value is None and self.default is None:
            return None
        if choices := self.option.choices:
            if not any(type(value) is type(each) and value == each for each in choices):
                known = ", ".join(map(str, choices))
                raise UsageError(f"{self.name}: unknown {shown(value)}, use one of {known}")
        elif self.is_typed and not self.fits(value):
            raise UsageError(f"{self.name}: {self.needed} is needed, got {shown(value)}")
        if self.kind is TEXTS and self.is_typed:
            value = tuple(value)
        return value if self.option.kept is None else self.option.kept(value)

    def fits(self, value: Any) -> bool:
        """Whether it is of the kind, and within the bounds if there are any."""
        least, most = self.option.least, self.option.most
        return self.kind.fits(value) and (
            (least is None or value >= least) and (most is None or value <= most)
        )


def declared(options: type) -> Mapping[str, Declared]:
    """The options among the fields of a dataclass, those that are positional first."""
    return _options_of(options)


@cache
def _options_of(options: type) -> Mapping[str, Declared]:
    made = sorted(fields(options), key=lambda each: bool(each.kw_only))
    return {each.name: _declared(each) for each in made if _DECLARED in each.metadata}


def _declared(made: "Field[Any]") -> Declared:
    found: Option = made.metadata[_DECLARED]
    is_typed = found.kind is None
    kind, choices = (found.kind, ()) if found.kind else _kind(made.type)
    flag = found.flag or made.name.removesuffix("_file").replace("_", "-")
    about = replace(found, choices=found.choices or choices)
    return Declared(made.name, made.default, about, kind, flag, is_typed)


def _kind(annotation: Any) -> tuple[Kind, Sequence[Any]]:
    """What an annotation says of the values, and all of them if it lists them."""
    if NoneType in get_args(annotation):
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return _KINDS[type(choices[0])], choices
    if get_origin(annotation) is Sequence:
        return TEXTS, ()
    return _KINDS[annotation], ()


@dataclass(frozen=True)
class Options:
    """A dataclass of options: every one is checked when an object is made."""

    def __post_init__(self) -> None:
        for made in fields(self):
            is_called = get_origin(made.type) is Callable
            words = "Callable" if is_called else made.type
            if isinstance(words, str):
                check_kind(made.name, getattr(self, made.name), words)
        for name, each in declared(type(self)).items():
            given = getattr(self, name)
            kept = each.checked(given)
            if kept is not given:
                object.__setattr__(self, name, kept)
