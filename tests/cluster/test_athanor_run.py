"""docs/user.md's first page: somebody with the installed package, a team's kubeconfig and a folder trains a script."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.documentation import command_with, own_command, own_script
from tests.fixtures.example import team_kubeconfig
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.fixtures.clone import Clone

SMALL = "--cpu 100m"
KINDS = "configmaps,networkpolicies,jobs.batch.volcano.sh"


@dataclass(frozen=True, kw_only=True)
class Engineer:
    """Somebody who has never seen the repository."""

    clone: Clone
    folder: Path
    variables: Mapping[str, str]

    def shell(self, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=dict(self.variables), check=False, timeout=900,
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done

    def started(self, command: str) -> subprocess.Popen[str]:
        # A shell ignores Ctrl-C for what it starts in the background, such as all of these tests.
        heeding = ("env", "--default-signal=INT", *command.split())
        return subprocess.Popen(
            heeding, cwd=self.folder, env=dict(self.variables), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def objects_of(self, run: str) -> list[str]:
        """Return the names of the cluster's objects that a run declares."""
        answer = self.clone.kubectl("get", KINDS, "-n", "athanor", "-o", "name")
        return [name for name in answer.splitlines() if f"-runs-{run}-" in name or f"/{run}-" in name]

    def listed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.shell("athanor runs --json").stdout.splitlines()]

    def jobs(self) -> dict[str, dict[str, Any]]:
        return {job["metadata"]["labels"]["athanor.dev/job"]: job for job in self.clone.objects("jobs")}


@pytest.fixture(scope="module")
def engineer(served: Clone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engineer]:
    """Somebody with the package from a wheel and nothing of the clone but its `pulumi` and `kubectl` on PATH."""
    home = tmp_path_factory.mktemp("engineer")
    package, folder = home / "package", home / "own"
    folder.mkdir()
    # Its dependencies are those of the tests: tests/engine/test_package.py installs them, too.
    words = ("install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(package), str(served.folder))
    served.run(sys.executable, "-m", "pip", *words)
    variables = {
        **served.environment,
        "PATH": os.pathsep.join([str(package / "bin"), str(served.folder / ".venv" / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(package),
        "KUBECONFIG": str(team_kubeconfig(served)),
        # Not the backend of the platform, which the run must not need.
        "PULUMI_BACKEND_URL": (home / "backend").as_uri(),
        "XDG_DATA_HOME": str(home / "data"),
    }
    (home / "backend").mkdir()
    engineer = Engineer(clone=served, folder=folder, variables=variables)
    try:
        yield engineer
    finally:
        for run in engineer.listed():
            engineer.shell(f"athanor delete {run['run']}")


@pytest.fixture(scope="module")
def trained(engineer: Engineer) -> subprocess.CompletedProcess[str]:
    """What the command of docs/user.md printed, in a folder with the script of docs/user.md alone."""
    (engineer.folder / "train.py").write_text(own_script(), encoding="utf-8")
    return engineer.shell(own_command())


def test_the_script_trains_as_the_page_says(trained: subprocess.CompletedProcess[str]) -> None:
    assert re.search(r'^\[worker-0\] \{"step": 100, "loss": 0\.\d+\}', trained.stdout, re.MULTILINE), trained.stdout
    assert "PyTorchJob train-" in trained.stderr
    assert "2 pods of 250m CPU" in trained.stderr
    assert re.search(r"^queue: training, .* as far as you may see; pool: any", trained.stderr, re.MULTILINE)
    assert trained.stderr.splitlines()[-1].endswith(": Completed")


def test_its_curves_are_a_page(engineer: Engineer, trained: subprocess.CompletedProcess[str]) -> None:
    run = trained.stderr.splitlines()[-1].partition(":")[0]
    assert engineer.shell(f"athanor curves {run}").stdout == "curves.html\n"
    assert "<h2>loss</h2>" in (engineer.folder / "curves.html").read_text(encoding="utf-8")
    last = json.loads(engineer.shell(f"athanor curves --json {run}").stdout)["points"][-1]
    assert last["step"] == 100


def test_a_program_with_the_five_arguments_of_uai_train(engineer: Engineer) -> None:
    """As the page prints it; the trainer is in the image."""
    done = engineer.shell(command_with("--num_gpu"))
    assert done.stderr.splitlines()[-1] == "digits: Completed"
    [digits] = [run for run in engineer.listed() if run["run"] == "digits"]
    assert digits["latest"]["loss"] < 1
    assert list((engineer.clone.home / "local" / "volumes" / "output" / "digits-logs").iterdir())


def test_an_edited_script_is_another_job_that_replaces_the_first(engineer: Engineer) -> None:
    (engineer.folder / "edited.py").write_text('print("before")\n', encoding="utf-8")
    command = f"athanor run --kind batch --name edited {SMALL} --follow"
    assert "before" in engineer.shell(f"{command} -- python3 edited.py").stdout
    first = engineer.jobs()["edited"]["metadata"]["name"]
    (engineer.folder / "edited.py").write_text('print("after")\n', encoding="utf-8")
    refused = engineer.shell(f"{command} -- python3 edited.py", check=False)
    assert refused.returncode == 1
    assert "--name = 'edited': is the name of a run of yours" in refused.stderr
    assert "after" in engineer.shell(f"{command} --replace -- python3 edited.py").stdout
    assert engineer.jobs()["edited"]["metadata"]["name"] != first
    assert len([name for name in engineer.objects_of("edited") if name.startswith("configmap/code.")]) == 1
    assert "why: edited completed at " in engineer.shell("athanor why edited").stdout
    before = engineer.jobs()["edited"]["metadata"]
    engineer.shell("athanor rerun edited --fresh")
    assert "after" in engineer.shell("athanor logs --follow edited").stdout
    again = engineer.jobs()["edited"]["metadata"]
    assert (again["name"], again["uid"] == before["uid"]) == (before["name"], False)


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


def test_packages_are_installed_first_and_caches_outlive_the_run(engineer: Engineer) -> None:
    folder = engineer.folder.parent / "prepared"
    folder.mkdir()
    # Where `pip install --user` puts packages; the image has no pip.
    install = "import os, site\nfolder = site.getusersitepackages()\nos.makedirs(folder)\n"
    install += "open(os.path.join(folder, 'own_package.py'), 'w').write('NAME = \"own\"')\n"
    (folder / "install.py").write_text(install, encoding="utf-8")
    program = "import os, pathlib, own_package\npathlib.Path(os.environ['XDG_CACHE_HOME']).mkdir(parents=True)\n"
    program += "pathlib.Path(os.environ['XDG_CACHE_HOME'], 'kept').write_text(own_package.NAME)\n"
    (folder / "use.py").write_text(program, encoding="utf-8")
    words = "--name prepared --cpu 250m --prepare 'python3 install.py' --cache own --follow"
    replace(engineer, folder=folder).shell(f"athanor run {words} -- python3 use.py")
    caches = engineer.clone.home / "local" / "volumes" / "output" / "caches"
    assert (caches / "own" / "kept").read_text(encoding="utf-8") == "own"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--queue nope -- python train.py", "queue = 'nope': the platform has no queue of that name. Fix: use one of "),
        ("-- bash train.py", "program = 'bash': the job runs torchrun itself"),
    ],
)
def test_what_a_preview_refuses_is_refused_in_the_same_words(engineer: Engineer, words: str, message: str) -> None:
    (engineer.folder / "train.py").write_text(own_script(), encoding="utf-8")
    before = engineer.shell("athanor runs").stdout
    refused = engineer.shell(f"athanor run {words}", check=False)
    assert refused.returncode == 1
    assert f"athanor run: {message}" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert engineer.shell("athanor runs").stdout == before


def test_two_start_at_once_ctrl_c_detaches_and_delete_leaves_nothing(engineer: Engineer) -> None:
    sleeps = "print('begun', flush=True); import time; time.sleep(3600)"
    (engineer.folder / "sleeps.py").write_text(sleeps, encoding="utf-8")
    words = f"athanor run --kind batch {SMALL} --follow --name"
    runs = {name: engineer.started(f"{words} {name} -- python3 sleeps.py") for name in ("first", "second")}
    for name, process in runs.items():
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "begun" in line, f"{name}: {line}{process.communicate()[1]}"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        assert f"detached; the run goes on: athanor logs --follow {name}" in said
    assert {run["phase"] for run in engineer.listed() if run["run"] in runs} == {"Running"}
    assert "begun" in engineer.shell("athanor logs first").stdout
    for name in runs:
        assert engineer.objects_of(name)
        engineer.shell(f"athanor delete {name}")
        wait_until(lambda name=name: not engineer.objects_of(name), lambda name=name: str(engineer.objects_of(name)))


COUNTS = """
import os, pathlib, signal, sys, threading, http.server
saved = pathlib.Path("/data/output", os.environ["ATHANOR_JOB"], "starts")
saved.parent.mkdir(parents=True, exist_ok=True)
starts = int(saved.read_text()) + 1 if saved.exists() else 1
def save(*_):
    saved.write_text(str(starts))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8123), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("start", starts, flush=True)
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
    engineer.shell(f"athanor run --kind batch --name counting {words} {SMALL} -- python3 counts.py")
    wait_until(lambda: "start 1" in engineer.shell("athanor logs counting", check=False).stdout, "the first line")
    return "counting"


def test_into_a_pod_by_a_shell_and_a_port(engineer: Engineer, counting: str) -> None:
    assert engineer.shell(f"athanor shell {counting} -- cat counts.py").stdout == COUNTS
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
    done = engineer.shell(f"athanor copy {counting}:starts .")
    assert "waiting for a pod" not in done.stderr
    assert int((engineer.folder / "starts").read_text(encoding="utf-8")) >= 1


def test_a_pod_to_develop_in_has_the_files_of_the_folder_and_gives_its_own_back(engineer: Engineer) -> None:
    folder = engineer.folder.parent / "developed"
    folder.mkdir()
    (folder / "grow.py").write_text(
        "import sys; open('made.txt', 'a').write(sys.argv[1]); sys.exit(7)", encoding="utf-8"
    )
    there = replace(engineer, folder=folder)
    first = there.shell(f"athanor dev --idle 5s {SMALL} -- python3 grow.py 1", check=False)
    assert first.returncode == 7, first.stderr
    assert (folder / "made.txt").read_text(encoding="utf-8") == "1"
    [name] = [run["run"] for run in engineer.listed() if run["run"].startswith("dev-developed-")]
    assert "this folder has a pod already" in there.shell("athanor dev --gpus 1 -- true", check=False).stderr

    # Nobody is connected, so it ends; the next command finds the files in the volume, and the deletion counts.
    wait_until(lambda: engineer.jobs()[name]["status"]["state"]["phase"] == "Completed", "the pod to be idle")
    (folder / "new.py").write_text("print('new')", encoding="utf-8")
    (folder / "grow.py").unlink()
    again = there.shell("athanor dev -- sh -c 'ls; python3 new.py; cat made.txt'")
    assert again.stdout.split() == ["made.txt", "new.py", "new", "1"]
    assert "copied to the pod: new.py" in again.stderr
    there.shell("athanor dev --stop")
    assert not [run for run in engineer.listed() if run["run"] == name]


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
    assert re.search(r"^kind +PyTorchJob +BatchJob$", compared, re.MULTILINE)
    assert re.search(r"^latest step +100 +-$", compared, re.MULTILINE)


TUNED = """
import json, signal, sys
rate = int(sys.argv[1])
for step in (1, 2, 3):
    print(json.dumps({"step": step, "loss": rate / step}), flush=True)
if rate == 9:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pause()
"""


def test_a_sweep_survives_its_client_and_stops_the_worse_trial(engineer: Engineer) -> None:
    (engineer.folder / "tuned.py").write_text(TUNED, encoding="utf-8")
    search = "--param rate=1,9 --search grid --parallel 2 --stop-early median --stop-early-after 1"
    killed = engineer.started(f"athanor sweep --name tune --kind batch {SMALL} {search} -- python3 tuned.py {{rate}}")
    assert killed.stderr is not None
    said = iter(killed.stderr.readline, "")
    assert any(line.startswith("tune-0: ") and "starting" not in line for line in said)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=60)

    then = "--then 'test -d {output} -o {rate} = 1'"
    answer = json.loads(engineer.shell(f"athanor sweep --resume tune {then} --json").stdout)
    trials = {trial["values"]["rate"]: trial for trial in answer["trials"]}
    assert {rate: trial["state"] for rate, trial in trials.items()} == {"1": "completed", "9": "stopped early"}
    assert (answer["best"], trials["1"]["metric"]) == (trials["1"]["run"], pytest.approx(1 / 3))
    assert answer["then"] == {"run": "tune-then", "completed": True}
    assert {run["run"] for run in engineer.listed() if run["run"].startswith("tune-")} == {answer["best"], "tune-then"}
    stopped = trials["9"]["run"]
    wait_until(lambda: not engineer.objects_of(stopped), lambda: str(engineer.objects_of(stopped)))
    engineer.shell("athanor sweep --delete tune")
    assert not [run for run in engineer.listed() if run["run"].startswith("tune-")]


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
    assert (refused.returncode, "you may not reach the platform's log store" in refused.stderr) == (1, True)

    engineer.clone.kubectl("apply", "-f", str(engineer.clone.folder / "examples" / "team" / "past-logs.yaml"))
    assert re.search(r'^\[worker-0\] \{.*"step": 100\b', engineer.shell(f"athanor logs {run}").stdout, re.MULTILINE)
    [curves] = engineer.shell(f"athanor curves --json {run}").stdout.splitlines()
    assert [point["step"] for point in json.loads(curves)["points"]][-1] == 100


def test_the_state_has_no_code_no_credentials_and_no_path_in_clear(engineer: Engineer, trained: object) -> None:
    del trained
    state = "".join(
        file.read_text(encoding="utf-8") for file in (engineer.folder.parent / "backend").rglob("train-*.json")
    )
    assert "ciphertext" in state
    token = re.search(r"token: (\S+)}", (engineer.folder / engineer.variables["KUBECONFIG"]).read_text("utf-8"))
    assert token
    for secret in ("mse_loss", own_script()[:40], token[1], engineer.variables["KUBECONFIG"], str(engineer.folder)):
        assert secret not in state
