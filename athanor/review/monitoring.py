"""Alerts and dashboards that a change adds, removes or modifies, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from athanor.review.tolerant import as_list, as_mapping, as_text, at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from athanor.review.changes import Change

_RULES = "kubernetes:monitoring.coreos.com/v1:PrometheusRule"
_CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
_Named = Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of alerts, or of dashboards."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.added or self.removed or self.changed)


def alerts(changes: Sequence[Change]) -> Names:
    """Return the alerts that differ: of all rules together, so that one that only moves is the same."""
    return _compared([change for change in changes if change.type == _RULES], _alerts_of)


def dashboards(changes: Sequence[Change]) -> Names:
    """Return the dashboards that differ."""
    return _compared([change for change in changes if change.type == _CONFIG_MAP], _dashboards_of)


def _compared(changes: Sequence[Change], read: Callable[[_Named], Iterator[tuple[str, object]]]) -> Names:
    before = _by_name(pair for change in changes for pair in read(change.before))
    after = _by_name(pair for change in changes if change.kind != "forgotten" for pair in read(change.after))
    return Names(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(sorted(name for name in before.keys() & after.keys() if before[name] != after[name])),
    )


def _by_name(pairs: Iterator[tuple[str, object]]) -> dict[str, list[str]]:
    """Return everything under each name: an alert may have several rules, one for each severity."""
    contents_by_name: dict[str, list[str]] = {}
    for name, content in pairs:
        contents_by_name.setdefault(name, []).append(json.dumps(content, sort_keys=True))
    return {name: sorted(contents) for name, contents in contents_by_name.items()}


def _alerts_of(inputs: _Named) -> Iterator[tuple[str, object]]:
    for group in as_list(at(as_mapping(inputs.get("spec")), "groups")):
        for rule in as_list(at(group, "rules")):
            if name := as_text(at(rule, "alert")):
                yield name, rule


def _dashboards_of(inputs: _Named) -> Iterator[tuple[str, object]]:
    for key, text in as_mapping(inputs.get("data")).items():
        board = _board(key, as_text(text))
        if "panels" in board:
            yield as_text(board.get("title")) or key, board


def _board(key: str, text: str) -> dict[str, object]:
    if not key.endswith(".json"):
        return {}
    try:
        return as_mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}
