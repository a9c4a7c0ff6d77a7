"""MLIR's generic form as text: types, attributes, constants, locations."""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SMALL_FLOATS = (
    *("4E2M1FN", "6E2M3FN", "6E3M2FN"),
    *("8E4M3FN", "8E4M3FNUZ", "8E5M2", "8E5M2FNUZ", "8E8M0FNU"),
)
STRING = "!onnx.String"

ELEMENTS: Mapping[str, str] = {
    **{"bool": "i1", "object": STRING, "bfloat16": "bf16"},
    **{f"int{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"complex{2 * bits}": f"complex<f{bits}>" for bits in (32, 64)},
    **{f"float{each.lower().replace('e', '_e')}": f"f{each}" for each in _SMALL_FLOATS},
}
"""MLIR's name for a numpy type, those of ml_dtypes included."""

_FILLS_BYTES = re.compile("8|16|32|64")
"""Elements, by name, whose bytes are those that MLIR reads."""


def tensor(shape: Sequence[int | str], element: str) -> str:
    """A tensor's type; a size that is not known is "?"."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def dense(values: NDArray[Any], listed: int = 0) -> str:
    """An array as an attribute: one number for all that are alike, else bytes in hex.

    ``listed``: up to so many elements are written as numbers.
    """
    element = ELEMENTS[values.dtype.name]
    kind = tensor(values.shape, element)
    if values.size == 0:
        return f"dense<> : {kind}"
    if element != STRING and is_uniform(values):
        return f"dense<{_element(values.reshape(-1)[0], element)}> : {kind}"
    if values.size <= listed or not _FILLS_BYTES.search(element):
        return f"dense<{_nested(values, element)}> : {kind}"
    return f'dense<"0x{_bytes(values).hex().upper()}"> : {kind}'


def written_out(values: NDArray[Any], element: str) -> str:
    """An array of numbers as an attribute of this type."""
    return f"dense<{_nested(values, element)}> : {tensor(values.shape, element)}"


def is_uniform(values: NDArray[Any]) -> bool:
    """Whether all elements have the same bytes."""
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8).reshape(values.size, -1)
    return bool((raw == raw[:1]).all())


def _bytes(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()


def resource(values: NDArray[Any]) -> str:
    """An array in the section of resources: how it is aligned, and its bytes in hex."""
    aligned = values.itemsize.to_bytes(4, "little").hex().upper()
    return f'"0x{aligned}{_bytes(values).hex().upper()}"'


def _nested(values: Any, element: str) -> str:
    if np.ndim(values) == 0:
        return _element(values[()] if isinstance(values, np.ndarray) else values, element)
    return f"[{', '.join(_nested(each, element) for each in values)}]"


def _element(value: Any, element: str) -> str:
    if element == STRING:
        return text(value)
    if element.startswith("complex"):
        return f"({real(value.real)},{real(value.imag)})"
    if element == "i1":
        return flag(bool(value))
    return str(int(value)) if element.startswith(("i", "ui")) else real(value)


def real(value: Any) -> str:
    """A numpy float: digits that mean exactly it, NaN and the infinite as their bits."""
    if not isfinite(value):
        raw = np.asarray(value).tobytes()
        return f"0x{int.from_bytes(raw, sys.byteorder):0{2 * len(raw)}X}"
    is_exact = type(value)(float(str(value))) == value
    digits, mark, exponent = (str(value) if is_exact else repr(float(value))).partition("e")
    return f"{digits if '.' in digits else digits + '.0'}{mark}{exponent}"


def array(values: Iterable[object], element: str) -> str:
    """Numbers, as text or whole ones, as an attribute."""
    shown = ", ".join(map(str, values))
    return f"array<{element}: {shown}>" if shown else f"array<{element}>"


def integers(values: Sequence[int]) -> str:
    """An array of int64 as an attribute."""
    return array(values, "i64")


def number(value: int, element: str = "i32") -> str:
    """An integer as an attribute."""
    return f"{value} : {element}"


def flag(value: bool) -> str:
    """A boolean as an attribute."""
    return str(value).lower()


def text(value: str | bytes) -> str:
    """A string as MLIR reads it: what is not plain ASCII, byte by byte in hex."""
    plain = (
        chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:02X}"
        for each in (value.encode("utf-8") if isinstance(value, str) else value)
    )
    return f'"{"".join(plain)}"'


def several(values: Iterable[str]) -> str:
    """Attributes as one."""
    return f"[{', '.join(values)}]"


def dictionary(entries: Mapping[str, str]) -> str:
    """Attributes by name as one; a name that is no plain word is quoted."""
    plain = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
    shown = (
        f"{name if plain.fullmatch(name) else text(name)} = {value}"
        for name, value in entries.items()
    )
    return f"{{{', '.join(shown)}}}"
