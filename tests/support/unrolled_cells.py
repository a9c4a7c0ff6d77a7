"""Cells of recurrent nets written out step by step, as tracing a loop of Python gives them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper

from tests.support.written_cells import Step, Writing, value

PARTS = ("gather", "slice", "split", "apart")
"""How a step gets its x: of one tensor, or each from an input of its own."""


@dataclass
class Unrolled:
    """``how.steps`` steps; ``shown``: what is given: all hidden states, or the last."""

    how: Writing
    axis: int = 0
    parts: str = "gather"
    is_reversed: bool = False
    shown: str = "last"
    first: str = "input"
    layers: int = 1

    def made(self) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The model, and a feed."""
        how, step = self.how, Step(self.how)
        rng = np.random.default_rng(how.seed + 2)
        sizes = [how.rows, how.size]
        sizes.insert(self.axis, how.steps)
        feed = {}
        if self.parts != "apart":
            feed["x"] = rng.normal(size=sizes).astype(np.float32)
        step.weights["axis_of_x"] = np.array([self.axis])
        if self.parts == "split":
            names = [f"part{k}" for k in range(how.steps)]
            split = helper.make_node(
                "Split", ["x"], names, "parts", axis=self.axis, num_outputs=how.steps
            )
            step.nodes.append(split)
        state = {}
        for name in step.states:
            numbers = rng.normal(size=(how.rows, how.hidden)).astype(np.float32)
            if self.first == "input":
                feed[f"{name}0"] = numbers
            else:
                step.weights[f"{name}0"] = numbers * (self.first == "constant")
            state[name] = f"{name}0"
        hidden = []
        for k in range(how.steps):
            x = self._part(step, how.steps - 1 - k if self.is_reversed else k, feed, rng)
            new = {name: f"{name}{k + 1}" for name in state}
            step.cell(x, state["h"], state.get("c", ""), new["h"], new.get("c", ""))
            state = new
            for layer in range(1, self.layers):
                below, old = new["h"], {s: f"{s}{k}_{layer}" if k else f"{s}0" for s in state}
                new = {s: f"{s}{k + 1}_{layer}" for s in state}
                step.cell(below, old["h"], old.get("c", ""), new["h"], new.get("c", ""))
            hidden.append(new["h"])
        outputs = [*(new if self.layers > 1 else state).values()]
        if self.shown == "all":
            rows = [step.add("Unsqueeze", each, "axis_of_x") for each in hidden]
            step.nodes.append(helper.make_node("Concat", rows, ["all"], "all", axis=self.axis))
            outputs.append("all")
        elif self.shown == "some":
            outputs += [step.add("Neg", each) for each in hidden[::2]]
        graph = helper.make_graph(
            step.nodes,
            "unrolled",
            [value(name, *values.shape) for name, values in feed.items()],
            [value(name, *[None] * (2 + (name == "all"))) for name in outputs],
            step.used(),
        )
        imports = [helper.make_opsetid("", 21)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10), feed

    def _part(self, step: Step, k: int, feed: dict[str, np.ndarray], rng: Any) -> str:
        how = self.how
        if self.parts == "apart":
            feed[f"x{k}"] = rng.normal(size=(how.rows, how.size)).astype(np.float32)
            return step.add("Abs", f"x{k}")
        if self.parts == "gather":
            step.weights[f"at{k}"] = np.array(k)
            return step.add("Gather", "x", f"at{k}", axis=self.axis)
        part = f"part{k}"
        if self.parts == "slice":
            step.weights |= {f"from{k}": np.array([k]), f"to{k}": np.array([k + 1])}
            part = step.add("Slice", "x", f"from{k}", f"to{k}", "axis_of_x")
        return step.add("Squeeze", part, "axis_of_x")


def unrolled(writings: Any) -> Any:
    return st.builds(
        Unrolled,
        writings,
        st.integers(0, 1),
        st.sampled_from(PARTS),
        st.booleans(),
        st.sampled_from(["last", "all", "some"]),
        st.sampled_from(["input", "constant", "zero"]),
    )
