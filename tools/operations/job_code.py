"""The source of a job's code: as requested, as fetched by its pods, and as chosen for its next run."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from athanor.inspection.containers import statuses
from athanor.inspection.objects import Object, name_of
from athanor.inspection.reader import pods_of_run
from infra.errors import RefusalError
from infra.job_source import COMMIT, COMMIT_KEY, CONTAINER, SAME, commit_choice
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.kubectl import Kubectl

LONGEST_WAIT_SECONDS = 30.0
"""A pod that has a node at once has fetched its code by then; one that has none may wait for days."""
_POLL_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source that a job requests."""

    repository: str
    kind: str
    """branch, tag or commit."""
    name: str

    @classmethod
    def of(cls, job: Object) -> Source | None:
        """Return where a job's code comes from; None: it is in the image."""
        for task in job["spec"]["tasks"]:
            for step in task["template"]["spec"].get("initContainers", []):
                words: list[str] = step.get("command", [])
                flags = dict(word.removeprefix("--").split("=", 1) for word in words if re.match(r"--\w+=", word))
                kind = next((kind for kind in ("branch", "tag", "commit") if kind in flags), "")
                if step["name"] == CONTAINER and kind:
                    return cls(repository=flags.get("repository", "?"), kind=kind, name=flags[kind])
        return None

    @property
    def words(self) -> str:
        """Say it."""
        return f"{self.kind} {self.name} of {self.repository}"


def check_commit(commit: str) -> None:
    """Refuse what is neither a commit nor the previous one.

    Raises:
        RefusalError: it is not.
    """
    if commit != SAME and not COMMIT.fullmatch(commit):
        fix = f"write all 40 digits that `git rev-parse` prints, or COMMIT={SAME}; without it, the latest commit runs"
        raise RefusalError("COMMIT", commit, "is not a full hash", fix)


def fetched_commit(pods: Sequence[Object]) -> str:
    """Return the commit that pods of a job say they have; empty if none says it."""
    for each in statuses(pods):
        ended: Object = each.status.get("state", {}).get("terminated") or {}
        if each.name == CONTAINER and (commit := _recorded(ended.get("message", ""))):
            return commit
    return ""


def _recorded(message: str) -> str:
    try:
        parsed: Any = json.loads(message)
    except (ValueError, RecursionError):
        return ""
    commit = cast("dict[str, Any]", parsed).get("commit") if isinstance(parsed, dict) else None
    return commit if isinstance(commit, str) and COMMIT.fullmatch(commit) else ""


def code_words(job: Object, pods: Sequence[Object]) -> str:
    """Say which code a job runs; empty if it is in the image."""
    source = Source.of(job)
    if source is None:
        return ""
    commit = fetched_commit(pods)
    return f"commit {commit} ({source.words})" if commit else source.words


def await_commit(kubectl: Kubectl, namespace: str, job_name: str, uid: str) -> str:
    """Return the commit that a run got, once a pod of it says so; empty if none does in a while."""
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while not (commit := fetched_commit(pods_of_run(kubectl.items, namespace, job_name, uid))):
        if time.monotonic() > deadline:
            return ""
        time.sleep(_POLL_SECONDS)
    return commit


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The commit of a job's next run, in a ConfigMap that its pods read."""

    kubectl: Kubectl
    namespace: str
    job_name: str

    def make(self, commit: str | None) -> None:
        """Choose a commit, SAME, or with None what the job asks for: then no earlier choice may be left."""
        name = commit_choice(self.job_name)
        try:
            if self.kubectl.run("get", "configmap", name, "-n", self.namespace, "--ignore-not-found", "-o", "name"):
                self.kubectl.run("delete", "configmap", name, "-n", self.namespace, "--ignore-not-found")
        except CommandError as error:
            # An earlier one goes with its run anyway: a user who cannot see it need not remove it.
            if commit is not None or "(Forbidden)" not in error.output:
                raise
        if commit is not None:
            self.kubectl.run("create", "configmap", name, "-n", self.namespace, f"--from-literal={COMMIT_KEY}={commit}")

    def belongs_to(self, job: Object) -> None:
        """Tie it to the run that it was created for."""
        kind = {key: job[key] for key in ("apiVersion", "kind")}
        owner = {**kind, "name": name_of(job), "uid": job["metadata"]["uid"]}
        patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
        self.kubectl.run("patch", "configmap", commit_choice(self.job_name), "-n", self.namespace, f"--patch={patch}")
