"""The HTML report: one whole, valid page whatever the report holds."""

import math
import sys
from collections import Counter
from html.parser import HTMLParser
from itertools import combinations

import pytest

from opsets.errors import UsageError
from qpasses.report.page import as_html
from qpasses.report.page.graph_drawing import HEIGHT, WIDTH, drawn
from tests.support.made_report import made_report, without_entries, without_numbers
from tests.support.thoroughness import only_thorough

MARKUP = "</script></style><b onclick='x'>\"&amp;{{ 7 * 7 }}"
HOSTILE = MARKUP + "\0\x1b<!-- \u2028"
NO_END = {"meta", "link", "img", "input"}


class Parsed(HTMLParser):
    """Elements with their attributes, and whether each that is opened is closed."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in NO_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def structure(self):
        return [(tag, sorted(attributes)) for tag, attributes in self.elements]


@pytest.fixture(scope="module")
def large():
    return as_html(made_report(100))


@only_thorough
def test_a_page_of_500_nodes_is_small():
    assert len(as_html(made_report()).encode()) < 8_000_000


def test_a_graph_of_2000_nodes_is_drawn_in_time():
    graph = made_report(2000, channels=1)["analysis"]["graph"]
    drawing = drawn(graph, [])
    assert len(drawing.boxes) == 2000
    assert len(drawing.lines) == sum(len(set(node["inputs"])) for node in graph)


def test_boxes_do_not_overlap():
    """Of this tree igraph puts two branches over one another."""
    tree = {0: [], 1: [0], 2: [0], 3: [2], 4: [2], 5: [2], 6: [4], 7: [4]}
    graph = [
        {
            "name": str(node),
            "op": "Lut",
            "kind": "integer",
            "inputs": inputs,
            "outputs": [node],
        }
        for node, inputs in tree.items()
    ]
    boxes = drawn(graph, []).boxes
    for one, other in combinations(boxes, 2):
        assert abs(one.left - other.left) > WIDTH or abs(one.top - other.top) > HEIGHT


def test_the_costliest_box_has_the_strongest_colour():
    report = made_report(9)["analysis"]
    boxes = drawn(report["graph"], report["tensors"]).boxes
    of_node = Counter()
    for tensor in report["tensors"]:
        of_node[tensor["node"]] += tensor["cost"]["share"] if tensor["cost"] else 0
    costliest = max(boxes, key=lambda box: box.strength or 0)
    assert costliest.strength == 1
    assert costliest.share == pytest.approx(max(of_node.values()))
    assert boxes[0].share is None


def test_a_graph_with_a_cycle_is_drawn():
    graph = made_report(4)["analysis"]["graph"]
    graph[0]["inputs"] = graph[3]["outputs"]
    assert len(drawn(graph, []).lines) == 4


def test_the_page_is_well_formed_and_refers_to_nothing_outside(large):
    parsed = Parsed(large)
    identifiers = [values["id"] for _, values in parsed.elements if "id" in values]
    assert len(identifiers) == len(set(identifiers))
    for tag, values in parsed.elements:
        for key in ("src", "href"):
            assert values.get(key, "#").startswith(("#", "data:")), (tag, values)
        for key in ("aria-labelledby", "aria-describedby"):
            assert values.get(key, identifiers[0]) in identifiers
    for heading in range(1, 4):
        assert f"h{heading}" in [tag for tag, _ in parsed.elements]


def test_the_same_report_gives_the_same_bytes():
    assert as_html(made_report(20)) == as_html(made_report(20))


def test_hostile_names_stay_texts():
    plain = Parsed(as_html(made_report(20, name=lambda text: f"plain{text}")))
    page = as_html(made_report(20, name=lambda text: HOSTILE + text))
    hostile = Parsed(page)
    assert hostile.structure() == plain.structure()
    assert any(MARKUP in text for text in hostile.texts)
    assert not set(map(chr, range(32))) - set("\t\n") & set(page)


def test_half_a_character_in_a_path_can_be_written():
    assert as_html(made_report(3, name=lambda text: text + "\udcff")).encode()


def test_pictures_come_from_the_report_alone():
    report = made_report(3)
    example = report["analysis"]["examples"][0]
    example["picture"] = "https://example.com/picture.png"
    example["outputs"][1]["float"] = "file:///etc/picture.png"
    page = as_html(report)
    assert "example.com" not in page
    assert 'src="file' not in page


@pytest.mark.thinned
@pytest.mark.parametrize(
    "report",
    [
        {},
        without_numbers(made_report(20)),
        without_entries(made_report(20)),
        {**made_report(20), "analysis": {}},
        {**made_report(20), "summary": {"verdict": "failed", "problems": ["wrong"]}},
    ],
    ids=["nothing", "no numbers", "no entries", "no analysis", "failed"],
)
def test_what_is_missing_is_left_out(report):
    Parsed(as_html(report))


def test_what_is_no_number_is_a_dash():
    report = made_report(3)
    report["analysis"]["outputs"][0]["sqnr_db"] = math.nan
    assert "nan" not in " ".join(Parsed(as_html(report)).texts[:200]).lower().split()


@pytest.mark.parametrize("package", ["jinja2", "igraph", "vl_convert"])
def test_a_missing_package_is_named_with_what_installs_it(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"{package}.*pip install 'qpasses\[report\]'"):
        as_html({})
