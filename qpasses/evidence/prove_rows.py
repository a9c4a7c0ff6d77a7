"""Softmax and normalizations: a bound for every row, and the body on rows of all kinds."""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from opsets import norm_bounds
from opsets.op import Body, Constants
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
    cells, x_scale, y_scale = _row(node, record)
    errors = table_errors(given, x_scale, y_scale)
    bound = softmax_bound(given, x_scale, y_scale, cells)
    total = int(given["denominators"].max()) * cells
    return _by_tables(node, given, record, errors, bound, total, differing_rows)


def softmax16(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """The same, of codes of 16 bits."""
    cells, x_scale, y_scale = _row(node, record)
    errors = table_errors16(given, x_scale)
    bound = softmax_bound16(given, x_scale, y_scale, cells)
    total = int(given["high"].max()) * cells
    begins = int(given["low"][0]) == 1 << FRACTION_BITS
    problem = "" if begins else "its low bytes do not begin at 1"
    return _by_tables(node, given, record, errors, bound, total, differing_rows16, problem)


def log_softmax(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """The same, of logarithms."""
    cells, x_scale, y_scale = _row(node, record)
    bits = int(node.attrs["fraction_bits"])
    errors = list(log_table_errors(given, x_scale, y_scale, bits).values())
    bound = log_softmax_bound(given, x_scale, y_scale, cells, bits)
    total = int(given["denominators"].max()) * cells
    is_fit = fits(given, {name: node.attrs[name] for name in OPS[node.op].attributes})
    problem = "" if is_fit else "its tables do not rise, or are too large"
    return _by_tables(node, given, record, errors, bound, total, differing_log_rows, problem)


def _row(node: Node, record: Record) -> tuple[int, float, float]:
    """How many codes a row has, and the scales of x and of y."""
    entry = record.nodes[node.name]
    (x_scale,), (y_scale,) = entry.scales["x"], entry.scales["y"]
    return entry.cells, x_scale, y_scale


def _by_tables(
    node: Node,
    given: Constants,
    record: Record,
    errors: Sequence[Sequence[Fraction]],
    bound: float,
    total: int,
    differing: Callable[[Body, Constants, int, Mapping[str, Any]], int],
    problem: str = "",
) -> NodeEvidence:
    """``errors``: of the entries of each table; ``total``: the largest sum of a row."""
    entry, body = record.nodes[node.name], body_of(node, record)
    attributes = {name: node.attrs[name] for name in OPS[node.op].attributes}
    problem = problem_of(node, given, record) or problem
    if total >= 1 << 31:
        problem = problem or "the accumulator can leave int32"
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=sum(map(len, errors)),
        mismatches=0 if problem else differing(body, given, entry.cells, attributes),
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
