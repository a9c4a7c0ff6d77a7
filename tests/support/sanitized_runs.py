"""Kernels under sanitizers: python -m tests.support.sanitized_runs LIBRARY [STEP].

All cases, or every STEP-th, and of malformed nodes that take long a fifth of these. A process
of its own, which the first read outside of a buffer ends: the last line that it has printed
says which node that was.
"""

import ctypes
import itertools
import mmap
import sys
from contextlib import suppress
from functools import lru_cache

import numpy as np
from onnx import ValueInfoProto, helper, numpy_helper

from calibration import Session
from opsets.errors import ModelError
from opsets.native import KERNELS
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.ir.runtime import IR_VERSION, OPSET, opset_imports
from tests.support.native_runs import EVERY, differing, drawn, models_of
from tests.support.op_cases import Case

NO_ACCESS = 0  # PROT_NONE of mprotect

TYPES = "bBhiIqQ?ef"
"""Of numpy: whole numbers of 8 to 64 bits, truth values, floats."""

OTHER_VALUES = {
    int: (-(1 << 62), -100, -1, 0, 1, 2, 31, 62, 63, 64, 100, 1 << 31, 1 << 40, 1.5, "a"),
    str: ("", "half_way", "half_up", "ruy", 1),
    list: ([0], [-1], [1, 1], [-1, -1], [99], [-(1 << 62)], [1 << 30] * 2, [1] * 20, 1, "a"),
}


def of_other_numbers(case):
    """What is wrong, and the node: an input of another shape, or full of one number."""
    for place, array in enumerate(case.inputs):
        flat = array.reshape(-1)
        shapes = [flat, flat[:0], flat[:1], flat[:-1], np.tile(flat, 2), flat[:1].reshape(())]
        shapes += [array[None], flat[None].T, array.reshape((1,) * 20 + array.shape)]
        for other in shapes:
            yield f"input {place} of shape {other.shape}", exchanged(case, place, other)
        limits = np.iinfo(array.dtype)
        for number in {limits.min, -1, 0, 1, 63, limits.max - 1, limits.max}:
            if limits.min <= number:
                full = np.full_like(array, number)
                yield f"input {place} full of {number}", exchanged(case, place, full)
        for number in (-1 << 63, (1 << 63) - 1):
            full = np.full(array.shape, number, np.int64)
            yield f"input {place} full of {number} of int64", exchanged(case, place, full)


def of_another_kind(case):
    """The same of an input of another type, of too few or many, of other attributes."""
    for place, array in enumerate(case.inputs):
        for dtype in TYPES:
            yield f"input {place} as {dtype}", exchanged(case, place, cast(array, dtype))
        yield f"{place} inputs", Case(case.inputs[:place], case.attributes)
    yield "one input more", Case([*case.inputs, case.inputs[0]], case.attributes)
    for old in {array.dtype for array in case.inputs}:
        for dtype in TYPES:
            inputs = [cast(each, dtype) if each.dtype == old else each for each in case.inputs]
            yield f"{dtype} instead of {old}", Case(inputs, case.attributes)
    for name, value in case.attributes.items():
        for other in OTHER_VALUES[type(value)]:
            yield f"{name} = {other}", Case(case.inputs, case.attributes | {name: other})
        others = {each: case.attributes[each] for each in case.attributes if each != name}
        yield f"no {name}", Case(case.inputs, others)


def of_several_numbers():
    """An op, what is wrong or as large as can be, and the node: no one number makes it so."""
    most = (1 << 31) - 1
    for channels, last in itertools.product((2, 0), (0, 1)):
        shape = [1, 5, 5, channels] if last else [1, channels, 5, 5]
        x, w = np.full(shape, 9, np.uint8), np.full((2, channels, 2, 2), 9, np.int8)
        case = convolution(x, w, channels_last=last)
        for more in (
            {},
            {"pads": [1] * 4, "dilations": [2, 2]},
            {"pads": [most] * 4, "strides": [most] * 2},
            {"dilations": [most] * 2, "auto_pad": "SAME_UPPER"},
            {"bias_rests": [(1 << 63) - 1] * 2},
        ):
            yield "IntConv", f"{channels} {more}", Case(case.inputs, case.attributes | more)
    numbers = [np.uint8(3), *(np.array([each], np.int32) for each in (1 << 20, 22)), *ENDS]
    for channels, kernel in (16, [1 << 30] * 2), (4, [1 << 30, 1 << 30, 4]):
        x = np.zeros((1, channels, *(4 for _ in kernel)), np.uint8)
        attributes = {"channels": channels, "kernel_shape": kernel, "rounding": "half_up"}
        yield "IntAveragePool", f"{channels} {kernel}", Case([x, *numbers], attributes)
    x, places = np.full((1, 2, 2), -128, np.int8), np.zeros((2, 5), np.int32)
    coefficients = np.array([[1, most // 255, 1, 1, 1], [0] * 5], np.int32)
    inputs = [x, np.uint8(255), places, coefficients, *numbers[1:3], *map(np.int8, ENDS)]
    attributes = {"dims": 2, "x_sizes": [1, 2, 2], "y_sizes": [1, 2, 2], "rounding": "half_up"}
    yield "IntResize", "a zero point of another type", Case(inputs, attributes)


ENDS = np.uint8(0), np.uint8(0), np.uint8(99)


def convolution(x, w, **more):
    """Without zero points, its multiplier of 31 bits and biases the largest."""
    numbers = [np.full(len(w), (1 << 31) - 1, np.int32), np.array([(1 << 31) - 1], np.int32)]
    inputs = [x, np.uint8(0), w, np.int8(0), *numbers, np.array([62], np.int32), *ENDS]
    attributes = {"kernel_shape": [*w.shape[2:]], "group": 1, "rounding": "half_to_even"}
    return Case([np.asarray(each) for each in inputs], attributes | more)


def exchanged(case, place, array):
    return Case([*case.inputs[:place], array, *case.inputs[place + 1 :]], case.attributes)


def cast(array, dtype):
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def model_of(name, case, given):
    """A node whose inputs are given, of no known shape, or else all but the first constant."""
    names = [f"input_{place}" for place in range(len(case.inputs))]
    infos, constants = [], []
    for formal, array in zip(names, case.inputs, strict=True):
        if formal in given:
            elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            infos.append(helper.make_tensor_value_info(formal, elem_type, None))
        else:
            constants.append(numpy_helper.from_array(array, formal))
    ends = [*OPS[name].outputs]
    node = helper.make_node(name, names, ends, domain=DOMAIN, **case.attributes)
    graph = helper.make_graph([node], "g", infos, [*map(_named, ends)], constants)
    return helper.make_model(graph, opset_imports=opset_imports(OPSET), ir_version=IR_VERSION)


def _named(name):
    return ValueInfoProto(name=name)


def at_the_end_of_a_page(array):
    """A copy behind which nothing can be read: masked reads are none to a sanitizer."""
    array = np.asarray(array)
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    behind = ctypes.c_void_p(start + size)
    assert ctypes.CDLL(None).mprotect(behind, ctypes.c_size_t(mmap.PAGESIZE), NO_ACCESS) == 0
    copy = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes)
    copy[:] = array.reshape(-1)
    return copy.reshape(array.shape)


@lru_cache(maxsize=1)
def session_of(model, library):
    return Session(model, operators=library, arena=False, threads=1)


def run(name, case, given, library):
    """A result or an error; each input is a buffer of its own."""
    feed = {f"input_{place}": np.array(case.inputs[place], order="C") for place in given}
    model = model_of(name, case, feed).SerializeToString()
    with suppress(ModelError):
        session_of(model, library).run(None, feed)


def run_malformed(name, case, library, step):
    """All that other numbers can be in one session, and so much of what needs one for each."""
    numbers, kinds = list(of_other_numbers(case)), list(of_another_kind(case))
    of_one_code = exchanged(case, 0, np.full_like(case.inputs[0], 7))
    for what, other in [*numbers, *of_other_numbers(of_one_code), *kinds[::step]]:
        print(name, what, flush=True)
        run(name, other, range(len(other.inputs)), library)
    for what, other in (numbers + kinds)[::step]:
        print(name, what, "where constant", flush=True)
        run(name, other, range(len(other.inputs[:1])), library)


def main(library, step=1):
    for name, what, case in of_several_numbers():
        print(name, what, flush=True)
        run(name, case, range(len(case.inputs)), library)
        run(name, case, range(1), library)
    for name in KERNELS:
        cases = drawn(name, 20) | dict(EVERY[name](np.random.default_rng(0)))
        some = dict(list(cases.items())[:: int(step)])
        print(name, "as it should be", flush=True)
        wrong, _ = differing(models_of(name, some, at_the_end_of_a_page), library)
        assert not wrong, f"{wrong} elements of {name} are not the reference's"
        later = list(cases.values())[len(cases) // 2 :]
        fullest = max(later, key=lambda case: (case.inputs[0].size > 0, len(case.attributes)))
        made = Case([np.asarray(each) for each in fullest.inputs], fullest.attributes)
        run_malformed(name, made, library, 5 * int(step))


if __name__ == "__main__":
    main(*sys.argv[1:])
