"""Run a job again that has ended: through the engine, which makes the same object anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError, choices
from infra.settings.parse import parse_settings
from infra.workload_labels import JOB_LABEL
from tools.engine import Engine, make_private_folders, stack_config
from tools.inspection.jobs import ENDED, job_phase
from tools.inspection.objects import name_of
from tools.preview import engine_tools
from tools.toolchain import ensure, upstream_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.inspection.target import Target
    from tools.kubectl import Kubectl
    from tools.progress import Progress

_JOB = "kubernetes:batch.volcano.sh/v1alpha1:Job"


def job_resources(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the Volcano Jobs in a stack's state, by their names in the program."""
    found: dict[str, dict[str, Any]] = {}
    for entry in state["deployment"].get("resources", []):
        if entry["type"] == _JOB and not entry.get("delete"):
            labels: dict[str, str] = entry.get("inputs", {}).get("metadata", {}).get("labels", {})
            found[labels.get(JOB_LABEL) or entry["urn"].rpartition("::")[2]] = entry
    return found


def rerun(stack: str, name: str, target: Target, report: Progress, *, force: bool) -> str:
    """Run a job of a stack again; return its object's name.

    Raises:
        RefusalError: the stack has no such job, or it has not ended and `force` is not given.
        CommandError: the engine refused; another update may be running.
    """
    settings = parse_settings(stack_config(stack))
    programs = ensure(sorted(engine_tools(settings)), report)
    upstream_manifests(report)
    make_private_folders()
    engine = Engine(pulumi=programs["pulumi"], stack=stack)
    if not engine.exists():
        raise RefusalError("STACK", stack, "does not exist in this backend", "look at `pulumi stack ls`")
    jobs = job_resources(engine.export())
    if name not in jobs:
        raise RefusalError("JOB", name, f"stack {stack!r} has no such job", choices(name, jobs))
    found = jobs[name]
    metadata = found["inputs"]["metadata"]
    phase = _phase(target.kubectl, metadata.get("namespace", target.namespace), metadata["name"])
    if phase not in {*ENDED, None} and not force:
        raise RefusalError("JOB", name, f"is {phase}", "wait until it has ended, or stop it and run it anew: FORCE=1")
    engine.prepare()
    with report.step(f"replace {name}"):
        engine.replace(found["urn"])
    return metadata["name"]


def _phase(kubectl: Kubectl, namespace: str, job: str) -> str | None:
    """Return a Job's phase; None if it is gone, say because it was cleaned up after its end."""
    found = [each for each in kubectl.items("jobs.batch.volcano.sh", namespace) if name_of(each) == job]
    return job_phase(found[0]) if found else None
