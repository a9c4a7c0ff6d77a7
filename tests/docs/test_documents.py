"""The documents as files: links, paths, widths, and the parts that scripts write."""

import ast
import re

import pytest

from tests.bench.documents import DOCS, PARTS, ROOT, documents, written
from tests.bench.markdown import WIDTH, replaced, rewrapped, table
from tests.bench.pictures import PICTURE, made

PAGES = [path.relative_to(ROOT).as_posix() for path in documents()]
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))

ROOMS = r"(?:qpasses|calibration|opsets|tests|docs|models|\.ci|checking|evidence|integerize)"
PATH = re.compile(rf"(?<![\w./-]){ROOMS}/[\w./-]*\w")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"^( *```).*?^ *```$", re.S | re.M)

every_page = pytest.mark.parametrize("name", PAGES)


def text_of(name):
    return (ROOT / name).read_text("utf-8")


def anchors(text):
    """Of each heading, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", CODE.sub("", text), re.M)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {each.replace(" ", "-") for each in plain}


@every_page
def test_every_link_leads_somewhere(name):
    folder = (ROOT / name).parent
    for link in LINK.findall(CODE.sub("", text_of(name))):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        found = (folder / target) if target else ROOT / name
        assert found.exists(), link
        assert not anchor or anchor in anchors(found.read_text("utf-8")), link


@every_page
def test_every_path_that_is_named_exists(name):
    if name == "CHANGELOG.md":
        return  # says what was
    rooms = [ROOT, ROOT / "qpasses"]
    for path in PATH.findall(LINK.sub("]", text_of(name))):
        found = any((room / path).exists() for room in rooms)
        assert found or any([*ROOT.glob(f"{path}*.md"), *ROOT.glob(f"{path}.py")]), path


@every_page
def test_what_scripts_write_is_fresh_and_paragraphs_have_one_width(name):
    assert written(ROOT / name) == text_of(name), "then: make docs"


def test_the_picture_is_drawn_from_what_the_model_becomes():
    assert PICTURE.read_text("utf-8") == made(), "then: make docs"


def test_every_written_part_is_of_a_document():
    assert {path.relative_to(ROOT).as_posix() for path in PARTS} <= set(PAGES)


def test_every_document_is_found_from_the_index():
    index = text_of("docs/README.md")
    inside = [path for path in DOCS.glob("*.md") if path.name != "README.md"]
    inside += list((DOCS / "developing").glob("*.md"))
    missing = [path for path in inside if f"({path.relative_to(DOCS)})" not in index]
    assert missing == []


def test_every_decision_stands_in_the_index_under_its_title():
    index = text_of("docs/decisions/README.md")
    rows = re.findall(r"^\| (\d+) \| \[(.*)\]\((.*)\) \| (.+) \|$", index, re.M)
    assert [name for _, _, name, _ in rows] == [path.name for path in DECISIONS]
    for number, title, name, said in rows:
        path = DOCS / "decisions" / name
        assert path.read_text("utf-8").startswith(f"# {number}. {title}\n")
        assert path.name.startswith(f"{int(number):04}-")
        assert said.strip()


# The width


def test_a_long_paragraph_is_filled_and_a_short_one_stays():
    words = "word " * 30
    filled = rewrapped(f"- {words}\n\nshort\nlines\n")
    first, second, *rest = filled.split("\n")
    assert len(first) <= WIDTH and first.startswith("- word") and second.startswith("  word")
    assert rest == ["", "short", "lines", ""]


def test_code_tables_and_headings_keep_their_lines():
    long = "word " * 30
    for kept in (f"```\n{long}\n```", f"| {long} |", f"# {long}", f"    {long}"):
        assert rewrapped(kept) == kept


def test_no_line_breaks_inside_code_or_begins_like_a_list():
    words = "x" * 90
    assert rewrapped(f"{words} `a b c`") == f"{words}\n`a b c`"
    assert rewrapped(f"{words} - dash and more") == f"{words} -\ndash and more"


def test_a_part_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="no part 'figures'"):
        replaced("text", "figures", table(["a"], [["b"]]))


# What documents promise of tests


def promised(name):
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)", text_of(name))


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("docs/dev")])
def test_every_test_that_a_checklist_names_exists(name):
    for path, test in promised(name):
        tree = ast.parse(text_of(path))
        assert test in [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)], test
