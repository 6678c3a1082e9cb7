"""The report of a run in Markdown: passed and failed steps, evidence, differences, and what was not tried."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.progress import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.acceptance.findings import Difference, Entry, Evidence
    from tools.acceptance.runner import Step

MASK = "********"
_SHORTEST = 6
"""Shorter values of variables are words such as `true`: masking them would eat the report."""
_SECRET_VARIABLE = re.compile(r"SECRET|TOKEN|PASSWORD|PASSPHRASE|ACCESS_KEY", re.IGNORECASE)
_NO_SECRET = re.compile(r"_FILE$|_URI$", re.IGNORECASE)
_PATTERNS = (
    # Access keys of RAM users and of STS (RAM, "AccessKey pairs"; STS, "AssumeRole", example response).
    (re.compile(r"\b(LTAI|STS\.)[A-Za-z0-9]{8,}"), rf"\1{MASK}"),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL), MASK),
    (re.compile(r"((?:client-key|client-certificate|certificate-authority)-data:\s*)\S+"), rf"\1{MASK}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"), MASK),  # JSON Web Tokens
    (re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/-]{8,}=*"), rf"\1{MASK}"),
    (re.compile(r"((?:Signature|SecurityToken|AccessKeyId|AccessKeySecret)=)[^&\s\"']+"), rf"\1{MASK}"),
    # Numbers of accounts are in every resource name; the last four digits tell two of them apart.
    (re.compile(r"(?<![0-9A-Za-z])[0-9]{12}([0-9]{4})(?![0-9A-Za-z])"), r"************\1"),
)


def masked(text: str, environment: Mapping[str, str]) -> str:
    """Return a text without secrets: values of variables that hold some, and what looks like one."""
    # The longest first: one may be a part of another.
    for value in sorted(_secrets(environment), key=len, reverse=True):
        text = text.replace(value, MASK)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def _secrets(environment: Mapping[str, str]) -> set[str]:
    return {
        value
        for name, value in environment.items()
        if _SECRET_VARIABLE.search(name) and not _NO_SECRET.search(name) and len(value) >= _SHORTEST
    }


FILE = "report.md"
_MARKS = {"passed": "passed", "failed": "**FAILED**", "skipped": "skipped", "interrupted": "**interrupted**"}
_NOTHING = "Nothing."


@dataclass(frozen=True, kw_only=True)
class Heading:
    """The beginning of a report, before its steps."""

    stack: str
    where: str
    """Account or double, and region."""
    code: str
    """Version of the code."""
    began: str
    ended: str
    cost: str
    """The statement that was confirmed, Markdown."""
    next_step: str
    """Next step; empty: nothing to do."""


def markdown(heading: Heading, steps: Sequence[Step], entries: Sequence[Entry], environment: Mapping[str, str]) -> str:
    """Return a report, without secrets.

    Args:
        heading: text above the steps.
        steps: all of them, in their order.
        entries: how those ended that ran.
        environment: variables whose secrets must not appear.
    """
    ended = {entry.step: entry for entry in entries}
    known = [(step, ended[step.name]) for step in steps if step.name in ended]
    parts = [
        _head(heading, known),
        "## Steps\n\n" + _overview(steps, ended),
        "## Differences to file\n\n" + _differences(known),
        "## Not tried\n\n" + _not_tried(known),
        "## Estimated cost\n\n" + heading.cost,
        "## Evidence\n\n" + "\n".join(_section(step, entry) for step, entry in known),
    ]
    return masked("\n".join(part.rstrip("\n") + "\n" for part in parts), environment)


def summary(entries: Sequence[Entry]) -> str:
    """Return how many steps ended how, in words."""
    counts = Counter(entry.status for entry in entries)
    return ", ".join(f"{counts[status]} {status}" for status in _MARKS if counts[status]) or "nothing ran"


def _head(heading: Heading, known: Sequence[tuple[Step, Entry]]) -> str:
    rows = {
        "result": summary([entry for _, entry in known]),
        "where": heading.where,
        "code": heading.code,
        "began": heading.began,
        "ended": heading.ended,
        **({"next": heading.next_step} if heading.next_step else {}),
    }
    return f"# Acceptance run of `{heading.stack}`\n\n" + _table(("", ""), list(rows.items()))


def _overview(steps: Sequence[Step], ended: Mapping[str, Entry]) -> str:
    rows: list[tuple[str, ...]] = []
    for step in steps:
        entry = ended.get(step.name)
        if entry:
            rows.append((step.title, f"`{step.name}`", _MARKS[entry.status], clock(entry.seconds), entry.reason))
        else:
            rows.append((step.title, f"`{step.name}`", "not run yet", "", ""))
    return _table(("step", "name", "result", "min:s", "why"), rows)


def _differences(known: Sequence[tuple[Step, Entry]]) -> str:
    lines = [_difference(step, one) for step, entry in known for one in entry.findings.differences]
    return "\n".join(dict.fromkeys(lines)) + "\n" if lines else _NOTHING + "\n"


def _difference(step: Step, one: Difference) -> str:
    return f"- [ ] `{step.name}`: {_line(one.what)}. Expected: {_line(one.expected)}. Real: {_line(one.actual)}."


def _not_tried(known: Sequence[tuple[Step, Entry]]) -> str:
    lines = [f"- `{step.name}`: {_line(entry.reason)}" for step, entry in known if entry.status == "skipped"]
    lines += [
        f"- `{step.name}`: {_line(name)}: {_line(value)}"
        for step, entry in known
        for name, value in entry.findings.figures.items()
        if entry.status != "skipped" and value.startswith("skipped")
    ]
    return "\n".join(lines) + "\n" if lines else _NOTHING + "\n"


def _section(step: Step, entry: Entry) -> str:
    parts = [
        f"### {step.title}\n\n`{step.name}`, {entry.began}: {_MARKS[entry.status]}. {_line(entry.reason)}".rstrip()
    ]
    if entry.findings.figures:
        parts.append(_table(("what", "figure"), list(entry.findings.figures.items())))
    parts += [_quoted(one) for one in entry.findings.evidence]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _quoted(one: Evidence) -> str:
    # A fence longer than any in the text, or the text would end it (CommonMark, "Fenced code blocks").
    longest = max((len(ticks) for ticks in re.findall(r"`+", one.output)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"`{_line(one.command)}`\n\n{fence}text\n{one.output}\n{fence}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_line(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())
