"""Fragments of bodies: what does not fit is refused, and the message names what is wrong."""

import dataclasses
import re

import pytest

from opsets.declaration import Scaling
from opsets.fragments import NOTHING, JoinError, fragment
from opsets.op import Body
from opsets.qpasses_v1 import OPS

DOUBLED = fragment("""
doubled (x) => (twice) {
    two   = Constant <value = int64 {2}> ()                      # = (none of a statement)
    twice = Mul (x, two)
}
""")

MOVED = fragment("""
moved <axis> (twice, place) => (y) {
    two = Constant <value_int: int = @axis> ()
    sum = Add (twice, two)
    y   = Add (sum, place)
}
""")

MIXED = fragment("""
mixed <geometry, kind> (x) => (least, most) {
    wide        = Cast <to = @kind> (x)
    least, most = Split <@geometry> (wide)
}
""")


def statements(joined):
    return [" ".join(line.split()) for line in joined.text.split("\n") if line]


def refused(message):
    return pytest.raises(JoinError, match=f"^{re.escape(message)}$")


def test_what_one_writes_the_next_one_reads():
    joined = DOUBLED + MOVED
    assert (joined.attributes, joined.reads, joined.writes) == (
        ("axis",),
        ("x", "place"),
        ("twice", "y"),
    )
    assert statements(joined) == [
        "two = Constant <value = int64 {2}> ()",
        "twice = Mul (x, two)",
        "two_2 = Constant <value_int: int = @axis> ()",
        "sum = Add (twice, two_2)",
        "y = Add (sum, place)",
    ]


def test_a_fragment_on_other_names_calls_its_own_after_what_it_writes():
    both = DOUBLED(twice="place") + DOUBLED + MOVED.having(axis=-1)
    assert statements(both)[:2] == [
        "two_place = Constant <value = int64 {2}> ()",
        "place = Mul (x, two_place)",
    ]
    assert "two_2 = Constant <value_int: int = -1> ()" in statements(both)


def test_its_own_names_leave_alone_what_is_read_later():
    """``two`` is an input of the op that the second fragment reads."""
    joined = DOUBLED + MOVED(place="two")
    assert joined.reads == ("x", "two")
    assert "twice = Mul (x, two_2)" in statements(joined)
    assert statements(joined)[-1] == "y = Add (sum, two)"


def test_attributes_may_be_given_as_text_that_names_attributes():
    axes = MIXED.having(geometry="axis: int = @axis, num_outputs = 2", kind=7)
    assert axes.attributes == ("axis",)
    assert statements(axes) == [
        "wide = Cast <to = 7> (x)",
        "least, most = Split <axis: int = @axis, num_outputs = 2> (wide)",
    ]
    assert statements(axes.having(axis=1))[1] == (
        "least, most = Split <axis: int = 1, num_outputs = 2> (wide)"
    )


def test_all_but_the_only_ones_are_free_for_others():
    inner = (DOUBLED + MOVED.having(axis=0)).only("y")
    joined = inner + inner(x="y", y="twice")
    assert joined.writes == ("y", "twice")
    written = [line.partition(" = ")[0] for line in statements(joined)]
    assert len(written) == len(set(written)) == 10
    assert (written[4], written[9]) == ("y", "twice")


def test_nothing_in_front_changes_nothing():
    assert NOTHING + DOUBLED is DOUBLED
    assert NOTHING.text.strip() == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f (x) => (y) { y = Abs (z) }", "f reads 'z', which it neither declares nor writes"),
        ("f (x) => (y) { y = Abs (a) a = Abs (x) }", "f reads 'a', which it neither declares"),
        ("f (x) => (y) { y = Abs (x) y = Neg (x) }", "f writes 'y', which is there already"),
        ("f (x) => (x) { x = Abs (x) }", "f writes 'x', which is there already"),
        ("f (x, z) => (y) { y = Abs (x) }", "f does not read 'z', which it declares"),
        ("f (x) => (y, z) { y = Abs (x) }", "f does not write 'z', which it declares"),
        ("f <to> (x) => (y) { y = Abs (x) }", "f does not use @to, which it declares"),
        ("f (x) => (y) { y = Cast <to = @to> (x) }", "f does not declare its attribute @to"),
        (
            "f (x) => (y) { y = Abs (x) y + 1 }",
            "f: no statement 'names = Op <...> (names)': y",
        ),
        ("f (x) -> (y) { y = Abs (x) }", "no fragment 'name <attributes> (reads) => (writes)"),
        ("f (x) => (y) y = Abs (x)", "no fragment 'name <attributes> (reads) => (writes)"),
    ],
)
def test_a_fragment_reads_and_writes_what_it_declares(text, message):
    with pytest.raises(JoinError, match=re.escape(message)):
        fragment(text)


def test_a_name_is_written_once():
    other = fragment("other (x) => (twice) { twice = Abs (x) }")
    with refused("fragment other writes 'twice', which fragment doubled before it writes too"):
        DOUBLED + other
    with refused("fragment doubled: two of its names are called 'x'"):
        DOUBLED(twice="x")
    with refused("fragment mixed: two of its names are called 'least'"):
        MIXED(most="least")


def test_a_name_is_written_before_it_is_read():
    with refused("fragment moved reads 'twice', which only fragment doubled behind it writes"):
        MOVED + DOUBLED
    with refused("fragment moved reads 'twice', which only fragment doubled behind it writes"):
        (NOTHING + MOVED(place="other")) + DOUBLED


def test_other_names_and_attributes_are_given_to_those_declared():
    with refused("fragment doubled has no name 'twise': it has twice, x"):
        DOUBLED(twise="y")
    with refused("fragment doubled has no name 'two': it has twice, x"):
        DOUBLED(two="y")
    with refused("fragment doubled has no attribute 'axis': it has none"):
        DOUBLED.having(axis=1)
    with refused("fragment moved has no attribute 'axes': it has axis"):
        MOVED.having(axes=1)
    with refused("fragment doubled has no written name 'y': it has twice"):
        DOUBLED.only("y")


def declared(body, **changes):
    return dataclasses.replace(OPS["Lut"], bodies=[Body("fast", "portable", body)], **changes)


LOOKED_UP = fragment("looked_up (x, table) => (y) { y = Gather <axis = 0> (table, x) }")


def test_an_op_has_what_its_bodies_read():
    assert declared(LOOKED_UP).bodies[0].statements is LOOKED_UP
    inputs = "is no input: x, table"
    with refused(
        "Lut, body fast: fragment looked_up reads 'index', which nothing before it writes and "
        f"{inputs}"
    ):
        declared(LOOKED_UP(x="index"))
    with refused(
        "Lut, body fast: fragment moved reads 'place', which nothing before it writes and "
        f"{inputs}"
    ):
        declared(DOUBLED + MOVED.having(axis=0))
    with refused("Lut, body fast: nothing in doubled writes 'y'"):
        declared(DOUBLED)
    with refused("Lut, body fast: fragment doubled writes input 'table'"):
        declared(DOUBLED(twice="table"))


def test_an_op_has_the_attributes_that_its_bodies_are_not_given():
    moved = DOUBLED + MOVED(place="table")
    with refused(
        "Lut, body fast: nothing gives @axis in doubled + moved, and the op has no attribute "
        "of this name"
    ):
        declared(moved)
    assert declared(moved, attributes=("axis",)).bodies
    assert declared(moved.having(axis=0)).bodies


FLAT = [name for name, op in OPS.items() if op.scaling is not Scaling.RECURRENT]
"""Ops whose bodies hold no Loop: the text of a fragment has none."""


@pytest.mark.parametrize("name", FLAT)
def test_what_is_written_out_reads_and_writes_what_is_declared(name):
    """All checks of a fragment once more, on each body as a whole."""
    for body in OPS[name].bodies:
        whole = fragment(str(body.statements))
        assert whole.text == body.statements.text
        assert set(whole.reads) <= set(OPS[name].inputs)
