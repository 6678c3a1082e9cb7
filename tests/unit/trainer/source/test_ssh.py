"""Repositories over ssh: a program in place of `ssh` runs git's own server here, or says what ssh would."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.git_server import Repository
from tests.unit.trainer.source.fetched import files, record_of
from trainer.source.__main__ import main
from trainer.source.errors import RetryableError, SourceError
from trainer.source.ssh import meaning, read_key

if TYPE_CHECKING:
    from pathlib import Path

PLAYED = """#!/bin/sh
printf '%s\\n' "$@" > {folder}/words
{before}
for command; do :; done
exec sh -c "$command"
"""


@pytest.fixture
def key_dir(tmp_path) -> Path:
    folder = tmp_path / "key of mine"
    folder.mkdir()
    (folder / "ssh-privatekey").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (folder / "known_hosts").write_text("git.example ssh-ed25519 AAAA\n")
    return folder


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Put a program called ssh first on PATH, which does something before it runs its command."""

    def play(before: str = "") -> Path:
        program = tmp_path / "bin" / "ssh"
        program.parent.mkdir(exist_ok=True)
        program.write_text(PLAYED.format(folder=shlex.quote(str(tmp_path)), before=before))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return tmp_path / "words"

    return play


@pytest.fixture
def over_ssh(repository, destination, key_dir):
    def run(*arguments: str) -> int:
        address = f"ssh://robot@git.example:2222{repository.folder}"
        words = ["--repository", address, "--destination", str(destination), "--credentials_dir", str(key_dir)]
        return main([*words, "--branch", "main", *arguments])

    return run


def test_a_branch_comes_over_ssh_with_the_secrets_key_and_hosts(repository, over_ssh, play, destination, key_dir):
    words = play()
    repository.commit({"train.py": "print()", "a/b": "1"})
    assert over_ssh() == 0
    assert files(destination) == {"train.py": "print()", "a/b": "1"}
    assert record_of(destination)["commit"] == repository.head()
    given = words.read_text().splitlines()
    assert f'IdentityFile="{key_dir / "ssh-privatekey"}"' in given
    assert f'UserKnownHostsFile="{key_dir / "known_hosts"}"' in given
    assert {"StrictHostKeyChecking=yes", "BatchMode=yes", "IdentitiesOnly=yes", "robot@git.example"} <= set(given)
    assert given[given.index("-p") + 1] == "2222"


def test_a_submodule_of_the_same_server_comes_over_ssh_too(repository, over_ssh, play, destination):
    """Also a commit that no branch ends with, from an sshd that drops GIT_PROTOCOL, as they do by default."""
    play("unset GIT_PROTOCOL")
    library = Repository(repository.folder.with_name("library"))
    old = library.commit({"loss.py": "old"})
    library.commit({"loss.py": "new"})
    repository.commit({"train.py": "print()"})
    repository.add_submodule("library", "../library", old)
    assert over_ssh() == 0
    assert files(destination)["library/loss.py"] == "old"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("git@git.example: Permission denied (publickey).", "the key is refused"),
        ("Host key verification failed.", "host key is not the one in known_hosts"),
        ("No ED25519 host key is known for git.example and you have requested strict checking.", "host key is not"),
        ("fatal: '/gone.git' does not appear to be a git repository", "no such repository, or hidden from this key"),
    ],
)
def test_what_trying_again_would_not_help_ends_it_at_once(repository, over_ssh, play, capfd, *, said, message):
    play(f"echo {shlex.quote(said)} >&2; exit 255")
    repository.commit({"train.py": "print()"})
    assert over_ssh() == 1
    assert message in capfd.readouterr().err


def test_a_server_that_is_away_is_tried_again(repository, over_ssh, play, destination, tmp_path):
    lost = "echo 'ssh: connect to host git.example port 2222: Connection refused' >&2; exit 255"
    play(f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; {lost}; }}")
    repository.commit({"train.py": "print()"})
    assert over_ssh() == 0
    assert files(destination) == {"train.py": "print()"}


def test_words_of_ssh():
    assert isinstance(meaning([b"ssh: Could not resolve hostname x"]), RetryableError)
    assert isinstance(meaning([]), RetryableError)
    assert "\x1b" not in str(meaning([b"Permission denied \x1b[31m"]))


@pytest.mark.parametrize("name", ["ssh-privatekey", "known_hosts"])
def test_a_secret_without_one_of_its_files_is_refused(key_dir, name):
    (key_dir / name).write_text("")
    with pytest.raises(SourceError, match=f"{name}: is missing or empty. Fix: a Secret of type kubernetes.io/ssh-auth"):
        read_key(key_dir)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ssh://git:word@git.example/a", "must hold no user name or password"),
        ("ssh://-oProxyCommand=x/a", "must be an https://, http:// or ssh:// URL"),
        ("ssh://git@-oProxyCommand=x/a", "must be an https://, http:// or ssh:// URL"),
        ("ssh://git@git.example/a", "ssh needs a key"),
    ],
)
def test_addresses_that_are_refused(destination, capfd, address, said):
    with pytest.raises(SystemExit):
        main(["--repository", address, "--destination", str(destination), "--branch", "main"])
    output = "".join(capfd.readouterr())
    assert said in " ".join(output.replace("│", " ").split())
    assert "word@" not in output


def test_the_real_ssh_takes_the_options(key_dir):
    words = [*shlex.split(read_key(key_dir).command), "-G", "git@git.example"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    settings = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert (settings["stricthostkeychecking"], settings["batchmode"]) == ("true", "yes")
    assert settings["userknownhostsfile"] == str(key_dir / "known_hosts")
