"""Arrays of samples and inputs of a model: which is for which, where names differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from calibration.inputs import InputSpec
from opsets.errors import DataError, UsageError

T = TypeVar("T")
"""What a name is given."""


@dataclass(frozen=True)
class ArrayNames:
    """What arrays are called: by input, where the user says it (``--inputs``).

    ``notes``: what was decided for the user, each once.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def check(self, specs: Sequence[InputSpec]) -> None:
        """Raise UsageError for a name that no input has."""
        known = [spec.name for spec in specs]
        for name in self.given:
            if name not in known:
                raise UsageError(
                    f"inputs (--inputs): the model has no input {name!r}, its inputs: "
                    f"{', '.join(map(repr, known))}: write INPUT=ARRAY"
                )

    def matched(
        self, arrays: Mapping[str, T], specs: Sequence[InputSpec], where: str
    ) -> dict[str, T]:
        """``arrays`` by the inputs they are for, ``where`` names them; others are left out.

        The only array is for the only input, whatever it is called. Raises DataError if an
        input has none.
        """
        wanted = [spec.name for spec in specs]
        named = dict(arrays)
        for name, array in self.given.items():
            if array not in arrays:
                raise DataError(
                    f"{where}: has no array {array!r}, which --inputs wants for {name!r} (it "
                    f"has: {', '.join(map(repr, arrays)) or 'none'})"
                )
            named.pop(array, None)
        named |= {name: arrays[array] for name, array in self.given.items()}
        others = [name for name in named if name not in wanted]
        if len(wanted) == len(named) == len(others) == 1:
            self._note(f"array {others[0]!r} is taken for input {wanted[0]!r}")
            return {wanted[0]: named[others[0]]}
        needed = [spec.name for spec in specs if not spec.is_optional]
        missing = [name for name in needed if name not in named]
        if missing and others:
            listed = ", ".join(map(repr, others))
            raise DataError(
                f"{where}: no array for input {missing[0]!r}; of no input are: {listed}: say "
                f"which it is, --inputs {missing[0]}={others[0]} (inputs: "
                f"{'; '.join(map(str, specs))})"
            )
        if others:
            listed = ", ".join(sorted(map(repr, others)))
            self._note(f"no inputs of the model, left out of samples: {listed}")
        return {name: array for name, array in named.items() if name in wanted}

    def _note(self, text: str) -> None:
        self.notes.setdefault(text)
