"""Runs a finished job again: recreates the same object, through the engine where its program is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from athanor.inspection.jobs import ENDED, find_job, job_phase, logical_name
from athanor.inspection.objects import JOBS, Object, Snapshot, name_of
from athanor.inspection.reader import pods_of_run
from athanor.runs.recreate import check_allowed, recreate
from infra.errors import RefusalError, choices
from infra.job_source import SAME
from infra.settings.parse import parse_settings
from infra.workload_labels import JOB_LABEL
from tools.operations.job_code import Choice, Source, await_commit, check_commit, fetched_commit
from tools.operations.reader import asked as asked_of
from tools.paths import paths
from tools.process import CommandError
from tools.stacks.engine import Engine, make_private_folders, stack_config
from tools.stacks.preview import engine_tools
from tools.toolchain import ensure, upstream_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.kubectl import Kubectl
    from tools.operations.target import Target
    from tools.progress import Progress

_NOT_THERE_YET = "not specified in --target list"
"""Part of the engine's message about a resource that another one depends on and that the state lacks."""
_JOB = "kubernetes:batch.volcano.sh/v1alpha1:Job"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The requested rerun."""

    job: str
    """Its name in the program, or in the cluster."""
    force: bool = False
    """Even if it still runs."""
    commit: str | None = None
    """Commit of its code: a full hash, or SAME for that of the run before. Default: what the job asks for, as it is
    now."""

    def __post_init__(self) -> None:
        if self.commit is not None:
            check_commit(self.commit)


@dataclass(frozen=True, kw_only=True)
class Rerun:
    """The rerun that was started."""

    name: str
    """Name of the object."""
    code: str
    """A sentence about the code that it runs; empty: that of its image."""


@dataclass(frozen=True, kw_only=True)
class _Original:
    """A job that is to run again."""

    job: Object
    """The job as it is in the cluster or, if it is gone, as its program declared it."""
    in_cluster: bool
    engine: Engine | None = None
    """Engine of the stack that declares it; None: its program is not at hand."""
    urn: str = ""

    @property
    def name(self) -> str:
        """Name of its object."""
        return name_of(self.job)

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.job["metadata"]["namespace"]


def job_resources(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the Volcano Jobs in a stack's state, by their names in the program."""
    by_name: dict[str, dict[str, Any]] = {}
    for entry in state["deployment"].get("resources", []):
        if entry["type"] == _JOB and not entry.get("delete"):
            labels: dict[str, str] = entry.get("inputs", {}).get("metadata", {}).get("labels", {})
            by_name[labels.get(JOB_LABEL) or entry["urn"].rpartition("::")[2]] = entry
    return by_name


def rerun(stack: str | None, asked: Request, target: Target, report: Progress) -> Rerun:
    """Run a job again: one that a stack of this project declares, or any other of the namespace.

    Raises:
        RefusalError: there is no such job, it has not ended and `force` is not given, its code cannot be chosen, or
            this user may not.
        CommandError: the engine or the cluster refused; another update may be running.
    """
    original = _find(stack, asked.job, target, report)
    phase = job_phase(original.job) if original.in_cluster else None
    if phase not in {*ENDED, None} and not asked.force:
        limit, fix = f"is {phase}", "wait until it has ended, or stop it and run it again with FORCE=1"
        raise RefusalError("JOB", asked.job, limit, fix)
    source = Source.of(original.job)
    _check_choice(source, asked)
    before = _commit_of(target, original.job) if source and original.in_cluster else ""
    choice = Choice(kubectl=target.kubectl, namespace=original.namespace, job_name=original.name)
    if original.engine is None:
        check_allowed(asked_of(target.kubectl), original.namespace)
    if source:
        choice.make(asked.commit)
    with report.step("run it again"):
        job = _run_again(original, asked, target, report)
    if asked.commit:
        choice.belongs_to(job)
    if source is None:
        return Rerun(name=name_of(job), code="")
    with report.step("fetch its code"):
        commit = await_commit(target.kubectl, original.namespace, name_of(job), job["metadata"]["uid"])
    return Rerun(name=name_of(job), code=code_sentence(source, asked, commit, before))


def code_sentence(source: Source, asked: Request, commit: str, before: str) -> str:
    """Say which commit a run has, and which the run before had; both may be unknown: empty."""
    which = _which(source, asked, commit, before)
    return f"Its code is commit {commit}, {which}." if commit else f"Its code is not fetched yet: it will be {which}."


def _which(source: Source, asked: Request, commit: str, before: str) -> str:
    if source.kind == "commit":
        return f"commit {source.name}, which its program sets" if not commit else "which its program sets"
    if asked.commit == SAME:
        return f"that of the previous run{f', {before}' if before and not commit else ''}"
    if asked.commit:
        return f"the chosen one, {asked.commit}" if not commit else "the chosen one"
    newest = f"the latest of {source.words}"
    if commit and commit == before:
        return f"still {newest}"
    return f"{newest}; the previous run used {before or 'an unknown commit'} (COMMIT={SAME} runs that again)"


def _engine(stack: str | None, report: Progress) -> Engine | None:
    """Return the engine of a stack whose program is this project's; None where that never made it."""
    if stack is None or not Engine(pulumi=Path("pulumi"), stack=stack).config_file.is_file():
        return None
    settings = parse_settings(stack_config(stack))
    programs = ensure(sorted(engine_tools(settings)), report)
    upstream_manifests(report, gateway=settings.gateway.enabled)
    make_private_folders()
    engine = Engine(pulumi=programs["pulumi"], stack=stack)
    return engine if engine.exists() else None


def _find(stack: str | None, name: str, target: Target, report: Progress) -> _Original:
    engine = _engine(stack, report)
    declared = job_resources(engine.export()) if engine else {}
    entry = declared.get(name) or next((each for each in declared.values() if name_of(each["inputs"]) == name), None)
    if entry is not None:
        inputs: Object = entry["inputs"]
        metadata = {"namespace": target.namespace, **inputs["metadata"]}
        live = _live(target.kubectl, metadata["namespace"], metadata["name"])
        job = live or {**inputs, "metadata": metadata}
        return _Original(job=job, in_cluster=live is not None, engine=engine, urn=entry["urn"])
    jobs = target.kubectl.items(JOBS, target.namespace)
    try:
        job = find_job(Snapshot(namespace=target.namespace, jobs=jobs), name)
    except RefusalError:
        limit = f"namespace {target.namespace!r} has no such job"
        limit += f", and stack {stack!r} declares none" if engine else ""
        raise RefusalError("JOB", name, limit, choices(name, {*declared, *map(logical_name, jobs)})) from None
    return _Original(job=job, in_cluster=True)


def _live(kubectl: Kubectl, namespace: str, name: str) -> Object | None:
    """Return a job of the cluster; None if it is gone, say because someone deleted it after its end."""
    return next((each for each in kubectl.items(JOBS, namespace) if name_of(each) == name), None)


def _check_choice(source: Source | None, asked: Request) -> None:
    if asked.commit is None:
        return
    if source is None:
        raise RefusalError("COMMIT", asked.commit, "the job's code is in its image, not in git", "omit COMMIT")
    if source.kind == "commit" and asked.commit not in {SAME, source.name}:
        limit = f"its program sets commit {source.name}"
        raise RefusalError("COMMIT", asked.commit, limit, "change it there and run `pulumi up`")


def _commit_of(target: Target, job: Object) -> str:
    metadata = job["metadata"]
    return fetched_commit(pods_of_run(target.kubectl.items, metadata["namespace"], metadata["name"], metadata["uid"]))


def _run_again(original: _Original, asked: Request, target: Target, report: Progress) -> Object:
    """Return the new object."""
    name = original.name
    if original.engine is None:
        recreate(asked_of(target.kubectl), original.job, paths().home / "reruns", report.detail)
    else:
        original.engine.prepare()
        _replace(original.engine, original.urn, asked.job)
        # A program that was changed since the last update declares a job of another name, or none.
        made = [each for each in job_resources(original.engine.export()).values() if each["urn"] == original.urn]
        name = name_of(made[0]["inputs"]) if made else name
    job = _live(target.kubectl, original.namespace, name)
    if job is None:
        limit = "no longer exists: its program does not declare it any more, or it was deleted"
        raise RefusalError("JOB", asked.job, limit, "declare it and run `pulumi up`")
    return job


def _replace(engine: Engine, urn: str, job: str) -> None:
    try:
        engine.replace(urn)
    except CommandError as error:
        if _NOT_THERE_YET not in error.output:
            raise
        limit = "needs resources that its program declares and the last update did not create"
        raise RefusalError("JOB", job, limit, "run `pulumi up`, and then this again") from error
