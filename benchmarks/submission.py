"""From Enter to the first line of a user's program: `athanor run` against other submitters of the same job.

`kubectl create` is the least that any submitter can take: the manifest lies ready, and its code is in the cluster
already. Volcano's own command line, `vcctl job run`, gets the same; it is compared where it is on PATH.

And what the questions about a run take: on a busy machine, their CPU time says more than their wall-clock time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.rounds import Times, interleaved_seconds, interleaved_times, spread
from infra.errors import RefusalError
from tools.local_cluster import LocalCluster
from tools.paths import REPOSITORY
from tools.tables import table

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from rich.table import Table

ROUNDS = 5
_LINE = "the first line"
_NAMESPACE = "athanor"
_OURS, _EDITED = "athanor run", "athanor run --replace, edited"
_KUBECTL, _VCCTL = "kubectl create", "vcctl job run"
_PEER = "peer"
"""The run whose manifest is created again, and that is asked about."""
_QUESTIONS = (("status",), ("why", _PEER), ("logs", _PEER), ("runs",))
_JOBS = "jobs.batch.volcano.sh"


def measure() -> Table:
    """Return the table; it needs the local environment, and leaves no run in it."""
    if not LocalCluster("local").kubeconfig.exists():
        raise RefusalError("local environment", "absent", "submission is measured in it", "run `make up` first")
    with tempfile.TemporaryDirectory(prefix="athanor-bench-") as name:
        user = _User(Path(name), {**os.environ, **_variables(Path(name))})
        try:
            seconds, times = _measured(user)
        finally:
            user.delete_all()
    return _table(seconds, times)


def _table(seconds: Mapping[str, list[float]], times: Mapping[str, list[Times]]) -> Table:
    """Return the table of submissions, up to the first line, and of questions, up to their end.

    Args:
        seconds: Wall-clock times of the submissions.
        times: Those of the questions, with the CPU times of the command and of its kubectl.
    """
    rows = [[name, spread(values), ""] for name, values in seconds.items()]
    for name, values in times.items():
        wall, cpu = [each.wall_seconds for each in values], [each.cpu_seconds for each in values]
        rows.append([name, spread(wall), spread(cpu)])
    title = f"Enter to the first line, questions to their end, {ROUNDS} interleaved rounds"
    return table(title, ["command", "median (range)", "CPU, median (range)"], rows)


def _measured(user: _User) -> tuple[dict[str, list[float]], dict[str, list[Times]]]:
    numbers = count()
    with user.run(_PEER) as job:
        variants = {
            _OURS: lambda: user.submit(f"bench-{next(numbers)}"),
            _EDITED: partial(user.submit, "edited", "--replace"),
            _KUBECTL: partial(user.create, _again(job)),
        }
        if shutil.which("vcctl", path=user.environment["PATH"]):
            variants[_VCCTL] = partial(user.create_with_vcctl, _again(job))
        user.submit("edited")
        seconds = interleaved_seconds(variants, ROUNDS, lambda _: user.edit())
        questions = {f"athanor {' '.join(words)}": partial(user.ask, *words) for words in _QUESTIONS}
        return seconds, interleaved_times(questions, ROUNDS)


class _User:
    """Somebody with a folder, the installed command and a kubeconfig."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._manifest = folder / "job.yaml"
        self.folder = folder / "code"
        self.folder.mkdir()
        self.environment = dict(environment)
        self._edits = count()
        self._runs: set[str] = set()
        self.edit()

    def edit(self) -> None:
        """Change the program, so that no run has the code of another."""
        (self.folder / "first.py").write_text(f"print('{_LINE}')  # {next(self._edits)}\n", encoding="utf-8")

    def submit(self, run: str, *flags: str) -> None:
        """Run the folder and return at the program's first line."""
        self._runs.add(run)
        words = ["run", "--kind", "batch", "--name", run, "--cpu", "100m", "--follow", *flags]
        self._until_line([sys.executable, "-m", "athanor", *words, "--", "python3", "first.py"])

    def ask(self, *words: str) -> None:
        """Ask a question and return at its end."""
        command = [sys.executable, "-m", "athanor", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RefusalError("command", " ".join(command), f"ended with {done.returncode}", done.stderr)

    @contextmanager
    def run(self, name: str) -> Generator[dict[str, Any]]:
        """Yield the job of a run of ours, which stays until the end of the block, and its code with it."""
        self.submit(name)
        jobs = json.loads(self._kubectl("get", _JOBS, f"-lathanor.dev/job={name}", "-ojson"))["items"]
        yield jobs[0]

    def create(self, manifest: dict[str, Any]) -> None:
        """Create a job and return at its program's first line."""
        self._first_line_of(self._kubectl("create", "-f-", "-oname", content=json.dumps(manifest)))

    def create_with_vcctl(self, manifest: dict[str, Any]) -> None:
        """Create a job by Volcano's own command line, which takes files that are called YAML; return at its line."""
        self._manifest.write_text(json.dumps(manifest), encoding="utf-8")
        where = [f"--kubeconfig={self.environment['KUBECONFIG']}", f"--namespace={_NAMESPACE}"]
        words = ["vcctl", "job", "run", *where, f"--filename={self._manifest}"]
        done = subprocess.run(words, env=self.environment, check=True, capture_output=True, text=True)
        self._first_line_of(done.stdout.removeprefix("run job ").removesuffix(" successfully\n"))

    def _first_line_of(self, created: str) -> None:
        """Return at the first line of a job's program, and delete the job."""
        name = created.strip().rpartition("/")[2]
        try:
            # Returns at once, again and again, as long as the container has not started.
            logs = f"kubectl --namespace={_NAMESPACE} logs --selector=volcano.sh/job-name={name} --follow 2>/dev/null"
            self._until_line(["sh", "-c", f"until {logs} | grep --max-count=1 '{_LINE}'; do :; done"])
        finally:
            self._kubectl("delete", _JOBS, name, "--wait=false")

    def delete_all(self) -> None:
        """Remove what was run."""
        for run in self._runs:
            words = [sys.executable, "-m", "athanor", "delete", run]
            subprocess.run(words, cwd=self.folder, env=self.environment, check=True, stderr=subprocess.DEVNULL)

    def _until_line(self, words: list[str]) -> None:
        with subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            if not any(_LINE in line for line in process.stdout):
                assert process.stderr
                raise RefusalError("command", " ".join(words), "printed no line of the program", process.stderr.read())
            process.terminate()

    def _kubectl(self, *words: str, content: str = "") -> str:
        command = ["kubectl", f"--namespace={_NAMESPACE}", *words]
        done = subprocess.run(command, env=self.environment, input=content, check=True, capture_output=True, text=True)
        return done.stdout


def _variables(folder: Path) -> dict[str, str]:
    backend = folder / "backend"
    backend.mkdir()
    return {
        "PATH": os.pathsep.join([str(REPOSITORY / ".venv" / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(REPOSITORY),
        "KUBECONFIG": str(LocalCluster("local").kubeconfig),
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "bench",
        "XDG_DATA_HOME": str(folder / "data"),
    }


def _again(job: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a job like another, under a name that the server completes."""
    metadata = {"generateName": "bench-peer-", "namespace": _NAMESPACE, "labels": job["metadata"]["labels"]}
    return {**{name: job[name] for name in ("apiVersion", "kind", "spec")}, "metadata": metadata}
