"""Bodies of recurrent ops: what those of IntLstm, IntGru and IntRnn have in common.

A body multiplies all inputs by their weights at once, and goes through the steps in a Loop:
in int64 (portable), or in double where that is exact, which is several times faster: see
recurrent_arithmetic.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.double import overload
from opsets.fixed_point import ROUNDINGS
from opsets.fragments import Fragment, fragment, joined
from opsets.loops import State
from opsets.op import Attributes, Body, Constants, Guard, all_of, any_node
from opsets.portable import portable_overload, rounds
from opsets.recurrence import WHOLE
from opsets.recurrent_arithmetic import COPIED, IN_DOUBLE, INTEGER, OF_BYTES, Arithmetic
from opsets.rounding import NODE_ROUNDINGS, NodeRounding
from opsets.word_products import furthest

EXACT = 1 << 52
"""Twice an integer below, and one more, are doubles: so are its halves, rounded either way."""


# Conditions.


def takes_all_steps(constants: Constants, _attributes: Attributes) -> bool:
    """Whether all sequences are known to have all steps."""
    lengths = constants.get("sequence_lens")
    return lengths is not None and bool((lengths == WHOLE).all())


def _takes_some_steps(constants: Constants, attributes: Attributes) -> bool:
    """Whether some sequence may end before the last step."""
    return not takes_all_steps(constants, attributes)


SMALL = 64
"""So many hidden units a product in double is as fast for as one of bytes, in fewer nodes."""


def _has_many_bytes(constants: Constants, _attributes: Attributes) -> bool:
    """Whether the input and the codes have 8 bits, and there are more than 64 hidden units."""
    is_bytes = all(constants[each].dtype.itemsize == 1 for each in ("x_zero", "y_zero"))
    return is_bytes and len(constants["r"]) > SMALL


def _is_small_or_has_words(constants: Constants, attributes: Attributes) -> bool:
    """Whether the input or the codes have 16 bits, or there are 64 hidden units or fewer."""
    return not _has_many_bytes(constants, attributes)


def sums_are_exact(constants: Constants) -> bool:
    """Whether sums of gates times their multipliers are integers that double holds."""
    reaches = (
        (constants["w"], constants["x_zero"], constants["bias"], constants["x_multiplier"]),
        (
            constants["r"],
            constants["y_zero"],
            constants.get("r_bias", 0),
            constants["h_multiplier"],
        ),
    )
    for weights, zero, bias, multiplier in reaches:
        reach = np.abs(weights.astype(object)).sum(axis=0) * furthest(zero)
        largest = (reach + np.abs(np.asarray(bias).astype(object))) * np.abs(
            multiplier.astype(object)
        )
        if np.max(largest, initial=0) >= EXACT:
            return False
    return True


def largest_entry(table: NDArray[Any]) -> int:
    """The size of the largest entry of a table."""
    return int(np.abs(table.astype(np.int64)).max(initial=0))


# Bodies.


ADDED = fragment("""
added (one, another) => (both) {
    both      = Add (one, another)
}
""")

TIMES = fragment("""
times (one, another) => (product) {
    product   = Mul (one, another)
}
""")

FIRST = fragment("""
first (initial, x, r) => (first) {
    batch     = Shape <start = 1, end = 2> (x)
    hidden    = Shape <end = 1> (r)
    sizes     = Concat <axis = 0> (batch, hidden)
    all       = Expand (initial, sizes)
    front     = Constant <value = int64[1] {0}> ()
    first     = Squeeze (all, front)
}
""")
"""``first`` [B, H] of an initial state [1, B or 1, H or 1]."""

LIVE = fragment("""
live (sequence_lens, x) => (all_live, has_steps) {
    # [T, B, 1], and [B, 1]: whether a sequence has this step, and whether it has any
    steps     = Shape <end = 1> (x)
    scalar    = Squeeze (steps)
    nothing   = Constant <value = int64 {0}> ()
    single    = Constant <value = int64 {1}> ()
    times     = Range (nothing, scalar, single)
    column    = Constant <value = int64[3] {-1, 1, 1}> ()
    time      = Reshape (times, column)
    lengths   = Cast <to = 7> (sequence_lens)                              # 7 is INT64
    behind    = Constant <value = int64[1] {1}> ()
    length    = Unsqueeze (lengths, behind)
    all_live  = Less (time, length)
    has_steps = Less (nothing, length)
}
""")

ALL = fragment("""
all (all_steps, x, r) => (y) {
    # no Unsqueeze: where there is no step, a loop says nothing of sizes
    steps     = Shape <end = 1> (x)
    direction = Constant <value = int64[1] {1}> ()
    batch     = Shape <start = 1, end = 2> (x)
    hidden    = Shape <end = 1> (r)
    sizes     = Concat <axis = 0> (steps, direction, batch, hidden)
    y         = Reshape <allowzero = 1> (all_steps, sizes)
}
""")
"""y [T, 1, B, H] of the codes of all steps."""

LAST = fragment("""
last (last_step) => (state) {
    axis      = Constant <value = int64[1] {0}> ()
    state     = Unsqueeze (last_step, axis)
}
""")

_KEPT = fragment("""
kept (live, new, old) => (next) {
    next      = Where (live, new, old)
}
""")

_STARTED = fragment("""
started (has_steps, given, nothing) => (first) {
    first     = Where (has_steps, given, nothing)
}
""")


def first(given: str, nothing: str, state: str, ending: bool) -> Fragment:
    """``state`` before the first step: what is ``given``, ``nothing`` where there is none."""
    if not ending:
        return COPIED(value=given, copy=state)
    return _STARTED(given=given, nothing=nothing, first=state)


def carried(states: Sequence[str], code: str, ending: bool) -> Fragment:
    """What becomes of ``new_`` states; and ``given``, the first of them as output.

    ``ending``: where a sequence is not ``live`` it keeps its states as ``next_``, and gives
    ``code``.
    """
    first = f"new_{states[0]}"
    if not ending:
        return COPIED(value=first, copy="given")
    kept = [_KEPT(new=f"new_{each}", old=each, next=f"next_{each}") for each in states]
    return joined(*kept, _KEPT(new=first, old=code, next="given"))


def states_of(names: Sequence[str], ending: bool) -> list[State]:
    """The states of a loop over a step and what is ``carried``."""
    after = "next" if ending else "new"
    return [State(each, f"{after}_{each}", f"first_{each}", f"last_{each}") for each in names]


def of_hidden(by: Arithmetic, rounding: NodeRounding, result: str) -> Fragment:
    """``result``: sums of the state h times r, requantized."""
    scale = {"multiplier": "h_multiplier", "shift": "h_shift"}
    return by.of_state(rounding, False)(state="h", weights="r", level=result, **scale)


Statements = Callable[[Arithmetic, NodeRounding, bool, bool], Fragment]
"""The statements of a body; ``is_portable``: of any node, ``ending``: sequences may end early.
"""


def bodies(
    statements: Statements, is_exact: Guard, also: Guard = any_node, named: str = ""
) -> Sequence[Body]:
    """The bodies of a recurrent op; ``is_exact``: whether double holds all its products.

    ``also``: for which nodes alone they are, and how they are ``named`` besides.
    """
    fast = [
        Body(
            overload(rounding, way + ends + named),
            "onnxruntime",
            statements(arithmetic, rounding, False, bool(ends)),
            all_of(rounds(rounding), kinds, also, is_exact, steps),
        )
        for way, arithmetic, kinds in (
            ("bytes", OF_BYTES, _has_many_bytes),
            ("double", IN_DOUBLE, _is_small_or_has_words),
        )
        for ends, steps in (("", takes_all_steps), ("_ending", _takes_some_steps))
        for rounding in ROUNDINGS
    ]
    portable = [
        Body(
            portable_overload(rounding).replace("portable", f"portable{named}", 1),
            "portable",
            statements(INTEGER, rounding, True, True),
            all_of(rounds(rounding), also),
        )
        for rounding in NODE_ROUNDINGS
    ]
    return [*fast, *portable]
