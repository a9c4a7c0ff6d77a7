"""Loops and Scans of cells, as converters write them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.support.written_cells import Step, Writing, value

INT, BOOL = TensorProto.INT64, TensorProto.BOOL


@dataclass
class Walk:
    """A Loop or Scan over ``how``.

    ``axis``: of the steps of x; ``is_free``: the sizes of x have names alone; ``counts``: how
    a Loop ends: by its number of steps, or by a condition; ``weights_as_states``: they are
    led through as states that never change; ``first``: initial states that are zeros, constant
    numbers or inputs; ``extra_size``: where a Loop gives each step a size of 1; ``fewer``: by
    so many steps a Loop ends before x does, in a Scan whether it gives the last one first.
    """

    how: Writing
    axis: int = 0
    is_free: bool = False
    counts: str = "number"
    weights_as_states: bool = False
    first: str = "input"
    is_reversed: bool = False
    extra_size: int = -1
    fewer: int = 0
    kept_axis: int = 0

    def _x(self) -> list[int]:
        sizes = [self.how.rows, self.how.size]
        sizes.insert(self.axis % 3, self.how.steps)
        return sizes

    def _ends(self, step: Step) -> tuple[list[Any], dict[str, Any], dict[str, np.ndarray]]:
        """Inputs, constants and a feed: x and the initial states."""
        how, rng = self.how, np.random.default_rng(self.how.seed + 1)
        feed = {"x": rng.normal(size=self._x()).astype(np.float32)}
        names = [["T", "N"], ["N", "T"]][self.axis % 3]
        given = [value("x", *(names if self.is_free else self._x()[:2]), how.size)]
        constants = {}
        for state in step.states:
            numbers = rng.normal(size=(how.rows, how.hidden)).astype(np.float32)
            if self.first == "input":
                given.append(value(f"{state}0", "N" if self.is_free else how.rows, how.hidden))
                feed[f"{state}0"] = numbers
            else:
                constants[f"{state}0"] = numbers * (self.first == "constant")
        return given, constants, feed

    def loop(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """A Loop that gathers x by a counter, as tf2onnx writes it."""
        how, step = self.how, Step(self.how)
        given, constants, feed = self._ends(step)
        count = how.steps - self.fewer
        step.weights |= {
            "next": np.array(1, np.int64),
            "end": np.array(count, np.int64),
            "last": np.array(count - 1, np.int64),
        }
        step.add("Add", "k", "next", y="k_new")
        place = step.add("Sub", "last", "k") if self.is_reversed else "k"
        step.add("Gather", "x", place, y="x_t", axis=self.axis)
        step.cell("x_t", "h", "c", "h_new", "c_new")
        if self.extra_size >= 0:
            step.weights["extra"] = np.array([self.extra_size], np.int64)
            step.add("Unsqueeze", "h_new", "extra", y="kept")
        else:
            step.add("Identity", "h_new", y="kept")
        outer: list[Any] = []
        more, most, begin = "more_in", "", "yes"
        step.nodes.append(helper.make_node("Identity", ["more_in"], ["same"], "same_node"))
        limit = "end"
        if self.counts == "length":
            outer += [
                helper.make_node("Shape", ["x"], ["sizes_of_x"], "sizes_of_x"),
                helper.make_node("Gather", ["sizes_of_x", "axis"], ["length"], "length"),
            ]
            limit = most = "length"
        elif self.counts == "number":
            most = "end"
        elif self.counts == "condition":
            wide = step.add("Cast", "k_new", to=TensorProto.FLOAT)
            step.weights["wide_end"] = np.array(count, np.float32)
            step.add("And", step.add("Less", wide, "wide_end"), "same", y="more")
            more = "more"
        elif self.counts == "length condition":
            outer += [
                helper.make_node("Shape", ["x"], ["sizes_of_x"], "sizes_of_x"),
                helper.make_node("Gather", ["sizes_of_x", "axis"], ["length"], "length"),
                helper.make_node("Less", ["zero", "length"], ["begin"], "begin"),
            ]
            step.add("Less", "k_new", "length", y="more")
            more, begin = "more", "begin"
        elif self.counts == "data":
            given.append(value("often", kind=INT))
            feed["often"] = np.array(count, np.int64)
            most = "often"
        more = "same" if more == "more_in" else more
        del limit
        states = [("k", "zero", INT, ())]
        states += [(s, f"{s}0", TensorProto.FLOAT, (None, how.hidden)) for s in step.states]
        used = {each.name: each for each in step.used()}
        if self.weights_as_states:
            for name in [n for n in used if n[:1] in "wr" and n not in ("wide_end",)]:
                values = step.weights[name]
                constants[f"{name}_outside"] = values
                states.append((name, f"{name}_outside", TensorProto.FLOAT, values.shape))
                del used[name]
        finals = [s if s[:1] in "wr" and s not in "hc" else f"{s}_new" for s, *_ in states]
        body = helper.make_graph(
            step.nodes,
            "body",
            [
                value("i", kind=INT),
                value("more_in", kind=BOOL),
                *(value(name, *shape, kind=kind) for name, _, kind, shape in states),
            ],
            [
                value(more, kind=BOOL),
                *(value(n, *s[3], kind=s[2]) for n, s in zip(finals, states, strict=True)),
                helper.make_tensor_value_info("kept", TensorProto.FLOAT, None),
            ],
            [*used.values()],
        )
        outputs = [f"{name}_last" for name, *_ in states]
        node = helper.make_node(
            "Loop",
            [most, begin, *(first for _, first, *_ in states)],
            [*outputs, "all"],
            "loop",
            body=body,
        )
        read = {name for each in [*outer, node] for name in each.input}
        constants |= {
            "zero": np.array(0, np.int64),
            "yes": np.array(True),
            "axis": np.array(self.axis, np.int64),
            "end": np.array(count, np.int64),
        }
        return self._model([*outer, node], given, constants, read, step), feed

    def scan(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """A Scan over x."""
        how, step = self.how, Step(self.how)
        given, constants, feed = self._ends(step)
        step.cell("x_t", "h", "c", "h_new", "c_new")
        step.add("Identity", "h_new", y="kept")
        states = step.states
        row = "N" if self.is_free else how.rows
        body = helper.make_graph(
            step.nodes,
            "body",
            [*(value(s, row, how.hidden) for s in states), value("x_t", row, how.size)],
            [
                *(value(f"{s}_new", row, how.hidden) for s in states),
                value("kept", row, how.hidden),
            ],
            step.used(),
        )
        node = helper.make_node(
            "Scan",
            [*(f"{s}0" for s in states), "x"],
            [*(f"{s}_last" for s in states), "all"],
            "scan",
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[self.axis],
            scan_output_axes=[self.kept_axis],
            scan_input_directions=[int(self.is_reversed)],
            scan_output_directions=[self.fewer],
        )
        return self._model([node], given, constants, set(node.input), step), feed

    def _model(self, nodes, given, constants, read, step):
        is_wide = self.extra_size >= 0 and nodes[-1].op_type == "Loop"
        outputs = {"all": 3 + is_wide} | {f"{s}_last": 2 for s in step.states}
        graph = helper.make_graph(
            nodes,
            "walked",
            given,
            [value(name, *[None] * rank) for name, rank in outputs.items()],
            [numpy_helper.from_array(v, k) for k, v in constants.items() if k in read],
        )
        imports = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)


@st.composite
def walks(draw: Any, writings: Any, counts: list[str]) -> Walk:
    """Any of them, ended in one of the ways ``counts``."""
    how, count = draw(writings), draw(st.sampled_from(counts))
    is_fixed = count in ("number", "condition")
    is_reversed = is_fixed and draw(st.booleans())
    return Walk(
        how,
        draw(st.integers(0, 1)),
        not is_reversed and draw(st.booleans()),
        count,
        draw(st.booleans()),
        draw(st.sampled_from(["input", "constant", "zero"])),
        is_reversed,
        draw(st.integers(-1, 1)),
        int(is_fixed and not is_reversed and how.steps > 1 and draw(st.booleans())),
        draw(st.integers(-3, 2)),
    )
