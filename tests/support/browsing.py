"""Chromium, if it is installed, and what a page of a report shows in it."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def column(page, number):
    """The cells of a column of the layers in sight."""
    rows = "#layer-table tbody tr:not([hidden])"
    return page.locator(f"{rows} > :nth-child({number})").all_inner_texts()


def shown(page):
    """What the panel says of a node: its labels with their texts, in order."""
    rows = page.locator("#details dl.rows")
    return list(
        zip(
            rows.locator("dt").all_inner_texts(),
            rows.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
