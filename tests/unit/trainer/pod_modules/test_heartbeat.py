"""What a rank writes about its progress, and what the liveness probe makes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainer.pod_modules.athanor_heartbeat import Heartbeat, stuck

REPOSITORY = Path(__file__).resolve().parents[4]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("trainer.pod_modules.athanor_heartbeat.time.monotonic", clock)
    return clock


def _read(heartbeat: Heartbeat) -> dict:
    return json.loads(heartbeat.path.read_text())


def test_steps_are_written_once_a_second_and_a_new_limit_at_once(tmp_path, clock):
    heartbeat = Heartbeat(tmp_path, rank=0)
    heartbeat.beat(1)
    clock.now += 0.5
    heartbeat.beat(2)
    assert _read(heartbeat)["step"] == 1
    heartbeat.expect("a step", 120)
    assert (_read(heartbeat)["step"], _read(heartbeat)["seconds"]) == (2, 120)
    clock.now += 1
    heartbeat.beat(3)
    assert _read(heartbeat)["step"] == 3
    assert [path.name for path in tmp_path.iterdir()] == ["heartbeat-rank-00000"]


def test_each_thing_that_a_rank_does_has_a_limit_of_its_own(tmp_path, clock):
    heartbeat = Heartbeat(tmp_path, rank=3)
    heartbeat.expect("the first step", 1800)
    clock.now += 1800
    assert not stuck(tmp_path, 60)
    heartbeat.expect("a step", 120)
    clock.now += 180
    assert not stuck(tmp_path, 60)
    clock.now += 1
    assert stuck(tmp_path, 60) == [
        "rank 3 has been at a step after step 0 for 181 s, longer than 120 s and a grace of 60 s"
    ]
    heartbeat.beat(1)
    assert not stuck(tmp_path, 60)


def test_two_checkpoints_in_a_row_have_the_limit_twice(tmp_path, clock):
    heartbeat = Heartbeat(tmp_path, rank=0)
    for _ in range(2):
        heartbeat.expect("a checkpoint", 100)
        clock.now += 99
    assert not stuck(tmp_path, 0)


def test_what_has_no_limit_is_not_stuck(tmp_path, clock):
    Heartbeat(tmp_path, rank=0).beat(1)
    clock.now += 1e6
    assert not stuck(tmp_path, 0)


def test_process_that_ended_is_not_stuck(tmp_path, clock):
    heartbeat = Heartbeat(tmp_path, rank=0)
    heartbeat.expect("a step", 1)
    clock.now += 100
    assert stuck(tmp_path, 0)
    for gone in ({"process_start": 1}, {"pid": 2**22 + 1}):
        heartbeat.path.write_text(json.dumps({**_read(heartbeat), **gone}))
        assert not stuck(tmp_path, 0), gone


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"rank": 0, "more": 1}'])
def test_file_that_says_nothing_is_not_stuck(tmp_path, content):
    (tmp_path / "heartbeat-rank-00000").write_text(content)
    assert not stuck(tmp_path, 0)


def test_file_that_cannot_be_written_is_removed_and_training_goes_on(tmp_path, clock, caplog):
    heartbeat = Heartbeat(tmp_path, rank=0)
    heartbeat.expect("a step", 1)
    (tmp_path / ".heartbeat-rank-00000.tmp").mkdir()
    clock.now += 100
    heartbeat.beat(1)
    assert not heartbeat.path.exists()
    assert "heartbeat-rank-00000: not written: " in caplog.text


def test_probe_of_a_real_process_fails_only_while_it_hangs(tmp_path):
    code = (
        "import pathlib, signal, sys; from trainer.pod_modules.athanor_heartbeat import Heartbeat; "
        "Heartbeat(pathlib.Path(sys.argv[1]), rank=0).expect('a step', 0); print('ready', flush=True); signal.pause()"
    )
    assert _probe(tmp_path).returncode == 0, "nothing has started"
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=REPOSITORY, stdout=subprocess.PIPE) as hanging:
        assert hanging.stdout.readline() == b"ready\n"
        assert _probe(tmp_path, "--grace_seconds", "600").returncode == 0
        failed = _probe(tmp_path, "--grace_seconds", "0")
        assert failed.returncode == 1
        assert "rank 0 has been at a step after step 0" in failed.stderr
        os.kill(hanging.pid, signal.SIGTERM)
    assert _probe(tmp_path, "--grace_seconds", "0").returncode == 0, "it is gone, and the file still there"


def _probe(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainer.heartbeat", "--work_dir", str(folder), *options]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_probe_needs_no_framework():
    code = "import sys, trainer.heartbeat; print({'torch', 'numpy', 'tensorflow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_grace_below_zero_is_refused(tmp_path):
    refused = _probe(tmp_path, "--grace_seconds", "-1")
    assert (refused.returncode, "grace_seconds=-1.0: must be at least 0" in refused.stderr) == (2, True)
