"""Where the stacks of runs are kept: with a Pulumi that is logged in, and without one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from athanor.runs import backend
from athanor.runs.backend import engine_variables, own_passphrase
from infra.errors import RefusalError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("PULUMI_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def _pulumi(folder: Path, script: str) -> None:
    (folder / "pulumi").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / "pulumi").chmod(0o755)


def _logged_in(folder: Path, url: str) -> None:
    _pulumi(folder, f'echo \'{{"user": "me", "url": "{url}"}}\'')


def test_without_a_login_a_private_folder_of_the_user_is_used(own):
    _pulumi(own, "echo 'PULUMI_ACCESS_TOKEN must be set' >&2; exit 255")
    variables = engine_variables()
    runs, passphrase = own / "data" / "athanor" / "runs", own / "data" / "athanor" / "passphrase"
    assert variables == {"PULUMI_BACKEND_URL": runs.as_uri(), "PULUMI_CONFIG_PASSPHRASE_FILE": str(passphrase)}
    assert runs.stat().st_mode & 0o077 == 0
    assert passphrase.stat().st_mode & 0o077 == 0
    first = passphrase.read_text(encoding="utf-8")
    assert len(first) > 30
    assert engine_variables() == variables
    assert passphrase.read_text(encoding="utf-8") == first
    assert sorted(file.name for file in passphrase.parent.iterdir()) == ["passphrase", "runs"]


def test_a_login_is_used_as_it_is(own):
    _logged_in(own, "https://app.pulumi.com/me")
    assert engine_variables() == {}


def test_a_bucket_needs_a_passphrase_and_the_users_own_is_kept(own, monkeypatch):
    _logged_in(own, "s3://team-runs")
    assert list(engine_variables()) == ["PULUMI_CONFIG_PASSPHRASE_FILE"]
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "")
    assert engine_variables() == {}


def test_runs_in_a_folder_do_not_depend_on_the_shells_passphrase(own, monkeypatch):
    _logged_in(own, "file:///home/me/state")
    assert own_passphrase(engine_variables()) == {}, "the variable of a file is enough where the shell has none"
    words = []
    for shells in ("one", "another"):
        monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", shells)
        words.append(own_passphrase(engine_variables())["PULUMI_CONFIG_PASSPHRASE"])
    assert words[0] == words[1] == (own / "data/athanor/passphrase").read_text(encoding="utf-8")
    _logged_in(own, "s3://team-runs")
    assert own_passphrase(engine_variables()) == {}, "a colleague's machine has another file"


def test_without_pulumi_the_message_says_where_to_get_it(own, monkeypatch):
    monkeypatch.setenv("PATH", str(own))
    with pytest.raises(RefusalError, match=r"pulumi\.com/docs/install"):
        engine_variables()


NO_LOGIN = "echo 'error: PULUMI_ACCESS_TOKEN must be set for login' >&2; exit 3"


@pytest.mark.parametrize("said", ["error: unable to open bucket: no such file or directory", NO_LOGIN.split("'")[1]])
def test_a_chosen_backend_that_does_not_answer_is_not_replaced_by_another(own, monkeypatch, said):
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://team-runs")
    _pulumi(own, f"echo '{said}' >&2; exit 3")
    with pytest.raises(RefusalError, match=f"Pulumi backend = 's3://team-runs': {said.removeprefix('error: ')}. Fix"):
        engine_variables()
    assert not (own / "data").exists()


def test_a_login_that_is_no_longer_valid_is_refused(own, monkeypatch):
    monkeypatch.setenv("PULUMI_HOME", str(own))
    _pulumi(own, NO_LOGIN)
    (own / "credentials.json").write_text('{"current": ""}', encoding="utf-8")
    assert "PULUMI_BACKEND_URL" in engine_variables()
    (own / "credentials.json").write_text('{"current": "https://api.pulumi.com"}', encoding="utf-8")
    with pytest.raises(RefusalError, match=r"'https://api\.pulumi\.com': PULUMI_ACCESS_TOKEN .* `pulumi login`"):
        engine_variables()


def test_a_backend_that_does_not_answer_ends_the_wait(own, monkeypatch):
    monkeypatch.setattr(backend, "_WHOAMI_SECONDS", 0.1)
    _pulumi(own, "exec sleep 60")
    with pytest.raises(RefusalError, match=r"did not answer in 0\.1 s"):
        engine_variables()
