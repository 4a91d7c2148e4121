"""From a report's data to one HTML page: the only module that uses jinja2."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

import xlagraph
from xlagraph.message import duration
from xlagraph.report.model import ROWS_SHOWN

if TYPE_CHECKING:
    from xlagraph.report.model import Report, Spans
    from xlagraph.report.stream_model import StreamReport

STYLES = ("base", "overview", "ranks", "pair", "tables", "print")
SCRIPTS = (
    *("dom", "pack", "text", "canvas", "shell", "module", "pair", "query", "rows", "list"),
    *(
        "minimap",
        "detail",
        "picture",
        "splitter",
        "tables",
        "collectives",
        "span",
        "timeline_paint",
        "timeline",
    ),
    *("long_table", "head", "view", "keys", "compare", "compared", "picker", "main"),
)
STREAM_STYLES = ("base", "overview", "tables", "streams", "print")
STREAM_SCRIPTS = (
    "dom",
    "pack",
    "text",
    "canvas",
    "shell",
    "lanes",
    "draw",
    "lane_view",
    "stream_main",
)
"""In the order in which they are joined to one ES module."""


def render(report: Report) -> str:
    """The page: template, styles, scripts and packed data in one text without links out."""
    return _page("report", report, STYLES, SCRIPTS)


def render_streams(report: StreamReport) -> str:
    """The page of a stream log, as `render` makes it."""
    return _page("streams", report, STREAM_STYLES, STREAM_SCRIPTS)


def _page(template: str, report: object, styles: tuple[str, ...], scripts: tuple[str, ...]) -> str:
    script = _joined("js", scripts)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(
            report=report,
            style=Markup(_joined("css", styles)),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            script_digest=digest,
            rows_shown=ROWS_SHOWN,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_templates()),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["seconds"] = duration
    environment.filters["percent"] = percent
    environment.filters["plain"] = plain
    environment.filters["soft"] = soft
    return environment


def plain(pieces: Spans) -> str:
    """A sentence without its marks, for attributes and titles."""
    return "".join(text for _, text in pieces)


def soft(text: str) -> Markup:
    """A path that may break behind its slashes, not within a name or a number."""
    return Markup("/<wbr>").join(text.split("/"))


def percent(share: float) -> str:
    """A share that is neither rounded up to all nor down to nothing."""
    return "under 1%" if 0 < share < 0.01 else f"{int(share * 100 + 1e-9)}%"


@cache
def _joined(kind: str, names: tuple[str, ...]) -> str:
    return "\n".join((_templates() / kind / f"{name}.{kind}").read_text() for name in names)


def _templates() -> Path:
    return Path(xlagraph.__file__).parent / "templates"
