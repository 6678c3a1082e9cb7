"""An interrupted run lets the engine end by itself: killed, it would not know what its last calls made."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.waiting import wait_until
from tools.acceptance.steady_engine import SteadyEngine
from tools.process import CommandError

SLOW = """#!{python} -S
import pathlib, signal, sys, time
folder = pathlib.Path({folder!r})
ends = []
signal.signal(signal.SIGINT, lambda *_: ends.append(1))
(folder / "running").touch()
while len(ends) < {interrupts}:
    time.sleep(0.01)
    (folder / f"interruptions-{{len(ends)}}").touch()
time.sleep(1)  # longer than the quarter of a second after which subprocess.run kills
(folder / "state-written").touch()
print("cancelled after", len(ends))
sys.exit(1)
"""


pytestmark = pytest.mark.usefixtures("own_folders")


def engine(tmp_path, text):
    program = tmp_path / "pulumi"
    program.write_text(text)
    program.chmod(0o755)
    return SteadyEngine(pulumi=program, stack="dev", project=tmp_path)


@pytest.mark.parametrize("interrupts", [1, 2])
def test_an_interruption_is_passed_on_and_the_end_is_waited_for(tmp_path, interrupts):
    text = SLOW.format(python=sys.executable, folder=str(tmp_path), interrupts=interrupts)

    def press():
        wait_until((tmp_path / "running").exists, "the engine to run")
        for number in range(interrupts):
            os.kill(os.getpid(), signal.SIGINT)
            # Two at once are one to the kernel; after the last one the engine ends without a word.
            if number + 1 < interrupts:
                wait_until((tmp_path / f"interruptions-{number + 1}").exists, "the engine to have it")

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine(tmp_path, text).run("up")
    thread.join()
    assert (tmp_path / "state-written").exists()
    log = (tmp_path / "home" / "logs" / "pulumi-dev.log").read_text()
    assert f"cancelled after {interrupts}" in log


def test_an_interruption_before_the_engine_is_known_is_passed_on(tmp_path, monkeypatch):
    class InterruptedAtItsStart(subprocess.Popen):
        def __init__(self, *words, **options):
            super().__init__(*words, **options)
            wait_until((tmp_path / "running").exists, "the engine to run")
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", InterruptedAtItsStart)
    with pytest.raises(KeyboardInterrupt):
        engine(tmp_path, SLOW.format(python=sys.executable, folder=str(tmp_path), interrupts=1)).run("up")
    assert (tmp_path / "state-written").exists()


def test_it_does_not_share_the_terminals_interruption(tmp_path):
    """Ctrl-C reaches the whole foreground group: twice at once would make the engine give up at the first."""
    process_group = engine(tmp_path, "#!/bin/sh\nps -o pgid= -p $$\n").run("whoami")
    assert int(process_group) != os.getpgrp()


def test_it_answers_and_fails_like_the_engine(tmp_path):
    assert engine(tmp_path, "#!/bin/sh\necho $1\n").run("up").startswith("up")
    with pytest.raises(CommandError, match="no such stack"):
        engine(tmp_path, "#!/bin/sh\necho no such stack >&2\nexit 255\n").run("up")
