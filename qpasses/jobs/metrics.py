"""Metrics: how good outputs are, by functions of users or of our own; higher is better."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import signature
from numbers import Real
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.argument_kinds import shown
from opsets.errors import UsageError
from qpasses.load.functions import given_function

Outputs = Sequence[Mapping[str, Any]]
"""Of each sample the outputs of a model by name, in real numbers."""


@dataclass(frozen=True)
class Metric:
    """``function`` of outputs, of labels and of the outputs of the float model.

    ``needs_labels``: whether it reads them; None if only its author knows.
    """

    name: str
    function: Callable[[Outputs, Any, Outputs], Any]
    needs_labels: bool | None = None

    def figure(self, outputs: Outputs, labels: Any, real: Outputs, whose: str) -> float:
        """It, of the outputs of the model that is called ``whose``.

        Raises UsageError where it fails or gives no number.
        """
        count = "1 sample" if len(outputs) == 1 else f"{len(outputs)} samples"
        where = f"metric {self.name}: on outputs of the {whose} model, {count}"
        try:
            found = self.function(outputs, labels, real)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
        except Exception as error:  # whatever a user's function raises
            raise UsageError(f"{where}: {type(error).__name__}: {error}") from error
        is_number = isinstance(found, Real) and not isinstance(found, bool)
        if not is_number or not abs(found) <= float_info.max:  # nor NaN
            raise UsageError(f"{where}: a finite number is needed, got {shown(found)}")
        return float(found)


def given_metric(given: Any, called: str) -> Metric:
    """That of ``max_drop``, which calls it ``called``.

    ``given``: a function, its MODULE:FUNCTION, or the name of one of our own; None: ``called``
    is its name. Raises UsageError.
    """
    if given is None:
        if called == _OWN:
            raise UsageError(
                f"max_drop (--max-drop) {called!r} is of a function of your own: give metric "
                f"(--metric MODULE:FUNCTION) too, or use one of {', '.join(METRICS)}"
            )
        return _of_name(called, "max_drop (--max-drop)")
    if isinstance(given, str) and ":" not in given:
        found = _of_name(given, "metric (--metric)")
    else:
        found = _of_user(given)
    if called not in (_OWN, found.name):
        raise UsageError(
            f"max_drop (--max-drop) is of {called!r}, metric (--metric) is another, "
            f"{found.name!r}: call it {_OWN}=VALUE in max_drop, or leave metric away"
        )
    return found


_OWN = "metric"
"""So max_drop calls what metric names."""


def _of_name(name: str, option: str) -> Metric:
    if name in METRICS:
        return METRICS[name]
    near = get_close_matches(name.lower(), METRICS, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UsageError(
        f"{option}: unknown metric {name!r}{hint}: use one of {', '.join(METRICS)}, or "
        "metric (--metric MODULE:FUNCTION)"
    )


def _of_user(given: Any) -> Metric:
    function = given_function(given, "metric")
    name = (
        given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    )
    try:
        signature(function).bind([], None)
    except TypeError as error:
        raise UsageError(
            f"metric {name}: is called with outputs and labels, (outputs, labels): {error}"
        ) from error
    except ValueError:
        pass  # one in C that does not say what it takes

    def call(outputs: Outputs, labels: Any, _real: Outputs) -> Any:
        return function(deepcopy([*outputs]), labels)  # which are its own to change

    return Metric(name, call)


def _top1(outputs: Outputs, labels: Any, _real: Outputs) -> float:
    """The share of arg-max that are the label."""
    right = []
    for found, label in zip(outputs, labels, strict=True):
        classes, chosen = _arg_max(found)
        wanted = np.asarray(label)
        if wanted.dtype.kind not in "iuf" or wanted.size != chosen.size:
            raise UsageError(
                f"labels (--labels): {chosen.size} numbers of classes are needed for a "
                f"sample, got {shown(label)}"
            )
        wanted = wanted.reshape(chosen.shape)
        if not ((wanted >= 0) & (wanted < classes)).all():
            raise UsageError(
                f"labels (--labels): classes are from 0 to {classes - 1}, as many as the "
                f"first output has, got {shown(label)}"
            )
        right.append((chosen == wanted).ravel())
    return _mean(right)


def _agreement(outputs: Outputs, _labels: Any, real: Outputs) -> float:
    """The share of arg-max that are those of the float model."""
    same = []
    for found, expected in zip(outputs, real, strict=True):
        wanted, chosen = _arg_max(expected)[1], _arg_max(found)[1]
        is_alike = wanted.shape == chosen.shape  # sizes may follow from values
        same.append((wanted == chosen).ravel() if is_alike else np.zeros(wanted.size))
    return _mean(same)


def _cosine(outputs: Outputs, _labels: Any, real: Outputs) -> float:
    """The mean of the cosines between the outputs and those of the float model."""
    cosines = []
    for found, expected in zip(outputs, real, strict=True):
        for name, wanted in expected.items():
            if _is_numbers(wanted):
                cosines.append(np.array([_cosine_of(found[name], wanted)]))
    return _mean(cosines)


def _cosine_of(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    if found.shape != wanted.shape:
        return 0.0
    one, other = (np.asarray(each, np.float64).ravel() for each in (found, wanted))
    lengths = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / lengths) if lengths else float(np.array_equal(one, other))


def _arg_max(outputs: Mapping[str, Any]) -> tuple[int, NDArray[Any]]:
    """Of the first output the size of the last axis, and where it is largest along it.

    Axes of one number behind that of the classes, as of pictures, are none.
    """
    name, values = next(iter(outputs.items()))
    while _is_numbers(values) and values.ndim > 1 and values.shape[-1] == 1:
        values = values[..., 0]
    if not _is_numbers(values) or values.ndim == 0 or values.shape[-1] < 2:
        what = f"shape {[*values.shape]}" if isinstance(values, np.ndarray) else "no numbers"
        raise UsageError(
            f"an arg-max needs two classes at least along the last axis, and the first "
            f"output, {name!r}, has {what}: give metric (--metric MODULE:FUNCTION)"
        )
    return values.shape[-1], values.argmax(-1)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "fiub"


def _mean(parts: Sequence[NDArray[Any]]) -> float:
    if not sum(each.size for each in parts):
        raise UsageError("outputs hold no numbers: give metric (--metric MODULE:FUNCTION)")
    return float(np.concatenate(parts).mean())


METRICS: Mapping[str, Metric] = {
    each.name: each
    for each in (
        Metric("top1", _top1, needs_labels=True),
        Metric("agreement", _agreement, needs_labels=False),
        Metric("cosine", _cosine, needs_labels=False),
    )
}
"""Those of our own."""
