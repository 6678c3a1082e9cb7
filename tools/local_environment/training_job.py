"""Follows a training job until it ends, and reads its exported result."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from athanor.inspection.control_characters import shortened
from athanor.inspection.jobs import ENDED, phase_word
from athanor.runs.overlooked import REMINDED, Reminder
from tools.errors import ExpectedError
from tools.operations.log_lines import readable
from tools.operations.reader import asked
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.kubectl import Kubectl
    from tools.progress import Progress

_POLL_SECONDS = 1.0
_SHOWN_CHARACTERS = 100
_JOB_KIND = "jobs.batch.volcano.sh"


class TrainingError(ExpectedError):
    """The job ended without success; the message holds its state and the end of its log."""


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """The manifest's entry for one file of a model: the model's own, or a compressed variant's."""

    accuracy: float
    """Share of the held-out images that it got right, 0..1."""
    size_bytes: int

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Self:
        """Read an entry of the manifest."""
        return cls(accuracy=float(entry["accuracy"]), size_bytes=int(entry["size_bytes"]))


@dataclass(frozen=True, kw_only=True)
class ExportedModel:
    """The manifest of an exported model."""

    version: str
    torch_version: str
    file: ModelFile
    variants: Mapping[str, ModelFile]


def wait_for_job(kubectl: Kubectl, namespace: str, job: str, report: Progress, *, until_exported: bool = False) -> None:
    """Return when the Volcano Job has completed, showing its pods' last words meanwhile.

    Args:
        kubectl: for the job's cluster.
        namespace: where it runs.
        job: name of its object.
        report: shows its state.
        until_exported: return as soon as the trainer says that the model is exported: its ranks then wait for a last
            scrape, without effect where nothing watches the platform yet.

    Raises:
        TrainingError: the job failed.
    """
    reported, reminder = "", Reminder(asked(kubectl), namespace, job)
    while True:
        phase = _phase(kubectl, namespace, job)
        if phase == "Completed":
            return
        line = _last_line(kubectl, namespace, job)
        said = shortened(readable(line).decode().partition("\n")[0], _SHOWN_CHARACTERS)
        words = f"{phase or 'accepted'} — {said or 'pods are starting'}"
        if phase in ENDED:
            name = job.rsplit("-", 1)[0]
            raise TrainingError(f"job {job} is {words}. See `make why JOB={name}` and `make logs JOB={name}`")
        if words != reported:
            report.detail(words)
            reported = words
        if until_exported and _is_exported(line):
            return
        if not line and phase in {"", "Pending"} and reminder.look():
            report.detail(REMINDED)
        time.sleep(_POLL_SECONDS)


def _phase(kubectl: Kubectl, namespace: str, job: str) -> str:
    answer = kubectl.run("get", _JOB_KIND, job, "-n", namespace, "-o", "jsonpath={.status.state.phase}")
    return phase_word(answer.strip())


def _last_line(kubectl: Kubectl, namespace: str, job: str) -> bytes:
    try:
        lines = kubectl.run("logs", f"{job}-worker-0", "-n", namespace, "-c", "worker", "--tail=1").splitlines()
    except CommandError:  # the pod does not exist or its container has not started
        return b""
    return lines[-1].encode() if lines else b""


def _is_exported(line: bytes) -> bool:
    """Return whether this is the trainer's last event (trainer/pytorch/loop.py)."""
    try:
        said: object = json.loads(line)
    except ValueError:
        return False
    return isinstance(said, dict) and cast("dict[str, object]", said).get("event") == "finished"


def exported_model(kubectl: Kubectl, namespace: str, service: str, model: str, version: str) -> ExportedModel:
    """Read a model's manifest from the output volume, through a serving pod."""
    file = f"/data/output/models/{model}/{version}/manifest.json"
    manifest: dict[str, Any] = json.loads(
        kubectl.run("exec", "-n", namespace, f"deployment/{service}", "--", "cat", file)
    )
    variants = {name: ModelFile.of(entry) for name, entry in manifest["variants"].items()}
    return ExportedModel(
        version=version, torch_version=str(manifest["torch_version"]), file=ModelFile.of(manifest), variants=variants
    )
