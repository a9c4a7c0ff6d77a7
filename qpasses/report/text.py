"""Graphs in ONNX's text syntax, with one tensor a line and large constants left out."""

import hashlib
import re
from collections.abc import Mapping
from math import prod

import onnx
import onnx.printer

LARGEST_SHOWN = 16
"""Constants of more elements are declared with their type only."""


def to_text(model: onnx.ModelProto, largest: int = LARGEST_SHOWN) -> str:
    """The text of ``model``; ``onnx.parser.parse_model`` reads it.

    A constant of more than ``largest`` elements stands there as a type without a value.
    """
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    graph = shown.graph
    for tensor in [each for each in graph.initializer if prod(each.dims) > largest]:
        graph.value_info.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
        graph.initializer.remove(tensor)
    return broken_up(onnx.printer.to_text(shown))


def broken_up(text: str) -> str:
    """Printed ``text`` with the header in one line and each tensor of a graph in its own."""
    text = re.sub(r"^<\s+(.*?)\s+>$", _one_line, text, count=1, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^   <(.*)>$", _one_tensor_a_line, text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^(?=.{96})(   \[.*?>) \(", r"\1\n      (", text, flags=re.MULTILINE)
    return text.replace(") {", ")\n{").replace(" \n", "\n").replace("=  {", "= {") + "\n"


def _one_line(match: re.Match[str]) -> str:
    return "<" + re.sub(r"\s+", " ", match[1]) + ">"


def _one_tensor_a_line(match: re.Match[str]) -> str:
    tensors = re.sub(r'"(?:\\.|[^"\\])*"|, (?=\w+(?:\[[^\]]*\])? )', _broken, match[1])
    return f"<\n   {tensors}\n>"


def _broken(match: re.Match[str]) -> str:
    return ",\n   " if match[0] == ", " else match[0]


LARGE = re.compile(r"\{[^{}=]{20000,}\}")
"""A constant of thousands of numbers, of which a screen shows a digest."""


def whole_text(model: onnx.ModelProto) -> str:
    """The text of ``model`` with all its constants, without the tool that made it."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    for name in ("producer_name", "producer_version"):
        shown.ClearField(name)
    return broken_up(onnx.printer.to_text(shown))


def without_large(text: str) -> str:
    """``text`` with count and digest in place of thousands of numbers."""
    return LARGE.sub(_digest, text)


def declined_lines(declined: Mapping[str, str], mark: str = "#") -> str:
    """A line for each node that a pass declined, with the reason: comments to ONNX."""
    return "".join(f"{mark} declined: {node}: {reason}\n" for node, reason in declined.items())


def _digest(numbers: re.Match[str]) -> str:
    digest = hashlib.sha256(numbers[0].encode()).hexdigest()[:16]
    return f"{{{numbers[0].count(',') + 1} numbers, {digest}}}"
