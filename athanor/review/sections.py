"""The review of one stack as blocks of Markdown."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from athanor.review.changes import KINDS, OWN_NAME, Change
from athanor.review.cost_section import capacity_section
from athanor.review.folding import Block
from athanor.review.lines import difference_lines
from athanor.review.preview import urn_name
from athanor.review.text import code, fenced, html_code, printable, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from athanor.review.monitoring import Names
    from athanor.review.running_work import Work
    from athanor.review.stack_review import StackReview
    from athanor.review.stakes import Stake

_MOST_STAKES = 60
_MOST_NAMES = 40
_MOST_WORK = 12
_LONGEST_MESSAGE = 2000
_MOST_MESSAGES = 15
_RANK_OF_HEADING, _RANK_OF_FAILURE, _RANK_OF_STAKES, _RANK_OF_COST, _RANK_OF_POLICIES, _RANK_OF_MONITORING = range(6)
_RANK_OF_CHANGES = 6
"""Rank of the components with the worst kind of change; each further kind is one less important."""
_RANK_OF_MESSAGES = _RANK_OF_CHANGES + len(KINDS)


def blocks(review: StackReview) -> list[Block]:
    """Return the blocks of a stack, in their order."""
    heading = f"## {code(review.preview.stack or 'unnamed stack', 60)}: {result(review)}"
    return [
        Block(text=heading, rank=_RANK_OF_HEADING),
        *_failure(review),
        *_stakes(review),
        *_one(capacity_section(review.capacity, review.prices), "", _RANK_OF_COST),
        *_policies(review),
        *_monitoring(review),
        *_components(review),
        *_messages(review),
    ]


def result(review: StackReview) -> str:
    """Return a stack's result in a few words."""
    if review.preview.failed:
        return "the preview failed"
    if review.destructive:
        return "running work or data is at stake"
    return "changes" if review.changes else "nothing changes"


def _one(text: str, short: str, rank: int) -> list[Block]:
    return [Block(text=text, short=short, rank=rank)] if text else []


def _failure(review: StackReview) -> list[Block]:
    errors = [said.message for said in review.preview.diagnostics if said.severity == "error"]
    if not errors:
        return []
    title = "### The preview failed: what is listed below is not all of it"
    lines = [line for message in errors[:_MOST_MESSAGES] for line in _message_lines(review, message)]
    return _one("\n".join([title, "", *fenced(lines)]), title, _RANK_OF_FAILURE)


def _message_lines(review: StackReview, message: str) -> list[str]:
    text = shortened(printable(review.masker.clean(message), keep_lines=True), _LONGEST_MESSAGE)
    return [line for line in text.split("\n") if line.strip()]


def _stakes(review: StackReview) -> list[Block]:
    if not review.stakes:
        return []
    title = "### Running work and data at stake"
    lines = [_stake(stake, work, review) for stake, work in review.stakes[:_MOST_STAKES]]
    left = len(review.stakes) - len(lines)
    more = [f"- and {left:,} more"] if left else []
    short = (
        f"{title}\n\n{len(review.stakes):,} clusters, pools, volumes, jobs or others are replaced, deleted or shrink."
    )
    return _one("\n".join([title, "", *lines, *more]), short, _RANK_OF_STAKES)


def _stake(stake: Stake, work: list[Work] | None, review: StackReview) -> str:
    change = stake.change
    why = _why(change)
    stops = _work(work, review)
    return f"- **{stake.thing} {code(change.name, 80)} {stake.verb}**{why}: {stake.consequence}.\n  {stops}"


def _why(change: Change) -> str:
    if change.kind != "replaced":
        return ""
    if not change.reasons:
        return "; the engine names no property: what it belongs to is replaced"
    behind = [each.path for each in change.differences if each.kind == "changed" and each.path != OWN_NAME]
    # The name holds a hash of the rest: what else changes is the reason for the reason.
    follows = change.reasons == (OWN_NAME,) and behind
    return f" because of {_names(change.reasons)}{f', which follows {_names(behind[:3])}' if follows else ''}"


def _work(work: list[Work] | None, review: StackReview) -> str:
    if isinstance(review.running, str):
        return f"What runs there now: {_reason(review.running)}."
    if work is None:
        return "What runs there now: the cluster's objects do not tell."
    if not work:
        return "Nothing that runs now stops."
    listed = [_one_work(each) for each in work[:_MOST_WORK]]
    more = f" and {len(work) - _MOST_WORK:,} more" if len(work) > _MOST_WORK else ""
    return f"Stops: {', '.join(listed)}{more}."


def _reason(reason: str) -> str:
    return reason if reason == "not asked" else code(reason, 200)


def _one_work(work: Work) -> str:
    pods = f"{work.pods:,} pod{'s' if work.pods != 1 else ''}"
    gpus = f", {work.gpus:,} GPU{'s' if work.gpus != 1 else ''}" if work.gpus else ""
    return f"{code(work.name, 80)} in {code(work.namespace, 60)} ({pods}{gpus})"


def _policies(review: StackReview) -> list[Block]:
    findings = sorted(
        review.preview.findings, key=lambda each: (not each.mandatory, each.pack, each.policy, each.urn, each.message)
    )
    if not findings:
        return []
    title = "### Policy findings"
    lines = [
        f"- {code(each.enforcement, 20)} {code(f'{each.pack}/{each.policy}', 80)}"
        f"{f' {code(urn_name(each.urn), 80)}' if each.urn else ''}:"
        f" {code(_in_one_line(review.masker.clean(each.message)), 400)}"
        for each in findings[:_MOST_STAKES]
    ]
    more = [f"- and {len(findings) - len(lines):,} more"] if len(findings) > len(lines) else []
    mandatory = sum(each.mandatory for each in findings)
    short = f"{title}\n\n{len(findings):,} findings, {mandatory:,} of them mandatory."
    return _one("\n".join([title, "", *lines, *more]), short, _RANK_OF_POLICIES)


def _in_one_line(message: str) -> str:
    return " ".join(message.split())


def _monitoring(review: StackReview) -> list[Block]:
    lines = [*_named("Alerts", review.alerts), *_named("Dashboards", review.dashboards)]
    return _one("\n".join(["### Alerts and dashboards", "", *lines]) if lines else "", "", _RANK_OF_MONITORING)


def _named(what: str, names_by_kind: Names) -> list[str]:
    kinds = (("removed", names_by_kind.removed), ("changed", names_by_kind.changed), ("added", names_by_kind.added))
    return [f"- {what} {kind}: {_names(names)}" for kind, names in kinds if names]


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    text = ", ".join(code(name, 80) for name in listed[:_MOST_NAMES])
    return f"{text} and {len(listed) - _MOST_NAMES:,} more" if len(listed) > _MOST_NAMES else text


def _components(review: StackReview) -> list[Block]:
    listed = [change for change in review.changes if change.custom or change.differences]
    if not listed:
        return []
    by_component = sorted(listed, key=lambda change: change.component)
    groups = [
        part for _, members in groupby(by_component, key=lambda change: change.component) for part in _parts([*members])
    ]
    heading = Block(text="### All changes by component", rank=_RANK_OF_CHANGES)
    return [heading, *(_component(members, review) for members in sorted(groups, key=_order))]


def _parts(members: list[Change]) -> list[list[Change]]:
    """Return a component's changes in pieces, the worst first, so that a long list is shown as far as there is room."""
    ordered = sorted(members, key=lambda change: (KINDS.index(change.kind), change.type, change.name))
    return [ordered[start : start + _MOST_NAMES] for start in range(0, len(ordered), _MOST_NAMES)]


def _order(members: Sequence[Change]) -> tuple[int, tuple[tuple[str, ...], str]]:
    return min(KINDS.index(change.kind) for change in members), members[0].component


def _component(members: list[Change], review: StackReview) -> Block:
    counts = ", ".join(
        f"{count:,} {kind}" for kind in KINDS if (count := sum(change.kind == kind for change in members))
    )
    head = f"<details><summary>{_title(members[0])}: {counts}</summary>"
    full = "\n".join(_change(change, review) for change in members)
    names = [_headline(change) for change in members]
    return Block(
        text=f"{head}\n\n{full}\n\n</details>",
        short="\n".join([head, "", *names, "", "</details>"]),
        rank=_RANK_OF_CHANGES + _order(members)[0],
    )


def _title(change: Change) -> str:
    types, name = change.component
    if not types:
        return "Outside of components"
    path = " / ".join(html_code(token.rpartition(":")[2], 60) for token in types)
    return f"{path} {html_code(name, 80)}" if name else path


def _headline(change: Change) -> str:
    note = "" if change.kind != "forgotten" else " (stays, but no longer belongs to the stack)"
    return f"- {change.kind} {code(change.name, 80)}, {code(change.type, 100)}{note}"


def _change(change: Change, review: StackReview) -> str:
    lines = difference_lines(change.differences, review.masker)
    why = f" because of {_names(change.reasons)}" if change.reasons else ""
    head = f"{_headline(change)}{why}"
    return "\n".join([head, "", *(f"  {line}" for line in fenced(lines, "diff"))]) if lines else head


def _messages(review: StackReview) -> list[Block]:
    """Warnings; what the program only prints is left out."""
    warnings = sorted({said.message for said in review.preview.diagnostics if said.severity == "warning"})
    if not warnings:
        return []
    lines = [line for message in warnings[:_MOST_MESSAGES] for line in _message_lines(review, message)]
    head = f"<details><summary>Warnings: {len(warnings):,}</summary>"
    return _one("\n".join([head, "", *fenced(lines), "", "</details>"]), "", _RANK_OF_MESSAGES)
