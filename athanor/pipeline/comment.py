"""`athanor comment`: one comment on a pull request, which each later report replaces."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from athanor.complaint import complain
from athanor.pipeline.github import GitHubError
from athanor.pipeline.report_file import read_report, repository
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace) -> int:
    """Write the comment; return the exit status.

    Args:
        arguments: as athanor/pipeline/arguments.py parses them.
    """
    try:
        report = read_report(arguments.report)
        github = repository(arguments, "pull-requests: write")
        comments = f"issues/{arguments.pull_request}/comments"
        comment, state = report.latest(github.every(comments), arguments.author), "unchanged"
        if comment is None:
            state = "created"
            comment = github.send("POST", comments, {"body": report.text})
        elif comment["body"] != report.text:
            state = "updated"
            github.send("PATCH", f"issues/comments/{comment['id']}", {"body": report.text})
    except (OSError, RefusalError, GitHubError) as error:
        complain("comment", error, as_json=arguments.json)
        return 1
    url = comment.get("html_url", "")
    sys.stdout.write(f"{json.dumps({'state': state, 'url': url}) if arguments.json else url}\n")
    return 0
