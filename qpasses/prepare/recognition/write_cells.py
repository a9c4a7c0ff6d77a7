"""What cells that were found are as LSTM, GRU and RNN nodes, in place of a Loop or Scan."""

from collections.abc import Mapping, Sequence

import numpy as np

from qpasses.ir.graph import (
    Graph,
    Node,
    Tensor,
    absent,
    add_node,
    constant,
    is_used,
    new_tensor,
)
from qpasses.ir.recurrent_nodes import trimmed
from qpasses.ir.rewriting import Context
from qpasses.prepare.recognition.steps import (
    Found,
    Head,
    Kept,
    Scanned,
    State,
)


class CellWriter:
    """Writes the nodes that compute what ``node`` did, whose results have no writer yet."""

    def __init__(self, graph: Graph, name: str, context: Context) -> None:
        """Name them after ``name``."""
        self._graph, self._name, self._context = graph, name, context

    def write(self, found: Sequence[Found], heads: Sequence[Head] = ()) -> None:
        """Write the nodes of all cells, and what leaves the loop."""
        rows: dict[int, Tensor] = {}
        for place, each in enumerate(found):
            name = self._name if len(found) == 1 else f"{self._name}_{place + 1}"
            if each.below is not None:
                x = rows[id(each.below)]
            else:
                assert each.x is not None, self._name
                x = self._sequence(each.x)
            rows[id(each)] = self._cell(each, x, name)
        for head in heads:
            wholes = [
                self._sequence(each) if isinstance(each, Scanned) else rows[id(each)]
                for each in head.sources
            ]
            all_rows = head.function.write(self._graph, wholes, self._context)
            self._whole(all_rows, head.kept)

    def write_chain(
        self, found: Found, parts: Sequence[Tensor], used: Mapping[int, Tensor]
    ) -> None:
        """Write one cell whose steps stood one behind the other.

        ``parts``: what the steps read, where it is no row of one tensor; ``used``: the hidden
        states that are read after certain steps.
        """
        x = self._joined(parts) if found.x is None else self._sequence(found.x)
        rows = self._cell(found, x, self._name)
        for step, state in used.items():
            place = self._context.table(f"place_{step}", np.array(step))
            inputs, ones = [rows, place], len(state.shape or ()) - 2
            if not ones:
                self._add("Gather", f"step_{step}", inputs, state, axis=0)
                continue
            part = self._tensor(f"{state.name}_row", state, (rows.shape or ())[1:] or None)
            self._add("Gather", f"step_{step}", inputs, part, axis=0)
            axes = self._places(*range(ones))
            self._add("Unsqueeze", f"step_{step}_row", [part, axes], state)

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        """``parts``, each of [rows, size], as [steps, rows, size]."""
        rows = []
        for each in parts:
            y = self._tensor(f"{each.name}_step", each, [1, *(each.shape or ())])
            rows.append(self._add("Unsqueeze", "step", [each, self._places(0)], y))
        sizes = [len(parts), *(parts[0].shape or ())]
        y = self._tensor(f"{self._name}_steps", parts[0], sizes)
        return self._add("Concat", "steps", rows, y, axis=0)

    def write_unchanged(self, states: Sequence[State]) -> None:
        """A state that never changes is at last what it was at first."""
        for each in states:
            if is_used(self._graph, each.last):
                self._add("Identity", "unchanged", [each.first], each.last)

    def _cell(self, found: Found, x: Tensor, name: str) -> Tensor:
        """The node of one cell; gives its hidden states, of [steps, rows, size]."""
        cell, context = found.cell, self._context
        size, rows = cell.hidden, None if x.shape is None else x.shape[1]
        long = None if x.shape is None else x.shape[0]
        y = self._tensor(f"{name}_y", x, [long, 1, rows, size])
        states = [self._tensor(f"{name}_{what}", x, [1, rows, size]) for what in ("h", "c")]
        inputs = [x, *(context.constant(f"{name}.{k}", v) for k, v in _weights(found))]
        inputs += [absent(), self._first(found.h)]
        outputs = [y, states[0]]
        if found.c is not None:
            inputs.append(self._first(found.c))
            outputs.append(states[1])
            if cell.p.any():
                inputs.append(context.constant(f"{name}.P", cell.p))
        attributes = {"hidden_size": size, **cell.activations.attributes(cell.op)}
        if cell.linear_before_reset:
            attributes["linear_before_reset"] = 1
        add_node(
            self._graph,
            cell.op,
            name if name == self._name else context.fresh(name),
            trimmed(inputs),
            outputs,
            attributes=attributes,
        )
        for state, last in zip((found.h, found.c), states, strict=True):
            if state is not None and is_used(self._graph, state.last):
                self._last(last, state)
        plain_rows = self._tensor(f"{name}_rows", x, [long, rows, size])
        self._add("Squeeze", "rows", [y, self._places(1)], plain_rows)
        for each in found.kept:
            if is_used(self._graph, each.whole):
                self._whole(plain_rows, each)
        return plain_rows

    def _sequence(self, scanned: Scanned) -> Tensor:
        """What is scanned, as [steps, rows, size]."""
        x = scanned.whole
        sizes = list(x.shape or ())
        axis = scanned.axis % len(sizes)
        if axis:
            order = [axis, *(k for k in range(len(sizes)) if k != axis)]
            turned = self._tensor(f"{x.name}_steps", x, [sizes[k] for k in order])
            x = self._add("Transpose", "steps", [x], turned, perm=order)
            sizes = [sizes[k] for k in order]
        if len(sizes) == 2:
            sizes = [sizes[0], 1, sizes[1]]
            y = self._tensor(f"{x.name}_row", x, sizes)
            x = self._add("Unsqueeze", "row", [x, self._places(1)], y)
        if scanned.count is not None and scanned.count != sizes[0]:
            sizes = [scanned.count, *sizes[1:]]
            y = self._tensor(f"{x.name}_first", x, sizes)
            end = scanned.start + scanned.count
            ends = [self._places(each) for each in (scanned.start, end, 0)]
            x = self._add("Slice", "first", [x, *ends], y)
        if scanned.is_reversed:
            x = self._turned(x, self._tensor(f"{x.name}_turned", x, sizes))
        return x

    def _turned(self, x: Tensor, y: Tensor) -> Tensor:
        """The steps of ``x`` from the last to the first."""
        last, axis = self._places(-1), self._places(0)
        end = self._context.table("before_all", np.array([np.iinfo(np.int64).min]))
        return self._add("Slice", "turned", [x, last, end, axis, last], y)

    def _first(self, state: State) -> Tensor:
        """An initial state as [1, rows, size]."""
        first, values = state.first, constant(state.first)
        missing = range(3 - len(state.before.shape or ()))
        if not missing or first.is_empty():
            return first
        ones = [1 for _ in missing]
        if values is not None:
            values = values.reshape(*ones, *values.shape)
            return self._context.constant(f"{first.name}_first", values)
        sizes = None if first.shape is None else [*ones, *first.shape]
        y = self._tensor(f"{first.name}_first", first, sizes)
        return self._add("Unsqueeze", "first", [first, self._places(*missing)], y)

    def _last(self, found: Tensor, state: State) -> None:
        """Let what is left at last be ``found``, of [1, rows, size]."""
        extra = range(3 - len(state.after.shape or ()))
        op, places = ("Squeeze", [self._places(*extra)]) if extra else ("Identity", [])
        self._add(op, "last", [found, *places], state.last)

    def _whole(self, rows: Tensor, kept: Kept) -> None:
        """Let what each step gives be written of ``rows``, of [steps, rows, size]."""
        step = list(kept.step.shape or ())
        whole = kept.whole
        x = rows
        if kept.is_reversed:
            x = self._turned(x, self._tensor(f"{x.name}_turned", x, x.shape))
        inner = [k for k, size in enumerate(step[:-1], start=1) if size == 1]
        extra = len(step) - 2
        sizes = [None if rows.shape is None else rows.shape[0], *step]
        is_moved = kept.axis != 0
        end = self._tensor(f"{whole.name}_steps", whole, sizes) if is_moved else whole
        if extra < 0:
            self._add("Squeeze", "whole", [x, self._places(1)], end)
        elif extra:
            self._add("Unsqueeze", "whole", [x, self._places(*inner[:extra])], end)
        else:
            self._add("Identity", "whole", [x], end)
        if is_moved:
            perm = [*range(1, len(sizes))]
            perm.insert(kept.axis, 0)
            self._add("Transpose", "moved", [end], whole, perm=perm)

    def _places(self, *places: int) -> Tensor:
        """The one constant of these numbers."""
        name = "_".join(str(each).replace("-", "minus_") for each in places)
        return self._context.table(f"places_{name}", np.array(places))

    def _tensor(self, name: str, like: Tensor, sizes: Sequence[object] | None) -> Tensor:
        made = new_tensor(self._context.fresh(name), like)
        made.shape = None if sizes is None else list(sizes)
        return made

    def _add(
        self, op: str, what: str, inputs: Sequence[Tensor], y: Tensor, **attributes: object
    ) -> Tensor:
        name = self._context.fresh(f"{self._name}_{what}")
        add_node(self._graph, op, name, inputs, [y], attributes=attributes)
        return y


def _weights(found: Found) -> Sequence[tuple[str, np.ndarray]]:
    cell = found.cell
    return [("W", cell.w), ("R", cell.r), ("B", cell.b)]


def detached(node: Node) -> None:
    """Take ``node`` out of the graph, its body too, which reads tensors outside."""
    for each in node.attrs["body"].nodes:
        each.inputs.clear()
    node.inputs.clear()
    node.outputs.clear()
