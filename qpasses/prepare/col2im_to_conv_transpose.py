"""Col2ImToConvTranspose: what adds up blocks of an image is a transposed convolution."""

from math import prod
from typing import ClassVar

import numpy as np

from qpasses.ir.graph import Graph, Node, constant, rank
from qpasses.ir.rewriting import NOT_MINE, REWRITTEN, Context, Declined, Outcome, Pass
from qpasses.prepare.recognition.expansion import Expansion


class Col2ImToConvTranspose(Pass):
    """Replace Col2Im by Reshape and a depthwise ConvTranspose of ones.

    before: ``y = Col2Im (x, image_shape, block_shape)``, x [N, C * block, L]
    after:  ``b = Reshape (x, [0, C * block, blocks along each axis]); y = ConvTranspose
            <group = C> (b, w)``: w [C * block, 1, block] has a one for each cell of the block
    **Exact:** each cell of a block is added where it was.
    """

    op_types: ClassVar = frozenset({"Col2Im"})

    def rewrite(self, graph: Graph, node: Node, context: Context) -> Outcome:
        """Rewrite constant shapes of an image that the blocks cover."""
        x, sizes = node.inputs[0], [constant(each) for each in node.inputs[1:]]
        if node.domain or x.dtype != np.float32:
            return NOT_MINE
        image, block = (None if each is None else each.tolist() for each in sizes)
        if image is None or block is None or rank(x) != 3 or not isinstance(x.shape[1], int):
            return Declined("Col2Im of shapes that are not constant")
        dims = len(image)
        steps, gaps = (node.attrs.get(n) or [1] * dims for n in ("strides", "dilations"))
        pads = node.attrs.get("pads") or [0] * (2 * dims)
        begin, end = pads[:dims], pads[dims:]
        reach = [gap * (cells - 1) + 1 for gap, cells in zip(gaps, block, strict=True)]
        room = [sum(each) for each in zip(image, begin, end, strict=True)]
        counts = [(a - b) // step + 1 for a, b, step in zip(room, reach, steps, strict=True)]
        rests = [(a - b) % step for a, b, step in zip(room, reach, steps, strict=True)]
        cells = prod(block)
        made = Expansion(graph, node, context)
        shape = made.constant("blocks_shape", np.array([0, x.shape[1], *counts]))
        blocks = made.add("Reshape", "blocks", [x, shape])
        blocks.shape = [x.shape[0], x.shape[1], *counts]
        ones = np.eye(cells, dtype=np.float32).reshape(cells, 1, *block)
        channels = x.shape[1] // cells
        made.add(
            "ConvTranspose",
            "image",
            [blocks, made.constant("ones", np.tile(ones, (channels, 1, *[1] * dims)))],
            made.y,
            group=channels,
            kernel_shape=block,
            strides=list(steps),
            dilations=list(gaps),
            pads=list(pads),
            output_padding=rests,
        )
        return REWRITTEN
