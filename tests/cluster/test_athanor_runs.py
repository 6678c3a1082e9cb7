"""What somebody sees of runs and does to them, with nothing but the installed package: docs/user.md's later parts."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import urllib.request
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from athanor.inspection.gpus import requests
from athanor.inspection.objects import has_ended, node_of
from infra.kubernetes.quantities import quantity_value
from infra.monitoring.dashboards.queries import EXAMPLE_VALUES, queries
from tests.fixtures.engineer import SMALL
from tests.fixtures.monitoring import Monitoring
from tests.waiting import wait_until

if TYPE_CHECKING:
    import subprocess

    from tests.fixtures.engineer import Engineer


def test_its_curves_are_a_page(engineer: Engineer, trained: subprocess.CompletedProcess[str]) -> None:
    run = trained.stderr.splitlines()[-1].partition(":")[0]
    assert engineer.shell(f"athanor curves {run}").stdout == "curves.html\n"
    assert "<h2>loss</h2>" in (engineer.folder / "curves.html").read_text(encoding="utf-8")
    last = json.loads(engineer.shell(f"athanor curves --json {run}").stdout)["points"][-1]
    assert last["step"] == 100


def test_the_list_says_what_ran_and_how_it_did_also_when_the_job_is_gone(engineer: Engineer) -> None:
    program = "import os\nfrom athanor_run import report\nreport(step=1, loss=0.5, user=os.getuid())\n"
    (engineer.folder / "seen.py").write_text(program, encoding="utf-8")
    user = "--run-as-user 4321 --writable-root"
    engineer.shell(f"athanor run --kind batch --name seen {SMALL} {user} --follow -- python3 seen.py")
    before = next(run for run in engineer.listed() if run["run"] == "seen")
    assert (before["phase"], before["step"], before["latest"]) == ("Completed", 1, {"loss": 0.5, "user": 4321})
    assert before["arguments"]["command"] == "python3 seen.py"
    row = r"^seen +Completed .* 0\.5 +[0-9a-f]{12} +python3 seen\.py$"
    assert re.search(row, engineer.shell("athanor runs").stdout, re.MULTILINE)
    engineer.clone.kubectl("delete", "jobs.batch.volcano.sh", before["job"], "-n", "athanor")
    after = next(run for run in engineer.listed() if run["run"] == "seen")
    assert after == {**before, "phase": "gone"}


COUNTS = """
import http.server, signal, sys, threading, time
from athanor_run import checkpoint_dir, report, saved
file = checkpoint_dir() / "starts"
starts = int(file.read_text()) + 1 if file.exists() else 1
def save(*_):
    file.write_text(str(starts))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8123), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("start", starts, flush=True)
report(step=1, total_steps=1001, loss=0.5)
saved()
time.sleep(0.5)  # a step
report(step=2, total_steps=1001, loss=0.25)
while True:
    signal.pause()
"""


@pytest.fixture(scope="module")
def counting(engineer: Engineer) -> str:
    """The name of a run that counts its starts, saves at SIGTERM and answers HTTP."""
    (engineer.folder / "counts.py").write_text(COUNTS, encoding="utf-8")
    create = ("create", "secret", "generic", "wandb", "-n", "athanor", "--from-literal=WANDB_API_KEY=word")
    engineer.clone.kubectl(*create)
    words = "--secret wandb --secret wandb:/secrets/wandb"
    engineer.shell(f"athanor run --name counting {words} {SMALL} -- python3 counts.py")
    wait_until(lambda: '"step": 2' in engineer.shell("athanor logs counting", check=False).stdout, "the second step")
    return "counting"


def test_into_a_pod_by_a_shell_and_a_port(engineer: Engineer, counting: str) -> None:
    assert re.search(rf"^{counting}\b.*Running", engineer.shell("athanor status").stdout, re.MULTILINE)
    assert engineer.shell(f"athanor shell {counting} -- cat counts.py").stdout == COUNTS
    assert engineer.shell(f"athanor shell {counting} --rank 0 -- printenv HOSTNAME").stdout.startswith("counting-")
    assert engineer.shell(f"athanor shell {counting} -- printenv WANDB_API_KEY").stdout == "word\n"
    assert engineer.shell(f"athanor shell {counting} -- cat /secrets/wandb/WANDB_API_KEY").stdout == "word"
    assert engineer.shell(f"athanor shell {counting} -- sh -c 'exit 7'", check=False).returncode == 7
    assert (
        "has 1 running pod, the first is 0" in engineer.shell(f"athanor shell {counting} --pod 1", check=False).stderr
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = engineer.started(f"athanor port-forward {counting} {port}:8123")
    try:
        assert process.stdout
        assert f"Forwarding from 127.0.0.1:{port}" in process.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/counts.py", timeout=60) as answer:
            assert answer.read().decode() == COUNTS
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)


def test_a_stopped_run_saves_frees_its_pods_and_goes_on(engineer: Engineer, counting: str) -> None:
    engineer.shell(f"athanor stop {counting}")
    assert (
        engineer.clone.kubectl("get", "pods", "-n", "athanor", "-l", f"athanor.dev/job={counting}", "-o", "name") == ""
    )
    [listed] = [run for run in engineer.listed() if run["run"] == counting]
    assert (listed["phase"], listed["gpus"]) == ("Aborted", 0)
    assert "is stopped already" in engineer.shell(f"athanor stop {counting}", check=False).stderr

    engineer.shell(f"athanor resume {counting}")
    wait_until(lambda: "start 2" in engineer.shell("athanor logs counting", check=False).stdout, "the second start")


def test_files_go_to_a_volume_and_back_whole(engineer: Engineer, counting: str) -> None:
    folder = engineer.folder.parent / "cifar"  # not in the one whose code is sent
    folder.mkdir()
    (folder / "größe.bin").write_bytes(os.urandom(20_000_000))
    there = json.loads(engineer.shell("athanor copy --json ../cifar data:own/cifar").stdout)
    assert there["path"] == "/data/data/own/cifar"
    refused = engineer.shell("athanor copy ../cifar/größe.bin data:own/cifar", check=False)
    assert refused.returncode == 1
    assert "/data/data/own/cifar/größe.bin exists" in refused.stderr
    engineer.shell("athanor copy data:own/cifar ../back")
    assert (folder.parent / "back" / "größe.bin").read_bytes() == (folder / "größe.bin").read_bytes()
    assert not [name for name in engineer.clone.kubectl("get", "jobs", "-A", "-o", "name").split() if "/copy-" in name]
    # Through the run's own pod, which takes no job.
    done = engineer.shell(f"athanor copy {counting}:checkpoints/starts .")
    assert "waiting for a pod" not in done.stderr
    assert int((engineer.folder / "starts").read_text(encoding="utf-8")) >= 1


EVENTS = """
import os
from tensorboardX import SummaryWriter
with SummaryWriter(os.path.join("/data/output", os.environ["ATHANOR_JOB"])) as writer:
    writer.add_scalar("own/loss", 0.25, 1)
"""


def test_event_files_of_an_ended_run_are_in_tensorboard(engineer: Engineer) -> None:
    (engineer.folder / "events.py").write_text(EVENTS, encoding="utf-8")
    engineer.shell(f"athanor run --kind batch --name events {SMALL} --follow -- python3 events.py")
    board = engineer.started("athanor tensorboard events --port 0")
    try:
        assert board.stderr
        said = next(line for line in board.stderr if "http://" in line)
        address = re.search(r"http://\S+/", said)
        assert address
        assert "http://127.0.0.1:" in address[0] or "http://localhost:" in address[0]

        def tags() -> dict[str, Any]:
            with urllib.request.urlopen(f"{address[0]}data/plugin/scalars/tags", timeout=60) as answer:
                return json.load(answer)

        wait_until(lambda: "own/loss" in tags().get("events", {}), lambda: str(tags()))
    finally:
        os.killpg(board.pid, signal.SIGINT)
        board.communicate(timeout=60)
    assert board.returncode == 0
    assert not [name for name in engineer.clone.kubectl("get", "jobs", "-A", "-o", "name").split() if "/copy-" in name]


def test_the_progress_of_a_run_and_what_differs_from_another(
    engineer: Engineer, trained: subprocess.CompletedProcess[str], counting: str
) -> None:
    named = re.search(r"started: run (train-\w+)", trained.stderr)
    assert named
    seen = engineer.shell(f"athanor watch {named[1]}").stdout
    assert seen.startswith(f"{named[1]}  Completed  ")
    assert "  step 100" in seen
    assert re.search(r"  loss  .*[▁-█]{10}", seen)
    compared = engineer.shell(f"athanor compare {named[1]} {counting}").stdout
    assert re.search(r"^program +train.py .* +counts.py$", compared, re.MULTILINE)
    assert re.search(r"^latest step +100 +2$", compared, re.MULTILINE)
    assert re.search(rf"^{counting}: loss [▁-█]{{2}}$", compared, re.MULTILINE)


def test_what_a_program_reports_is_what_the_dashboards_show(engineer: Engineer, counting: str) -> None:
    monitoring = Monitoring(engineer.clone)
    panels = ("Progress", "Loss", "Time left", "Checkpoint age")
    asked = {each.panel: each.expr for each in queries({**EXAMPLE_VALUES, "workload": counting})
             if each.dashboard == "athanor-job" and each.panel in panels}  # fmt: skip

    def numbers() -> dict[str, float]:
        answers = {panel: monitoring.query(expr) for panel, expr in asked.items()}
        return {panel: float(series[0]["value"][1]) for panel, series in answers.items() if series}

    seen = wait_until(lambda: answers if set(answers := numbers()) == set(panels) else {}, lambda: str(numbers()))
    assert (seen["Progress"], seen["Loss"]) == (pytest.approx(2 / 1001), 0.25)
    assert 499 < seen["Time left"] < 999
    assert 0 < seen["Checkpoint age"] < 900


def test_why_estimates_a_start_by_the_steps_left_of_what_runs(engineer: Engineer, counting: str) -> None:
    # All that is free on the node, and more than half of what ends with the run.
    engineer.shell(f"athanor run --kind batch --name waits --cpu {free_millis(engineer) + 60}m -- python3 counts.py")
    of_a_team = wait_until(
        lambda: said if "start: " in (said := engineer.shell("athanor why waits").stdout) else "", "an estimate"
    )
    assert "start: not known; running jobs that are expected to end:" in of_a_team, of_a_team
    assert re.search(rf"^  {counting}: in 1?\dm .* \(steps left\)$", of_a_team, re.MULTILINE), of_a_team

    everything = f"--kubeconfig {engineer.clone.cluster.kubeconfig} --namespace athanor"
    start = json.loads(engineer.shell(f"athanor why {everything} --json waits").stdout)["start"]
    [end] = start["ends"]
    assert (start["after"], start["latest"], end["run"], end["by"]) == ([counting], False, counting, "steps left")
    left = (datetime.fromisoformat(start["at"]) - datetime.now(UTC)).total_seconds()
    assert 450 < left < 999
    engineer.shell("athanor delete waits")


def free_millis(engineer: Engineer) -> int:
    """Return what no pod requests of the node's CPUs, in thousandths."""
    [node] = engineer.clone.objects("nodes")
    pods = engineer.clone.get("api/v1/pods")["items"]
    held = sum(requests(pod["spec"])["cpu"] for pod in pods if not has_ended(pod) and node_of(pod))
    return math.floor((quantity_value(node["status"]["allocatable"]["cpu"]) - held) * 1000)


def test_what_a_run_printed_outlives_its_pods_for_those_who_may_ask_the_store(
    engineer: Engineer, trained: subprocess.CompletedProcess[str]
) -> None:
    named = re.search(r"started: run (train-\w+), job (\S+)", trained.stderr)
    assert named
    run, job = named[1], named[2]
    engineer.clone.kubectl("delete", "jobs.batch.volcano.sh", job, "-n", "athanor", "--wait")
    wait_until(
        lambda: not engineer.clone.objects("pods", f"volcano.sh/job-name={job}"), lambda: "pods of a deleted job"
    )
    refused = engineer.shell(f"athanor logs {run}", check=False)
    assert (refused.returncode, "you have no access to the platform's log store" in refused.stderr) == (1, True)

    engineer.clone.kubectl("apply", "-f", str(engineer.clone.folder / "examples" / "team" / "past-logs.yaml"))
    assert re.search(r'^\[worker-0\] \{.*"step": 100\b', engineer.shell(f"athanor logs {run}").stdout, re.MULTILINE)
    [curves] = engineer.shell(f"athanor curves --json {run}").stdout.splitlines()
    assert [point["step"] for point in json.loads(curves)["points"]][-1] == 100
