"""Scan of opset 8, which walks each row of a batch: a Scan over rows, of the Scan of today."""

from collections.abc import Iterator, Sequence

from onnx import AttributeProto, NodeProto, ValueInfoProto, helper

from opsets.errors import ModelError
from qpasses.ir.graph import fresh


def scan_of_rows(node: NodeProto, taken: set[str]) -> NodeProto:
    """``node``, of opset 8, as opset 9 says it; its body is raised already.

    before: ``y, z = Scan ("", state, x)``, of [rows, ...] and [rows, steps, ...]
    after:  ``y, z = Scan (state, x)`` over rows, with no state of its own, whose body is the
    Scan over steps.
    Raises ModelError where rows have lengths of their own.
    """
    if node.input[0]:
        raise ModelError(
            f"Scan {node.name or node.output[0]!r}: its sequence_lens have no counterpart"
        )
    given = {each.name: each for each in node.attribute}
    body = given["body"].g
    ends = [
        [ValueInfoProto(name=fresh(f"{each.name}.row", taken)) for each in values]
        for values in (body.input, body.output)
    ]
    for found, values in zip(ends, (body.input, body.output), strict=True):
        for end, value in zip(found, values, strict=True):
            end.type.tensor_type.elem_type = value.type.tensor_type.elem_type
    inputs, outputs = ends
    inner = helper.make_node("Scan", _names(inputs), _names(outputs))
    inner.name = fresh(f"{node.name or node.output[0]}.steps", taken)
    inner.attribute.extend(_attributes(given))
    rows = helper.make_graph([inner], fresh(f"{body.name}.rows", taken), inputs, outputs)
    given_inputs = list(node.input[1:])
    return helper.make_node(
        "Scan",
        given_inputs,
        list(node.output),
        node.name,
        body=rows,
        num_scan_inputs=len(given_inputs),
    )


def _names(values: Sequence[ValueInfoProto]) -> list[str]:
    return [value.name for value in values]


def _attributes(given: dict[str, AttributeProto]) -> Iterator[AttributeProto]:
    for name, each in given.items():
        renamed = AttributeProto()
        renamed.CopyFrom(each)
        renamed.name = "scan_input_directions" if name == "directions" else name
        yield renamed
