"""Pictures to pixels with Pillow, which is an extra: nothing else imports it."""

import logging
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from calibration.preprocessing import Preprocessing
from opsets.errors import DataError
from opsets.ordinary_files import check_ordinary

logging.getLogger("PIL").addHandler(logging.NullHandler())  # it raises what it logs

_FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "PPM", "GIF")
"""What a picture may be inside, whatever its name says: formats that run no programs."""

_DEEP_AS_I = ("PNG", "PPM")
"""Formats whose 16-bit gray Pillow may hold in the mode of 32-bit numbers."""

_FILL = 114
"""The gray of the bars that ``pad`` adds."""


def decode(path: Path, how: Preprocessing) -> NDArray[np.uint8]:
    """[height, width, channels] pixels, RGB or gray, upright, in the size of ``how``.

    Several pictures in a file: the first. Alpha is dropped. DataError if the file is damaged.
    """
    try:
        check_ordinary(path)
        # what Pillow warns of, odd metadata and large sizes, changes no pixel
        with (
            warnings.catch_warnings(action="ignore"),
            Image.open(path, formats=_FORMATS) as opened,
        ):
            upright = ImageOps.exif_transpose(opened)
            mode = "L" if how.channels == "gray" else "RGB"
            picture = _in_8_bits(upright, opened.format).convert(mode)
            pixels = np.asarray(_resized(picture, how))
    except Exception as error:  # decoders raise whatever they stumble over
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{path}: cannot be read as a picture: {reason.splitlines()[0]}"
        ) from error
    return pixels.reshape(*pixels.shape[:2], -1)


def _in_8_bits(picture: Image.Image, kind: str | None) -> Image.Image:
    """The picture with pixels of 0 to 255: 16-bit gray is scaled (Pillow would clip it)."""
    deep = picture.mode.startswith("I;16") or (picture.mode == "I" and kind in _DEEP_AS_I)
    if deep:
        levels = np.asarray(picture).astype(np.uint32)
        return Image.fromarray(((levels * 255 + 32767) // 65535).astype(np.uint8))
    if picture.mode in ("I", "F"):
        raise ValueError("its pixels are 32-bit numbers of unknown range: use .npz files")
    return picture


def _resized(picture: Image.Image, how: Preprocessing) -> Image.Image:
    if how.size is None or picture.size == how.size[::-1]:
        return picture
    height, width = how.size
    if how.resize == "stretch":
        return picture.resize((width, height), Image.Resampling.BILINEAR)
    if how.resize == "crop":
        box = _middle(picture.size, (width, height), how.crop_fraction)
        return picture.resize((width, height), Image.Resampling.BILINEAR, box=box)
    inner = _scaled(picture.size, (width, height), covering=False)
    canvas = Image.new(picture.mode, (width, height), (_FILL,) * len(picture.getbands()))
    canvas.paste(picture.resize(inner, Image.Resampling.BILINEAR))
    return canvas


def _middle(
    size: tuple[int, int], wanted: tuple[int, int], fraction: float
) -> tuple[float, float, float, float]:
    """The part that stays of a picture that is scaled to cover wanted / fraction and cropped.

    To take it out of the picture beforehand spares the memory of what is thrown away.
    """
    cover = round(wanted[0] / fraction), round(wanted[1] / fraction)
    scaled = _scaled(size, cover, covering=True)
    first = [round((have - want) / 2) for have, want in zip(scaled, wanted, strict=True)]
    return (
        first[0] * size[0] / scaled[0],
        first[1] * size[1] / scaled[1],
        (first[0] + wanted[0]) * size[0] / scaled[0],
        (first[1] + wanted[1]) * size[1] / scaled[1],
    )


def _scaled(
    size: tuple[int, int], wanted: tuple[int, int], *, covering: bool
) -> tuple[int, int]:
    """(width, height) of the same shape: just covering the wanted size, or just within it."""
    (width, height), (to_width, to_height) = size, wanted
    if (to_width * height >= to_height * width) == covering:
        return to_width, max(1, height * to_width // width)
    return max(1, width * to_height // height), to_height
