"""How values are shown on a page; what is no number where one should be is a dash."""

from math import floor
from typing import Any

MISSING = "\N{EN DASH}"

_FEW = 6
"""So many numbers of a list are shown one by one."""

_CONTROL = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"}
"""Characters that HTML forbids, as the signs that stand for them."""


def plain(value: Any) -> Any:
    """What a template writes for ``value``."""
    if value is None:
        return MISSING
    return value.translate(_CONTROL) if isinstance(value, str) else value


def decibels(value: Any) -> str:
    """With one digit behind the point, without the unit."""
    return f"{value:.1f}" if isinstance(value, float | int) else MISSING


def decibels_at_least(value: Any) -> str:
    """The same, cut: a verdict says no more than there is, as in a terminal."""
    return f"{floor(10 * value) / 10:.1f}" if isinstance(value, float | int) else MISSING


def gain(value: Any) -> str:
    """Decibels with their sign."""
    return f"{value:+.1f}" if isinstance(value, float | int) else MISSING


def percent(value: Any) -> str:
    """A share of 1; small ones with two digits that count."""
    if not isinstance(value, float | int):
        return MISSING
    return f"{value:.1%}" if value == 0 or abs(value) >= 0.001 else f"{100 * value:.2g}%"


def milliseconds(value: Any) -> str:
    """With the digits of microseconds."""
    return f"{value:.3f}" if isinstance(value, float | int) else MISSING


def ratio(value: Any) -> str:
    """Of one time to another."""
    return f"{value:.2f}" if isinstance(value, float | int) else MISSING


def number(value: Any) -> str:
    """A whole number with commas, another one with four digits that count."""
    if not isinstance(value, float | int):
        return MISSING
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def cosine(value: Any) -> str:
    """With the digits that tell good ones apart."""
    return f"{value:.6f}" if isinstance(value, float | int) else MISSING


def numbers(values: Any) -> str:
    """A number, or the first ones of a list and how far the others reach."""
    if not isinstance(values, list):
        return number(values)
    shown = ", ".join(map(number, values[:_FEW])) or MISSING
    known = [each for each in values if isinstance(each, float | int)]
    if len(values) <= _FEW or not known:
        return shown
    least, largest = number(min(known)), number(max(known))
    return f"{shown}, … ({len(values):,} in all, from {least} to {largest})"


def setting(value: Any) -> str:
    """The value of an option."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {setting(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(setting, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return MISSING if value is None else str(value)


_FILTERS = (
    decibels,
    decibels_at_least,
    gain,
    percent,
    milliseconds,
    ratio,
    number,
    cosine,
    numbers,
    setting,
)
FILTERS = {each.__name__: each for each in _FILTERS}
"""By the name that templates call them."""
