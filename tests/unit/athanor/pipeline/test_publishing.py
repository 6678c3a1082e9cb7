"""`athanor comment` and `athanor issue`, against a server that speaks GitHub's protocol."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from athanor.command_line import main, parser
from athanor.pipeline.github import GitHub
from athanor.pipeline.report_file import ReportFile, repository
from infra.errors import RefusalError
from tests.fixtures.recorded_stack import REPOSITORY as FOLDER
from tests.tables import each_row
from tests.unit.athanor.pipeline.github_server import REPOSITORY, TOKEN, GitHubServer, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REVIEW = "<!-- athanor review -->\n# What this change does\n"
DRIFT = "<!-- athanor drift dev -->\n# Drift\n"


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubServer]:
    with GitHubServer() as server:
        monkeypatch.setenv("GITHUB_API_URL", server.address)
        monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        yield server


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return tmp_path / "report.md"


def comment(report: Path, text: str) -> int:
    report.write_text(text, encoding="utf-8")
    return main(["comment", str(report), "--pull-request", "7"])


def issue(report: Path, text: str, *action: str) -> int:
    report.write_text(text, encoding="utf-8")
    return main(["issue", str(report), *action])


def test_one_comment_is_created_then_updated_then_left_alone(github: GitHubServer, report: Path) -> None:
    for number in range(5):
        github.add_comment(f"comment {number}", "somebody")

    assert comment(report, f"{REVIEW}first\n") == 0
    assert comment(report, f"{REVIEW}second\n") == 0
    assert comment(report, f"{REVIEW}second\n") == 0

    assert [each["body"] for each in github.comments[5:]] == [f"{REVIEW}second\n"]
    assert [request.split()[0] for request in github.writes] == ["POST", "PATCH"]


def test_a_comment_of_somebody_else_with_the_mark_stays_theirs(github: GitHubServer, report: Path) -> None:
    github.add_comment(f"{REVIEW}all is well\n", "somebody")
    assert comment(report, f"{REVIEW}3 deleted\n") == 0
    assert [each["body"] for each in github.comments] == [f"{REVIEW}all is well\n", f"{REVIEW}3 deleted\n"]


def test_an_issue_is_opened_updated_and_closed(github: GitHubServer, report: Path) -> None:
    for author in ("somebody", "somebody", "somebody"):
        github.add_issue(None, author)
    github.add_issue(f"{DRIFT}a pull request\n", pull_request={})
    github.add_issue("<!-- athanor drift prod -->\nother\n")

    assert issue(report, f"{DRIFT}first\n", "--title", "Drift in dev") == 0
    assert issue(report, f"{DRIFT}second\n", "--title", "Drift in dev") == 0
    assert issue(report, f"{DRIFT}none\n", "--close") == 0
    assert issue(report, f"{DRIFT}none\n", "--close") == 0

    [mine] = github.issues[5:]
    assert (mine["title"], mine["body"], mine["state"]) == ("Drift in dev", f"{DRIFT}none\n", "closed")
    assert [request.split()[0] for request in github.writes] == ["POST", "PATCH", "PATCH"]
    assert [each["state"] for each in github.issues[:5]] == ["open"] * 5
    assert issue(report, f"{DRIFT}again\n", "--title", "Drift in dev") == 0
    assert len(github.issues) == 7


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (Refusal(401), "GitHub does not accept this token. Fix: set GITHUB_TOKEN"),
        (
            Refusal(403, "Resource not accessible by integration"),
            "give the job the permission `pull-requests: write`; the token of a pull request from a fork can only read",
        ),
        (Refusal(404), "team/platform has no such number, or hides it from this token"),
        (Refusal(410), "issues are switched off in team/platform"),
        (
            Refusal(403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1795371000"}),
            "GitHub takes no more requests of this token until 18:10 UTC. Fix: run it again then",
        ),
        (Refusal(403, headers={"Retry-After": "60"}), "GitHub takes no more requests of this token until"),
        (Refusal(429), "GitHub takes no more requests of this token until"),
        (Refusal(502, "Bad Gateway"), "GitHub answered 502 Bad Gateway"),
        (Refusal(302, "moved", {"Location": "http://127.0.0.1:9/"}), "GitHub answered 302 moved"),
    ],
    ids=["token", "permission", "missing", "off", "limit", "pause", "too-many", "broken", "redirect"],
)
def test_a_refusal_says_why_and_what_to_do(
    github: GitHubServer, report: Path, capsys: pytest.CaptureFixture[str], refusal: Refusal, said: str
) -> None:
    github.refusal = refusal
    assert comment(report, REVIEW) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("athanor comment: ")
    assert said in printed.err
    assert TOKEN not in printed.err + printed.out


def test_a_next_page_elsewhere_gets_no_token(github: GitHubServer, report: Path, capsys) -> None:
    github.add_comment("a", "somebody")
    with GitHubServer() as other:
        github.refusal = None
        github.answer = lambda *_: (200, [], {"Link": f'<{other.address}/x>; rel="next"'})
        assert comment(report, REVIEW) == 1
        assert other.requests == []
    assert "the next page of issues/7/comments is not below" in capsys.readouterr().err


def test_a_server_that_is_not_there_is_named(report: Path, monkeypatch, capsys) -> None:
    with GitHubServer() as server:
        address = server.address
    monkeypatch.setenv("GITHUB_API_URL", address)
    monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    assert comment(report, REVIEW) == 1
    assert f"{address} cannot be reached" in capsys.readouterr().err


def test_without_packages_and_with_the_token_in_a_header_alone(github: GitHubServer, report: Path) -> None:
    report.write_text(REVIEW, encoding="utf-8")
    # -I -S: no site-packages, so a pipeline can call it with the runner's own Python.
    start = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); from athanor.command_line import main; sys.exit(main())"
    command = [sys.executable, "-I", "-S", "-c", start, "comment", str(report), "--pull-request", "7"]
    variables = {"GITHUB_API_URL": github.address, "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_TOKEN": TOKEN}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"https://github\.com/team/platform/pull/7#issuecomment-\d+\n", done.stdout)
    assert not [request for request in github.requests if TOKEN in request]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (("GITHUB_REPOSITORY", "platform"), "is not OWNER/NAME"),
        (("GITHUB_REPOSITORY", ""), "is not OWNER/NAME"),
        (("GITHUB_TOKEN", ""), "no token is set"),
        (("GITHUB_TOKEN", "two\nlines"), "has characters that no token has"),
        (("GITHUB_API_URL", "http://api.github.com"), "is not an https address"),
    ],
)
def test_wrong_variables_are_refused_before_anything_is_sent(
    github: GitHubServer, report: Path, monkeypatch, setting: tuple[str, str], said: str
) -> None:
    monkeypatch.setenv(*setting)
    report.write_text(REVIEW, encoding="utf-8")
    arguments = parser().parse_args(["comment", str(report), "--pull-request", "7"])
    with pytest.raises(RefusalError, match=said):
        repository(arguments, "pull-requests: write")
    assert github.requests == []


@pytest.mark.parametrize(
    ("text", "said"),
    [("# no mark\n", "is not the first line of a report"), (REVIEW + "x" * 65536, "GitHub takes 65536")],
    ids=["mark", "length"],
)
def test_other_files_than_reports_are_refused(github: GitHubServer, report: Path, capsys, text: str, said: str) -> None:
    assert comment(report, text) == 1
    assert said in capsys.readouterr().err
    assert github.requests == []


def test_the_token_is_not_in_what_is_printed_of_the_object() -> None:
    assert TOKEN not in repr(GitHub(repository=REPOSITORY, token=TOKEN, permission="issues: write"))


@each_row("repository", ["team/../other", "team/..", "team/platform?x", "team"])
def test_other_names_than_those_of_repositories_are_refused(repository: str) -> None:
    with pytest.raises(RefusalError, match="is not OWNER/NAME"):
        GitHub(repository=repository, token=TOKEN, permission="issues: write")


def test_texts_without_body_or_author_are_passed_over() -> None:
    written = [
        {"body": None, "user": {"login": "bot"}},
        {"body": "m", "user": None},
        {"body": "m", "user": {"login": "bot"}},
    ]
    assert ReportFile(mark="m", text="m").latest(written, "bot") is written[2]


def test_programs_read_what_was_done_and_why_not(github: GitHubServer, report: Path, monkeypatch, capsys) -> None:
    def printed() -> dict[str, str]:
        said = capsys.readouterr()
        return json.loads(said.out or said.err)

    states = []
    for text in ("first", "first", "second"):
        report.write_text(f"{REVIEW}{text}\n", encoding="utf-8")
        assert main(["comment", str(report), "--pull-request", "7", "--json"]) == 0
        done = printed()
        states.append((done["state"], set(done)))
    assert states == [(each, {"state", "url"}) for each in ("created", "unchanged", "updated")]
    states = []
    for action in (("--title", "Drift"), ("--title", "Drift"), ("--close",), ("--close",)):
        assert issue(report, f"{DRIFT}first\n", *action, "--json") == 0
        states.append(printed()["state"])
    assert states == ["opened", "unchanged", "closed", "nothing to close"]
    assert github.issues
    monkeypatch.delenv("GITHUB_TOKEN")
    assert issue(report, f"{DRIFT}first\n", "--close", "--json") == 1
    assert printed()["command"] == "issue"
