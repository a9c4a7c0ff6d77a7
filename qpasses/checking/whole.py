"""What no single node shows: every float node has its place, every tensor its form."""

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np

from qpasses.checking.meaning import Pair, is_integer
from qpasses.ir.graph import STORE, Node, Tensor, constant, producer
from qpasses.ir.interchange import is_tensor
from qpasses.ir.stages import RECURRENT, TABULATED
from qpasses.ir.unknown_sizes import declared_sizes


def unplaced(pair: Pair, claims: Mapping[str, list[Node]]) -> Iterator[str]:
    """Float nodes that nothing computes, or that are computed twice.

    Tables may hold a node each: a chain with two ends has two.
    """
    for name, node in pair.float_nodes.items():
        found = claims.get(name, [])
        if not found and node.op != STORE:
            yield f"node {name!r} ({node.op}) of the float model is computed nowhere"
        elif len(found) > 1 and sum(each.op not in TABULATED for each in found) > 1:
            places = ", ".join(repr(each.name) for each in found)
            yield f"node {name!r} ({node.op}) of the float model is computed by {places}"


def unwanted(
    pair: Pair, claims: Mapping[str, list[Node]], wanted_in_float: Container[str]
) -> Iterator[str]:
    """Float nodes that are computed on integers though the user wanted them in float."""
    for name, nodes in claims.items():
        for node in nodes if name in wanted_in_float else ():
            if is_integer(node) or is_stored(pair, node):
                yield f"node {node.name!r} computes {name!r} on integers, which is excluded"


def is_stored(pair: Pair, node: Node) -> bool:
    """Whether a standard node writes codes, not bytes of the model's own."""
    meaning = pair.meanings.get(node.outputs[0].name)
    return meaning is not None and meaning.stored is not None


def misshapen(pair: Pair) -> Iterator[str]:
    """Tensors whose type or size is not said, or not as the float model has it."""
    written = [tensor for node in pair.integer.nodes for tensor in node.outputs]
    for tensor in [*pair.integer.inputs, *written]:
        meaning = pair.meanings.get(tensor.name)
        real = pair.float_tensors.get(meaning.real) if meaning else None
        if meaning is None or real is None or tensor.is_empty():
            yield from _unlike_its_constant(tensor)
            continue
        dtype = meaning.stored.dtype if meaning.stored else real.dtype
        if dtype is None:
            continue
        if _shown(tensor) != str(np.dtype(dtype)):
            yield f"tensor {tensor.name!r} is said to be {_shown(tensor)}, it is {dtype}"
        elif not _fits(tensor, real, pair):
            sizes = f"sizes {tensor.shape}, they are {real.shape}"
            yield f"tensor {tensor.name!r} is said to have {sizes}"
    yield from _unlike_all_steps(pair)


def _unlike_all_steps(pair: Pair) -> Iterator[str]:
    """Last states that nothing of the float model is: as large as the states of a step."""
    for node in pair.integer.nodes:
        if node.op not in RECURRENT:
            continue
        every, *states = node.outputs
        for tensor in (t for t in states if t.name and t.name not in pair.meanings):
            sizes, said = declared_sizes(every), declared_sizes(tensor)
            if sizes is not None and said != sizes[1:]:
                yield f"tensor {tensor.name!r} is said to have sizes {tensor.shape}"


def _fits(tensor: Tensor, real: Tensor, pair: Pair) -> bool:
    """Whether ``tensor`` is said to have the sizes of ``real``.

    Exporters write numbers for sizes of outputs, which are those of one sample: in their place
    may be the name of a size of an input that is recorded as large as the tensor was in a run.
    And names that no input has, which say nothing: in their place may be nothing.
    """
    said, wanted = declared_sizes(tensor), declared_sizes(real)
    if said == wanted or said is None or wanted is None or len(said) != len(wanted):
        return said == wanted
    free = {
        (name, size)
        for each in pair.real.inputs
        for name, size in zip(
            declared_sizes(each) or [], pair.record.sizes.get(each.name, []), strict=False
        )
        if isinstance(name, str)
    }
    found, known = pair.sizes.get(real.name, [None] * len(said)), {name for name, _ in free}
    return all(
        ours == theirs
        or (isinstance(theirs, int) and (ours, size) in free)
        or (ours is None and isinstance(theirs, str) and theirs not in known)
        for ours, theirs, size in zip(said, wanted, found, strict=True)
    )


def _unlike_its_constant(tensor: Tensor) -> Iterator[str]:
    """What is dequantized for a node in float has the sizes of the constant that it is of."""
    node = producer(tensor)
    stored = constant(node.inputs[0]) if node and node.op == "DequantizeLinear" else None
    said = declared_sizes(tensor)
    if stored is not None and said is not None and said != list(stored.shape):
        sizes = f"sizes {tensor.shape}, they are {list(stored.shape)}"
        yield f"tensor {tensor.name!r} is said to have {sizes}"


def unmeant(pair: Pair) -> Iterator[str]:
    """Tensors that are recorded as stored and are not: floats, and constants of nodes."""
    constants = pair.integer.tensors().keys() - {
        tensor.name for node in pair.integer.nodes for tensor in node.outputs
    }
    for name in sorted(pair.record.tensors.keys() - pair.operands):
        meaning = pair.meanings.get(name)
        known = meaning is not None or name in constants
        if known and (meaning is None or meaning.stored is None):
            yield f"tensor {name!r} is recorded as stored, which it is not"


def _shown(tensor: Tensor) -> str:
    known = isinstance(tensor.dtype, np.dtype | type)
    return str(np.dtype(tensor.dtype)) if known else "of no type"


def unlike_metadata(pair: Pair, about: Mapping[str, Any]) -> Iterator[str]:
    """What the model says of its edges, its sizes, its weights and its float nodes."""
    for kind in ("inputs", "outputs"):
        found = pair.record.tensors
        ends = [tensor.name for tensor in getattr(pair.integer, kind)]
        expected = {name: found[name].as_json() if name in found else None for name in ends}
        if about.get(kind) != expected:
            yield f"the model's metadata on its {kind} are not what its graph says"
    if pair.record.raised_weight_scales != pair.raised:
        yield "the model's metadata on raised_weight_scales are not what its weights say"
    if not _fit(pair):
        yield "the model's metadata on sizes do not fit the float model's inputs"
    known = pair.float_nodes.keys() | {node.name for node in pair.integer.nodes}
    declined = pair.record.declined
    if not isinstance(declined, dict):
        yield "the model's metadata on declined nodes are damaged"
        return
    for name, reason in declined.items():
        if name not in known or not isinstance(reason, str):
            yield f"the model's metadata decline a node {name!r} that there is not"


def _fit(pair: Pair) -> bool:
    sizes, inputs = pair.record.sizes, [each for each in pair.real.inputs if is_tensor(each)]
    if not isinstance(sizes, dict) or sizes.keys() != {tensor.name for tensor in inputs}:
        return False
    for tensor in inputs:
        known = sizes[tensor.name]
        if not isinstance(known, list) or not all(isinstance(size, int) for size in known):
            return False
        said = tensor.shape
        if said is None:
            continue
        fixed = zip(known, said, strict=False)
        if len(known) != len(said) or any(isinstance(b, int) and a != b for a, b in fixed):
            return False
    return True


def counted(nodes: Counter[str], macs: Counter[str]) -> list[dict[str, Any]]:
    """By rule, how many nodes it checked and how many multiply-accumulates these have."""
    return [{"rule": rule, "nodes": nodes[rule], "macs": macs[rule]} for rule in sorted(nodes)]
