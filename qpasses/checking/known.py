"""What a model that was quantized already says of its tensors, for those who check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from qpasses.ir.given import Codes, Given, Read, without_edges, without_stores
from qpasses.ir.graph import Graph, Tensor, producer
from qpasses.ir.record import Quantization


@dataclass(frozen=True)
class Known:
    """``written``: by tensor of the original, each way in which it is stored first; ``read``:
    who reads it as stored how; ``codes``: by constant, its integers; ``edges``: the inputs and
    outputs that are stored integers there too; ``meanings``: all ways in which it stores any
    tensor; ``outputs``: how the outputs are stored, by their place.
    """

    written: Mapping[str, Sequence[Quantization]] = field(default_factory=dict)
    read: Sequence[Read] = ()
    codes: Mapping[str, Codes] = field(default_factory=dict)
    edges: Mapping[str, Quantization] = field(default_factory=dict)
    meanings: Sequence[Quantization] = ()
    outputs: Mapping[int, Quantization] = field(default_factory=dict)

    @classmethod
    def of(cls, real: Graph, given: Given) -> "Known":
        """What ``given`` says of ``real``, out of which its STORE nodes are taken."""
        first = [
            (node.inputs[0], given.scales[node.name])
            for node in real.nodes
            if node.name in given.scales
            and not any(before.name in given.scales for before in node.inputs[0].inputs)
        ]
        without_edges(real, given.edges)
        outputs = {
            place: given.scales[writer.name]
            for place, tensor in enumerate(real.outputs)
            if (writer := producer(tensor)) is not None and writer.name in given.scales
        }
        ends = [(_end(tensor), meaning) for tensor, meaning in first]
        read = without_stores(real, given.scales)
        written: dict[str, list[Quantization]] = {}
        for end, meaning in ends:
            written.setdefault(end().name, []).append(meaning)
        meanings = [*given.scales.values(), *given.edges.values()]
        return cls(written, read, given.codes, given.edges, meanings, outputs)


def _end(tensor: Tensor) -> Callable[[], Tensor]:
    """What finds ``tensor`` again, which an output of the graph may take the place of."""
    node = producer(tensor)
    if node is None:
        return lambda: tensor
    place = next(i for i, each in enumerate(node.outputs) if each is tensor)
    return lambda: node.outputs[place]


NOTHING = Known()
"""Of a float model."""
