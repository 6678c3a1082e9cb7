"""Commands of the local environment: `make tools`, `down`, `stop`, `status`, `image` and `predict`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rich.text import Text

from infra import volcano
from infra.images import TRAINER_FRAMEWORKS
from infra.machine import LOCAL_CLUSTER_NAME
from tools.images import ensure_trainer_images
from tools.local_cluster import ClusterError, LocalCluster
from tools.local_environment import local_monitoring, stack
from tools.local_environment.programs import GROUPS, get
from tools.operations import commands as operations
from tools.operations import predict as model
from tools.operations.target import Place
from tools.paths import paths
from tools.stacks.engine import make_private_folders
from tools.stacks.venv_commands import install_commands
from tools.tables import Cell, table
from tools.toolchain import discard_sources, ensure, system_packages
from tools.toolchain.catalogue import ALICLOUD_PROVIDER, ENGINE_WITH_CLOUDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from infra.images import TrainerFramework, TrainerImage
    from tools.local_cluster import ComponentStatus
    from tools.progress import Progress


def tools(report: Progress, groups: Sequence[str] = GROUPS) -> None:
    """Get programs that the local environment needs, and put pulumi and kubectl at the user's hand.

    Raises:
        SystemPackageError: programs of the machine's own are missing and cannot be installed.
        ToolchainError: one is not available.
    """
    settings = stack.local_settings()
    if settings.runs_on_own_local_cluster:
        system_packages.ensure_system_packages(report)
    get(settings, groups, report)
    make_private_folders()
    commands = ensure(["pulumi", "kubectl"], report)
    install_commands(commands["pulumi"], commands["kubectl"])
    # `athanor` finds them there from any virtual environment (athanor/runs/context.py).
    install_commands(commands["pulumi"], commands["kubectl"], paths().home / "bin")


def every_tool(report: Progress, engine: str) -> None:
    """Get what the environments on Alibaba Cloud need, too.

    Args:
        report: where progress goes.
        engine: the program of the engine to have, which is then used by everything: one with clouds stays.
    """
    if engine == ENGINE_WITH_CLOUDS:
        ensure([engine], report)
    tools(report)
    ensure([ALICLOUD_PROVIDER], report)
    discard_sources(report)


def down(report: Progress) -> None:
    """Remove everything `up` made: the stack from any cluster of the user's, or the local cluster as a whole."""
    settings = stack.local_settings()
    report.plan(["stack", "local cluster"])
    if (paths().home / "passphrase").is_file():
        with report.step("stack"):
            engine = stack.local_engine(report)
            if settings.runs_on_own_local_cluster:
                # Its objects go with the cluster: waiting for each to be deleted first would only take time.
                engine.forget()
            else:
                engine.destroy()
                engine.forget()
    with report.step("local cluster"):
        LocalCluster(LOCAL_CLUSTER_NAME).down(report)
        shutil.rmtree(paths().home, ignore_errors=True)


def image(framework: TrainerFramework, report: Progress) -> None:
    """Build the images of trainer/ with a framework and load them into the local cluster's node."""
    settings = stack.local_settings()
    if not settings.runs_on_own_local_cluster:
        raise ClusterError(
            "the settings use your own cluster, whose nodes pull images from a registry. Fix: build the image as"
            " described in trainer/Dockerfile, push it, and set it under athanor:images"
        )
    cluster = LocalCluster(LOCAL_CLUSTER_NAME)
    if not cluster.status().running:
        raise ClusterError("the local cluster is down. Fix: run `make up`")
    report.plan(["image"])
    with report.step("image"):
        system_packages.ensure_system_packages(report)
        names: list[TrainerImage] = [name for name, packages in TRAINER_FRAMEWORKS.items() if packages == framework]
        ensure_trainer_images(cluster.containerd_socket, names, report, variant=settings.images.trainer_variant)


def stop(report: Progress) -> None:
    """Stop the local cluster's processes; its state, volumes and images stay for the next `up`."""
    with report.step("stop"):
        LocalCluster(LOCAL_CLUSTER_NAME).stop(report)


def status(console: Console, report: Progress) -> None:
    """Show what runs where."""
    settings = stack.local_settings()
    if settings.runs_on_own_local_cluster:
        cluster = LocalCluster(LOCAL_CLUSTER_NAME).status()
        rows = _component_rows(cluster.components)
        console.print(table("Local cluster", ["process", "state", "memory", "address"], rows))
        if not cluster.running:
            console.print("`make up` starts what is down.")
            return
    system = ["kube-system", volcano.NAMESPACE, *local_monitoring.namespaces(settings)]
    operations.status(Place(stack=stack.STACK), console, report, system)
    if rows := local_monitoring.address_rows(settings, stack.local_kubectl(settings, report)):
        console.print(table("Monitoring", ["what", "address"], rows))


def predict(console: Console, index: int) -> None:
    """Classify one held-out digit through the service and draw it."""
    settings = stack.local_settings()
    with stack.service_address(settings, stack.local_kubectl(settings)) as address:
        predictions = model.predict(address, stack.MODEL, [index], stack.data_folder(settings))
    console.print(model.draw(predictions))


def _component_rows(components: Iterable[ComponentStatus]) -> list[list[Cell]]:
    """Return a row per process of the local cluster."""
    return [
        [
            part.name,
            Text("healthy", "green") if part.healthy else Text("down", "red"),
            f"{part.resident_bytes // 2**20} MiB",
            part.address,
        ]
        for part in components
    ]
