"""What a quantized original says: tensors are stored so, and read so."""

from collections.abc import Iterator, Mapping, Sequence

from qpasses.checking.meaning import Pair
from qpasses.checking.rules.check_moving import MOVED
from qpasses.ir.graph import Node, Tensor, producer
from qpasses.ir.record import AnyQuantization, ChannelQuantization


def stored_otherwise(pair: Pair, claims: Mapping[str, list[Node]]) -> Iterator[str]:
    """Tensors that are stored, or read, in another way than the original says.

    What reads a tensor may read it stored anew, if it was stored as it should be before, or
    is one of several parts, which are moved in the way of the whole.
    """
    known, by_real = pair.known, dict[str, list[tuple[str, AnyQuantization]]]()
    for name, meaning in pair.meanings.items():
        if meaning.stored is not None and name in pair.record.tensors:
            by_real.setdefault(meaning.real, []).append((name, meaning.stored))
    moved = {t.name for n in pair.integer.nodes if n.op in MOVED for t in n.outputs}
    for real, wanted in known.written.items():
        found = by_real.get(real, [])
        first = found if found and found[0][0] in moved else found[:1]
        if not any(_alike(one, other) for _, one in first for other in wanted):
            yield (
                f"tensor {real!r} is stored as {_shown([each for _, each in found])}, "
                f"the model that was given stores it as {_shown(wanted)}"
            )
    yield from _unlike_kept(pair)
    yield from _given_otherwise(pair)
    reads = dict[tuple[str, str], list[AnyQuantization]]()
    for read in known.read:
        reads.setdefault((read.reader, read.tensor), []).append(read.meaning)
    for (reader, real), ways in reads.items():
        for node in claims.get(reader, ()):
            yield from _read_otherwise(pair, node, reader, real, ways)


def _given_otherwise(pair: Pair) -> Iterator[str]:
    """Outputs that are stored in another way than the original stores them last."""
    for place, wanted in pair.known.outputs.items():
        for tensor in pair.integer.outputs[place : place + 1]:
            stands_for = pair.meanings.get(tensor.name)
            seen = _ways(pair, tensor, stands_for.real)[:1] if stands_for else []
            if not any(_alike(each, wanted) for each in seen):
                yield (
                    f"output {tensor.name!r} is stored as {_shown(seen)}, in the model that "
                    f"was given as {_shown([wanted])}"
                )


def _read_otherwise(
    pair: Pair, node: Node, reader: str, real: str, wanted: Sequence[AnyQuantization]
) -> Iterator[str]:
    """Whether ``node`` reads ``real`` in each of the ways ``wanted``.

    And in no others, but where it reads it as it is as well.
    """
    asked = sum(tensor.name == real for tensor in pair.float_nodes[reader].inputs)
    seen = [ways for tensor in node.inputs if (ways := _ways(pair, tensor, real))]
    met = [[any(_alike(each, other) for each in ways) for other in wanted] for ways in seen]
    alone = asked > len(wanted) or all(map(any, met))
    if met and not (alone and all(map(any, zip(*met, strict=True)))):
        found = [each for ways in seen for each in ways]
        yield (
            f"node {node.name!r} ({node.op}) reads {real!r} stored as {_shown(found)}, in the "
            f"model that was given {_shown(wanted)}"
        )


def _unlike_kept(pair: Pair) -> Iterator[str]:
    """Tensors that are said to be stored as in the original, and are not."""
    wanted = pair.known.meanings
    kept = pair.record.kept
    if not isinstance(kept, list) or len({*kept}) < len(kept):
        yield "the model's metadata on kept scales are damaged"
        return
    for name in {*kept} - pair.operands:  # which are compared with their constants
        found = pair.record.tensors.get(name)
        if found is None or not any(_alike(found, each) for each in wanted):
            yield f"tensor {name!r} is not stored as the model that was given says"


def _ways(pair: Pair, tensor: Tensor, real: str) -> list[AnyQuantization]:
    """How ``tensor``, if it stands for ``real``, and what it was rescaled of are stored."""
    found = []
    while (meaning := pair.meanings.get(tensor.name)) is not None and meaning.real == real:
        if meaning.stored is not None:
            found.append(meaning.stored)
        node = producer(tensor)
        if node is None or not node.inputs:
            break
        (tensor, *_) = node.inputs
    return found


def _alike(one: AnyQuantization, other: AnyQuantization) -> bool:
    """Whether both say the same integers of the same numbers, signed or unsigned."""
    if isinstance(one, ChannelQuantization) or isinstance(other, ChannelQuantization):
        return one == other
    moved = one.zero_point - other.zero_point - (128 if one.dtype == "uint8" else 0)
    return one.scale == other.scale and moved + (128 if other.dtype == "uint8" else 0) == 0


def _shown(meanings: Sequence[AnyQuantization]) -> str:
    listed = [
        f"{each.dtype} with scales of channels"
        if isinstance(each, ChannelQuantization)
        else f"{each.dtype} scale {each.scale:g} zero point {each.zero_point}"
        for each in meanings
    ]
    return " or ".join(listed) or "nothing"
