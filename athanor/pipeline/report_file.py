"""A report for GitHub: its text, and the marker by which the earlier one is recognised."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from athanor.pipeline.github import GitHub
from athanor.review.folding import GITHUB_LIMIT
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from pathlib import Path

_MARK = re.compile(r"<!-- athanor [ \w.-]+ -->")


@dataclass(frozen=True, kw_only=True)
class ReportFile:
    """A report as `athanor review` or `athanor drift` writes it."""

    mark: str
    text: str

    def latest(self, written: Iterable[dict[str, Any]], author: str) -> dict[str, Any] | None:
        """Return the first comment or issue that an author wrote with this mark.

        Anybody can write the mark, and the token may be allowed to change what others wrote: hence the author.
        """
        own = (each for each in written if each["user"] and each["user"]["login"] == author)
        return next((each for each in own if (each.get("body") or "").startswith(self.mark)), None)


def read_report(file: Path) -> ReportFile:
    """Return the report in a file.

    Raises:
        RefusalError: it has no mark, or is longer than GitHub takes.
        OSError: it cannot be read.
    """
    text = file.read_text(encoding="utf-8")
    mark = text.partition("\n")[0]
    if not _MARK.fullmatch(mark):
        raise RefusalError(
            str(file), mark, "is not the first line of a report", "write one with `athanor review` or `athanor drift`"
        )
    if len(text) > GITHUB_LIMIT:
        raise RefusalError(
            str(file), f"{len(text)} characters", f"GitHub takes {GITHUB_LIMIT}", "write it without --limit"
        )
    return ReportFile(mark=mark, text=text)


def repository(arguments: argparse.Namespace, permission: str) -> GitHub:
    """Return the repository that the arguments or the job's variables name.

    Raises:
        RefusalError: no repository is named, or no token is set.
    """
    named: str = arguments.repository or os.environ.get("GITHUB_REPOSITORY", "")
    return GitHub(
        repository=named,
        token=os.environ.get("GITHUB_TOKEN", ""),
        permission=permission,
        address=(os.environ.get("GITHUB_API_URL") or "https://api.github.com").rstrip("/"),
    )
