"""Runs the steps: each after those that it needs, independent of failures of others, the final ones always."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.acceptance.findings import Entry, Findings, SkippedError, Status, StepFailedError
from tools.acceptance.journal import now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.acceptance.journal import Journal
    from tools.progress import Progress

INTERRUPTED = "the run was interrupted"
_LEFT = "the run had begun to destroy the environment"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that a run shows."""

    name: str
    title: str
    """Its title in the report."""
    run: Callable[[Any, Findings], None]
    """Gets the run's site and fills in findings.

    Raises SkippedError where there is nothing to do, StepFailedError where something is not as it must be; any other
    exception counts as a failure, too.
    """
    needs: tuple[str, ...] = ()
    """Steps without which this one cannot run."""
    last: bool = False
    """Whether it deletes what the others created: then it runs whatever happened, and after all of them."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """One go through the steps."""

    steps: Sequence[Step]
    site: Any
    journal: Journal
    report: Progress
    changed: Callable[[], None]
    """Called when a step has ended, so that a crash leaves a report."""
    failure_evidence: Callable[[Findings], None] = lambda _: None
    """Adds the cause to the error of a failed step."""
    keep: str = ""
    """Reason why the environment stays; empty: it does not."""

    def run(self) -> bool:
        """Run what did not pass yet; returns whether the run was interrupted.

        Raises:
            KeyboardInterrupt: a second interruption, while the environment was being taken away.
        """
        interrupted = False
        for step in self.steps:
            if not step.last and not self._passed(step.name):
                interrupted = self._ordinary(step, interrupted=interrupted) or interrupted
        for step in self.steps:
            if step.last:
                self._last(step)
        return interrupted

    def _ordinary(self, step: Step, *, interrupted: bool) -> bool:
        if interrupted or self.journal.leaving:
            if self.journal.entry(step.name) is None:
                self._skip(step, INTERRUPTED if interrupted else _LEFT)
            return False
        missing = [name for name in step.needs if not self._passed(name)]
        if missing:
            self._skip(step, "needs " + ", ".join(f"`{name}` ({self._status(name)})" for name in missing))
            return False
        return self._run(step) == "interrupted"

    def _last(self, step: Step) -> None:
        if self.keep:
            self._skip(step, self.keep)
        elif not self._passed(step.name) and self._run(step) == "interrupted":
            raise KeyboardInterrupt

    def _run(self, step: Step) -> Status:
        findings, began, clock = Findings(), now(), time.monotonic()
        status: Status = "passed"
        reason = ""
        try:
            with self.report.step(step.name):
                try:
                    step.run(self.site, findings)
                except SkippedError as skipped:
                    status, reason = "skipped", str(skipped)
        except KeyboardInterrupt:
            status, reason = "interrupted", INTERRUPTED
        except StepFailedError as failed:
            status, reason = "failed", str(failed)
        except Exception as error:  # noqa: BLE001 - a mistake in one step must not leave an environment that costs money
            status, reason = "failed", f"{type(error).__name__}: {error}"
            findings.saw("where it failed", traceback.format_exc())
        if status == "failed":
            self.failure_evidence(findings)
        self._record(step, status, reason, began, time.monotonic() - clock, findings)
        return status

    def _skip(self, step: Step, reason: str) -> None:
        self._record(step, "skipped", reason, now(), 0.0, Findings())

    def _record(  # noqa: PLR0913, PLR0917 - the fields of an entry
        self, step: Step, status: Status, reason: str, began: str, seconds: float, findings: Findings
    ) -> None:
        self.journal.record(
            Entry(step=step.name, status=status, reason=reason, began=began, seconds=seconds, findings=findings)
        )
        if reason:
            self.report.aside(step.name, f"{status}: {reason}")
        self.changed()

    def _passed(self, name: str) -> bool:
        return self._status(name) == "passed"

    def _status(self, name: str) -> str:
        entry = self.journal.entry(name)
        return entry.status if entry else "not run"
