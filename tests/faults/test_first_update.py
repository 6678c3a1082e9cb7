"""A first update that is killed leaves objects that no state knows; its cluster goes, and the next one is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.local_cluster import Kubectl, kubectl_for, quiet_progress
from tests.waiting import wait_until
from tools.local_environment.up import first_update, remove_half_made
from tools.paths import REPOSITORY
from tools.stacks.engine import Engine
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.local_cluster import LocalCluster
    from tools.progress import Progress

STACK = "local"
PROGRAM = """
import pathlib, pulumi, pulumi_kubernetes as kubernetes

provider = kubernetes.Provider("cluster", kubeconfig=pathlib.Path({kubeconfig!r}).read_text())
options = pulumi.ResourceOptions(provider=provider)
first = kubernetes.core.v1.ConfigMap("first", metadata={{"name": "first", "namespace": "default"}}, opts=options)
{rest}
"""
NEVER_READY = """
kubernetes.core.v1.Pod(
    "waits", metadata={"name": "waits", "namespace": "default"},
    spec={"containers": [{"name": "none", "image": "localhost/nowhere:1", "imagePullPolicy": "Never"}]}, opts=options,
)
"""
UPDATE = """
import pathlib, sys
from tools.local_cluster import LocalCluster
from tools.local_environment.up import first_update
from tools.stacks.engine import Engine

name, home, pulumi, stack, project = sys.argv[1:]
cluster = LocalCluster(name, home=pathlib.Path(home), simulates_nodes=False)
first_update(cluster, Engine(pulumi=pathlib.Path(pulumi), stack=stack, project=pathlib.Path(project)))
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An empty stack of a small project."""
    monkeypatch.setenv("ATHANOR_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "Pulumi.yaml").write_text("name: small\nruntime: python\n", encoding="utf-8")
    needed = ["pulumi", "pulumi-resource-kubernetes"]
    engine = Engine(pulumi=ensure(needed, quiet_progress(tmp_path))["pulumi"], stack=STACK, project=project)
    engine.prepare()
    return engine


def declare(engine: Engine, cluster: LocalCluster, rest: str = "") -> None:
    program = PROGRAM.format(kubeconfig=str(cluster.kubeconfig), rest=rest)
    (engine.project / "__main__.py").write_text(program, encoding="utf-8")


def pods(kubectl: Kubectl) -> list[str]:
    return [pod["metadata"]["name"] for pod in kubectl.get("pods")["items"]]


def kill_update(cluster: LocalCluster, engine: Engine, kubectl: Kubectl, report: Progress) -> None:
    """Kill -9 a first update, engine and all, when it waits for its last object; its cluster stays until then."""
    home = cluster.layout.folder.parent
    words = (cluster.name, str(home), str(engine.pulumi), engine.stack, str(engine.project))
    update = subprocess.Popen([sys.executable, "-c", UPDATE, *words], cwd=REPOSITORY, start_new_session=True)
    try:
        wait_until(lambda: update.poll() is not None or pods(kubectl), "the object that the update waits for")
        remove_half_made(cluster, engine, report)
        assert cluster.status().running
        os.kill(update.pid, signal.SIGKILL)
        assert engine.is_running()
        remove_half_made(cluster, engine, report)
        assert cluster.status().running
    finally:
        os.killpg(update.pid, signal.SIGKILL)
        update.wait()


def test_after_a_killed_first_update_the_next_has_a_new_cluster(
    make_cluster: Callable[[str], LocalCluster], engine: Engine, tmp_path: Path
) -> None:
    cluster, report = make_cluster("first"), quiet_progress(tmp_path)
    cluster.up(report)
    declare(engine, cluster, NEVER_READY)
    kill_update(cluster, engine, kubectl_for(cluster, tmp_path), report)
    wait_until(lambda: not engine.is_running(), "the killed engine to be gone")
    assert engine.is_empty()

    remove_half_made(cluster, engine, report)
    assert not cluster.is_created
    cluster.up(report)
    declare(engine, cluster)
    engine.prepare()
    first_update(cluster, engine)

    assert not engine.is_empty()
    assert pods(kubectl_for(cluster, tmp_path)) == []
    remove_half_made(cluster, engine, report)
    assert cluster.status().running
