"""A site without a cloud: the account and the cluster answer what a test says."""

import io
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from athanor.account.errors import CloudError
from infra.settings.parse import parse_settings
from tools.acceptance.command import gpu_pools
from tools.acceptance.findings import StepFailedError
from tools.acceptance.journal import Journal
from tools.acceptance.site import Patience, Site
from tools.stacks.engine import stack_config


class FakeCloud:
    """An account that knows the answers to some operations; the rest it refuses, as RAM does."""

    region = "cn-hangzhou"

    def __init__(self):
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def rpc(self, product, operation, **query):
        return self._answer(product, operation, query)

    def get(self, path, operation, **query):
        return self._answer("cs", operation, {"path": path, **query})

    def every(self, product, operation, _, **query):
        return self._answer(product, operation, query)

    def _answer(self, product, operation, query):
        self.asked.append((f"{product}:{operation}", query))
        answer = self.answers.get(operation)
        if answer is None:
            raise CloudError(product, operation, "Forbidden.RAM", "not authorized")
        return answer(**query) if callable(answer) else answer


class FakeKubectl:
    """A cluster that holds some objects, by kind."""

    def __init__(self):
        self.objects: dict[str, list[Any]] = {}
        self.answers: dict[str, str] = {}
        self.lines: list[str] = []

    def items(self, kind, _namespace, selector=""):
        stored = self.objects.get(kind, [])
        labels = dict(pair.split("=", 1) for pair in selector.split(",") if pair)
        return [one for one in stored if labels.items() <= one["metadata"].get("labels", {}).items()]

    def run(self, *words):
        self.lines.append(" ".join(words))
        return next((text for start, text in self.answers.items() if self.lines[-1].startswith(start)), "")


class FakeJobs:
    """Jobs that end as a test says."""

    def __init__(self):
        self.declared: list[list[Any]] = []
        self.logs: dict[str, str] = {}
        self.failed: set[str] = set()
        self.pods_of: list[Any] = []

    def declare(self, jobs):
        self.declared.append(list(jobs))
        return {one.name: f"{one.name}-1a2b" for one in jobs}

    def completed(self, job, findings, _seconds):
        findings.saw(f"logs of {job}", self.logs[job])
        if job in self.failed:
            raise StepFailedError(f"job {job} is Failed")
        return self.log(job)

    def log(self, job):
        return self.logs[job]

    def pods(self, _job):
        return self.pods_of.pop(0) if len(self.pods_of) > 1 else self.pods_of[0]

    def remove(self):
        self.declared.append([])


class FakeSite(Site):
    """A site whose account, cluster and jobs are those of the test."""

    @cached_property
    def cloud(self):
        return FakeCloud()

    @cached_property
    def kubectl(self):
        return FakeKubectl()

    @cached_property
    def jobs(self):
        return FakeJobs()

    @cached_property
    def outputs(self):
        return {"alicloud_cluster_id": "c1", "trainer_image": "registry/trainer:1"}


@pytest.fixture
def site_of(tmp_path, report):
    """Make the site of a committed stack, its settings changed by a function that gets them as plain data."""

    def make(stack="dev", change=lambda _: None, engine=None):
        content = json.loads(json.dumps(stack_config(stack)))
        change(content)
        settings = parse_settings(content)
        return FakeSite(
            stack=stack,
            settings=settings,
            engine=engine,
            kubectl_program=Path("kubectl"),
            journal=Journal.of(tmp_path / "runs", stack),
            console=Console(file=io.StringIO(), width=120),
            report=report.progress,
            environment={},
            pools=gpu_pools(settings, ()),
            patience=Patience(poll=0, node=0.05, job=0.05, shrink=0.05, gone=0.05),
        )

    return make
