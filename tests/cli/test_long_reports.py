"""Reports of thousands of nodes are shown in part, those that differ most among them."""

from rich.console import Console

from qpasses.report.terminal import _NODES_SHOWN, _print_evidence


def evidence(name, **differences):
    nothing = {"mismatches": 0, "reference_moved": 0, "reference_max_lsb": 0}
    given = {"op": "IntConv", "kind": "thresholds", "body": "onnxruntime", "domain": 0}
    return {"name": name} | given | nothing | differences


def printed(nodes):
    console = Console(width=120)
    with console.capture() as capture:
        _print_evidence(console, nodes)
    return capture.get()


def test_all_nodes_are_shown_where_they_are_few():
    text = printed([evidence(f"n{i}") for i in range(_NODES_SHOWN)])
    assert f"n{_NODES_SHOWN - 1} " in text and "more" not in text


def test_of_many_those_that_differ_are_shown_in_their_order():
    nodes = [evidence(f"n{i}") for i in range(_NODES_SHOWN + 20)]
    nodes[-1] = evidence("wrong", mismatches=1)
    nodes[-2] = evidence("far", reference_max_lsb=2, reference_moved=5)
    text = printed(nodes)
    assert text.index("n0 ") < text.index("far") < text.index("wrong")
    assert "and 20 more that differ no more: --json lists them all" in text
