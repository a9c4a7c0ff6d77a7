"""Sizes in a body, which ONNX infers without those that its states have at first."""

from collections.abc import Sequence

from qpasses.ir.graph import Tensor, producer, rank
from qpasses.prepare.recognition.affine import Lead, lead_of, width
from qpasses.prepare.recognition.gates import plain
from qpasses.prepare.recognition.steps import State


class BodySizes:
    """The sizes of tensors of a body, the last apart, in the names of the graph around it."""

    def __init__(self, states: Sequence[State]) -> None:
        """A state has the sizes that it has at first, before a step and after it."""
        self._known: dict[int, tuple[Tensor, Lead]] = {}
        for each in states:
            if rank(each.first) == rank(each.before):
                lead = lead_of(each.first)
                for tensor in (each.before, plain(each.after)):
                    self._known[id(tensor)] = tensor, lead

    def lead(self, tensor: Tensor) -> Lead:
        """Those of ``tensor``: where they are not inferred, of what it is made of by rows."""
        tensor = plain(tensor)
        if id(tensor) not in self._known:
            self._known[id(tensor)] = tensor, self._found(tensor)
        return self._known[id(tensor)][1]

    def _found(self, tensor: Tensor) -> Lead:
        lead, node = lead_of(tensor), producer(tensor)
        if node is None or node.domain or all(isinstance(size, int) for size in lead):
            return lead
        read = node.inputs if node.op in _BY_ELEMENT else node.inputs[:1]
        is_cut = node.op in ("Slice", "Split") and width(node.inputs[0]) != width(tensor)
        if not is_cut and node.op not in _BY_ELEMENT | _BY_ROW:
            return lead  # what is cut is the last size
        leads = [self.lead(each) for each in read if rank(each) == rank(tensor)]
        return leads[0] if leads and all(each == leads[0] for each in leads) else lead


_BY_ROW = frozenset(
    {
        "Clip",
        "Elu",
        "Gemm",
        "HardSigmoid",
        "LeakyRelu",
        "MatMul",
        "Neg",
        "Relu",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "Tanh",
        "ThresholdedRelu",
    }
)
_BY_ELEMENT = frozenset({"Add", "Div", "Mul", "Sub"})
