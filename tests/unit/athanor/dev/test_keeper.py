"""When a development pod ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

from athanor.dev import keeper
from athanor.dev.keeper import cpu_seconds, keep


def test_it_ends_when_nobody_was_there_for_long_enough(tmp_path):
    alive = tmp_path / "alive"
    began = time.time()
    keep(alive, 0.3, look_seconds=0.05, first_seconds=0)
    assert time.time() - began >= 0.3
    assert alive.exists()


def test_the_first_client_has_longer_than_those_who_leave(tmp_path):
    alive, ended = tmp_path / "alive", threading.Event()
    keeping = threading.Thread(target=lambda: (keep(alive, 0.1, look_seconds=0.05, first_seconds=3600), ended.set()))
    keeping.start()
    while not alive.exists():
        time.sleep(0.01)
    assert not ended.wait(1)
    alive.touch()
    assert ended.wait(30)
    keeping.join()


def test_a_connected_client_keeps_it(tmp_path):
    alive, ended = tmp_path / "alive", threading.Event()
    keeping = threading.Thread(target=lambda: (keep(alive, 2, look_seconds=0.05, first_seconds=0), ended.set()))
    keeping.start()
    for _ in range(25):
        alive.touch()
        assert not ended.wait(0.1)
    assert ended.wait(30)
    keeping.join()


def test_a_program_that_empties_tmp_does_not_end_it(tmp_path):
    alive, ended = tmp_path / "alive", threading.Event()
    keeping = threading.Thread(
        target=lambda: (keep(alive, 0.5, look_seconds=0.05, first_seconds=0), ended.set()), daemon=True
    )
    keeping.start()
    while not alive.exists():
        time.sleep(0.01)
    alive.unlink()
    assert not ended.wait(0.3)
    assert ended.wait(30)


def test_so_does_a_program_that_works(tmp_path, monkeypatch):
    used = iter([0.0, 5.0, 10.0, 15.0])
    monkeypatch.setattr(keeper, "cpu_seconds", lambda: next(used, 15.0))
    alive = tmp_path / "alive"
    touched = []
    monkeypatch.setattr(keeper.time, "sleep", lambda _: touched.append(alive.stat().st_mtime_ns))
    monkeypatch.setattr(keeper.time, "time", lambda: alive.stat().st_mtime + (len(touched) > 3) * 100)
    keep(alive, 50, first_seconds=0)
    assert len(set(touched)) == 4


def test_a_kernel_that_does_not_count_says_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(keeper, "_USAGE", tmp_path / "none")
    assert cpu_seconds() == 0.0
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    monkeypatch.setattr(keeper, "_USAGE", tmp_path / "cpu.stat")
    assert cpu_seconds() == 2.5


def test_a_stop_ends_it_at_once(tmp_path):
    words = [sys.executable, keeper.__file__, str(tmp_path / "alive"), "3600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert "ends when no client is connected" in process.stdout.readline()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 143
