"""Arrays as headers of C, and the tables of those that are stored."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

READER = "qpasses_vectors.h"
SOURCES = (READER, "compare.c")
"""What stands beside the headers, the same in every folder."""

_TYPES: Mapping[str, str] = {
    **{
        f"{sign}int{bits}": f"{sign}int{bits}_t"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "bool": "uint8_t",
    "float32": "float",
    "float64": "double",
}
_TABLED = {"uint8": "QP_UINT8", "int8": "QP_INT8", "int16": "QP_INT16"}
"""The types of stored tensors, as the reader calls them."""

_LINE = 16
_CHUNK = 1 << 14


def source(name: str) -> bytes:
    """One of SOURCES."""
    return (resources.files("qpasses.emit.vectors") / name).read_bytes()


def is_written(values: NDArray[Any]) -> bool:
    """Whether C has a type for it."""
    return values.dtype.name in _TYPES and bool(np.isfinite(values).all())


def array_header(identifier: str, about: str, values: NDArray[Any]) -> Iterator[bytes]:
    """A header that defines ``identifier``, the elements of ``values`` in C order."""
    kind, guard = _TYPES[values.dtype.name], f"{identifier.upper()}_H"
    shape = ", ".join(map(str, values.shape))
    yield (
        f"/* {_comment(about)}: {values.dtype.name}[{shape}] */\n"
        f"#ifndef {guard}\n#define {guard}\n#include <stdint.h>\n"
        f"static const {kind} {identifier}[{max(values.size, 1)}] = {{\n"
    ).encode()
    flat = np.ascontiguousarray(values).ravel()
    for start in range(0, max(values.size, 1), _CHUNK):
        numbers = list(map(_number, flat[start : start + _CHUNK].tolist())) or ["0"]
        lines = [numbers[i : i + _LINE] for i in range(0, len(numbers), _LINE)]
        yield "".join(f"    {', '.join(line)},\n" for line in lines).encode()
    yield b"};\n#endif\n"


def table_header(
    identifier: str, folder: str, rows: Sequence[tuple[str, str, str, NDArray[Any]]]
) -> Iterator[bytes]:
    """A header with the table ``identifier`` of arrays.

    ``rows``: tensor, node, name of its header in ``folder`` and of its array, values.
    """
    guard = f"{identifier.upper()}_H"
    yield f'#ifndef {guard}\n#define {guard}\n#include "{READER}"\n'.encode()
    for _, _, stem, _ in rows:
        yield f'#include "{folder}/{stem}.h"\n'.encode()
    yield f"static const qp_tensor {identifier}[] = {{\n".encode()
    for tensor, node, stem, values in rows:
        array = array_name(folder, stem)
        numbers = f"{_TABLED[values.dtype.name]}, {values.size}"
        yield f"    {{{_text(tensor)}, {_text(node)}, {numbers}, {array}}},\n".encode()
    yield b"};\n#endif\n"


def array_name(folder: str, stem: str) -> str:
    """What C calls the array of a file."""
    return f"qp_{folder}_{stem}" if folder == "constants" else f"qp_s{folder}_{stem}"


def _number(value: Any) -> str:
    if value == -(1 << 63):
        return "INT64_MIN"
    return repr(value) if isinstance(value, float) else str(int(value))


def _text(name: str) -> str:
    kept = (f"\\{sign}" if sign in '"\\' else sign for sign in name if sign.isprintable())
    return f'"{"".join(kept)}"'


def _comment(text: str) -> str:
    return "".join(sign for sign in text if sign.isprintable()).replace("*/", "* /")
