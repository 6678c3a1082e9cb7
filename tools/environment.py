"""The local environment as a whole: what `make up`, `down`, `stop`, `status`, `logs` and `predict` do, in order."""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from infra import volcano
from infra.cluster import existing_cluster_args
from infra.machine import LOCAL_CLUSTER_NAME
from infra.settings.parse import parse_settings
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, local_volume_folder
from tools import monitoring, serving, summary, system_packages, training
from tools.commands import install_commands
from tools.engine import Engine, make_private_folders, stack_config
from tools.images import ensure_platform_images, ensure_trainer_image
from tools.inspection import commands as inspection
from tools.inspection.target import Place
from tools.kubectl import Kubectl
from tools.local_cluster import ClusterError, LocalCluster, PreflightError, Requirements
from tools.local_cluster import cluster as local_cluster
from tools.paths import paths
from tools.preview import engine_tools
from tools.toolchain import ensure, upstream_manifests
from tools.toolchain.catalogue import ALICLOUD_PROVIDER
from workloads.inference import HTTP_PORT

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from typing import Any

    from rich.console import Console

    from infra.images import TrainerFramework
    from infra.settings.stack import Settings
    from tools.progress import Progress

STACK = "local"
MODEL = SERVICE = "digits"
_SHOWN_DIGITS = (0, 77, 154, 231)
_POLL_SECONDS = 0.5
# Go modules and build cache, Python packages, four copies of the image's layers (docs/benchmarks.md).
_COLD_DISK_BYTES = 25 * 2**30
# The same run's times on two cores, everything built from source.
_COLD_SECONDS = {
    "preflight": 5, "tools": 850, "local cluster": 8, "images": 70, "platform": 12, "training": 18, "serving": 2,
}  # fmt: skip
_VOLCANO_IMAGES = ("vc-scheduler", "vc-controller-manager")


def up(console: Console, report: Progress) -> None:
    """Start what does not run yet, train, serve, and show the result. Safe to run again at any time."""
    settings = _settings()
    own_cluster = settings.runs_on_own_local_cluster
    steps = ["preflight", "tools", "local cluster", "images", "platform", "training", "serving"]
    if not own_cluster:
        steps = [step for step in steps if step not in ("preflight", "local cluster", "images")]
    report.plan(steps, typical=None if _is_built() else _COLD_SECONDS)
    cluster = LocalCluster(LOCAL_CLUSTER_NAME)
    if own_cluster:
        with report.step("preflight"):
            _preflight(report)
    with report.step("tools"):
        tools(report)
    if own_cluster:
        with report.step("local cluster"):
            cluster.up(report)
        with report.step("images"):
            ensure_platform_images(cluster.containerd_socket, _platform_images(settings), report)
            ensure_trainer_image(cluster.containerd_socket, report, variant=settings.images.trainer_variant)
            _make_volume_folders()
    engine = _engine(report)
    with report.step("platform"):
        engine.prepare()
        engine.up()
        outputs = engine.outputs()
    if not settings.digits.enabled:
        status(console, report)
        return
    kubectl = _kubectl(settings, report)
    with report.step("training"):
        training.wait_for_job(kubectl, outputs["namespace"], outputs["digits_training_job"], report)
    with report.step("serving"), service_address(settings, kubectl) as address:
        _wait_until_ready(address)
        predictions = serving.predict(address, MODEL, _SHOWN_DIGITS)
    model = training.exported_model(kubectl, settings.namespace, SERVICE, MODEL, predictions[0].model_version)
    status(console, report)
    _show_result(console, settings, kubectl, model, predictions, outputs)


def _platform_images(settings: Settings) -> tuple[str, ...]:
    """Return what the local node needs for the platform, by the names of the binaries."""
    return (*_VOLCANO_IMAGES, *monitoring.images(settings))


def _requirements() -> Requirements:
    """Return the room that must be free: much more while the cache is empty, for it will hold what is built."""
    return Requirements() if _is_built() else Requirements(disk_bytes=_COLD_DISK_BYTES)


def _is_built() -> bool:
    return (paths().cache / "images").is_dir() and (paths().cache / "tools").is_dir()


def _preflight(report: Progress) -> None:
    """Refuse a machine that cannot do it now, not after ten minutes of compilation.

    Raises:
        SystemPackageError: programs are missing and cannot be installed.
        PreflightError: naming everything that is missing, each with its fix.
    """
    system_packages.ensure_system_packages(report)
    cluster = LocalCluster(LOCAL_CLUSTER_NAME, requirements=_requirements())
    if not cluster.status().running and (failures := cluster.preflight()):
        raise PreflightError(failures)


def tools(report: Progress) -> None:
    """Get what the local environment needs, and put pulumi and kubectl at the user's hand."""
    settings = _settings()
    wanted = engine_tools(settings)
    if settings.runs_on_own_local_cluster:
        system_packages.ensure_system_packages(report)
        wanted |= {*local_cluster.TOOLS, *local_cluster.PLATFORM_IMAGES, *_platform_images(settings)}
    found = ensure(sorted(wanted), report)
    upstream_manifests(report)
    make_private_folders()
    install_commands(found["pulumi"], found["kubectl"])


def every_tool(report: Progress) -> None:
    """Get what the environments on Alibaba Cloud need, too."""
    tools(report)
    ensure([ALICLOUD_PROVIDER], report)


def down(report: Progress) -> None:
    """Remove everything `up` made: the stack from any cluster of the user's, or the local cluster as a whole."""
    settings = _settings()
    report.plan(["stack", "local cluster"])
    if (paths().home / "passphrase").is_file():
        with report.step("stack"):
            engine = _engine(report)
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
    """Build an image of trainer/ and load it into the local cluster's node."""
    settings = _settings()
    if not settings.runs_on_own_local_cluster:
        raise ClusterError(
            "the settings name a cluster of yours, whose nodes take images from a registry. Fix: docker build as "
            "trainer/Dockerfile says, push, and name the image under athanor:images"
        )
    cluster = LocalCluster(LOCAL_CLUSTER_NAME)
    if not cluster.status().running:
        raise ClusterError("the local cluster is down. Fix: make up")
    report.plan(["image"])
    with report.step("image"):
        system_packages.ensure_system_packages(report)
        ensure_trainer_image(
            cluster.containerd_socket, report, framework=framework, variant=settings.images.trainer_variant
        )


def stop(report: Progress) -> None:
    """Stop the local cluster's processes; its state, volumes and images stay for the next `up`."""
    with report.step("stop"):
        LocalCluster(LOCAL_CLUSTER_NAME).stop(report)


def status(console: Console, report: Progress) -> None:
    """Show what runs where."""
    settings = _settings()
    if settings.runs_on_own_local_cluster:
        found = LocalCluster(LOCAL_CLUSTER_NAME).status()
        rows = summary.component_rows(found.components)
        console.print(summary.table("Local cluster", ["process", "state", "memory", "address"], rows))
        if not found.running:
            console.print("`make up` starts what is down.")
            return
    system = ["kube-system", volcano.NAMESPACE, *monitoring.namespaces(settings)]
    inspection.status(Place(stack=STACK), console, report, system)
    if rows := monitoring.address_rows(settings, _kubectl(settings, report)):
        console.print(summary.table("Monitoring", ["what", "address"], rows))


def predict(console: Console, index: int) -> None:
    """Classify one held-out digit through the service and draw it."""
    settings = _settings()
    with service_address(settings, _kubectl(settings)) as address:
        predictions = serving.predict(address, MODEL, [index])
    console.print(serving.draw(predictions))


@contextmanager
def service_address(settings: Settings, kubectl: Kubectl) -> Generator[str]:
    """Yield host:port of the served model: its Service's own address if that is reachable from here, else forwarded."""
    if settings.runs_on_own_local_cluster:
        service = next(
            (item for item in kubectl.items("services", settings.namespace) if item["metadata"]["name"] == SERVICE),
            None,
        )
        if service is None:
            raise serving.ServingError(f"there is no Service {SERVICE!r}. Fix: run `make up`")
        yield f"{service['spec']['clusterIP']}:{HTTP_PORT}"
        return
    with kubectl.port_forward(f"service/{SERVICE}", settings.namespace, HTTP_PORT) as address:
        yield address


def _settings() -> Settings:
    return parse_settings(stack_config(STACK))


def _kubectl(settings: Settings, report: Progress | None = None) -> Kubectl:
    args = existing_cluster_args(settings.cluster)
    return Kubectl(program=ensure(["kubectl"], report)["kubectl"], kubeconfig=args.kubeconfig, context=args.context)


def _engine(report: Progress) -> Engine:
    return Engine(pulumi=ensure(["pulumi"], report)["pulumi"], stack=STACK)


def _make_volume_folders() -> None:
    for claim in (DATA_CLAIM, OUTPUT_CLAIM, *monitoring.VOLUMES):
        local_volume_folder(claim).mkdir(parents=True, exist_ok=True)


def _wait_until_ready(address: str) -> None:
    while not serving.is_ready(address, MODEL):
        time.sleep(_POLL_SECONDS)


def _show_result(  # noqa: PLR0913, PLR0917 - one screen shows all of it
    console: Console,
    settings: Settings,
    kubectl: Kubectl,
    model: training.ExportedModel,
    predictions: Sequence[serving.Prediction],
    outputs: dict[str, Any],
) -> None:
    rows = [
        ["test accuracy", f"{model.accuracy:.2%} of the held-out digits"],
        ["model", f"{MODEL} version {model.version}, TorchScript of torch {model.torch_version}"],
    ]
    with service_address(settings, kubectl) as address:
        where = f"http://{address}/v2/models/{MODEL}" if settings.runs_on_own_local_cluster else "`make predict`"
    rows += [["service", where], ["in the cluster", outputs["digits_service_url"]]]
    console.print(summary.table("Result", ["what", "value"], rows))
    console.print(serving.draw(predictions))
    console.print(
        "\nNext: make predict IMAGE=42 · make status · make logs JOB=digits-training · make preview · make down"
    )
