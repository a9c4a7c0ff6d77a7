"""The HTML report in Chromium, without a network: what a click, a key and a theme do."""

import pytest

from qpasses.report.page import as_html
from qpasses.report.page.shown_values import MISSING
from tests.support.browsing import NEEDS_CHROMIUM, column, shown
from tests.support.made_report import made_report, without_entries, without_numbers
from tests.support.thoroughness import only_thorough, slow

pytestmark = NEEDS_CHROMIUM

REPORT = made_report(60, channels=300)
ANALYSIS = REPORT["analysis"]


@pytest.fixture(scope="module")
def usual():
    return as_html(REPORT)


def tensor(name):
    return next(each for each in ANALYSIS["tensors"] if each["tensor"] == name)


def test_layers_are_sorted_by_cost_and_by_what_is_clicked(opened, usual):
    page = opened(usual)
    costs = [each["cost"]["share"] for each in ANALYSIS["tensors"] if each["cost"]]
    first, last = column(page, 6)[: len(costs)], column(page, 6)[len(costs) :]
    percents = [float(text.removesuffix("%")) for text in first]
    assert percents == pytest.approx([100 * c for c in sorted(costs, reverse=True)], abs=0.051)
    assert set(last) == {MISSING}
    local = page.get_by_role("columnheader", name="local dB")
    values = [each["local_sqnr_db"] for each in ANALYSIS["tensors"]]
    for order in ("descending", "ascending"):
        local.get_by_role("button").click()
        assert local.get_attribute("aria-sort") == order
        ordered = sorted(values, reverse=order == "descending")
        assert column(page, 9) == [f"{value:.1f}" for value in ordered]
    assert page.locator("#layer-table th[aria-sort=none]").count() == 10


@only_thorough
def test_names_are_sorted_by_the_numbers_in_them(opened, usual):
    page = opened(usual)
    page.get_by_role("columnheader", name="tensor").get_by_role("button").press("Enter")
    assert column(page, 1)[:3] == ["t1", "t2", "t3"]


def test_layers_are_filtered(opened, usual):
    page = opened(usual)
    count = page.locator("#shown")
    assert count.inner_text() == "118 of 118"
    page.get_by_label("Kind", exact=True).select_option("weights")
    assert set(column(page, 2)) == {"weights"}
    page.get_by_label("Find", exact=True).fill("BLOCK17/")
    assert column(page, 1) == ["w17"]
    assert count.inner_text() == "1 of 118"
    page.get_by_label("Find", exact=True).fill("nothing has this name")
    assert column(page, 1) == []


def test_a_click_on_a_node_shows_its_numbers(opened, usual):
    page = opened(usual)
    page.get_by_role("button", name="All", exact=True).click()
    node = page.locator("#drawing .node").nth(13)
    node.click()
    assert node.get_attribute("aria-pressed") == "true"
    assert page.locator("#details h3").inner_text() == "block13/conv"
    found = shown(page)
    stored, evidence = tensor("t13"), ANALYSIS["graph"][13]["evidence"]
    for row in (
        ("Formula", ANALYSIS["graph"][13]["formula"]),
        ("SQNR, with all before", f"{stored['sqnr_db']:.1f} dB"),
        ("Cosine, with all before", f"{stored['cosine']:.6f}"),
        ("SQNR, this node alone", f"{stored['local_sqnr_db']:.1f} dB"),
        ("Share of the outputs' noise", f"{stored['cost']['share']:.1%}"),
        ("Outputs, if this stays float", f"+{stored['cost']['gain_db']:.1f} dB"),
        ("Shape", "1 x 300 x 56 x 56"),
        ("Stored range", "-3.432 to 4.524"),
        ("Seen in float", "-4.125 to 7.75"),
        ("Beyond the range", "0.042%"),
        ("Known by", "thresholds"),
        ("Inputs covered", f"{evidence['domain']:,}"),
        ("Meaning unlike real numbers", "6, by 1 LSB at most"),
        ("Sums reach", "-114,186 to 92,218"),
    ):
        assert row in found
    page.locator("#details svg").nth(5).wait_for(state="attached")
    assert page.locator("#details figcaption").all_inner_texts() == [
        "Values in float; dashed: the ends of the stored range",
        "Where its local noise comes from",
        "By channel",
        "Values in float; dashed: the ends of the stored range",
        "By channel",
    ]


@only_thorough
def test_the_histogram_has_the_counts_and_the_ends_of_the_range(opened, usual):
    page = opened(usual)
    page.get_by_role("button", name="t13", exact=True).click()
    chart = page.locator("#details figure").first
    bars = chart.locator("[aria-roledescription='rect mark']")
    chart.locator("svg").wait_for()
    histogram = tensor("t13")["histogram"]
    assert bars.count() == len(histogram["counts"])
    label = bars.nth(50).get_attribute("aria-label")
    assert f"count: {histogram['counts'][50]};" in label
    assert chart.locator("[aria-roledescription='rule mark']").count() == 2


@only_thorough
def test_each_activation_has_two_points_by_depth(opened, usual):
    points = opened(usual).locator("#depth-chart [aria-roledescription='point']")
    points.first.wait_for()
    assert points.count() == 2 * 59
    label = points.first.get_attribute("aria-label")
    assert f"SQNR dB: {tensor('t1')['sqnr_db']:.4g}" in label


@only_thorough
def test_a_name_in_the_table_leads_to_its_node(opened, usual):
    page = opened(usual)
    page.get_by_role("button", name="w40", exact=True).click()
    assert page.evaluate("document.activeElement.dataset.node") == "40"
    assert page.locator("#details h3").inner_text() == "block40/conv"
    assert page.locator("#drawing .node").nth(40).is_visible()


def test_a_finding_leads_to_its_node(opened, usual):
    page = opened(usual)
    page.locator("#findings").get_by_role("button", name="t1").click()
    assert page.locator("#details h3").inner_text() == "block1/conv"
    assert page.locator("#chosen").inner_text() == "block1/conv is shown"


def test_keys_walk_along_edges_and_zoom(opened, usual):
    page = opened(usual)
    node = page.locator("#drawing .node")
    assert page.locator("#drawing .node[tabindex='0']").count() == 1
    node.nth(20).focus()
    keys = page.keyboard
    for key, index in (("ArrowDown", 21), ("ArrowUp", 20), ("End", 59), ("Home", 0)):
        keys.press(key)
        assert page.evaluate("document.activeElement.dataset.node") == str(index)
        assert page.locator("#drawing .node[tabindex='0']").count() == 1
    keys.press("ArrowDown")
    keys.press("Enter")
    assert page.locator("#details h3").inner_text() == "block1/conv"

    def width():
        return float(page.locator("#drawing").get_attribute("viewBox").split()[2])

    before = width()
    keys.press("+")
    assert width() == pytest.approx(before / 1.4)
    keys.press("0")
    assert float(page.locator("#drawing").get_attribute("viewBox").split()[3]) > 60 * 78


@only_thorough
def test_the_wheel_zooms_where_it_points_once_a_node_has_the_focus(opened, usual):
    page = opened(usual)
    drawing = page.locator("#drawing")
    drawing.scroll_into_view_if_needed()
    place = drawing.bounding_box()
    page.mouse.move(place["x"] + 200, place["y"] + 300)
    before = drawing.get_attribute("viewBox")
    page.mouse.wheel(0, -1)
    page.wait_for_timeout(100)
    assert drawing.get_attribute("viewBox") == before
    page.locator("#drawing .node[tabindex='0']").focus()
    page.mouse.wheel(0, -100)
    page.wait_for_function(
        "before => document.getElementById('drawing').getAttribute('viewBox') !== before",
        arg=before,
    )


@only_thorough
def test_dragging_moves_the_drawing_and_chooses_nothing(opened, usual):
    page = opened(usual)
    chosen = page.locator("#drawing .node[aria-pressed='true']")
    chosen.scroll_into_view_if_needed()
    place, name = chosen.bounding_box(), chosen.get_attribute("data-node")
    page.mouse.move(place["x"] + 50, place["y"] + 20)
    page.mouse.down()
    page.mouse.move(place["x"] + 90, place["y"] + 120, steps=4)
    page.mouse.up()
    moved = chosen.bounding_box()
    assert moved["x"] - place["x"] == pytest.approx(40, abs=1)
    assert moved["y"] - place["y"] == pytest.approx(100, abs=1)
    assert chosen.get_attribute("data-node") == name


@pytest.mark.parametrize(("scheme", "first"), [slow("light", "false"), ("dark", "true")])
def test_the_theme_follows_the_system_until_it_is_switched(opened, usual, scheme, first):
    page = opened(usual, color_scheme=scheme)
    switch = page.locator("#theme")

    def ground():
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    assert switch.get_attribute("aria-pressed") == first
    before = ground()
    switch.press("Space")
    assert switch.get_attribute("aria-pressed") != first
    assert ground() != before
    switch.click()
    assert ground() == before


@only_thorough
def test_the_first_tab_skips_to_the_report(opened, usual):
    page = opened(usual)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@only_thorough
def test_every_control_has_a_name(opened, usual):
    page = opened(usual)
    names = page.locator("button, a, input, select, svg[role], [tabindex]").evaluate_all(
        "all => all.map(e => e.ariaLabel || e.textContent || e.labels?.[0].textContent || '')"
    )
    assert all(name.strip() for name in names)
    assert page.locator("img:not([alt])").count() == 0


def test_nothing_leads_out_of_the_page(opened, usual):
    page = opened(usual)
    page.locator("#depth-chart svg").wait_for()
    links = page.locator("a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
    assert all(link.startswith("#") for link in links)
    assert page.locator(".vega-actions").count() == 0


@pytest.mark.parametrize("width", [360, slow(1300)])
def test_nothing_reaches_beyond_the_side(opened, usual, width):
    page = opened(usual)
    page.set_viewport_size({"width": width, "height": 700})
    page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")


@only_thorough
def test_on_paper_it_is_light_and_without_controls(opened, usual):
    page = opened(usual, color_scheme="dark", media="print")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert not page.locator("#theme").is_visible()
    assert not page.locator(".filters").is_visible()
    assert page.locator("#layer-table tbody tr").nth(59).is_visible()
    assert not page.locator("#layer-table tbody tr").nth(60).is_visible()


@pytest.mark.parametrize(
    "report",
    [
        {},
        without_numbers(made_report(4)),
        without_entries(made_report(4)),
        made_report(4, name=lambda text: '</script><img src="x" onerror="alert(1)">' + text),
    ],
    ids=["nothing", "no numbers", "no entries", "hostile names"],
)
def test_odd_reports_open_without_an_error(opened, report):
    page = opened(as_html(report))
    assert page.locator("h1").is_visible()
    for index in range(page.locator("#drawing .node").count()):
        page.locator("#drawing .node").nth(index).press("Enter")
    page.wait_for_timeout(300)
    assert page.locator("img[onerror]").count() == 0


@only_thorough
def test_a_page_of_500_nodes_opens(opened):
    page = opened(as_html(made_report(channels=16)))
    page.get_by_role("button", name="t499", exact=True).click()
    assert page.locator("#details h3").inner_text() == "block499/conv"
