"""Words to avoid, and their replacements: the glossary in docs/contributor.md, as patterns.

Patterns are matched without regard to case, and a space in them matches any white space, also a line break.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rule:
    """One phrase that we do not use."""

    pattern: str
    """A regular expression."""

    instead: str
    """The replacement."""

    unless_after: str = ""
    """A regular expression: words directly before it that make it legitimate, such as "there" before "is no"."""

    compiled: re.Pattern[str] = field(init=False)
    excused: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", _compiled(self.pattern))
        excused = _compiled(rf"\b(?:{self.unless_after}) $") if self.unless_after else None
        object.__setattr__(self, "excused", excused)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE)


_CREATED = "create, build, write, draw, or another verb that says what is done"
_RESOURCES = (
    "accounts?|buckets?|claims?|clusters?|commits?|containers?|environments?|files?|folders?|gateways?|groups?|images?"
    "|jobs?|namespaces?|networks?|nodes?|objects?|pages?|pods?|pools?|queues?|replicas?|reports?|resources?|roles?"
    "|secrets?|services?|stacks?|steps?|tables?|volumes?|VPCs?|vSwitche?s?"
)
_WHAT_IS_MADE = (
    "attempts?|calls?|changes?|choices?|commits?|connections?|copies|copy|decisions?|edits?|mistakes?|progress"
    "|requests?"
)

RULES = (
    Rule(
        r"\b(?:is|are|was|were|be) no (?!(?:longer|more|less|fewer|later|better|worse|different)\b|[\"'.,;:)])",
        "is not a, is not an, are not",
        unless_after="there|here|(?:and|or|but) there",
    ),
    Rule(r"\bbeside\b(?! the point\b)", "next to, in addition to, with, apart from"),
    Rule(
        r"\b(?:is|are|was|were|be|been|being|gets?) (?:(?:not|only|never|then|also|always|first|already|just) )?made"
        r"(?= (?:by|in|on|at|from|with|here|once|first|again|later|before|after|while|when|if|per|twice|and|or|as)\b"
        r"|\s*[.,;:)\"'\0])",
        _CREATED,
        unless_after=_WHAT_IS_MADE,
    ),
    Rule(
        r"\bmade (?=(?:by|here|once|first|again|twice|per)\b)",
        _CREATED,
        # The rule above reports what follows a form of "be".
        unless_after=rf"(?:{_WHAT_IS_MADE})|(?:is|are|was|were|be|been|being|gets?)(?: \w+)?",
    ),
    Rule(
        r"\b(?:makes?|making) (?:(?:an?|the|its|one|two|new|every|each|all|no|these|those|their|any) )?"
        rf"(?:[\w-]+ ){{0,2}}?(?:{_RESOURCES})"
        r"(?= (?:and|or|of|in|with|for|from|on|by|per|that|which|when|if|where|first|again)\b|[.,;:)])",
        _CREATED,
    ),
    Rule(r"\banew\b", "again, a new …; recreate (deleted and created), refresh, rewrite"),
    Rule(r"\btold\b(?! apart)", "report, print, log, state; explain, pass"),
    Rule(r"\btells\b(?! apart)(?! [\w ]{1,30} (?:apart|from)\b)", "reports, prints, logs, says, shows"),
    Rule(r"\bway out\b", "egress (of a network); fix, remedy"),
    Rule(r"\bat birth\b|\bborn with\b", "at creation"),
    Rule(r"\bfor ever\b", "forever"),
    Rule(r"\bwhoever\b", "if you …, anyone who …; a program is which or that"),
    Rule(r"\bthe newest\b", "the latest"),
    Rule(r"\b(?:goes|went|go) on (?=(?:as|by|from|if|after|when|until|with|where|to|while)\b|[.,;:)])", "continues"),
    Rule(r"\bto be had\b", "available"),
    Rule(r"\bsuch (?:a )?one\b", "name the thing"),
    Rule(r"\blies (?=(?:in|on|under|at|next|outside|there)\b)", "is"),
    Rule(r"\bno one's\b|\bnobody's\b", "of nobody, without an owner"),
)  # fmt: skip

_BETTER_NAME = "a name that says what it holds, such as job_manifest"
EMPTY_NAMES: dict[str, str] = dict.fromkeys(("found", "wanted", "shown", "told"), _BETTER_NAME)
"""Names of variables, parameters, fields and functions, and what to write instead."""
