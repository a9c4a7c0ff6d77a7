"""The pages of real models in Chromium: what is shown is what the JSON report says."""

import json

import pytest

import qpasses
from tests.support.browsing import NEEDS_CHROMIUM, column, shown
from tests.support.thoroughness import only_thorough
from tests.support.zoo_models import ENTRIES, NEEDS_ZOO, quantized

pytestmark = NEEDS_CHROMIUM

OF_THE_ZOO = [
    pytest.param(name, marks=[*NEEDS_ZOO, only_thorough])
    for name in ("squeezenet1.1_fp32_from_fp16", "yolox_nano")
]


@pytest.mark.parametrize("name", ["digits_vit", *OF_THE_ZOO])
def test_the_page_shows_what_the_json_report_says(name, opened, tmp_path):
    entry, page_file, report = ENTRIES[name], tmp_path / "r.html", tmp_path / "r.json"
    qpasses.analyze(
        quantized(name, 8).model,
        entry.model,
        entry.test_feeds[:2],
        seconds=60,
        html_file=page_file,
        json_file=report,
    )
    assert page_file.stat().st_size < 8 << 20
    page = opened(page_file.read_text("utf-8"))
    found = json.loads(report.read_text())["analysis"]
    tensors = {row["tensor"]: row for row in found["tensors"]}
    assert len(column(page, 1)) == len(tensors)

    costly = [row for row in tensors.values() if row["cost"] and row["cost"]["share"]]
    costly.sort(key=lambda row: -row["cost"]["share"])
    assert column(page, 1)[0] == costly[0]["tensor"]
    assert column(page, 6)[0] == f"{costly[0]['cost']['share']:.1%}"

    page.get_by_role("columnheader", name="local dB").get_by_role("button").click()
    largest = max(row["local_sqnr_db"] for row in tensors.values() if row["local_sqnr_db"])
    assert column(page, 9)[0] == f"{largest:.1f}"

    page.get_by_label("Kind", exact=True).select_option("weights")
    weights = {row["tensor"] for row in tensors.values() if row["kind"] == "weights"}
    assert {*column(page, 1)} == weights
    page.get_by_label("Kind", exact=True).select_option("all")

    activation = next(row for row in costly if row["kind"] == "activation")
    page.get_by_role("button", name=activation["tensor"], exact=True).first.click()
    assert page.locator("#details h3").inner_text() == activation["node"]
    assert ("SQNR, this node alone", f"{activation['local_sqnr_db']:.1f} dB") in shown(page)
    (node,) = (each for each in found["graph"] if each["name"] == activation["node"])
    assert ("Known by", node["evidence"]["kind"]) in shown(page)
