"""The result of a step: its outcome, evidence, figures, and differences from the double."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tools.errors import ExpectedError

Status = Literal["passed", "failed", "skipped", "interrupted"]
LONGEST_OUTPUT = 4000
"""Characters of a program's output that a report quotes; the whole of it is in the run's folder."""


class SkippedError(ExpectedError):
    """A step has nothing to do here; the message says why."""


class StepFailedError(ExpectedError):
    """A step did not show what it should; the message says what it found."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A command, or a question to the cloud, and what came back."""

    command: str
    output: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that is not as the settings, our tables or the API double have it: to be filed."""

    what: str
    expected: str
    actual: str


@dataclass(kw_only=True)
class Findings:
    """The records of one step; a step that fails keeps what it recorded before."""

    evidence: list[Evidence] = field(default_factory=list[Evidence])
    figures: dict[str, str] = field(default_factory=dict[str, str])
    differences: list[Difference] = field(default_factory=list[Difference])

    def saw(self, command: str, output: str) -> None:
        """Keep the end of what a command printed."""
        text = output.strip()
        if len(text) > LONGEST_OUTPUT:
            text = f"… ({len(text) - LONGEST_OUTPUT} characters before)\n{text[-LONGEST_OUTPUT:]}"
        self.evidence.append(Evidence(command=command, output=text))

    def figure(self, name: str, value: object) -> None:
        """Keep a figure."""
        self.figures[name] = str(value)

    def compare(self, what: str, expected: object, actual: object) -> bool:
        """Keep a difference unless both are the same; returns whether they are."""
        if str(expected) == str(actual):
            return True
        self.differences.append(Difference(what=what, expected=str(expected), actual=str(actual)))
        return False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The outcome of a step."""

    step: str
    status: Status
    reason: str = ""
    """Reason why it did not pass."""
    began: str
    """UTC, ISO 8601."""
    seconds: float
    findings: Findings
