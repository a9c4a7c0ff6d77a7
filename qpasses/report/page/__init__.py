"""The report of an analysis as one HTML page; only places and texts are computed here."""

from qpasses.report.page.whole_page import as_html, check_packages

__all__ = ["as_html", "check_packages"]
