"""Tables together: bodies of many tables in one session, asked as each would be alone.

What a kernel gives for 17 elements says nothing of its 16, so a body is asked hundreds of
times, on few codes each: what that takes is the calls, not the codes. A session of many tables
answers for all of them in one call. Each gets a part of the input of its own, so that nothing
is computed once for two.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from calibration.session import Session
from opsets.errors import ModelError
from opsets.op import DOMAIN
from opsets.qpasses_v1 import OPS
from qpasses.evidence.table_places import Asked, code_places
from qpasses.ir.runtime import IR_VERSION, OPSET, opset_imports

TOGETHER = 64
"""So many tables get one session: its optimizer takes more than linear time."""

_KEPT = 1 << 14
"""So many answers are kept."""


class Answers:
    """What is known of bodies that were asked together; the oldest answers are forgotten."""

    def __init__(self) -> None:
        self._found: OrderedDict[Asked, NDArray[np.bool_]] = OrderedDict()

    def get(self, asked: Asked) -> NDArray[np.bool_] | None:
        """Where a body differs from its table, if that is known."""
        return self._found.get(asked)

    def ask(self, wanted: Iterable[Asked]) -> None:
        """Find out about those of ``wanted`` that compute an entry from one code."""
        alike = defaultdict[tuple[object, ...], dict[Asked, None]](dict)
        for each in wanted:
            if each.op == "Lut" and each.body.proto and each not in self._found:
                opset = OPS["Lut"].function(each.body, OPSET).opset_import[0].version
                alike[each.types, each.key[1:], each.attributes, opset][each] = None
        for group in (list(each) for each in alike.values()):
            for start in range(0, len(group), TOGETHER):
                part = group[start : start + TOGETHER]
                found = _differences(part)
                self._found.update(zip(part, found, strict=True) if found else ())
        while len(self._found) > _KEPT:
            self._found.popitem(last=False)


ANSWERS = Answers()
"""Of this process: what chooses a body asks what proves it."""


def _differences(asked: Sequence[Asked]) -> list[NDArray[np.bool_]] | None:
    """Where each body differs from its table, both of one type and size.

    None if one of them does not run, or if they do not give as many codes as they get: asked
    alone each says so itself.
    """
    tables = np.stack([each.table for each in asked])
    wrong = np.zeros(tables.shape, bool)
    places = [each.reshape(-1) for each in code_places(tables.shape[1:], True)]
    entries = np.concatenate(places)
    dtype = np.dtype(asked[0].types[0])
    codes = [np.tile(each.astype(np.uint8), len(asked)).view(dtype) for each in places]
    expected = tables[:, entries]
    for optimize in (False, True):
        try:
            session = _session(asked, dtype, optimize)
            answers = [session.run(None, {"x": x, "table": tables[0]})[0] for x in codes]
        except ModelError:
            return None
        if any(found.shape != x.shape for found, x in zip(answers, codes, strict=True)):
            return None
        found = np.hstack([each.reshape(len(asked), -1) for each in answers])
        rows, columns = np.nonzero(found != expected)
        wrong[rows, entries[columns]] = True
    wrong.setflags(write=False)
    return list(wrong)


def _session(asked: Sequence[Asked], dtype: np.dtype[np.generic], optimize: bool) -> Session:
    """x, in as many equal parts as there are bodies, each to its own; y, their answers."""
    names = [str(position) for position in range(len(asked))]
    parts, results = ([f"{end}{name}" for name in names] for end in "xy")
    nodes = [helper.make_node("Split", ["x"], parts, axis=0, num_outputs=len(names))]
    for each, part, result in zip(asked, parts, results, strict=True):
        node = helper.make_node("Lut", [part, "table"], [result], domain=DOMAIN)
        node.overload = each.body.overload
        node.attribute.extend(helper.make_attribute(*pair) for pair in each.attributes)
        nodes.append(node)
    nodes.append(helper.make_node("Concat", results, ["y"], axis=0))
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), None)
        for name, kind in (("x", dtype), ("table", asked[0].table.dtype))
    ]
    bodies = {each.body.overload: each.body for each in asked}
    functions = [OPS["Lut"].function(body, OPSET) for body in bodies.values()]
    model = helper.make_model(
        helper.make_graph(nodes, "tables", given, [onnx.ValueInfoProto(name="y")]),
        functions=functions,
        opset_imports=opset_imports(functions[0].opset_import[0].version),
        ir_version=IR_VERSION,
    )
    return Session(model, optimize=optimize, threads=1, patterns=True)
