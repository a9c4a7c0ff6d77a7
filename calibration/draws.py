"""Draws: random numbers of a model, which are the same ones in each run of a Session.

What a model draws anew in each run cannot be compared, neither with what a rewriting makes of
it nor with itself. Nodes that draw become calls of functions that compute numbers of the same
distribution from the sizes of the result and the name of the tensor alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from zlib import crc32

import onnx
import onnx.inliner
from onnx import helper, parser

DRAWN = frozenset(
    {
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        *("Bernoulli", "Multinomial"),
    }
)
"""Standard ops whose results are others in each run; so are a Dropout's in training."""

_BODIES = ("If", "Loop", "Scan", "SequenceMap")
_OLDEST, _NEWEST = 10, 21
"""The first opset that has all ops of the functions; the last in which onnxruntime draws, but
for Dropout."""

_TYPES = (0, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)
"""Of noise that onnxruntime has."""

_FLOAT = "y = Cast <to = 1> (chosen)"
"""Before there was CastLike, in opset 15."""

_TRAINING = 2
"""The input of Dropout that says so."""

_DOMAIN = "qpasses.draws"

_FRACTIONS = """
    {name}_count = ReduceProd <keepdims = 1> ({sizes})
    {name}_ones = ConstantOfShape <value = int64[1] {{1}}> ({name}_count)
    {name}_places = NonZero ({name}_ones)
    {name}_start = Constant <value = int64 {{{start}}}> ()
    {name}_p = Constant <value = int64 {{2147483647}}> ()
    {name}_q = Constant <value = int64 {{2147483629}}> ()
    {name}_f = Constant <value = int64 {{48271}}> ()
    {name}_g = Constant <value = int64 {{69621}}> ()
    {name}_moved = Add ({name}_places, {name}_start)
    {name}_a = Mul ({name}_moved, {name}_f)
    {name}_b = Mod ({name}_a, {name}_p)
    {name}_c = Mul ({name}_b, {name}_b)
    {name}_d = Mod ({name}_c, {name}_q)
    {name}_e = Mul ({name}_d, {name}_g)
    {name}_h = Mod ({name}_e, {name}_p)
    {name}_i = Cast <to = 1> ({name}_h)
    {name}_step = Constant <value = float {{4.656608e-10}}> ()
    {name}_least = Constant <value = float {{5e-8}}> ()
    {name}_j = Mul ({name}_i, {name}_step)
    {name}_k = Max ({name}_j, {name}_least)
    {name}_most = Constant <value = float {{0.9999999}}> ()
    {name}_l = Min ({name}_k, {name}_most)
    {name} = Reshape ({name}_l, {sizes})
"""
"""Between 0 and 1, each scattered by a square modulo a prime."""

_SCALED = """
    factor = Constant <value = float {{{factor!r}}}> ()
    offset = Constant <value = float {{{offset!r}}}> ()
    wide = Mul (raw, factor)
    made = Add (wide, offset)
"""

_UNIFORM = _FRACTIONS.replace("{name}", "raw") + _SCALED

_NORMAL = (
    _FRACTIONS.replace("{name}", "u")
    + _FRACTIONS.replace("{name}", "v").replace("{start}", "{other}")
    + """
    two = Constant <value = float {{-2.0}}> ()
    turn = Constant <value = float {{6.2831855}}> ()
    log = Log (u)
    square = Mul (log, two)
    radius = Sqrt (square)
    angle = Mul (v, turn)
    side = Cos (angle)
    raw = Mul (radius, side)
"""
    + _SCALED
)

_BERNOULLI = (
    "sizes = Shape (x)"
    + _FRACTIONS.replace("{name}", "u")
    + "at = CastLike (u, x) made = Less (at, x)"
)

_MULTINOMIAL = (
    """
    all = Shape (x)
    zero = Constant <value = int64[1] {{0}}> ()
    one = Constant <value = int64[1] {{1}}> ()
    count = Constant <value = int64[1] {{{count}}}> ()
    rows = Gather (all, zero)
    columns = Gather (all, one)
    sizes = Concat <axis = 0> (rows, count, columns)
    column = Concat <axis = 0> (rows, one, columns)
"""
    + _FRACTIONS.replace("{name}", "u")
    + """
    log = Log (u)
    positive = Neg (log)
    again = Log (positive)
    narrow = Cast <to = 1> (x)
    logits = Reshape (narrow, column)
    scores = Sub (logits, again)
    made = ArgMax <axis = 2, keepdims = 0> (scores)
"""
)

_DROPOUT = (
    "sizes = Shape (x)"
    + _FRACTIONS.replace("{name}", "u")
    + """
    one = Constant <value = float {{1.0}}> ()
    zero = Constant <value = float {{0.0}}> ()
    real = Cast <to = 1> (x)
    share = Cast <to = 1> (ratio)
    rest = Sub (one, share)
    dropped = Less (u, share)
    large = Div (real, rest)
    left = Where (dropped, zero, large)
    chosen = Where (training, left, real)
    kept = Not (dropped)
    inference = Not (training)
    mask = Or (kept, inference)
"""
)


def settled(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with draws that are the same in each run; itself if there are none."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    called = (node for function in model.functions for node in function.node)
    inner = any(_draws(node, version) for node in called)
    if not inner and not any(_draws(node, version) for node in all_nodes(model.graph)):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(onnx.inliner.inline_local_functions(model) if inner else model)
    copy.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    copy.ir_version = max(copy.ir_version, 8)  # the first with functions
    drawing = [node for node in all_nodes(copy.graph) if _draws(node, version)]
    for place, node in enumerate(drawing):
        call, text = _settled(node, f"Draw{place}", version)
        header = f'<domain: "{_DOMAIN}", opset_import: ["" : {version}]>'
        copy.functions.append(parser.parse_function(header + text))
        node.CopyFrom(call)
    return copy


def all_nodes(graph: onnx.GraphProto | onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """Those of bodies too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute if node.op_type in _BODIES else ():
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def has_loops(graphs: Iterable[onnx.GraphProto | onnx.FunctionProto]) -> bool:
    """Whether there is a Loop in any of ``graphs``, which alone may run without end."""
    return any(node.op_type == "Loop" for graph in graphs for node in all_nodes(graph))


def draws_anew(node: onnx.NodeProto) -> bool:
    """Whether what ``node`` gives may be other numbers in each run."""
    is_training = node.op_type == "Dropout" and len(node.input) > _TRAINING
    return node.op_type in DRAWN or is_training


def _draws(node: onnx.NodeProto, version: int) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "Dropout":
        return len(node.input) > _TRAINING and bool(node.input[_TRAINING])
    if not _OLDEST <= version <= _NEWEST:
        return False
    if not node.op_type.startswith("Random"):
        return node.op_type in DRAWN
    kind = next((each.i for each in node.attribute if each.name == "dtype"), 0)
    return node.op_type in DRAWN and kind in _TYPES


def _settled(node: onnx.NodeProto, name: str, version: int) -> tuple[onnx.NodeProto, str]:
    """The call that takes the place of ``node``, and the function that it calls, as text."""
    given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    start = crc32(node.output[0].encode()) % (1 << 30)
    said = {"start": start, "other": start ^ 0x2AAAAAAA, "sizes": "sizes"}
    like, reads, writes, body = "", ["x"], ["y"], ""
    match node.op_type:
        case "Dropout":
            reads, writes, body = ["x", "ratio", "training"], ["y", "mask"], _DROPOUT
            ratio = "" if node.input[1] else "ratio = Constant <value = float {{0.5}}> ()"
            body = ratio + body + ("y = CastLike (chosen, x)" if version >= 15 else _FLOAT)
        case "Bernoulli":
            body, like = _BERNOULLI, "x"
        case "Multinomial":
            body, said["count"] = _MULTINOMIAL, given.get("sample_size", 1)
            given.setdefault("dtype", onnx.TensorProto.INT32)
        case op:
            body, factors = _noise(op, given)
            said |= factors
            like = "x" if op.endswith("Like") else ""
            reads = ["x"] if like else []
    if node.op_type != "Dropout":
        kind = given.get("dtype", 0 if version >= 15 and like else onnx.TensorProto.FLOAT)
        body += f"y = Cast <to = {kind}> (made)" if kind else f"y = CastLike (made, {like})"
    named = [(a, b) for a, b in zip(reads, node.input, strict=False) if b]
    outputs = [*node.output, *[""] * (len(writes) - len(node.output))]
    call = helper.make_node(
        name, [b for _, b in named], outputs, name=node.name, domain=_DOMAIN
    )
    parameters = ", ".join(a for a, _ in named)
    text = f"{name} ({parameters}) => ({', '.join(writes)}) {{ {body.format(**said)} }}"
    return call, text


def _noise(op: str, given: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """The body of a function for one of the four ops of noise, and its numbers."""
    if op.endswith("Like"):
        sizes = "sizes = Shape (x)"
    else:
        dims = ", ".join(map(str, given["shape"]))
        sizes = f"sizes = Constant <value = int64[{len(given['shape'])}] {{{{{dims}}}}}> ()"
    if "Normal" in op:
        numbers = {"factor": given.get("scale", 1.0), "offset": given.get("mean", 0.0)}
        return sizes + _NORMAL, numbers
    low, high = given.get("low", 0.0), given.get("high", 1.0)
    return sizes + _UNIFORM, {"factor": high - low, "offset": low}
