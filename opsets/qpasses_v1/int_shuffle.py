"""IntShuffle: codes of 16 bits from channels to places beside each other, or back."""

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from opsets.attribute_kinds import Integers
from opsets.declaration import Constraint, Data, Scaling, Shape
from opsets.fragments import fragment
from opsets.op import Attributes, Body, Constants, Op

_SHUFFLED = fragment("""
shuffled <split, perm, joined> (x) => (y) {
    # the first size is that of x
    parts     = Constant <value_ints: ints = @split> ()
    whole     = Constant <value_ints: ints = @joined> ()
    apart     = Reshape (x, parts)
    turned    = Transpose <perm: ints = @perm> (apart)
    y         = Reshape (turned, whole)
}
""")


def _turns_parts(_constants: Constants, attributes: Attributes, _shape: Shape) -> bool:
    split, perm, joined = (attributes[name] for name in ("split", "perm", "joined"))
    is_whole = sorted(perm) == [*range(len(split))] and perm[:1] == [0]
    heads = split[:1] == joined[:1] == [0]
    return is_whole and heads and 0 < prod(split[1:]) == prod(joined[1:])


def _has_the_parts(_constants: Constants, attributes: Attributes, shape: Shape) -> bool:
    if shape is None or not all(isinstance(size, int) for size in shape[1:]):
        return True
    return bool(shape) and prod(map(int, shape[1:])) == prod(attributes["split"][1:])


def reference(
    x: NDArray[np.int16], *, split: Sequence[int], perm: Sequence[int], joined: Sequence[int]
) -> NDArray[np.int16]:
    """Stored x [N, ...] as [N, ``split``...], its axes by ``perm``, as [N, ``joined``...]."""
    apart = x.reshape(len(x), *split[1:])
    return np.ascontiguousarray(apart.transpose(perm)).reshape(len(x), *joined[1:])


def _there_and_back(
    x: NDArray[np.int16], *, split: Sequence[int], perm: Sequence[int], joined: Sequence[int]
) -> None:
    y = reference(x, split=split, perm=perm, joined=joined)
    back = [*np.argsort(perm)]
    turned = [0, *(split[axis] for axis in perm[1:])]
    again = reference(y, split=turned, perm=back, joined=[0, *x.shape[1:]])
    np.testing.assert_array_equal(again, x)


INT_SHUFFLE = Op(
    name="IntShuffle",
    inputs={"x": Data("int16")},
    outputs={"y": Data("int16")},
    attributes={"split": Integers(0), "perm": Integers(0), "joined": Integers(0)},
    reference=reference,
    bodies=[Body("portable", "portable", _SHUFFLED)],
    evidence="exhaustive",
    scaling=Scaling.MOVED,
    constraints=[
        Constraint(
            "perm turns split, but for its first, and joined has as many", _turns_parts
        ),
        Constraint("x has as many codes as split", _has_the_parts),
    ],
    laws={"there and back": _there_and_back},
    formula="y = Reshape(Transpose(Reshape(x, split), perm), joined), the sizes 0 being those "
    "of x: what DepthToSpace and SpaceToDepth are, which onnxruntime has no kernel of 16 bits "
    "for.",
    source="Source: ONNX DepthToSpace, SpaceToDepth.",
)
