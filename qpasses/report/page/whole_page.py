"""One HTML text from a report: templates, style, scripts, data, and what draws charts."""

import base64
import gzip
import json
from collections import Counter
from functools import cache
from importlib import import_module, resources
from pathlib import PurePath
from typing import Any

from opsets.errors import UsageError
from qpasses.report.goal_rows import goal_rows
from qpasses.report.page.graph_drawing import drawn
from qpasses.report.page.node_details import details
from qpasses.report.page.shown_values import FILTERS, plain

_SCRIPTS = ("page.js", "tables.js", "charts.js", "details.js", "graph.js")
"""In the order in which they run, as one module."""


def check_packages() -> None:
    """Raise UsageError if the packages of ``qpasses[report]`` are missing."""
    try:
        for name in ("igraph", "jinja2", "vl_convert"):
            import_module(name)
    except ImportError as error:
        raise UsageError(
            f"an HTML report needs {error.name}: pip install 'qpasses[report]'"
        ) from error


def as_html(report: dict[str, Any], command_line: str = "") -> str:
    """``report`` as one HTML page that loads nothing else: the same text for the same report.

    ``command_line``: what makes it again.

    ``report`` is what ``--json`` writes (docs/report.md) with ``analysis``; what it does not
    have is not shown. Raises UsageError if the packages of ``qpasses[report]`` are missing.
    """
    check_packages()
    import jinja2
    from markupsafe import Markup

    report = json.loads(json.dumps(report), parse_constant=lambda _: None)  # NaN becomes null
    analysis = {"graph": [], "tensors": [], **(report.get("analysis") or {})}
    evidence = report.get("evidence", {}).get("nodes", [])
    node_of = {node["name"]: index for index, node in enumerate(analysis["graph"])}
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("qpasses.report.page"),
        autoescape=True,
        undefined=jinja2.ChainableUndefined,
        finalize=plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    page = environment.get_template("page.html").render(
        report=report,
        command_line=command_line,
        analysis=analysis,
        goals=[*goal_rows(report["widths"])] if report.get("widths") else [],
        title=_title(report),
        evidence=Counter(node["kind"] for node in evidence),
        drawing=drawn(analysis["graph"], analysis["tensors"]),
        box_of={each["tensor"]: node_of.get(each["node"]) for each in analysis["tensors"]},
        data=_packed(details(analysis)),
        style=Markup(_text("style.css")),
        chart_library=Markup(_chart_library()),
        script=Markup("\n".join(map(_text, _SCRIPTS))),
    )
    return page.encode("utf-8", "replace").decode()  # a path may hold what is no character


def _title(report: dict[str, Any]) -> str:
    """The file the report is of."""
    for model in ("integer_model", "model"):
        if path := (report.get(model) or {}).get("path"):
            return PurePath(path).name
    return "a model"


def _packed(data: Any) -> str:
    """JSON, compressed, in characters that HTML leaves alone."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _text(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text("utf-8")


@cache
def _chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; to join them takes seconds."""
    import vl_convert

    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed")
    return library.replace("</script", r"<\/script")
