"""The declaration of an op: its node, its meaning, its bodies, and what proves them."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import onnx
import onnx.parser

from opsets.attribute_kinds import Attribute, Text
from opsets.declaration import Attributes as Attributes
from opsets.declaration import Constant, Constraint, Data, Probe, Scaling
from opsets.declaration import Constants as Constants
from opsets.either_layout import ATTRIBUTE, joined, with_channels_last
from opsets.fragments import NOTHING, Fragment
from opsets.kernels import Kernel

DOMAIN = "qpasses"
VERSION = 1

Flavour = Literal["portable", "onnxruntime"]
Evidence = Literal["thresholds", "exhaustive", "bounded"]
Law = Callable[..., None]
"""Takes the arguments of the reference and asserts an identity that holds for all of them."""


Guard = Callable[[Constants, Attributes], bool]
"""Whether a body may be used for a node with these constant inputs and attributes."""


def any_node(_constants: Constants, _attributes: Attributes) -> bool:
    """Accept every node: the guard of a body that has no conditions."""
    return True


def saturates_at_type_ends(constants: Constants, _attributes: Attributes) -> bool:
    """Whether the clamp is the range of the type, so that the kernel's saturation does it."""
    low, high = constants["y_min"], constants["y_max"]
    limits = np.iinfo(low.dtype)
    return int(low) == limits.min and int(high) == limits.max


def clamps_inside(constants: Constants, attributes: Attributes) -> bool:
    """Whether codes inside the range of the type are the last."""
    return not saturates_at_type_ends(constants, attributes)


def of_bytes(constants: Constants, _attributes: Attributes) -> bool:
    """Whether all stored tensors have one type of 8 bits."""
    ends = [value.dtype for name, value in constants.items() if name.endswith(_ENDS)]
    return len(set(ends)) == 1 and ends[0].itemsize == 1


def of_words(constants: Constants, attributes: Attributes) -> bool:
    """Whether some stored tensor has 16 bits."""
    return not of_bytes(constants, attributes)


def reads_bytes(constants: Constants, _attributes: Attributes) -> bool:
    """Whether what it reads has 8 bits."""
    return constants["x_zero"].dtype.itemsize == 1


def reads_words(constants: Constants, _attributes: Attributes) -> bool:
    """Whether what it reads has 16 bits."""
    return constants["x_zero"].dtype.itemsize == 2


_ENDS = ("_zero", "_min", "_max")


def looks_up_bytes(constants: Constants, _attributes: Attributes) -> bool:
    """Whether codes are their own bytes: tables of uint8, which stored inputs then are too."""
    return any(
        constants[name].dtype == np.uint8 for name in {"table", "tables"} & constants.keys()
    )


@dataclass(frozen=True)
class Condition:
    """A guard that says in words what it asks for."""

    says: str
    holds: Guard

    def __call__(self, constants: Constants, attributes: Attributes) -> bool:
        """Whether it holds for such a node."""
        return self.holds(constants, attributes)


def all_of(*guards: Guard) -> Guard:
    """The guard that holds where all of ``guards`` do."""
    parts = [each.holds if isinstance(each, Condition) else each for each in guards]

    def holds(constants: Constants, attributes: Attributes) -> bool:
        for each in parts:  # noqa: SIM110  a generator takes twice as long
            if not each(constants, attributes):
                return False
        return True

    return Condition("; ".join(filter(None, map(condition, guards))), holds)


def condition(guard: Guard) -> str:
    """What a guard asks for in words: nothing of any node, else what its docstring says.

    Raises TypeError if that begins with no "Whether".
    """
    if guard is any_node or sys.flags.optimize > 1:  # python -OO: nothing says anything
        return ""
    if isinstance(guard, Condition):
        return guard.says
    before, whether, said = " ".join((guard.__doc__ or "").split()).partition("Whether ")
    if before or not whether:
        raise TypeError(f"guard {guard} does not say whether what: give it a docstring")
    return said.partition(". ")[0].rstrip(".")


@dataclass(frozen=True)
class Body:
    """One way to compute an op: the ``statements`` of an ONNX function.

    ``accepts`` tells for which nodes it may be used; ``kernel`` is the model of its
    requantization, where thresholds are the evidence. A body that was made for one node is a
    serialized FunctionProto, ``proto``, in place of statements.
    """

    overload: str
    flavour: Flavour
    statements: Fragment = NOTHING
    accepts: Guard = any_node
    kernel: Kernel | None = None
    proto: bytes = b""


@dataclass(frozen=True)
class Op:
    """An op of domain ``qpasses``: its node, what it means, and the ways to compute it.

    ``inputs`` come in order, data and constants; ``constraints`` hold between them and the
    attributes. ``bodies`` come in order of preference; the first that fits the wanted flavour
    and accepts the node is used. ``evidence`` is the word that the proof of a node gives,
    ``evidence_of_words`` where some stored tensor has 16 bits and it is another; ``probe``
    says how its kernel is probed, where that is done. ``formula`` and the ``source`` of it
    define the op in a sentence each, ``note`` is what else there is to know.
    """

    name: str
    inputs: Mapping[str, Data]
    outputs: Mapping[str, Data]
    attributes: Mapping[str, Attribute]
    reference: Callable[..., Any]
    bodies: Sequence[Body]
    evidence: Evidence
    scaling: Scaling
    formula: str
    source: str = ""
    note: str = ""
    evidence_of_words: Evidence | None = None
    probe: Probe | None = None
    constraints: Sequence[Constraint] = ()
    laws: Mapping[str, Law] = field(default_factory=dict)

    @property
    def data(self) -> Sequence[str]:
        """The inputs that flow in."""
        return [name for name, each in self.inputs.items() if not isinstance(each, Constant)]

    @property
    def constants(self) -> Mapping[str, Constant]:
        """The inputs that stand on the node."""
        return {n: each for n, each in self.inputs.items() if isinstance(each, Constant)}

    @property
    def channel_axis(self) -> int:
        """Along which axis of the weights the output's channels lie, as the bias does."""
        return self.constants["w"].dims.index(self.constants["bias"].dims[0])

    @property
    def roundings(self) -> Sequence[str]:
        """How its nodes may round; none for ops that do not."""
        declared = self.attributes.get("rounding")
        return declared.choices if isinstance(declared, Text) else ()

    @property
    def doc(self) -> str:
        """The formula, what is to be noted, the source."""
        return " ".join(filter(None, (self.formula, self.note, self.source)))

    def __post_init__(self) -> None:
        for body in self.bodies:
            if not body.proto:
                where = f"{self.name}, body {body.overload}"
                body.statements.must_fit(where, self.inputs, self.outputs, self.attributes)

    def body(self, flavour: Flavour, constants: Constants, attributes: Attributes) -> Body:
        """The body a node gets: of ``flavour``, or portable where that flavour has none.

        Raises LookupError if no body accepts the node.
        """
        wanted: tuple[Flavour, ...] = (flavour, "portable")
        for body in (b for each in wanted for b in self.fitting(each, constants, attributes)):
            return body
        raise LookupError(f"no body of {self.name} accepts this node")

    def fitting(
        self, flavour: Flavour, constants: Constants, attributes: Attributes
    ) -> Iterator[Body]:
        """The bodies of ``flavour`` that accept a node, the preferred ones first."""
        for body in self.bodies:
            if body.flavour == flavour and body.accepts(constants, attributes):
                yield body

    def overload(self, name: str) -> Body:
        """The body called ``name``; raises LookupError if there is none."""
        for body in self.bodies:
            if body.overload == name:
                return body
        raise LookupError(f"{self.name} has no body {name!r}")

    def laid(self, body: Body, layout: str) -> Body:
        """``body`` for tensors in ``layout``, of those with channels last; as it is for none.

        What is declared of an op with an ``axis`` takes any.
        """
        if not layout or ("axis" in self.attributes and not body.proto):
            return body
        function = onnx.FunctionProto.FromString(body.proto) if body.proto else None
        if function is None:
            function = self.function(body, _ANY)
            del function.opset_import[:]
        laid = with_channels_last(function, layout)
        laid.attribute.extend({ATTRIBUTE} & self.attributes.keys())
        proto = laid.SerializeToString(deterministic=True)
        return replace(body, overload=joined(body.overload, layout), proto=proto)

    def function(self, body: Body, opset: int) -> onnx.FunctionProto:
        """The ONNX function of ``body``, for a model that imports ``opset``."""
        if body.proto:
            return _completed(body, opset)
        names = [name for name in self.attributes if name != ATTRIBUTE]
        attributes = f" <{', '.join(names)}>" if names else ""
        return onnx.parser.parse_function(
            f'<domain: "{DOMAIN}", overload: "{body.overload}", opset_import: ["" : {opset},'
            f' "com.microsoft" : 1]>\n'
            f"{self.name}{attributes} ({', '.join(self.inputs)})"
            f" => ({', '.join(self.outputs)})\n"
            f"{{{body.statements.text}}}"
        )


_ANY = 21
"""The opset under which statements are read that are completed later."""


def _completed(body: Body, opset: int) -> onnx.FunctionProto:
    function: onnx.FunctionProto = onnx.FunctionProto.FromString(body.proto)
    function.overload = body.overload
    if not function.opset_import:
        function.opset_import.append(onnx.helper.make_opsetid("", opset))
    function.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return function
