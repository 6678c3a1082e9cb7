"""A session with processes of this machine in kubectl's place: connections that are cut or hang, ports that end."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from athanor.command_line import parser
from athanor.dev import command as command_module
from athanor.dev import session as module
from athanor.dev import sides
from athanor.dev.command import _work
from athanor.dev.folder_lock import take
from athanor.dev.keeper import keep
from athanor.dev.session import Forwards, Session
from athanor.dev.sides import OwnFolder
from athanor.dev.tree import ALIVE
from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.long

KUBECTL = """
import json, os, pathlib, socket, subprocess, sys, threading
folder, words = pathlib.Path(sys.argv[1]), sys.argv[2:]
with (folder / "calls").open("ab", buffering=0) as calls:
    calls.write(json.dumps([os.getpid(), *words]).encode() + b"\\n")
if "port-forward" in words:
    if (folder / "refused").exists():
        sys.exit((folder / "refused").read_text())
    print("Forwarding from 127.0.0.1")
    server = socket.create_server(("127.0.0.1", int(words[-1].split(":")[0])))
    while True:
        server.accept()[0].close()
limits = json.loads((folder / "limits").read_text())
(folder / "limits").write_text(json.dumps(limits[1:]))
own = words[words.index("--") + 1:]
if not limits:
    os.execvp(own[0], own)
child = subprocess.Popen(own, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def copy(source, target, left):
    while left > 0 and (data := os.read(source, min(left, 4096))):
        os.write(target, data)
        left -= len(data)
    child.kill()
    os.write(2, b"error: lost connection to pod\\n")
    os._exit(1)
threading.Thread(target=copy, args=(0, child.stdin.fileno(), limits[0]["sent"])).start()
copy(child.stdout.fileno(), 1, limits[0]["received"])
"""
"""Runs a command of the pod here; the first connections end after so many bytes, in the middle of whatever they are."""


class Cluster:
    """A cluster with one pod, whose folder is one of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pod = folder, "dev-a-1"
        folder.mkdir()
        (folder / "kubectl.py").write_text(KUBECTL)
        (folder / "calls").touch()
        self.cuts([])

    @property
    def prefix(self) -> list[str]:
        return [sys.executable, str(self.folder / "kubectl.py"), str(self.folder)]

    def cuts(self, limits: list[dict[str, int]]) -> None:
        (self.folder / "limits").write_text(json.dumps(limits))

    def items(self, _kind: str, _selector: str):
        states = [{"name": "worker", "started": True, "state": {"running": {}}}]
        status = {"phase": "Running", "containerStatuses": states}
        spec = {"containers": [{"name": "worker"}]}
        return [{"metadata": {"name": self.pod}, "spec": spec, "status": status}] if self.pod else []

    @property
    def calls(self) -> list[list]:
        written = (self.folder / "calls").read_text().rpartition("\n")[0]
        return [json.loads(line) for line in written.splitlines()]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_ROUND_SECONDS", 0.02)
    monkeypatch.setattr(module, "_LONGEST_PAUSE_SECONDS", 0.1)
    cluster = Cluster(tmp_path / "cluster")
    yield cluster
    for pid, *_ in cluster.calls:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def there(tmp_path) -> Path:
    folder = tmp_path / "there"
    folder.mkdir()
    return folder


@pytest.fixture
def folders(here, there) -> tuple[Path, Path]:
    return here, there


@pytest.fixture
def session(cluster, here, there, tmp_path, said) -> Session:
    return Session(cluster, "dev-a", (OwnFolder(here), str(there)), tmp_path / "kept" / "equal.json", said.append)


def content(folder: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            with suppress(FileNotFoundError):  # a file on its way, which has its own name now
                texts[path.relative_to(folder).as_posix()] = path.read_text()
    return texts


def until(happens: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < end, "it never happens"
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(4))
def test_connections_that_are_cut_anywhere_are_opened_again_and_lose_nothing(session, cluster, folders, seed, said):
    draw, (here, there) = random.Random(seed), folders
    for folder in folders:
        for number in range(12):
            (folder / f"{folder.name}-{number}.py").write_text(f"{folder.name} {draw.random()}" * 40)
            (folder / f"both-{number}.py").write_text(f"{folder.name} {draw.random()}")
    texts = {*content(here).values(), *content(there).values()}
    # The program itself takes part in neither: it is an argument of the command.
    cuts = [{"sent": draw.randint(1, 9000), "received": draw.randint(15, 9000)} for _ in range(10)]
    cluster.cuts(cuts)
    with session:
        session.start()
        until(lambda: len(cluster.calls) > len(cuts) and content(here) == content(there))
    assert content(here) == content(there)
    assert set(content(here).values()) == texts
    assert "not copied: error: lost connection to pod" in said


def test_a_connection_that_is_cut_before_all_is_equal_is_opened_again(session, cluster, here, there):
    for number in range(8):
        (here / f"{number}.py").write_text("x" * 1000)
    cluster.cuts([{"sent": 3000, "received": 9000}])
    with session:
        session.settle()
        assert content(here) == content(there)
    assert len(cluster.calls) == 2


def test_what_was_written_last_comes_back_over_a_connection_that_was_lost_meanwhile(session, cluster, here, there):
    (here / "train.py").write_text("1")
    with session:
        session.settle()
        os.kill(cluster.calls[-1][0], signal.SIGKILL)
        (there / "result.txt").write_text("0.9")
    assert content(here) == {"train.py": "1", "result.txt": "0.9"}


def test_what_could_not_come_back_is_named(session, cluster, said):
    with session:
        session.settle()
        os.kill(cluster.calls[-1][0], signal.SIGKILL)
        cluster.pod = ""
    assert said == ["not copied: the pod does not run"]


def test_what_ends_the_command_is_not_printed_twice(session, here, said):
    (here / "a.py").write_text("1")
    session.settle()
    (here / "a.py").unlink()
    said.clear()
    with pytest.raises(RefusalError, match="has no files any more"), session:
        session.settle()
    assert said == []


def test_a_connection_that_hangs_as_after_a_sleep_is_given_up(session, cluster, here, there, monkeypatch):
    with session:
        session.settle()
        # Enough for the start of Python on a busy machine.
        monkeypatch.setattr(sides, "_ANSWER_SECONDS", 3)
        os.kill(cluster.calls[-1][0], signal.SIGSTOP)
        (here / "train.py").write_text("1")
        session.start()
        until(lambda: content(there) == {"train.py": "1"})
    assert len(cluster.calls) == 2


def test_a_pod_that_is_away_is_waited_for_and_named_once(session, cluster, here, there, said):
    cluster.pod = ""
    with session:
        session.start()
        until(lambda: said)
        time.sleep(0.5)
        assert said == ["not copied: the pod does not run"]
        (here / "train.py").write_text("1")
        cluster.pod = "dev-a-2"
        until(lambda: content(there) == {"train.py": "1"})
    assert "dev-a-2" in cluster.calls[-1]


_IDLE_SECONDS = 3.0
"""More than a client that does answer is silent on a busy machine."""


def test_a_pod_stays_while_its_client_answers_and_for_the_idle_time_after_that(session, cluster, tmp_path, monkeypatch):
    alive, ended = tmp_path / "alive", threading.Event()
    monkeypatch.setattr(sides, "_PROGRAM", sides._PROGRAM.replace(str(ALIVE), str(alive)))
    keeping = threading.Thread(target=lambda: (keep(alive, _IDLE_SECONDS, look_seconds=0.05), ended.set()))
    keeping.start()
    with session:
        session.start()
        assert not ended.wait(1.5 * _IDLE_SECONDS)
        asleep = time.monotonic()
        os.kill(cluster.calls[-1][0], signal.SIGSTOP)
        assert ended.wait(30)
        assert time.monotonic() - asleep > 0.8 * _IDLE_SECONDS
        os.kill(cluster.calls[-1][0], signal.SIGCONT)
    keeping.join()


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_a_port_that_ends_is_opened_again_in_the_pod_that_runs_then(cluster, port, capfd):
    with Forwards(cluster, "dev-a", [str(port)], print):
        until(lambda: answers(port))
        cluster.pod = "dev-a-2"
        os.kill(cluster.calls[-1][0], signal.SIGKILL)
        until(lambda: len(cluster.calls) == 2 and answers(port))
    assert not answers(port)
    assert [call[2:] for call in cluster.calls] == [
        ["--address=127.0.0.1", f"pod/dev-a-{number}", str(port)] for number in (1, 2)
    ]
    # What belongs to the user's command goes there alone.
    assert capfd.readouterr().out == ""


def test_a_port_that_cannot_be_opened_is_named_once_and_tried_again(cluster, port, said):
    refused = cluster.folder / "refused"
    refused.write_text("unable to listen on port: address already in use")
    with Forwards(cluster, "dev-a", [str(port)], said.append):
        until(lambda: len(cluster.calls) > 3)
        assert said == ["not forwarded: unable to listen on port: address already in use"]
        refused.unlink()
        until(lambda: answers(port))


def test_without_ports_no_process_starts(cluster, said):
    with Forwards(cluster, "dev-a", [], said.append):
        time.sleep(0.1)
    assert cluster.calls == []


@pytest.fixture
def work(cluster, here, there, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return lambda *words: _work(parser().parse_args(["dev", *words]), cluster, "dev-a", (here, str(there)))


@pytest.fixture
def sync_and_interrupt(work, here, there, monkeypatch):
    """Runs `athanor dev --sync-only`; files change on both sides, then comes Ctrl-C."""

    def run(between: Callable[[], None] = lambda: None) -> None:
        def interrupted(_seconds: float) -> None:
            (here / "train.py").write_text("1")
            between()
            until(lambda: content(there) == {"train.py": "1"})
            (there / "result.txt").write_text("0.9")
            raise KeyboardInterrupt

        monkeypatch.setattr(command_module, "time", SimpleNamespace(sleep=interrupted))
        assert work("--sync-only") == 0

    return run


def test_sync_only_keeps_the_folders_equal_until_it_is_interrupted(sync_and_interrupt, here):
    sync_and_interrupt()
    assert content(here) == {"train.py": "1", "result.txt": "0.9"}


def test_a_command_runs_in_the_pods_folder_and_what_it_wrote_is_here_when_it_has_ended(work, here, cluster, port):
    (here / "train.py").write_text("1")
    assert work("--forward", str(port), "--", "sh", "-c", "cp train.py copy.py; exit 3") == 3
    assert content(here) == {"train.py": "1", "copy.py": "1"}
    assert any("port-forward" in call for call in cluster.calls)


def test_a_command_may_have_variables_in_front_or_be_one_text(work, there):
    assert work("--", "A=1 b", "sh", "-c", 'printf "$A" > a') == 0
    assert work("--", "B='2 c' sh -c 'printf \"$B\" > b'") == 0
    assert content(there) == {"a": "1 b", "b": "2 c"}


def test_what_is_refused_is_left_out_and_all_else_goes_on(work, here, there, capsys):
    """One such file stopped the copying of all others, and a command ran the code of before."""
    (here / "train.py").write_text("1")
    (here / ".env").write_text("hunter2")
    (here / "out").symlink_to("/etc/passwd")
    (here / "up").symlink_to("..")
    (here / "closed").mkdir()
    assert work("--", "true") == 0
    assert content(there) == {"train.py": "1"}
    said = capsys.readouterr().err
    assert [said.count(name) for name in (".env", "out (", "up")] == [1, 0, 1]
    assert "not copied (looks like a secret" in said
    assert f"{there} in the pod are in sync, but for what is left out\n" in said
    (here / "train.py").write_text("2")
    assert work("--", "true") == 0
    assert content(there) == {"train.py": "2"}


def test_what_cannot_be_copied_is_not_called_equal(work, here, there, capsys):
    (here / "a").write_text("1")
    (there / "a" / "b").mkdir(parents=True)
    (there / "a" / "b" / "own.pyc").write_text("")  # no file of the code's, which would come here
    assert work("--", "true") == 0
    assert "in the pod are in sync, but for a" in capsys.readouterr().err


def test_a_second_terminal_calls_equal_what_it_has_compared_and_runs_no_former_code(
    work, folders, tmp_path, capsys, monkeypatch
):
    here, there = folders
    (here / "train.py").write_text("2")
    (there / "train.py").write_text("1")
    looks: list[float] = []
    monkeypatch.setattr(command_module, "time", SimpleNamespace(sleep=looks.append))
    with take(tmp_path / "data" / "athanor" / "dev" / "dev-a.lock"):
        with pytest.raises(
            RefusalError, match=r"files = 'train\.py': are not those in the pod\. Fix: see what the other"
        ):
            work("--", "touch", "ran")
        assert "are in sync" not in capsys.readouterr().err
        assert (content(there), len(looks)) == ({"train.py": "1"}, 20)

        def copied(_seconds: float) -> None:
            (there / "train.py").write_text("2")

        monkeypatch.setattr(command_module, "time", SimpleNamespace(sleep=copied))
        assert work("--", "touch", "ran") == 0
        assert "are in sync" in capsys.readouterr().err
        assert (there / "ran").exists()


def test_a_terminal_takes_over_when_the_one_ends_that_kept_the_folder_equal(
    sync_and_interrupt, folders, tmp_path, capsys
):
    here, there = folders
    first = take(tmp_path / "data" / "athanor" / "dev" / "dev-a.lock")
    assert first

    def end_the_first() -> None:
        assert content(there) == {}
        first.close()

    sync_and_interrupt(end_the_first)
    assert content(here) == {"train.py": "1", "result.txt": "0.9"}
    said = capsys.readouterr().err
    assert "this one takes over when that one ends" in said
    assert "the other athanor dev has ended: this one now syncs the folder" in said
