"""Softmax and normalizations: a bound for every row, and the body on rows of all kinds."""

from fractions import Fraction

from opsets import norm_bounds
from opsets.op import Constants
from opsets.qpasses_v1 import OPS
from opsets.qpasses_v1.int_log_softmax import fits
from opsets.qpasses_v1.table_softmax16 import FRACTION_BITS
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import headroom, problem_of
from qpasses.evidence.prove_log_softmax import (
    differing_log_rows,
    log_softmax_bound,
    log_table_errors,
)
from qpasses.evidence.prove_norms import differing_norms, norm_bound
from qpasses.evidence.prove_softmax import (
    differing_rows,
    differing_rows16,
    softmax_bound,
    softmax_bound16,
    table_errors,
    table_errors16,
)
from qpasses.ir.graph import Node
from qpasses.ir.record import Record

_HALF = Fraction(1, 2)


def softmax(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """A bound for every row, and the body on rows that were made to find it wrong."""
    entry, body = record.nodes[node.name], body_of(node, record)
    (x_scale,), (y_scale,) = entry.scales["x"], entry.scales["y"]
    problem = problem_of(node, given, record)
    bound = softmax_bound(given, x_scale, y_scale, entry.cells)
    errors = table_errors(given, x_scale, y_scale)
    attributes = {name: node.attrs[name] for name in OPS["TableSoftmax"].attributes}
    total = int(given["denominators"].max()) * entry.cells
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=sum(map(len, errors)),
        mismatches=0 if problem else differing_rows(body, given, entry.cells, attributes),
        body=body.overload,
        reference_moved=sum(error > _HALF for part in errors for error in part),
        reference_max_lsb=int(bound + 1),
        accumulator=(0, total),
        headroom_bits=headroom(0, total),
        bound=bound,
        problem=problem or ("" if total < 1 << 31 else "the accumulator can leave int32"),
    )


def softmax16(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """The same, of codes of 16 bits."""
    entry, body = record.nodes[node.name], body_of(node, record)
    (x_scale,), (y_scale,) = entry.scales["x"], entry.scales["y"]
    problem = problem_of(node, given, record)
    if int(given["low"][0]) != 1 << FRACTION_BITS:
        problem = problem or "its low bytes do not begin at 1"
    bound = softmax_bound16(given, x_scale, y_scale, entry.cells)
    errors = table_errors16(given, x_scale)
    attributes = {name: node.attrs[name] for name in OPS["TableSoftmax16"].attributes}
    total = int(given["high"].max()) * entry.cells
    wrong = 0 if problem else differing_rows16(body, given, entry.cells, attributes)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=sum(map(len, errors)),
        mismatches=wrong,
        body=body.overload,
        reference_moved=sum(error > _HALF for part in errors for error in part),
        reference_max_lsb=int(bound + 1),
        accumulator=(0, total),
        headroom_bits=headroom(0, total),
        bound=bound,
        problem=problem or ("" if total < 1 << 31 else "the accumulator can leave int32"),
    )


def log_softmax(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """A bound for every row, and the body on rows of all kinds."""
    entry, body = record.nodes[node.name], body_of(node, record)
    (x_scale,), (y_scale,) = entry.scales["x"], entry.scales["y"]
    attributes = {name: node.attrs[name] for name in OPS["IntLogSoftmax"].attributes}
    bits, total = attributes["fraction_bits"], int(given["denominators"].max()) * entry.cells
    problem = problem_of(node, given, record)
    if not fits(given, attributes):
        problem = problem or "its tables do not rise, or are too large"
    if total >= 1 << 31:
        problem = problem or "the accumulator can leave int32"
    errors = log_table_errors(given, x_scale, y_scale, bits).values()
    bound = log_softmax_bound(given, x_scale, y_scale, entry.cells, bits)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=sum(map(len, errors)),
        mismatches=0 if problem else differing_log_rows(body, given, entry.cells, attributes),
        body=body.overload,
        reference_moved=sum(error > _HALF for part in errors for error in part),
        reference_max_lsb=int(bound + 1),
        accumulator=(0, total),
        headroom_bits=headroom(0, total),
        bound=bound,
        problem=problem,
    )


def normalized(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """A bound for every row, and the body on rows of all kinds."""
    body = body_of(node, record)
    attributes = {name: node.attrs[name] for name in OPS["IntLayerNorm"].attributes}
    problem = problem_of(node, given, record)
    if not norm_bounds.fits(given, attributes):
        problem = problem or "its sums or products can leave the bits that hold them"
    if attributes["cells"] != record.nodes[node.name].cells:
        problem = problem or "its rows are not as long as its record says"
    bound = norm_bound(given, attributes)
    count, wrong, moved_codes = (
        (0, 0, 0) if problem else differing_norms(body, given, attributes)
    )
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=count,
        mismatches=wrong,
        body=body.overload,
        reference_moved=moved_codes,
        reference_max_lsb=int(bound + 1),
        channels=given["multiplier"].size,
        bound=bound,
        problem=problem,
    )
