"""From the pixels of a picture to the numbers a model takes: plain arithmetic, no files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calibration.inputs import InputSpec
from opsets.argument_kinds import shown
from opsets.errors import DataError, UsageError

Channels = Literal["RGB", "BGR", "gray"]
Layout = Literal["NCHW", "NHWC"]
Resize = Literal["crop", "stretch", "pad"]

_CHANNEL_AXIS: dict[Layout, int] = {"NCHW": -3, "NHWC": -1}


@dataclass(frozen=True)
class Preprocessing:
    """What a model expects of pictures: (pixel * scale - mean) / std, pixels 0 to 255.

    ``mean`` and ``std`` are one number for all channels or one for each, in the order of
    ``channels``; ``size`` is (height, width). None means what the input says (``resolved``),
    and for the size, where the input leaves it free, that of the picture.

    ``resize``: ``crop`` scales until the picture covers size / crop_fraction and cuts the
    size out of the middle; ``stretch`` scales each side on its own; ``pad`` scales until the
    picture fits and adds gray (114) at the right or the bottom. A picture of the right size
    stays as it is. Raises UsageError for values that make no sense.
    """

    channels: Channels | None = None
    layout: Layout | None = None
    size: tuple[int, int] | None = None
    resize: Resize = "stretch"
    crop_fraction: float = 1.0
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        _check_choice("channels", self.channels, (*get_args(Channels), None))
        _check_choice("layout", self.layout, (*get_args(Layout), None))
        _check_choice("resize", self.resize, get_args(Resize))
        checked = {
            "size": _size(self.size),
            "crop_fraction": _numbers("crop_fraction", self.crop_fraction, (1,))[0],
            "scale": _numbers("scale", self.scale, (1,))[0],
            "mean": _numbers("mean", self.mean, (1, 3)),
            "std": _numbers("std", self.std, (1, 3)),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not 0 < self.crop_fraction <= 1:
            raise UsageError(f"crop_fraction {self.crop_fraction}: must be above 0, at most 1")
        for name in ("scale", "std"):
            if not np.asarray(getattr(self, name), np.float32).all():
                raise UsageError(f"{name} {getattr(self, name)}: must not be 0")

    def resolved(self, spec: InputSpec) -> Self:
        """The same for one input, with channels and layout, and the size if it has one.

        Raises DataError if the input takes no pictures or others than these.
        """
        if len(spec.shape) not in (3, 4):
            raise _no_picture(spec)
        layout = self.layout or _layout(spec)
        count = spec.shape[_CHANNEL_AXIS[layout]]
        if count not in (1, 3):
            raise _no_picture(spec, f" in layout {layout}")
        if len(spec.shape) == 4 and spec.shape[0] not in (None, 1):
            raise DataError(
                f"input {spec} takes {spec.shape[0]} pictures at once, but each is a sample: "
                "use .npz files, or a model with a batch size of 1 or a free one"
            )
        channels = self.channels or ("gray" if count == 1 else "RGB")
        if (channels == "gray") != (count == 1):
            takes = "gray" if count == 1 else "colour"
            raise DataError(f"input {spec} takes {takes} pictures, not {channels}")
        for name in ("mean", "std"):
            if len(getattr(self, name)) not in (1, count):
                raise UsageError(f"{name} {getattr(self, name)}: input {spec} has 1 channel")
        size = self._size_for(spec, layout)
        made = replace(self, channels=channels, layout=layout, size=size)
        made._check_type(spec, count)
        return made

    def values(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """[..., channels] from uint8 pixels in the order RGB, or gray, without resizing."""
        if self.channels == "BGR":
            pixels = pixels[..., ::-1]
        scaled = pixels.astype(np.float32) * np.float32(self.scale)
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        values: NDArray[np.float32] = (scaled - mean) / std
        return values

    def array(self, pixels: NDArray[np.uint8], spec: InputSpec) -> NDArray[Any]:
        """What the input takes for [height, width, channels] pixels, without a batch.

        Only for what ``resolved`` gives, and pixels of its size.
        """
        values = self.values(pixels)
        if self.layout == "NCHW":
            values = np.moveaxis(values, -1, 0)
        return np.ascontiguousarray(values, spec.dtype)

    def span(self) -> tuple[float, float]:
        """The smallest and the largest value that a pixel can become."""
        ends = self.values(np.array([[0], [255]], np.uint8).repeat(len(self.mean), 1))
        return float(ends.min()), float(ends.max())

    def doubts(self) -> list[str]:
        """What looks like a scale that does not go with the means or deviations."""
        largest, found = 255 * abs(self.scale), []
        for name, numbers, plain in (("mean", self.mean, 0.0), ("std", self.std, 1.0)):
            size = max(map(abs, numbers))
            if size != plain and size <= 1 < largest / 100:
                found.append(f"{name} {_listed(numbers)} with pixels of 0 to {largest:g}")
            if size > 2 and largest <= 2:
                found.append(f"{name} {_listed(numbers)} with pixels of 0 to {largest:g}")
        return found

    def __str__(self) -> str:
        low, high = self.span()
        size = "" if self.size is None else f" {self.size[0]}x{self.size[1]}"
        return f"{self.channels or 'RGB'} {self.layout or ''}{size}, {low:.4g} to {high:.4g}"

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """What ``as_json`` gave; UsageError if it is something else."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise UsageError(f"not a preprocessing: {error}") from error

    def _size_for(self, spec: InputSpec, layout: Layout) -> tuple[int, int] | None:
        sides = spec.shape[-2:] if layout == "NCHW" else spec.shape[-3:-1]
        if self.size is not None:
            for wanted, given in zip(sides, self.size, strict=True):
                if wanted not in (None, given):
                    raise DataError(f"size {self.size}: does not fit input {spec}")
            return self.size
        height, width = sides
        if height is not None and width is not None:
            return height, width
        if height is not None or width is not None:
            raise DataError(f"input {spec} leaves one side of pictures free: give a size")
        return None

    def _check_type(self, spec: InputSpec, count: int) -> None:
        """DataError if a pixel would become a number that the input's type does not have."""
        if spec.dtype.kind not in "fiu":
            raise _no_picture(spec)
        every_pixel = np.arange(256, dtype=np.uint8)[:, None].repeat(count, 1)
        with np.errstate(all="ignore"):
            values = self.values(every_pixel)
            fits = np.isfinite(values.astype(spec.dtype))
        advice = ""
        if spec.dtype.kind != "f":
            limits = np.iinfo(spec.dtype)
            whole = values == np.rint(values)
            fits = whole & (values >= limits.min) & (values <= limits.max)
            advice = ": such an input takes --preprocess raw"
        if not fits.all():
            raise DataError(
                f"input {spec}: pixels would become {values[~fits][0]:g}, which "
                f"{spec.dtype} does not hold{advice}"
            )


def _listed(numbers: tuple[float, ...]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def _layout(spec: InputSpec) -> Layout:
    found = [name for name, axis in _CHANNEL_AXIS.items() if spec.shape[axis] in (1, 3)]
    if not found:
        raise _no_picture(spec)
    if len(found) > 1:
        raise DataError(f"input {spec} may be {' or '.join(found)}: give --picture-layout")
    return found[0]


def _no_picture(spec: InputSpec, how: str = "") -> DataError:
    return DataError(f"input {spec} takes no pictures of 1 or 3 channels{how}: use .npz files")


def _check_choice(name: str, value: object, known: tuple[object, ...]) -> None:
    if not isinstance(value, str | None) or value not in known:
        listed = ", ".join(str(each) for each in known if each is not None)
        raise UsageError(f"unknown {name} {shown(value)}: use one of {listed}")


def _numbers(name: str, given: Any, counts: tuple[int, ...]) -> tuple[float, ...]:
    try:
        numbers = np.atleast_1d(np.asarray(given, np.float64))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} {given!r}: must be numbers") from error
    if numbers.ndim != 1 or len(numbers) not in counts:
        wanted = " or ".join(map(str, counts))
        raise UsageError(f"{name} {given!r}: takes {wanted} numbers")
    if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
        raise UsageError(f"{name} {given!r}: must be finite")
    return tuple(numbers.tolist())


def _size(given: Any) -> tuple[int, int] | None:
    if given is None:
        return None
    try:
        height, width = map(int, given)
        if min(height, width) >= 1 and [height, width] == list(given):
            return height, width
    except (TypeError, ValueError):
        pass
    raise UsageError(f"size {given!r}: must be height and width, each at least 1")
