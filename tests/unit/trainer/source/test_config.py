"""The command line of the program that fetches code: what is refused, and that no password is repeated."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import each_row
from trainer.source.config import parse

URL = "https://example.com/team/code.git"
MAIN = ["--branch", "main"]


def refused(capfd, *arguments: str) -> str:
    """Return what is said of a wrong command line, without the frame around it."""
    with pytest.raises(SystemExit) as exit_status:
        parse(["--destination", "/source", *arguments])
    assert exit_status.value.code == 2
    return re.sub(r"[\s│]+", "", capfd.readouterr().err)


def test_the_least_that_is_enough():
    config = parse(["--repository", URL, "--destination", "/source", *MAIN])
    assert (config.destination, config.requested, config.timeout_seconds) == (Path("/source"), {"branch": "main"}, 300)
    assert not config.unprotected


def test_everything():
    arguments = "--tag v1 --subdirectory a/b --credentials_dir /c --timeout_seconds 5 --record /r/source.json"
    config = parse(["--repository", URL, "--destination", "/source", *arguments.split()])
    assert config.requested == {"tag": "v1"}
    assert (config.subdirectory, config.credentials_dir, config.record) == ("a/b", Path("/c"), Path("/r/source.json"))


@each_row(
    ("arguments", "message"),
    [
        (["--repository", URL], "branch, tag, commit: none given: must be exactly one"),
        (["--repository", URL, *MAIN, "--tag", "v1"], "branch and tag given: must be exactly one"),
        (["--repository", URL, "--commit", "abc123"], "commit='abc123': must be 40 of 0-9 a-f"),
        (["--repository", URL, "--commit", "A" * 40], "must be 40 of 0-9 a-f"),
        (["--repository", URL, "--branch", "refs/heads/x"], "branch='refs/heads/x': is not a branch name of git"),
        (["--repository", URL, "--branch", "a..b"], "branch='a..b': is not a branch name of git"),
        (["--repository", URL, "--tag", ""], "tag='': is not a tag name of git"),
        (["--repository", URL, *MAIN, "--subdirectory", "../x"], "subdirectory='../x': must be a folder inside"),
        (["--repository", URL, *MAIN, "--subdirectory", "/etc"], "subdirectory='/etc': must be a folder inside"),
        (["--repository", URL, *MAIN, "--subdirectory", ""], "subdirectory='': must be a folder inside"),
        (["--repository", URL, *MAIN, "--timeout_seconds", "0"], "timeout_seconds=0.0: must be more than 0"),
        (["--repository", URL, *MAIN, "--timeout_seconds", "nan"], "timeout_seconds=nan: must be more than 0"),
        (["--repository", "file:///etc", *MAIN], "must be an https://, http:// or ssh:// URL"),
        (["--repository", "git://host/code", *MAIN], "must be an https://, http:// or ssh:// URL"),
        (["--repository", "/code", *MAIN], "must be an https://, http:// or ssh:// URL"),
        (["--repository", "https:///code", *MAIN], "must be an https://, http:// or ssh:// URL"),
        (["--repository", "https://host:x/code", *MAIN], "must be an https://, http:// or ssh:// URL"),
        (["--repository", "https://ho st/code", *MAIN], "must be an https://, http:// or ssh:// URL"),
        (["--repository", "git@github.com:a/b.git", *MAIN], "ssh needs a key"),
        (["--repository", "http://example.com/a", *MAIN, "--credentials_dir", "/c"], "send the password in clear"),
        (["--repository", "http://a.svc.evil.com/a", *MAIN, "--credentials_dir", "/c"], "send the password in clear"),
        (["--repository", "HTTP://example.com/a", *MAIN, "--credentials_dir", "/c"], "send the password in clear"),
        (["--repository", "http://3221225991/a", *MAIN, "--credentials_dir", "/c"], "send the password in clear"),
        (["--repository", "http://10.0.0.1/a", *MAIN, "--credentials_dir", "/c"], "send the password in clear"),
    ],
)
def test_what_is_refused(capfd, arguments, message):
    assert message.replace(" ", "") in refused(capfd, *arguments)


@each_row(
    "repository",
    [
        "https://robot:s3cret@example.com/code",
        "https://s3cret@example.com/code",
        "https://robot:s3@s3cret@example.com/code",
        "ssh://robot:s3cret@example.com/code",
        "https://example.com/code?token=s3cret",
        "https://example.com/code#s3cret",
        "robot:s3cret@example.com:code",
        "https:robot:s3cret@example.com/code",
    ],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(capfd, repository):
    message = refused(capfd, "--repository", repository, *MAIN)
    assert "***" in message
    assert "Fix:" in message
    assert "s3cret" not in message


@each_row("host", ["git", "git.team.svc", "git.team.svc.cluster.local", "127.0.0.1", "[::1]", "localhost:8080"])
def test_inside_the_cluster_http_may_carry_a_password(host):
    arguments = ["--repository", f"http://{host}/code", "--destination", "/s", *MAIN, "--credentials_dir", "/c"]
    assert not parse(arguments).unprotected


def test_http_from_outside_is_warned_of_unless_the_commit_proves_the_code():
    common = ["--repository", "http://example.com/code", "--destination", "/s"]
    assert parse([*common, *MAIN]).unprotected
    assert not parse([*common, "--commit", "0" * 40]).unprotected


def test_the_program_starts_without_torch():
    program = "import sys, trainer.source.__main__; sys.exit(any(m in sys.modules for m in ('torch', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[4], check=False).returncode == 0
