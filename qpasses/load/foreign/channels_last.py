"""Transposes around ops whose channels come last."""

from onnx import NodeProto

from qpasses.load.foreign.draft import Draft


def to_channels_first(draft: Draft, x: str, rank: int, origin: NodeProto) -> str:
    """[N, ..., C] to [N, C, ...]."""
    order = [0, rank - 1, *range(1, rank - 1)]
    return draft.compute("Transpose", [x], origin, perm=order)


def to_channels_last(draft: Draft, x: str, rank: int, origin: NodeProto) -> str:
    """[N, C, ...] to [N, ..., C]."""
    order = [0, *range(2, rank), 1]
    return draft.compute("Transpose", [x], origin, perm=order)
