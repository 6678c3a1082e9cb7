"""Every dashboard as text: panels with their kinds, units, sizes and queries, and what links and variables they have.

What most dashboards, and most panels of a kind, have in common stands once, at the top; `without` says what one lacks
of it. `UPDATE_GOLDEN=1 make test-fast` rewrites the file, and `make dashboards` shows what the dashboards look like.
What holds for every panel is in tests/unit/infra/monitoring/dashboards.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.monitoring.dashboards import dashboards
from infra.monitoring.dashboards.queries import panels
from tests.recording_engine import scalars

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GOLDEN = Path(__file__).parent / "golden" / "dashboards.txt"
_ELSEWHERE = {"title", "type", "uid", "description", "id", "gridPos", "targets", "panels"}
"""Of a panel or dashboard: in its first line, in the lines of its queries, or checked by the tests of every panel."""


def _settings(entry: dict[str, Any]) -> list[str]:
    rest = {key: value for key, value in entry.items() if key not in _ELSEWHERE}
    return [f"{path}: {json.dumps(value)}" for path, value in scalars(rest) if path != "fieldConfig.defaults.unit"]


def _usual(entries: Sequence[dict[str, Any]]) -> set[str]:
    """Return the settings of more than half of the entries."""
    counts = Counter(line for entry in entries for line in _settings(entry))
    return {line for line, count in counts.items() if count > len(entries) / 2}


def _own(entry: dict[str, Any], usual: set[str]) -> Iterator[str]:
    settings = _settings(entry)
    own = [line for line in settings if line not in usual]
    yield from (f"    {line}" for line in own if not line.startswith("transformations"))
    if steps := [line for line in own if line.startswith("transformations")]:
        yield f"    {'; '.join(steps)}"
    yield from (f"    without {line}" for line in sorted(usual - set(settings)))


def _panel(panel: dict[str, Any], usual: set[str]) -> Iterator[str]:
    place, unit = panel["gridPos"], panel["fieldConfig"]["defaults"]["unit"]
    yield f"  {panel['title']} ({panel['type']}, {unit}, {place['w']} x {place['h']})"
    for target in panel["targets"]:
        yield f"    {target['legendFormat'] or target['format']}{'' if target['range'] else ', now'}: {target['expr']}"
    yield from _own(panel, usual)


def _text() -> str:
    boards = dashboards()
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list, dashboard=list(boards.values()))
    for panel in (panel for board in boards.values() for panel in panels(board)):
        kinds[panel["type"]].append(panel)
    usual = {kind: _usual(entries) for kind, entries in kinds.items()}
    lines = [
        line for kind in usual for line in (f"most of kind {kind}", *(f"  {each}" for each in sorted(usual[kind])))
    ]
    for uid, board in boards.items():
        lines += [f"dashboard {uid}: {board['title']}. {board['description']}", *_own(board, usual["dashboard"])]
        for entry in board["panels"]:
            lines += [f"row {entry['title']}"] if entry["type"] == "row" else _panel(entry, usual[entry["type"]])
    return "\n".join([*lines, ""])


def test_dashboards_are_the_golden_ones():
    text = _text()
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    advice = "a dashboard differs: if that is wanted, run UPDATE_GOLDEN=1 make test-fast"
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines(), advice
