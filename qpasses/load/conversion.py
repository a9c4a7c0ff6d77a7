"""Conversion: single nodes to a newer opset, by ONNX's own converter and a few repairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import onnx
import onnx.version_converter
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from opsets.errors import ModelError
from qpasses.ir.graph import fresh
from qpasses.ir.runtime import IR_VERSION

SOFTMAX = ("Softmax", "LogSoftmax", "Hardmax")
_AT_ONCE = 500  # nodes: the converter's time grows with their square


@dataclass(frozen=True)
class Known:
    """Types of tensors, and the values of small constants, by name."""

    types: dict[str, TypeProto]
    values: dict[str, TensorProto]

    def elem_type(self, name: str) -> int:
        """The type of the elements; UNDEFINED (0) where unknown."""
        return self.types[name].tensor_type.elem_type if name in self.types else 0

    def sizes(self, name: str) -> list[int]:
        """The dimensions, 0 where one is unknown; [] where their number is."""
        dims = self.types[name].tensor_type.shape.dim if name in self.types else []
        return [dim.dim_value for dim in dims]


@lru_cache(maxsize=256)
def _converted(model: bytes, wanted: int) -> bytes:
    """The graph of a model at another opset: a call of the converter makes all its tables."""
    made = onnx.version_converter.convert_version(onnx.ModelProto.FromString(model), wanted)
    content: bytes = made.graph.SerializeToString()
    return content


@dataclass(frozen=True)
class Conversion:
    """Nodes of opset ``version`` to opset ``wanted``; new names join those ``taken``."""

    version: int
    wanted: int
    known: Known
    taken: set[str]

    def changes(self, node: NodeProto) -> bool:
        """Whether the op is another at ``wanted``; what ONNX never defined stays as it is.

        Constant and the ops with bodies only gained types and forms, but for Scan at opset 9,
        which is raised with its body.
        """
        if node.domain or node.op_type in ("Constant", "If", "Loop", "Scan"):
            return False
        since = _since(node.op_type, self.version)
        return since is not None and since != _since(node.op_type, self.wanted)

    def convert(self, nodes: Sequence[NodeProto]) -> list[list[NodeProto]]:
        """What replaces each node; raises ModelError for one that has no counterpart."""
        starts = range(0, len(nodes), _AT_ONCE)
        parts = (self._together(nodes[start : start + _AT_ONCE]) for start in starts)
        return list(chain.from_iterable(parts))

    def _together(self, nodes: Sequence[NodeProto]) -> list[list[NodeProto]]:
        """One call of the converter; where it fails, the halves, down to the node at fault."""
        bag, names = self._unconnected(nodes)
        imports = [helper.make_opsetid("", self.version)]
        model = helper.make_model(bag, opset_imports=imports, ir_version=IR_VERSION)
        try:
            content = model.SerializeToString(deterministic=True)
            found = onnx.GraphProto.FromString(_converted(content, self.wanted))
        except RuntimeError as error:
            if len(nodes) == 1:
                reason = str(error).rsplit("failed: ", 1)[-1].strip()
                raise ModelError(f"{described(nodes[0])}: {reason}") from error
            half = len(nodes) // 2
            return self._together(nodes[:half]) + self._together(nodes[half:])
        weights = {tensor.name: tensor for tensor in found.initializer}
        groups: list[list[NodeProto]] = []
        group: list[NodeProto] = []
        for node in found.node:
            given = [weights[name] for name in node.input if name in weights]
            group += [helper.make_node("Constant", [], [t.name], value=t) for t in given]
            group.append(node)
            if node.output[0] in names:  # the last of those that stand for one node
                groups.append(self._installed(group, nodes[len(groups)], names))
                group = []
        return groups

    def _unconnected(self, nodes: Sequence[NodeProto]) -> tuple[GraphProto, dict[str, str]]:
        """A graph of copies, each with inputs and outputs of its own, and their real names."""
        bag, names = GraphProto(name="unconnected"), {"": ""}
        for index, node in enumerate(nodes):
            inside = bag.node.add()
            inside.CopyFrom(node)
            _simplify(inside)
            for position, name in enumerate(inside.input):
                if name:
                    inside.input[position] = f"<{index}.{position}"
                    names[inside.input[position]] = name
                    bag.input.add(name=inside.input[position], type=self.known.types.get(name))
            for position, name in enumerate(inside.output):
                inside.output[position] = f">{index}.{position}"
                names[inside.output[position]] = name
                bag.output.add(name=inside.output[position])
        return bag, names

    def _installed(
        self, group: list[NodeProto], old: NodeProto, names: dict[str, str]
    ) -> list[NodeProto]:
        """``group`` as it replaces ``old``: repaired, and named by ``names`` and new ones."""
        op = "Softmax" if old.op_type == "Hardmax" else old.op_type  # see _simplify
        heir = next((node for node in group if node.op_type == op), group[-1])
        group = _corrected(group, heir, old, self.known)
        if old.op_type == "PRelu" and self.version < 7:
            group = _with_slopes_of_channels(group, heir, old, self.known)
        if any(each.name == "mode" and each.s == b"CRD" for each in old.attribute):
            group = _per_channel(group, heir, old, self.known)
        heir.doc_string = old.doc_string
        heir.metadata_props.extend(old.metadata_props)
        read = {name for node in group for name in node.input}
        group = [n for n in group if n.op_type != "Constant" or n.output[0] in read]
        for node in group:
            new = f"{old.name or old.output[0]}/{node.op_type}"
            node.name = old.name if node is heir else fresh(new, self.taken)
            for name in node.output:
                if name not in names:
                    names[name] = fresh(new, self.taken) if node is heir else node.name
            node.input[:] = [names[name] for name in node.input]
            node.output[:] = [names[name] for name in node.output]
        return group


def described(node: NodeProto) -> str:
    """The node as messages call it."""
    return f"{node.op_type} {node.name or node.output[0]!r}"


@lru_cache(maxsize=4096)
def _since(op: str, opset: int) -> int | None:
    try:
        return int(onnx.defs.get_schema(op, opset, "").since_version)
    except onnx.defs.SchemaError:
        return None


def _simplify(node: NodeProto) -> None:
    """Put ``node`` into a form that the converter accepts and does not misread."""
    given = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Hardmax":  # its axis changed as that of Softmax did
        node.op_type = "Softmax"
    elif node.op_type == "BatchNormalization":
        if "spatial" in given:  # 0 is the same where there are no positions
            node.attribute.remove(given["spatial"])
        if len(node.output) == 5:  # the sign of training before opset 14
            del node.output[3:]
            node.attribute.append(helper.make_attribute("training_mode", 1))
    elif node.op_type == "Pad" and "value" in given and "mode" in given:
        if given["mode"].s != b"constant":
            node.attribute.remove(given["value"])
    elif node.op_type == "Resize" and len(node.input) == 4 and node.input[3]:
        node.input[2] = ""  # scales: empty beside sizes
    elif node.op_type == "SpaceToDepth" and "mode" in given:  # see _per_channel
        node.attribute.remove(given["mode"])


def _corrected(
    group: list[NodeProto], heir: NodeProto, old: NodeProto, known: Known
) -> list[NodeProto]:
    """``group``, made of ``old`` by the converter, where it has other results."""
    if old.op_type in ("Clip", "Pad"):  # constants are float whatever the data
        for node in group:
            if node.op_type == "Constant":
                _cast_float(node.attribute[0].t, known.elem_type(old.input[0]))
    elif heir.op_type == "Resize" and len(old.input) < 3:  # of opset 10: no roi, fixed modes
        heir.input[1] = ""
        rounding = "ceil" if _shrinks(old, known) else "floor"
        modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
        heir.attribute.extend(helper.make_attribute(*mode) for mode in modes.items())
    elif old.op_type in SOFTMAX:
        heir.op_type = old.op_type
        axis = next((a.i for a in old.attribute if a.name == "axis"), 1)
        sizes = known.sizes(old.input[0])
        wide = [k for k in range(len(sizes))[axis:] if sizes[k] != 1]
        if len(wide) == 1:  # what was flattened from axis on is one dimension anyway
            heir.input[0], heir.output[0] = group[0].input[0], group[-1].output[0]
            del heir.attribute[:]
            heir.attribute.append(helper.make_attribute("axis", wide[0]))
            return [heir]
    return group


def _with_slopes_of_channels(
    group: list[NodeProto], heir: NodeProto, old: NodeProto, known: Known
) -> list[NodeProto]:
    """Before opset 7 a row of slopes went along the channels, not the last axis."""
    x, slopes = (known.sizes(name) for name in old.input)
    if len(slopes) != 1 or slopes == [1] or len(x) <= 2:
        return group
    end = heir.output[0]
    column = numpy_helper.from_array(np.array([-1, *[1] * (len(x) - 2)]))
    shape = helper.make_node("Constant", [], [f"{end}.shape"], value=column)
    turned = helper.make_node("Reshape", [heir.input[1], shape.output[0]], [f"{end}.slopes"])
    heir.input[1] = turned.output[0]
    position = group.index(heir)
    return [*group[:position], shape, turned, *group[position:]]


def _per_channel(
    group: list[NodeProto], heir: NodeProto, old: NodeProto, known: Known
) -> list[NodeProto]:
    """SpaceToDepth in mode CRD keeps the blocks of a channel together: it is one for each."""
    if old.op_type != "SpaceToDepth":  # of DepthToSpace all opsets have both modes
        return group
    channels = [*known.sizes(old.input[0]), 0, 0][1]
    if not channels:
        raise ModelError(f"{described(old)}: in mode CRD, of an unknown number of channels")
    block = next(each.i for each in old.attribute if each.name == "blocksize")
    start, end = heir.input[0], heir.output[0]
    heir.input[0], heir.output[0] = f"{end}.alone", f"{end}.blocks"
    before = _reshaped(start, heir.input[0], [-1, 1, 0, 0])
    behind = _reshaped(heir.output[0], end, [-1, channels * block**2, 0, 0])
    return [*group[:-1], *before, heir, *behind]


def _reshaped(source: str, result: str, sizes: Sequence[int]) -> list[NodeProto]:
    shape = f"{result}.shape"
    values = numpy_helper.from_array(np.array(sizes))
    constant = helper.make_node("Constant", [], [shape], value=values)
    return [constant, helper.make_node("Reshape", [source, shape], [result])]


def _cast_float(tensor: TensorProto, elem_type: int) -> None:
    if tensor.data_type == TensorProto.FLOAT and elem_type:
        dtype = helper.tensor_dtype_to_np_dtype(elem_type)
        with np.errstate(over="ignore"):  # the lowest float is no bound; nor is -inf in half
            values = numpy_helper.to_array(tensor).astype(dtype)
        tensor.CopyFrom(numpy_helper.from_array(values))


def _shrinks(resize: NodeProto, known: Known) -> bool:
    if len(resize.input) > 1 and resize.input[1] in known.values:
        scales = numpy_helper.to_array(known.values[resize.input[1]])
        return bool((scales < 1).any())
    sizes = zip(known.sizes(resize.input[0]), known.sizes(resize.output[0]), strict=False)
    return any(0 < after < before for before, after in sizes)
