"""What a long body costs is counted in one walk over its nodes."""

import sys

from onnx import helper

from qpasses.evidence.costs import _run


def body(length):
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(length)]
    imports = [helper.make_opsetid("", 21)]
    return helper.make_function("d", "f", ["t0"], [f"t{length}"], nodes, imports)


def calls(length):
    function, seen = body(length), [0]
    sys.setprofile(lambda *_: seen.__setitem__(0, seen[0] + 1))
    try:
        _run(function)
    finally:
        sys.setprofile(None)
    return seen[0]


def test_the_work_is_linear_in_the_nodes_of_the_body():
    calls(10)  # what is done once is done
    few, more, many = (calls(length) for length in (50, 100, 200))
    assert many - more <= 2.5 * (more - few)
