"""Profile and level of TOSA: what a program may say, and how large it may be."""

from dataclasses import dataclass, replace

from qpasses.ir.choices import TosaProfile

VERSION = "1.0"

INT16 = "int16"
"""The extension EXT-INT16."""


@dataclass(frozen=True)
class Profile:
    """The integer profile, PRO-INT, of TOSA 1.0.

    ``has_level``: held to level 8K, which hardware is built for. ``extensions``: beyond the
    profile, by their names: ``int16``, ``doubleround``.
    """

    has_level: bool = True
    extensions: tuple[str, ...] = ()

    @classmethod
    def called(cls, name: TosaProfile) -> "Profile":
        """As users name it."""
        return cls(has_level=name.endswith("8k"))

    @property
    def words(self) -> str:
        """How int16 is held: as itself, or as int32 without the extension for it."""
        return "i16" if INT16 in self.extensions else "i32"

    def with_words(self) -> "Profile":
        """The same with the extension for int16, whose sums are int48."""
        more = () if INT16 in self.extensions else (INT16,)
        return replace(self, extensions=(*self.extensions, *more))

    @property
    def most_axes(self) -> int | None:
        """Of a tensor: MAX_RANK."""
        return 6 if self.has_level else None

    @property
    def largest_kernel(self) -> int | None:
        """Of a convolution or pool along an axis, with its gaps: MAX_KERNEL; strides too."""
        return 8192 if self.has_level else None

    def as_target(self) -> str:
        """As tosa-opt takes it."""
        more = f" extensions={','.join(self.extensions)}" if self.extensions else ""
        level = "8k" if self.has_level else "none"
        return f"profiles=pro_int level={level} specification_version={VERSION}{more}"

    def as_options(self) -> list[str]:
        """As the reference model takes it."""
        return [] if self.has_level else ["--tosa_level", "NONE"]


PRO_INT_8K = Profile()
"""What is written by default."""
