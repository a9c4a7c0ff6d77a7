"""Reports of thousands of nodes are shown by kind, with what differs most in each."""

from rich.console import Console

from qpasses.report.details import print_details


def evidence(name, **differences):
    nothing = {"mismatches": 0, "reference_moved": 0, "reference_max_lsb": 0}
    given = {"op": "IntConv", "kind": "thresholds", "body": "onnxruntime", "domain": 0}
    return {"name": name} | given | nothing | differences


def printed(nodes, width=120):
    console = Console(width=width)
    with console.capture() as capture:
        print_details(console, {"evidence": {"nodes": nodes}})
    return capture.get()


def rows(nodes):
    lines = printed(nodes).splitlines()
    return [
        line.split()
        for line in lines[2 : lines.index("node by node: qpasses inspect, or --json")]
    ]


def test_nodes_of_one_kind_are_one_row_with_sums_and_the_worst():
    nodes = [evidence(f"n{i}", domain=1000) for i in range(3000)]
    nodes[7] = evidence("far", domain=1000, reference_max_lsb=2, reference_moved=5)
    nodes[9] = evidence("wrong", domain=1000, mismatches=1)
    found = rows(nodes)
    assert found == [
        ["IntConv", "thresholds", "onnxruntime", "3,000", "3,000,000", "1", "5", "2"]
    ]


def test_bodies_and_kinds_of_evidence_are_apart_but_digests_are_not():
    made = [f"onnxruntime_fused_{digest:012x}" for digest in (5, 10**9)]
    nodes = [evidence(body, op="Lut", kind="exhaustive", body=body) for body in made]
    found = rows([*nodes, evidence("conv"), evidence("plain", body="portable")])
    assert [row[2:4] for row in found] == [
        ["onnxruntime_fused", "2"],
        ["onnxruntime", "1"],
        ["portable", "1"],
    ]


def test_what_is_proved_of_all_inputs_has_no_count_of_them():
    assert (
        rows([evidence("pool", op="MaxPool", kind="structural", body="standard")])[0][4]
        == "all"
    )


def test_the_table_fits_eighty_columns():
    text = printed([evidence("n", op="IntGlobalAveragePool", domain=10**13)], width=80)
    assert max(map(len, text.splitlines())) <= 80
