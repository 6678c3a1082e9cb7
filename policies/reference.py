"""The tables of docs/policies.md: every rule, and every exemption of the platform's own objects."""

from __future__ import annotations

import sys
from pathlib import Path

from policies.catalogue import AREAS
from policies.exemptions import EXEMPTIONS
from policies.rule import RuleConfig

PAGE = Path(__file__).resolve().parent.parent / "docs" / "policies.md"
_START, _END = "<!-- generated: python -m policies.reference -->\n", "<!-- end of the generated part -->\n"


def page(text: str) -> str:
    """Return the page with its tables as the code has them.

    Raises:
        ValueError: the marks around the tables are missing.
    """
    before, start, rest = text.partition(_START)
    _, end, after = rest.partition(_END)
    if not start or not end:
        raise ValueError(f"{PAGE.name}: the lines {_START!r} and {_END!r} mark the generated part. Fix: restore them")
    return f"{before}{start}\n{_rules()}\n{_exemptions()}\n{end}{after}"


def _rules() -> str:
    rows: list[str] = []
    for area, rules in AREAS.items():
        rows += [f"\n### {area}\n", "| rule | demands | severity | configuration |", "|---|---|---|---|"]
        rows += [f"| `{rule.name}` | {rule.demand} | {rule.severity} | {_options(rule.config)} |" for rule in rules]
    return "\n".join(rows) + "\n"


def _options(config: type[RuleConfig]) -> str:
    own = [name for name in config.model_fields if name not in RuleConfig.model_fields]
    return ", ".join(f"`{name}`" for name in own)


def _exemptions() -> str:
    rows = ["### The platform's own exemptions\n", "| rule | object | reason |", "|---|---|---|"]
    rows += [f"| `{rule}` | {name} | {why} |" for rule, objects in EXEMPTIONS.items() for name, why in objects.items()]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"docs/{PAGE.name} written\n")
