"""`athanor comment`: one comment of a pull request, which every later report replaces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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
        comment = report.latest(github.every(comments), arguments.author)
        if comment is None:
            comment = github.send("POST", comments, {"body": report.text})
        elif comment["body"] != report.text:
            github.send("PATCH", f"issues/comments/{comment['id']}", {"body": report.text})
    except (OSError, RefusalError, GitHubError) as error:
        sys.stderr.write(f"athanor comment: {error}\n")
        return 1
    sys.stdout.write(f"{comment.get('html_url', '')}\n")
    return 0
