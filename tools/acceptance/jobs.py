"""A run's own Pulumi project, whose jobs run on the platform of the stack, and their results."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import yaml

from athanor.inspection.jobs import ENDED, phase_word
from athanor.inspection.objects import JOB_NAME
from tools.acceptance.findings import StepFailedError
from tools.acceptance.steady_engine import SteadyEngine
from tools.acceptance.workload_requests import to_data
from tools.paths import REPOSITORY
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeVar

    from athanor.inspection.objects import Object
    from infra.settings.stack import Settings
    from tools.acceptance.findings import Findings
    from tools.acceptance.workload_requests import Measurement, Probe
    from tools.kubectl import Kubectl
    from tools.stacks.engine import Engine

    Found = TypeVar("Found")

PROJECT = "athanor-acceptance"
_JOB = "jobs.batch.volcano.sh"
_PROGRAM = """import sys
from pathlib import Path

sys.path.insert(0, {repository!r})
from tools.acceptance.program import main

main(Path(__file__).parent)
"""


class Place(Protocol):
    """The parts that jobs need of the run that they belong to (`tools.acceptance.site.Site`)."""

    stack: str
    settings: Settings
    engine: Engine

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        ...

    @property
    def cluster_id(self) -> str:
        """Id of the ACK cluster."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """The run's kubeconfig."""
        ...

    @property
    def kubectl(self) -> Kubectl:
        """The cluster's, by that kubeconfig."""
        ...

    def wait(self, look: Callable[[], Found | None], what: str, seconds: float) -> Found:
        """Return the result of `look` once there is one."""
        ...


class Jobs:
    """The jobs of a run on the platform; declaring others deletes those before."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._folder = place.folder / "jobs"
        self._engine = SteadyEngine(pulumi=place.engine.pulumi, stack=place.stack, project=self._folder)

    def declare(self, requests: Sequence[Probe | Measurement]) -> Mapping[str, str]:
        """Declare exactly these workloads; returns the names of their jobs by the requests' names.

        Raises:
            CommandError: the engine failed.
        """
        self._write(requests)
        self._engine.prepare()
        self._engine.up()
        return self._engine.outputs()

    def remove(self) -> None:
        """Delete all of them, with the project's stack.

        Raises:
            CommandError: the engine failed; the stack is forgotten nevertheless, for the cluster goes, too.
        """
        if not self._folder.is_dir() or not self._engine.exists():
            return
        try:
            self._engine.destroy()
        finally:
            self._engine.forget()

    def completed(self, job: str, findings: Findings, seconds: float) -> str:
        """Return the log of a job's first pod once the job has completed.

        Raises:
            StepFailedError: it failed, or has not ended in time.
        """
        phase = self._place.wait(lambda: self._ended(job), f"the end of job {job}", seconds)
        text = self.log(job)
        findings.saw(f"kubectl logs -n {self._place.settings.namespace} -l {JOB_NAME}={job}", text)
        if phase != "Completed":
            raise StepFailedError(f"job {job} is {phase}")
        return text

    def pods(self, job: str) -> list[Object]:
        """Return a job's pods."""
        return self._place.kubectl.items("pods", self._place.settings.namespace, f"{JOB_NAME}={job}")

    def log(self, job: str) -> str:
        """Return the logs of a job's pods, as far as they can be read."""
        words = ("-n", self._place.settings.namespace, "-l", f"{JOB_NAME}={job}", "--tail=-1", "--prefix")
        try:
            return self._place.kubectl.run("logs", *words)
        except CommandError as error:
            return error.output

    def _ended(self, job: str) -> str | None:
        path = "jsonpath={.status.state.phase}"
        words = ("get", _JOB, job, "-n", self._place.settings.namespace, "-o", path)
        phase = phase_word(self._place.kubectl.run(*words).strip())
        return phase if phase in ENDED else None

    def _write(self, requests: Sequence[Probe | Measurement]) -> None:
        self._folder.mkdir(exist_ok=True, mode=0o700)
        project = yaml.safe_load((REPOSITORY / "Pulumi.yaml").read_text(encoding="utf-8"))
        own = {"name": PROJECT, "runtime": "python"}
        (self._folder / "Pulumi.yaml").write_text(yaml.safe_dump(own), encoding="utf-8")
        (self._folder / "__main__.py").write_text(_PROGRAM.format(repository=str(REPOSITORY)), encoding="utf-8")
        _ = self._place.kubectl  # which writes the kubeconfig
        content = {
            "project": project["name"],
            "stack": self._place.stack,
            "cluster": self._place.cluster_id,
            "kubeconfig": str(self._place.kubeconfig),
            "requests": [to_data(one) for one in requests],
        }
        (self._folder / "requests.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
