"""Types of rules, and their form in a PrometheusRule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest

Severity = Literal["page", "ticket", "info"]
"""`page`: a person is needed now; `ticket`: within working hours; `info`: displayed, and nobody is on call for it."""
RUNBOOKS = "docs/runbooks"
"""Folder of the pages, from the repository's root: `<name of the alert>.md`."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A series that Prometheus computes and keeps."""

    record: str
    """`<labels it has>:<what it is>:<how it was computed>`, the naming of Prometheus's documentation."""
    expr: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels to add."""

    def manifest(self) -> Manifest:
        """Return the rule as a PrometheusRule has it."""
        return {
            "record": self.record,
            "expr": one_line(self.expr),
            **({"labels": dict(self.labels)} if self.labels else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A condition that notifies people or is only displayed; its page is `docs/runbooks/<name>.md`."""

    name: str
    expr: str
    """Fires for every series that this yields."""
    for_seconds: int
    """Time for which it must yield the series before."""
    severity: Severity
    summary: str
    """One line about what happened; may contain Prometheus's templates."""
    description: str
    """Its meaning, and the first thing to do."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels to add in addition to `severity`."""
    keep_firing_seconds: int = 0
    """Time for which it keeps firing after the condition is gone."""

    def manifest(self, runbook_base_url: str | None) -> Manifest:
        """Return the rule as a PrometheusRule has it.

        Args:
            runbook_base_url: Where the pages can be read. Default: their path in the repository is named instead.
        """
        page = f"{self.name}.md"
        link = (
            {"runbook": f"{RUNBOOKS}/{page}"}
            if runbook_base_url is None
            else {"runbook_url": f"{runbook_base_url.rstrip('/')}/{page}"}
        )
        return {
            "alert": self.name,
            "expr": one_line(self.expr),
            "for": f"{self.for_seconds}s",
            **({"keep_firing_for": f"{self.keep_firing_seconds}s"} if self.keep_firing_seconds else {}),
            "labels": {"severity": self.severity, **self.labels},
            "annotations": {"summary": self.summary, "description": self.description, **link},
        }


@dataclass(frozen=True, kw_only=True)
class Area:
    """Rules about one thing. Prometheus evaluates the recordings in their order, then the alerts."""

    name: str
    recordings: Sequence[Recording] = ()
    alerts: Sequence[Alert] = ()


def one_line(expr: str) -> str:
    """Return an expression without the line breaks and indents that it has in the code."""
    return " ".join(expr.split())
