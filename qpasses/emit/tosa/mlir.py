"""MLIR's generic form as text: types, attributes, constants, locations."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from opsets.errors import ModelError

ELEMENTS: Mapping[str, str] = {"bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32"}
"""MLIR's name for a numpy type."""


def tensor(shape: Sequence[int], element: str) -> str:
    """A tensor's type."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def dense(values: NDArray[np.generic]) -> str:
    """An array as an attribute: one number for all that are alike, else bytes in hex."""
    kind = tensor(values.shape, ELEMENTS[values.dtype.name])
    if values.size == 0:
        return f"dense<> : {kind}"
    flat = values.reshape(-1)
    if (flat == flat[0]).all():
        number = str(bool(flat[0])).lower() if flat.dtype == np.bool_ else str(int(flat[0]))
        return f"dense<{number}> : {kind}"
    if flat.dtype == np.bool_:
        return f"dense<{_nested(values)}> : {kind}"
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"))
    return f'dense<"0x{little.tobytes().hex().upper()}"> : {kind}'


def _nested(values: NDArray[np.generic]) -> str:
    if values.ndim == 0:
        return str(bool(values)).lower()
    return f"[{', '.join(map(_nested, values))}]"


def integers(values: Sequence[int]) -> str:
    """An array of int64 as an attribute."""
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def number(value: int, element: str = "i32") -> str:
    """An integer as an attribute."""
    return f"{value} : {element}"


def flag(value: bool) -> str:
    """A boolean as an attribute."""
    return str(value).lower()


def text(value: str) -> str:
    """A string as MLIR reads it: what is not plain ASCII, byte by byte in hex."""
    plain = (
        chr(each) if 32 <= each < 127 and each not in b'"\\' else f"\\{each:02X}"
        for each in value.encode("utf-8")
    )
    return f'"{"".join(plain)}"'


def element_of(dtype: np.dtype[np.generic], name: str) -> str:
    """MLIR's element type for stored integers; ModelError, naming the tensor, for others.

    uint8 is stored as int8, 128 lower.
    """
    found = ELEMENTS.get({"uint8": "int8", "int64": "int32"}.get(dtype.name, dtype.name))
    if found is None:
        raise ModelError(f"tensor {name!r} is {dtype.name}: TOSA has integers up to 32 bits")
    return found
