"""An expired temporary key ends the engine before it starts, and while it waits for the cloud."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from athanor.account import temporary_key
from athanor.account.temporary_key import check_temporary_key
from infra.errors import RefusalError
from tests.api_double.double import ApiDouble
from tests.api_double.signatures import Credential
from tests.fixtures.cloud_identities import temporary_credentials
from tests.waiting import PATIENCE_SECONDS, wait_until
from tools.paths import REPOSITORY

ENGINE = ["/bin/sh", "-c", 'trap "echo stopped; exit 7" INT; echo runs; while :; do sleep 0.1; done', "pulumi"]
QUICK = (
    # A shell lets what it starts in the background ignore Ctrl-C, and then no trap of the engine's would see it.
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL);"
    " from athanor.account import temporary_key as t; t._SECONDS_BETWEEN_QUESTIONS = 0.1; t.main(sys.argv[1:])"
)


@pytest.fixture(scope="module")
def double(tmp_path_factory):
    with ApiDouble(tmp_path_factory.mktemp("double"), settling_reads=0) as double:
        yield double


def key(double, name: str, *, expired: bool = False) -> dict[str, str]:
    own = temporary_credentials(double, name, Credential("of a while", "for a while"))
    if expired:
        double.account.end_session(name)
    return {**double.environment(), **own}


def test_an_expired_key_is_refused_in_one_sentence(double):
    with pytest.raises(RefusalError, match=r"^credentials = 'STS.old': this temporary key has expired. Fix: get a new"):
        check_temporary_key(key(double, "STS.old", expired=True))


def test_a_good_key_passes_and_nobody_is_asked_about_one_that_cannot_expire(double):
    check_temporary_key(key(double, "STS.good"))
    before = len(double.log.calls())
    check_temporary_key({"ALIBABA_CLOUD_ACCESS_KEY_ID": "a", "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "b"})
    assert len(double.log.calls()) == before


def test_whatever_else_is_wrong_with_a_key_is_left_to_the_provider(double):
    check_temporary_key({**key(double, "STS.wrong"), "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "another"})


@pytest.mark.parametrize(
    ("words", "concerns"),
    [
        (["up", "--stack", "dev"], True),
        (["destroy", "-s=organization/athanor/dev"], True),
        (["preview", "-slocal"], False),
        (["refresh", "--stack=elsewhere"], True),
        (["stack", "ls"], False),
        (["up"], False),
    ],
)
def test_only_commands_and_stacks_of_the_cloud_are_held_up(tmp_path, monkeypatch, words, concerns):
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {athanor:alicloud: {}}")
    (tmp_path / "Pulumi.local.yaml").write_text("config: {}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PULUMI_STACK", "local")
    assert temporary_key._concerns_the_cloud(["pulumi", *words]) is concerns


def test_a_key_that_expires_meanwhile_stops_the_engine(double, tmp_path):
    variables = {**os.environ, **key(double, "STS.ends"), "PYTHONPATH": str(REPOSITORY)}
    words = [sys.executable, "-c", QUICK, *ENGINE, "destroy", "--stack", "dev"]
    with subprocess.Popen(words, cwd=tmp_path, env=variables, text=True, stdout=-1, stderr=-1) as engine:
        assert engine.stdout
        assert engine.stdout.readline() == "runs\n"
        asked = len(double.log.calls())
        wait_until(lambda: len(double.log.calls()) > asked, "the next question")
        double.account.end_session("STS.ends")
        try:
            printed, complaint = engine.communicate(timeout=PATIENCE_SECONDS)
        finally:
            engine.kill()
    assert (engine.returncode, printed) == (7, "stopped\n")
    assert "credentials = 'STS.ends': this temporary key has expired" in complaint
    assert "make recover" in complaint
