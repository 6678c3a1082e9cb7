"""Follow a training job until it ends, and read what it exported."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.process import CommandError
from trainer.log_lines import readable

if TYPE_CHECKING:
    from tools.kubectl import Kubectl
    from tools.progress import Progress

_POLL_SECONDS = 1.0
_JOB_KIND = "jobs.batch.volcano.sh"
_ENDED_BADLY = {"Failed", "Aborted", "Terminated"}


class TrainingError(RuntimeError):
    """The job ended without success; the message holds its state and the end of its log."""


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """What the manifest of an exported model says."""

    version: str
    accuracy: float
    """Share of the held-out images that the frozen model got right, 0..1."""
    torch_version: str


def wait_for_job(kubectl: Kubectl, namespace: str, job: str, report: Progress) -> None:
    """Return when the Volcano Job has completed, showing its pods' last words meanwhile.

    Raises:
        TrainingError: the job failed.
    """
    shown = ""
    while True:
        phase = _phase(kubectl, namespace, job)
        if phase == "Completed":
            return
        words = f"{phase or 'accepted'} — {_last_words(kubectl, namespace, job) or 'pods are starting'}"
        if phase in _ENDED_BADLY:
            name = job.rsplit("-", 1)[0]
            raise TrainingError(f"job {job} is {words}. See `make why JOB={name}` and `make logs JOB={name}`")
        if words != shown:
            report.detail(words)
            shown = words
        time.sleep(_POLL_SECONDS)


def _phase(kubectl: Kubectl, namespace: str, job: str) -> str:
    answer = kubectl.run("get", _JOB_KIND, job, "-n", namespace, "-o", "jsonpath={.status.state.phase}")
    return answer.strip()


def _last_words(kubectl: Kubectl, namespace: str, job: str) -> str:
    try:
        lines = kubectl.run("logs", f"{job}-worker-0", "-n", namespace, "-c", "worker", "--tail=1").splitlines()
    except CommandError:  # the pod does not exist or its container has not started
        return ""
    return readable(lines[-1]).partition("\n")[0][:160] if lines else ""


def exported_model(kubectl: Kubectl, namespace: str, service: str, model: str, version: str) -> ExportedModel:
    """Read a model's manifest from the output volume, through a serving pod."""
    file = f"/data/output/models/{model}/{version}/manifest.json"
    manifest: dict[str, Any] = json.loads(
        kubectl.run("exec", "-n", namespace, f"deployment/{service}", "--", "cat", file)
    )
    return ExportedModel(
        version=version, accuracy=float(manifest["accuracy"]), torch_version=str(manifest["torch_version"])
    )
