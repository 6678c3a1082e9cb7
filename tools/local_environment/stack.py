"""The stack of the local environment: its settings, its cluster, its engine, and the address of its service."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from infra.cluster_access import existing_cluster_args
from infra.settings.parse import parse_settings
from infra.storage import DATA_CLAIM, local_volume_folder
from tools.kubectl import Kubectl
from tools.operations.predict import ServingError
from tools.stacks.engine import Engine, stack_config
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from infra.settings.stack import Settings
    from tools.progress import Progress

STACK = "local"
MODEL = SERVICE = "digits"


@contextmanager
def service_address(settings: Settings, kubectl: Kubectl) -> Generator[str]:
    """Yield host:port of the served model: its Service's own address if that is reachable from here, else forwarded."""
    services = {item["metadata"]["name"]: item["spec"] for item in kubectl.items("services", settings.namespace)}
    if SERVICE not in services:
        raise ServingError(f"there is no Service {SERVICE!r}. Fix: run `make up`")
    port = next(each["port"] for each in services[SERVICE]["ports"] if each["name"] == "http")
    if settings.runs_on_own_local_cluster:
        yield f"{services[SERVICE]['clusterIP']}:{port}"
        return
    with kubectl.port_forward(f"service/{SERVICE}", settings.namespace, port) as address:
        yield address


def local_settings() -> Settings:
    """Return the settings of the local stack."""
    return parse_settings(stack_config(STACK))


def local_kubectl(settings: Settings, report: Progress | None = None) -> Kubectl:
    """Return kubectl for the local stack's cluster."""
    args = existing_cluster_args(settings.cluster)
    return Kubectl(program=ensure(["kubectl"], report)["kubectl"], kubeconfig=args.kubeconfig, context=args.context)


def local_engine(report: Progress) -> Engine:
    """Return the engine for the local stack."""
    return Engine(pulumi=ensure(["pulumi"], report)["pulumi"], stack=STACK)


def data_folder(settings: Settings) -> Path | None:
    """Return the folder of the jobs' input where this machine has it."""
    return local_volume_folder(DATA_CLAIM) if settings.runs_on_own_local_cluster else None
