"""Published algorithms: bodies on rows and codes, and how far they are from real ones."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import erf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opsets.fixed_point import Int64, rounding_shift
from opsets.op import Body, Constants
from opsets.published import LARGEST, exp_by_polynomial, exp_by_shifts
from opsets.qpasses_v1 import OPS
from qpasses.evidence.bodies import body_of
from qpasses.evidence.node_evidence import NodeEvidence
from qpasses.evidence.problems import headroom, problem_of
from qpasses.evidence.prove_norms import norm_rows
from qpasses.evidence.prove_softmax import exponentials, worst_sum
from qpasses.ir.graph import Node
from qpasses.ir.record import Record
from qpasses.ir.runtime import run_op

_CODES = 1 << 17
"""So many codes of rows are run at most."""

_SAFE = 1 + 2.0**-40
"""Covers what these few operations in double are off."""


def published_softmax(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """Shiftmax and IBertSoftmax: a bound for every row, and the body on rows of all kinds."""
    attributes, length = _attributes(node), record.nodes[node.name].cells
    terms = share_terms(node.op, given, attributes)
    (x_scale,), (y_scale,) = (record.nodes[node.name].scales[end] for end in "xy")
    bound = share_bound(node.op, given, attributes, terms, x_scale, y_scale, length)
    total = min(int(terms.max()) * length, LARGEST)
    return softmax_evidence(node, given, record, attributes, bound, total)


def softmax_evidence(
    node: Node,
    given: Constants,
    record: Record,
    attributes: Mapping[str, Any],
    bound: float,
    total: int,
    problem: str = "",
) -> NodeEvidence:
    """``bound`` for every row, ``total`` for its sum, and the body on rows of all kinds."""
    entry, body = record.nodes[node.name], body_of(node, record)
    (x_scale,), (y_scale,) = entry.scales["x"], entry.scales["y"]
    problem = problem_of(node, given, record) or problem
    rows = rows_of_all_kinds(given["y_zero"].dtype, entry.cells)
    x = rows.reshape(*rows.shape, *[1] * (-attributes["axis"] - 1))
    inputs = _inputs(node.op, given, x)
    meaning = OPS[node.op].reference(*inputs, **attributes)
    real = np.exp((rows - rows.max(axis=1, keepdims=True).astype(np.float64)) * x_scale)
    shares = real / real.sum(axis=1, keepdims=True)
    expected = stored_levels(shares, y_scale, given).reshape(meaning.shape)
    gaps = np.abs(meaning.astype(np.int64) - expected)
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=rows.size,
        mismatches=0 if problem else differing(node.op, body, inputs, attributes, meaning),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(bound + 1),
        accumulator=(0, total),
        headroom_bits=headroom(0, total),
        bound=bound,
        problem=problem,
    )


def share_terms(op: str, given: Constants, attributes: Mapping[str, Any]) -> Int64:
    """[256]: the exponential of a code that lies 0 to 255 below the largest of its row."""
    distance, x0, n = -np.arange(256), attributes["x0"], attributes["fraction_bits"]
    if op == "Shiftmax":
        return exp_by_shifts(distance, x0, n)
    exact = exp_by_polynomial(distance, x0, attributes["b"], attributes["c"], n)
    product = exact * int(given["exp_multiplier"])
    return rounding_shift(product, int(given["exp_shift"]), "half_to_even")


def share_bound(
    op: str,
    given: Constants,
    attributes: Mapping[str, Any],
    terms: Int64,
    x_scale: float,
    y_scale: float,
    length: int,
) -> float:
    """How far a result is from the exact Softmax at most, in steps of y, before it is rounded.

    For every row of up to ``length`` codes. Let T be the terms, A the largest of them, E the
    real exponentials, S the sum of a row and p its result, of b bits.

    - T / S is off from the exact share by at most max |T - A E| / A for its own error, and by
      the largest k |T - A E| / (A + k T) of one distance for that of the sum, k = length - 1,
      as in ``softmax_bound``.
    - Shiftmax: floor((2**31 - 1) / S) and the shift take at most (A + 1) / 2**31 and one of
      2**(b - 1) away. IBertSoftmax: A / 2**32 and one of 2**b.
    - The multiplier is off from the scale of p over that of y: times the largest p.

    It is never more than all codes; which is the bound where a sum can saturate.
    """
    span = float(max(int(given["y_max"]) - int(given["y_zero"]), 0))
    largest, bits = int(terms[0]), attributes["output_bits"]
    is_shiftmax = op == "Shiftmax"
    if largest < 1 or largest * length > LARGEST:
        return span
    errors = [
        abs(int(term) - largest * each)
        for term, each in zip(terms, exponentials(x_scale), strict=True)
    ]
    relative = worst_sum(errors, map(int, terms), length)
    step = Fraction(1, 1 << (bits - 1 if is_shiftmax else bits))
    lost = Fraction(largest + 1, 1 << 31) if is_shiftmax else Fraction(largest, 1 << 32)
    share = relative + max(errors) / largest + lost + step
    factor = Fraction(int(given["multiplier"]), 1 << int(given["shift"]))
    scaled = abs(factor - step / Fraction(y_scale)) / step
    return min(float(share / Fraction(y_scale) + scaled) * _SAFE, span)


def shift_gelu(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """Every code beside every largest code of a row: its result depends on these two alone."""
    dtype = given["x_zero"].dtype
    codes = np.arange(256) + np.iinfo(dtype).min
    pairs = np.array([(code, top) for top in codes for code in codes if code <= top], dtype)
    return _exhaustive(node, given, record, pairs)


def i_bert_gelu(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """All 256 codes."""
    dtype = given["x_zero"].dtype
    codes = np.arange(256, dtype=np.uint8).view(dtype)
    return _exhaustive(node, given, record, codes)


def _exhaustive(
    node: Node, given: Constants, record: Record, codes: NDArray[Any]
) -> NodeEvidence:
    entry, body = record.nodes[node.name], body_of(node, record)
    attributes, problem = _attributes(node), problem_of(node, given, record)
    inputs = _inputs(node.op, given, codes)
    meaning = OPS[node.op].reference(*inputs, **attributes)
    real = (codes.astype(np.int64) - int(given["x_zero"])) * entry.scales["x"][0]
    of_code = {each: _gelu(each) for each in np.unique(real).tolist()}
    values = np.array([of_code[each] for each in real.ravel().tolist()]).reshape(real.shape)
    expected = stored_levels(values, entry.scales["y"][0], given)
    gaps = np.abs(meaning.astype(np.int64) - expected).reshape(len(codes), -1)[:, 0]
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="exhaustive",
        domain=len(codes),
        mismatches=0 if problem else differing(node.op, body, inputs, attributes, meaning),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(gaps.max()),
        problem=problem,
    )


def _gelu(x: float) -> float:
    return 0.5 * x * (1 + erf(x / sqrt(2)))


def i_layer_norm(node: Node, given: Constants, record: Record) -> NodeEvidence:
    """The body on rows of all kinds. Its distance from LayerNorm has no bound but all codes.

    I-ViT's root of a small variance is that of one many times as large.
    """
    body, attributes = body_of(node, record), _attributes(node)
    problem, cells = problem_of(node, given, record), attributes["cells"]
    if cells != record.nodes[node.name].cells:
        problem = problem or "its rows are not as long as its record says"
    rows = norm_rows(given, {"axis": -1, "cells": cells, "root_bits": 0})
    inputs = _inputs(node.op, given, rows)
    meaning = OPS[node.op].reference(*inputs, **attributes)
    expected = _real_norm(rows, given, cells)
    gaps = np.abs(meaning.astype(np.int64) - expected)
    span = float(int(given["y_max"]) - int(given["y_min"]))
    return NodeEvidence(
        name=node.name,
        op=node.op,
        kind="bounded",
        domain=rows.size,
        mismatches=0 if problem else differing(node.op, body, inputs, attributes, meaning),
        body=body.overload,
        reference_moved=int((gaps > 0).sum()),
        reference_max_lsb=int(span),
        channels=cells,
        bound=span,
        problem=problem,
    )


def _real_norm(rows: NDArray[Any], given: Constants, cells: int) -> Int64:
    """Of float64, without epsilon, with the gamma and beta that the integers stand for."""
    code = rows.astype(np.float64) - float(given["x_zero"])
    code = code - code.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((code * code).mean(axis=-1, keepdims=True))
    normal = code / np.where(deviation > 0, deviation, 1) * 2.0**30 / sqrt(cells)
    factor = given["multiplier"] * 2.0 ** -given["shift"].astype(np.float64)
    levels = np.rint((normal + given["bias"]) * factor) + float(given["y_zero"])
    ends = float(given["y_min"]), float(given["y_max"])
    return np.asarray(np.clip(levels, *ends), np.int64)


def stored_levels(values: NDArray[np.float64], scale: float, given: Constants) -> Int64:
    """The nearest codes of y, ties to even."""
    levels = np.rint(values / scale) + float(given["y_zero"])
    return np.asarray(np.clip(levels, int(given["y_min"]), int(given["y_max"])), np.int64)


def _attributes(node: Node) -> dict[str, Any]:
    return {name: node.attrs[name] for name in OPS[node.op].attributes}


def _inputs(op: str, given: Constants, x: NDArray[Any]) -> list[NDArray[Any]]:
    return [x, *(given[name] for name in list(OPS[op].inputs)[1:])]


def differing(
    op: str,
    body: Body,
    inputs: Sequence[NDArray[Any]],
    attributes: Mapping[str, Any],
    meaning: NDArray[Any],
) -> int:
    """How many results of onnxruntime differ from the meaning, optimized and not."""
    runs = (run_op(op, body, inputs, attributes, optimize=each) for each in (False, True))
    return sum(int((found != meaning).sum()) for found in runs)


def rows_of_all_kinds(dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    """[R, length]: one largest code among equal others at each distance, pairs, and any."""
    every = max(1, -(-3 * 256 * length // _CODES))
    distance = np.arange(0, 256, every)
    alike = np.repeat(distance[:, None], length, axis=1)
    pair = np.full_like(alike, 255)
    alike[:, 0] = pair[:, 0] = 0
    pair[:, 1:2] = distance[:, None]
    rng = np.random.default_rng(length)
    anything = rng.integers(0, 256, alike.shape)
    return np.asarray(np.iinfo(dtype).max - np.concatenate([alike, pair, anything]), dtype)
