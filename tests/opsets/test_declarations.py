"""What ops declare of their nodes: drawn ones are so, and none that leaves it is taken."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qpasses
from opsets.attribute_kinds import Axes, Axis, Integer, Integers, Text
from opsets.declaration import Constant, Shift
from opsets.faults import faults, impossible_shift
from opsets.op import any_node, condition
from opsets.qpasses_v1 import OPS
from tests.support.op_cases import CASES, emitted
from tests.support.thoroughness import thoroughly

every_op = pytest.mark.parametrize("name", OPS)
on_some_nodes = thoroughly(20)


def parts_of(op, case):
    """The constants and attributes of a drawn node, and the shape of its first input."""
    tensors, attributes = emitted(op, case)
    constants = {name: tensors[name] for name in op.constants}
    return constants, attributes, tensors[op.data[0]].shape


@pytest.mark.thinned
@every_op
@on_some_nodes
@given(data=st.data())
def test_every_drawn_node_is_as_its_op_declares(name, data):
    op = OPS[name]
    constants, attributes, shape = parts_of(op, data.draw(CASES[name]))
    for known in (shape, None):
        assert list(faults(op, constants, attributes, known)) == []
    assert impossible_shift(op, constants, attributes) is None


@pytest.mark.thinned
@every_op
@on_some_nodes
@given(data=st.data())
def test_a_node_that_leaves_its_declaration_is_told_by_the_part(name, data):
    op = OPS[name]
    constants, attributes, shape = parts_of(op, data.draw(CASES[name]))
    for part, declared in op.constants.items():
        for value in other_constants(declared, constants[part]):
            found = next(faults(op, constants | {part: value}, attributes, shape))
            assert part in found, (part, value)
        rest = {each: value for each, value in constants.items() if each != part}
        assert next(faults(op, rest, attributes, shape)) == f"its input {part} is no constant"
    for part, declared in op.attributes.items():
        for value in other_values(declared, len(shape)):
            found = next(faults(op, constants, attributes | {part: value}, shape))
            assert found.startswith(f"its attribute {part} is "), (part, value)
        rest = {each: value for each, value in attributes.items() if each != part}
        if declared.required:
            assert (
                next(faults(op, constants, rest, shape)) == f"its attribute {part} is missing"
            )
    more = attributes | {"more": 1}
    assert next(faults(op, constants, more, shape)) == "there is no attribute more"


def other_constants(declared, value):
    """Constants of other types, of more dimensions, beyond the limits."""
    yield value.astype(np.float32)
    if declared.dims[-1:] != (...,):
        yield value[None]
    if declared.limits and not isinstance(declared, Shift):
        yield np.full_like(value, declared.limits.start - 1)


def other_values(declared, rank):
    """Values of other kinds, and those beside the limits."""
    yield from (1.5, b"half_up", [1.5], ["a"])
    match declared:
        case Integer():
            yield from (declared.lowest - 1, declared.highest + 1, [declared.lowest])
        case Integers():
            yield from (1, [declared.lowest - 1], [1 << 31])
            if declared.length:
                yield [1] * (declared.length + 1)
            if declared.product:
                yield [declared.product, 2]
        case Axis():
            yield from ((-rank - 1, 0) if declared.from_end else (-1, rank))
        case Axes():
            yield from ([], [0], [-1, -2], [-1, -1], [-rank - 1])
        case Text():
            yield 1
            if declared.choices:
                yield "half_odd"


@pytest.mark.thinned
@every_op
@on_some_nodes
@given(data=st.data())
def test_a_shift_beside_those_of_its_rounding_is_told(name, data):
    op = OPS[name]
    constants, attributes, _ = parts_of(op, data.draw(CASES[name]))
    for part in (name for name, each in op.constants.items() if isinstance(each, Shift)):
        limits = op.constants[part].allowed(attributes)
        for wrong in (limits.start - 1, limits.stop):
            other = constants | {part: np.full_like(constants[part], wrong)}
            expected = (wrong, limits) if constants[part].size else None
            assert impossible_shift(op, other, attributes) == expected


def test_windows_of_several_ranks_are_told():
    op = OPS["IntAveragePool"]
    case = {"channels": 1, "dilations": [1], "kernel_shape": [2, 2], "strides": [1, 1]}
    told = next(faults(op, {}, case | {"pads": [0] * 4, "rounding": "half_up"}, None))
    assert told.endswith("are not of the same axes")


@every_op
def test_letters_of_shapes_and_what_tells_sizes_are_known(name):
    """A size in words is that of an attribute, or tells of the record."""
    op = OPS[name]
    sizes = {size for each in op.constants.values() for size in each.dims}
    named = {size for size in sizes if isinstance(size, str) and not size.isupper()}
    sums = {f"sum of {each}" for each in op.attributes}
    assert named <= {"1 or channels"} | op.attributes.keys() | sums


@every_op
def test_data_comes_before_what_is_said_of_it(name):
    op = OPS[name]
    assert op.data and op.data[0] == next(iter(op.inputs))
    assert all(type(each) in (Constant, Shift) for each in op.constants.values())
    assert op.formula and "Source" not in op.formula
    assert op.source == "" or op.source.startswith("Source")


@every_op
def test_every_guard_of_a_body_says_what_it_asks_for(name):
    for body in OPS[name].bodies:
        assert bool(condition(body.accepts)) == (body.accepts is not any_node)


@pytest.mark.parametrize("module", ["load/integer_model.py", "checking/inspection.py"])
def test_what_derives_from_declarations_names_no_op(module):
    text = (Path(qpasses.__file__).parent / module).read_text("utf-8")
    assert [name for name in OPS if f'"{name}"' in text] == []
