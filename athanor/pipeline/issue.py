"""`athanor issue`: one issue with the latest report, open as long as the problem exists."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from athanor.complaint import complain
from athanor.pipeline.github import GitHub, GitHubError
from athanor.pipeline.report_file import ReportFile, read_report, repository
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace) -> int:
    """Open, update or close the issue; return the exit status.

    Args:
        arguments: as athanor/pipeline/arguments.py parses them.
    """
    try:
        report = read_report(arguments.report)
        github = repository(arguments, "issues: write")
        listed = (each for each in github.every("issues?state=open") if "pull_request" not in each)
        issue = report.latest(listed, arguments.author)
        done = _close(github, issue, report) if arguments.close else _open(github, issue, report, arguments.title)
    except (OSError, RefusalError, GitHubError) as error:
        complain("issue", error, as_json=arguments.json)
        return 1
    state, url = done
    text = json.dumps({"state": state, "url": url}) if arguments.json else f"{state} {url or ''}".rstrip()
    sys.stdout.write(f"{text}\n")
    return 0


def _open(github: GitHub, issue: dict[str, Any] | None, report: ReportFile, title: str) -> tuple[str, str | None]:
    if issue is None:
        issue = github.send("POST", "issues", {"title": title, "body": report.text})
        return "opened", issue.get("html_url")
    if issue["body"] == report.text:
        return "unchanged", issue.get("html_url")
    github.send("PATCH", f"issues/{issue['number']}", {"title": title, "body": report.text})
    return "updated", issue.get("html_url")


def _close(github: GitHub, issue: dict[str, Any] | None, report: ReportFile) -> tuple[str, str | None]:
    if issue is None:
        return "nothing to close", None
    change = {"body": report.text, "state": "closed", "state_reason": "completed"}
    github.send("PATCH", f"issues/{issue['number']}", change)
    return "closed", issue.get("html_url")
