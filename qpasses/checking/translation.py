"""Translation validation: an integer graph against the float graph it was made from.

Every tensor of the integer graph stands for one float tensor; every node claims, in its
record, which float nodes it computes. Rules check the claims, and recompute every constant
from the float graph. Nothing of what made the graph is asked.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qpasses.checking.known import NOTHING, Known
from qpasses.checking.meaning import (
    DifferenceError,
    Meaning,
    Pair,
    Site,
    UnknownError,
    is_integer,
    is_standard,
    of_two_widths,
    unasked,
)
from qpasses.checking.rules import (
    APART,
    CODES,
    EDGES,
    LEFT,
    MOVING,
    NO_TABLES,
    RECORDED,
    RULES,
    TABLES,
    Rule,
)
from qpasses.checking.rules.check_edges import (
    compare_outputs,
    left_in_float,
    parameters_of,
    read_inputs,
)
from qpasses.checking.rules.check_kept import stored_otherwise
from qpasses.checking.rules.check_moving import what_is_moved
from qpasses.checking.rules.check_states import check_states
from qpasses.checking.sizes import Counted
from qpasses.checking.whole import (
    counted,
    misshapen,
    unlike_metadata,
    unmeant,
    unplaced,
    unwanted,
)
from qpasses.ir.flow import FLOW
from qpasses.ir.graph import Graph, Node, Tensor, constant, is_float, is_used, producer
from qpasses.ir.progress import Advance, no_advance
from qpasses.ir.record import AnyQuantization, Record
from qpasses.ir.recurrent_nodes import given_outputs
from qpasses.ir.settings import Settings
from qpasses.ir.stages import RECURRENT


@dataclass
class Checked:
    """What differs, one sentence each, and how much was checked: by rule, nodes and macs.

    ``pair``: both graphs, with what the tensors of the integer one stand for. ``macs``: by
    float node, its multiply-accumulates, where they were counted.
    """

    pair: Pair
    differences: list[str]
    coverage: list[dict[str, Any]]
    macs: dict[str, int] = field(default_factory=dict)


def check(
    integer: Graph,
    record: Record,
    settings: Settings,
    about: Mapping[str, Any],
    real: Graph,
    excluded: Container[str] = (),
    unlisted: Container[str] = (),
    known: Known = NOTHING,
    measured: Counted | None = None,
    advance: Advance = no_advance,
) -> Checked:
    """Check ``integer`` against ``real``, the float graph as prepared.

    ``about`` holds what the integer model says of itself, ``excluded`` the float nodes that
    the user wanted in float, ``unlisted`` those that only others may take in, ``known`` what a
    quantized original says of its tensors, ``measured`` what is known of the float graph.
    ``advance`` is called before each node.
    """
    pair = Pair(integer, record, settings, real, known, counted=measured or Counted())
    found = list(read_inputs(pair))
    claims: dict[str, list[Node]] = {}
    heads: dict[str, list[Node]] = {}
    nodes: Counter[str] = Counter()
    macs: Counter[str] = Counter()
    unknown = []
    for node in integer.nodes:
        advance()
        chain, stray = _claimed(node, pair)
        name, rule = _rule_of(node, chain, pair)
        for each in chain:
            claims.setdefault(each.name, []).append(node)
        for each in chain[:1]:
            heads.setdefault(each.name, []).append(node)
        if stray:
            found.append(f"{_called(node)}: the float model has no node {stray[0]!r}")
            continue
        site = Site(node, chain, pair)
        try:
            _tell(site, rule)
            for problem in rule(site):
                found.append(f"{_called(node)}: {problem}")
        except DifferenceError as error:
            found.append(f"{_called(node)}: {error}")
        except OverflowError as error:  # scales that no model has
            found.append(f"{_called(node)}: its numbers are too large: {error}")
        except UnknownError as error:
            unknown.append(f"{_called(node)}: nothing is known of {str(error)!r}")
        nodes[name] += 1
        if is_integer(node):
            found += [f"{_called(node)}: {problem}" for problem in of_two_widths(site)]
        if entry := record.nodes.get(node.name):
            found += [f"{_called(node)}: {problem}" for problem in unasked(node, entry)]
            macs[name] += entry.macs
    found += compare_outputs(pair)
    found += stored_otherwise(pair, claims)
    found += left_in_float(pair)
    found += check_states(pair)
    found += unplaced(pair, claims)
    found += unwanted(pair, claims, excluded)
    found += unwanted(pair, heads, unlisted)
    found += misshapen(pair)
    found += unmeant(pair)
    found += unlike_metadata(pair, about)
    found = found or unknown
    return Checked(pair, found, counted(nodes, macs))


def _called(node: Node) -> str:
    return f"node {node.name!r} ({node.op})"


def _claimed(node: Node, pair: Pair) -> tuple[list[Node], list[str]]:
    """The float nodes that ``node`` is said to compute, and names that are of none.

    What stores a tensor at another scale, and computes nothing, names itself; a value that
    enters or leaves a body has the number that is left, where others that nothing reads went.
    """
    entry = pair.record.nodes.get(node.name)
    names = [node.name] if entry is None else list(entry.source)
    if entry is None and node.domain == FLOW:
        real = pair.float_tensors.get(node.outputs[0].name)
        writer = None if real is None else producer(real)
        names = names if writer is None or writer.op != node.op else [writer.name]
    known = [pair.float_nodes[name] for name in names if name in pair.float_nodes]
    stray = [name for name in names if name not in pair.float_nodes]
    if entry is None or (node.op in ("Lut", "IntRescale") and names == [node.name]):
        return known, []
    return known, stray if names else [""]


def _rule_of(node: Node, chain: list[Node], pair: Pair) -> tuple[str, Rule]:
    """The rule for ``node``, and what the coverage calls it."""
    if is_integer(node):
        if node.op in TABLES and not pair.settings.target.tables:
            return node.op, NO_TABLES
        return node.op, RULES[node.op]
    if node.name in pair.record.nodes:
        return f"{node.op} on stored integers", RECORDED.get(node.op, MOVING)
    if chain or not is_standard(node):
        return "as in the float model", LEFT
    if node.op in EDGES:
        return node.op, EDGES[node.op]
    if node.op == "Clip":
        return "Clip to codes", CODES
    if node.op == "Max" and len(node.inputs) == 1:
        return "Max of one tensor", APART
    return "as in the float model", LEFT


def _tell(site: Site, rule: Rule) -> None:
    """Note what the outputs of a node are said to stand for."""
    pair, node = site.pair, site.node
    if rule is EDGES["DequantizeLinear"] and constant(node.inputs[0]) is not None:
        return
    for place, name in enumerate(_stands_for(site)):
        output = node.outputs[place]
        if name and not output.is_empty():
            pair.meanings[output.name] = Meaning(name, _stored(site, rule, output, name))


def _stands_for(site: Site) -> Iterator[str]:
    """The float tensors that the outputs stand for: those of the last float node, in order.

    Without a float node, what the node reads.
    """
    if not site.chain and not site.node.inputs:
        raise DifferenceError("the float model has no such node")
    if not site.chain:
        yield site.pair.meaning(site.node.inputs[0]).real
        return
    real = site.chain[-1].outputs
    if site.node.op in RECURRENT:
        real = given_outputs(site.chain[-1])
    if len(site.node.outputs) != len(real):
        raise DifferenceError(
            f"has {len(site.node.outputs)} outputs, the float node {len(real)}"
        )
    for ours, tensor in zip(site.node.outputs, real, strict=True):
        if tensor.is_empty() and ours.outputs:
            raise DifferenceError(f"{ours.name!r} is read, the float node gives no such state")
        yield tensor.name


def _stored(site: Site, rule: Rule, output: Tensor, name: str) -> AnyQuantization | None:
    """How an output is stored; floats and shapes are not, what nothing reads has no record."""
    if rule in (LEFT, APART, EDGES["DequantizeLinear"]):
        return None
    found = site.pair.record.tensors.get(output.name)
    if found is None and rule is EDGES["QuantizeLinear"]:
        return parameters_of(site.node)
    if found is None and rule is MOVING and is_float(site.pair.float_tensors[name]):
        return None if is_used(site.pair.integer, output) else what_is_moved(site)
    return found
