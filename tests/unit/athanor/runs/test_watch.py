"""`athanor watch` in a terminal of this test: what stays on the screen, and what a cluster that is away ends."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios

from athanor.runs.watch import fitted
from tests.fixtures.recorded_stack import REPOSITORY
from tests.tables import each_row

ROWS, COLUMNS = 12, 60
LIVE = """
import sys
from athanor.runs import patience, watch
from infra.errors import RefusalError

class Cluster:
    prefix = ["false"]
    namespace, asked = "team", None
    looks = iter(sys.argv[1:])
    def find(self, *_):
        phase = self.phase = next(self.looks)
        if phase == "away":
            raise RefusalError("API server", "https://c", "does not answer", "check the network")
        if phase == "deleted":
            return None
        metadata = {"name": "lr-1", "creationTimestamp": "2026-01-01T10:00:00Z"}
        return {"metadata": metadata, "spec": {"tasks": []}, "status": {"state": {"phase": phase}}}
    def items(self, *_):
        return [
            {"metadata": {"name": f"lr-1-worker-{n}"}, "status": {"phase": "Running"},
             "spec": {"nodeName": "gpu-7", "containers": [{"name": "worker"}]}}
            for n in range(60 if self.phase != "Pending" else 0)
        ]

class Reminder:
    def __init__(self, *_): pass
    def look(self): sys.stderr.write("reminded")

watch.Reminder = Reminder
watch._LOOK_SECONDS = patience._AWAY_SECONDS = 0.01
try:
    sys.exit(watch.watch(Cluster(), "lr", "lr-1", as_json=False))
except RefusalError as refusal:
    sys.exit(str(refusal))
"""


def live(*looks: str) -> tuple[int, str]:
    """Run the command in a terminal, with what the cluster says at each look; return its status and what it showed."""
    terminal, own = pty.openpty()
    termios.tcsetwinsize(own, (ROWS, COLUMNS))
    variables = {name: value for name, value in os.environ.items() if name not in {"LINES", "COLUMNS"}}
    command = subprocess.Popen(
        [sys.executable, "-c", LIVE, *looks], cwd=REPOSITORY, env=variables, stdin=own, stdout=own, stderr=own
    )
    os.close(own)
    output = b""
    while True:
        try:
            output += os.read(terminal, 1 << 16)
        except OSError:  # Linux: the other side is closed
            break
    os.close(terminal)
    return command.wait(), output.decode().replace("\r\n", "\n")


def test_all_that_matters_stays_on_the_screen_until_the_run_ends():
    status, written = live("Running", "Running", "Completed")
    assert status == 0
    _, *screens = written.split("\x1b[H\x1b[J")
    assert [screen.split()[1] for screen in screens] == ["Running", "Running", "Completed"]
    for screen in screens:
        lines = screen.splitlines()
        assert len(lines) == ROWS - 1
        assert lines[0].startswith("lr  ")
        assert lines[-1] == "  … and 51 more pods"


def test_volcanos_controller_is_reminded_while_there_are_no_pods():
    _, written = live("Pending", "Pending", "Running", "Completed")
    assert written.count("reminded") == 2


@each_row(("looks", "status"), [(("Running", "away", "away", "Failed"), 1), (("Running", "Aborted"), 0)])
def test_a_cluster_that_is_away_for_a_while_ends_nothing_and_is_said_once(looks, status):
    ended, written = live(*looks)
    assert ended == status
    assert written.count("the cluster does not answer, waiting up to 5 minutes: does not answer\n") == ("away" in looks)
    assert written.count("the cluster answers again\n") == ("away" in looks)


@each_row(("looks", "said"), [(("away",), "does not answer"), (("Running", "deleted"), "has no job")])
def test_the_first_look_and_a_deleted_job_are_not_waited_for(looks, said):
    status, written = live(*looks)
    assert status == 1
    assert said in written
    assert "waiting" not in written


def pod(number: int, phase: str) -> dict:
    return {"metadata": {"name": f"w-{number}"}, "spec": {"nodeName": "n"}, "status": {"phase": phase}}


def pod_lines(pods: list[dict], rows: int) -> list[str]:
    lines = fitted(["m" * 100], pods, os.terminal_size((20, rows)))
    assert all(len(line) <= 20 for line in lines)
    return [line.strip() for line in lines[1:]]


def test_where_not_all_pods_have_room_those_that_do_not_run_come_first():
    pods = [*(pod(number, "Running") for number in range(5)), pod(10, "Pending"), pod(9, "Failed")]
    assert pod_lines(pods, 6) == ["w-9  Failed  n", "w-10  Pending  n", "w-0  Running  n", "… and 4 more pods"]
    assert [line.split()[0] for line in pod_lines(pods, 9)] == ["w-0", "w-1", "w-2", "w-3", "w-4", "w-9", "w-10"]
    assert pod_lines(pods, 1) == ["… and 7 more pods"]
    assert pod_lines([], 1) == []
