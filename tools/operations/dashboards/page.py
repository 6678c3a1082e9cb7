"""A dashboard as one self-contained HTML file, and the index of all pages.

Labels come from pods, and pods from anybody: every text is escaped, and no script but ours runs (Content Security
Policy, by hash).
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from plotly.offline import get_plotlyjs

from tools.operations.dashboards import panel_html

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.operations.dashboards.answers import PanelAnswer
    from tools.operations.dashboards.choices import Chosen
    from tools.operations.dashboards.prometheus import Window

INDEX = "index.html"
_LISTED_IN_MINUTES = 120
_HERE = Path(__file__).parent
_VARIABLE = re.compile(r"\$\{(\w+)(?::([\w:]+))?\}")


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of one dashboard's page."""

    board: Mapping[str, Any]
    """Grafana's JSON."""
    answers: Mapping[int, PanelAnswer]
    """Answers by the panel's id."""
    chosen: Chosen
    window: Window
    source: str
    """Address of Prometheus."""

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return f"{self.board['uid']}.html"

    @property
    def failed(self) -> list[PanelAnswer]:
        """Panels with a query that failed."""
        return [answer for answer in self.answers.values() if answer.errors]

    @property
    def with_data(self) -> int:
        """Number of panels with data."""
        return sum(answer.has_data for answer in self.answers.values())

    @property
    def counted(self) -> str:
        """Number of panels with data, and of those without."""
        counts = f"{self.with_data} of {len(self.answers)} panels with data"
        return f"{counts}, {len(self.failed)} failed" if self.failed else counts


def board_page(page: Page, all_pages: Sequence[Page]) -> str:
    """Return the HTML of a dashboard."""
    rows: list[str] = []
    for panel in page.board["panels"]:
        if panel["type"] == "row":
            rows.append(f'</div><h2>{escape(panel["title"])}</h2><div class="row">')
        else:
            rows.append(panel_html.panel(page.answers[panel["id"]], page.window.step))
    body = f"""<header>{_navigation(page, all_pages)}
<h1>{escape(page.board["title"])}</h1><div>{escape(page.board["description"])}</div>{_facts(page)}</header>
<main><div class="row">{"".join(rows)}</div></main>
<footer>Drawn from the queries of the Grafana dashboard {escape(page.board["uid"])} without Grafana.</footer>"""
    data = f'data-start="{page.window.start * 1000:.0f}" data-end="{page.window.end * 1000:.0f}"'
    return _document(page.board["title"], body, [get_plotlyjs(), _script()], data)


def index_page(pages: Sequence[Page]) -> str:
    """Return the HTML of the page that lists the dashboards."""
    cards = "".join(
        f'<section class="panel"><h2><a href="{escape(page.file_name)}">{escape(page.board["title"])}</a></h2>'
        f'<p class="asks">{escape(page.board["description"])}</p>'
        f'<p class="when-bad">{escape(page.counted)}</p></section>'
        for page in pages
    )
    body = f"""<header><h1>Dashboards</h1>{_source(pages[0])}</header><main><div class="boards">{cards}</div></main>"""
    return _document("Dashboards", body, [], "")


def _document(title: str, body: str, scripts: Sequence[str], data: str) -> str:
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none';"
        " form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<title>{escape(title)}</title><style>{(_HERE / "page.css").read_text(encoding="utf-8")}</style></head>
<body {data}>{body}{"".join(f"<script>{script}</script>" for script in scripts)}</body></html>
"""


def _navigation(page: Page, all_pages: Sequence[Page]) -> str:
    links = [f'<a href="{INDEX}">All dashboards</a>']
    for other in all_pages:
        current = ' aria-current="page"' if other is page else ""
        links.append(f'<a href="{escape(other.file_name)}"{current}>{escape(other.board["title"])}</a>')
    return f"<nav>{''.join(links)}</nav>"


def _source(page: Page) -> str:
    start, end = (datetime.fromtimestamp(time, UTC) for time in (page.window.start, page.window.end))
    seconds = page.window.seconds
    length = f"{seconds // 60} minutes" if seconds >= _LISTED_IN_MINUTES else f"{seconds} seconds"
    facts = {
        "Time": f"{start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC ({length})",
        "Prometheus": page.source,
    }
    return _list({name: escape(text) for name, text in facts.items()})


def _facts(page: Page) -> str:
    facts: dict[str, str] = {}
    for variable in page.board["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "query":
            others = ", ".join(page.chosen.others.get(name, ()))
            more = f" (there is also {others})" if others else ""
            facts[variable["label"]] = escape((page.chosen.values[name] or "none found") + more)
    links = [
        f'<a href="{escape(url)}" rel="noreferrer noopener">{escape(link["title"])}</a>'
        for link in page.board["links"]
        if link["type"] == "link" and (url := link_url(link["url"], page.chosen.values, page.window))
    ]
    facts |= {"Links": " · ".join(links)} if links else {}
    return _source(page) + _list({**facts, "Panels": escape(page.counted)})


def _list(facts: Mapping[str, str]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{text}</dd>' for name, text in facts.items())}</dl>"


def link_url(template: str, values: Mapping[str, str], window: Window) -> str | None:
    """Return a dashboard's link with its variables filled in, None if it leads to nothing that a browser opens."""
    times = {"__from": window.start, "__to": window.end}

    def value(match: re.Match[str]) -> str:
        name, how = match[1], match[2]
        if name in times:
            return datetime.fromtimestamp(times[name], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return quote(values[name], safe="") if how == "percentencode" else values[name]

    url = _VARIABLE.sub(value, template)
    return url if url.startswith(("http://", "https://")) else None


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _script() -> str:
    return (_HERE / "page.js").read_text(encoding="utf-8")
