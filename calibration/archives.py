"""Arrays of .npz files: what is large and not compressed is read as it is needed."""

import mmap
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as numpy_format
from numpy.typing import NDArray

LARGE = 1 << 20
"""Entries of fewer bytes are read at once."""

_LOCAL = struct.Struct("<4s22xHH")
"""What stands before each entry: a mark, and how long its name and its extra field are."""

_HEADERS = {
    (1, 0): numpy_format.read_array_header_1_0,
    (2, 0): numpy_format.read_array_header_2_0,
}
"""By version of the .npy format; 3.0 is for names of fields that are not latin1."""

_CHUNK = 1 << 20


def archived(path: Path, content: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz, which numpy opened as ``content``, by name.

    Large ones are views of the file, whose checksums are looked at first. Raises what numpy
    and zipfile do: BadZipFile, OSError, ValueError.
    """
    found = {}
    with ZipFile(path) as archive:
        entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        for name in content:
            known = entries.get(name)
            view = None if known is None else _view(path, archive, known)
            found[name] = np.asarray(content[name]) if view is None else view
    return found


def let_go(array: NDArray[Any]) -> None:
    """Let the system take back what was read of a file behind a view: it is read again."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.obj if isinstance(base, memoryview) else base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def _view(path: Path, archive: ZipFile, entry: ZipInfo) -> NDArray[Any] | None:
    """The array of an entry in the file; None for one that has to be read."""
    if entry.compress_type != ZIP_STORED or entry.file_size < LARGE or entry.flag_bits & 1:
        return None
    with archive.open(entry) as stream:
        magic = stream.read(numpy_format.MAGIC_LEN)
        read = _HEADERS.get((magic[-2], magic[-1]))
        if not magic.startswith(numpy_format.MAGIC_PREFIX) or read is None:
            return None
        shape, is_fortran, dtype = read(stream)
        behind = stream.tell()
        size = prod(map(int, shape)) * dtype.itemsize
        if dtype.hasobject or behind + size > entry.file_size:  # numpy says what is wrong
            return None
        while stream.read(_CHUNK):  # zipfile raises at the end if the checksum is another one
            pass
    with path.open("rb") as file:
        begin = _begin(file, entry) + behind
    view = np.memmap(path, dtype, "r", begin, shape[::-1] if is_fortran else shape)
    return view.T if is_fortran else view


def _begin(file: IO[bytes], entry: ZipInfo) -> int:
    """Where the content of an entry begins in the file."""
    file.seek(entry.header_offset)
    _, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    return entry.header_offset + _LOCAL.size + int(name) + int(extra)
