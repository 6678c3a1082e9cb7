"""`make up`: its steps in order, and its background work.

The first time, programs have to be compiled, which takes most of the time. This happens in the background: during the
cluster's programs, the trainer's image is built; during the monitoring's, the model is trained and served.

The engine writes all of its state, some megabytes, twice per resource, so that the next update can finish a killed one.
On a cluster that was just created nothing is lost with that update, so there it writes its state once, at the end,
which saves a fifth of the time of `make up` (docs/benchmarks.md). The engine does not know the objects that a killed
update leaves; they are removed with its cluster.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from infra.images import mirror
from infra.machine import LOCAL_CLUSTER_NAME
from infra.monitoring import COMPONENT as MONITORING_COMPONENT
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, local_volume_folder
from infra.workload_labels import SERVICE_LABEL
from tools.images import ensure_gateway_images, ensure_platform_images, ensure_trainer_images
from tools.local_cluster import LocalCluster, PreflightError, Requirements
from tools.local_environment import commands, local_monitoring, stack, training_job
from tools.local_environment.background import Background
from tools.local_environment.cold_run import Forecast
from tools.local_environment.programs import CORE, GROUPS, MONITORING, VOLCANO_IMAGES, programs
from tools.operations import predict as model_service
from tools.paths import paths
from tools.proxies import reach_local_clusters_directly
from tools.tables import table
from tools.toolchain import discard_sources, system_packages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from rich.console import Console

    from infra.settings.stack import Settings
    from tools.kubectl import Kubectl
    from tools.progress import Progress
    from tools.stacks.engine import Engine


def first_update(cluster: LocalCluster, engine: Engine, *, exclude: Sequence[str] = ()) -> None:
    """Update a stack without resources on a cluster that holds nothing yet, see `Engine.up`."""
    with _mark(cluster).open("w", encoding="utf-8") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        engine.writing_once().up(exclude=exclude)
        _mark(cluster).unlink()


def remove_half_made(cluster: LocalCluster, engine: Engine, report: Progress) -> None:
    """Remove a cluster whose first update was killed before it wrote its state; any other stays as it is.

    So does one whose first update is under way: another `make up`, or an engine that lives on without it.
    """
    try:
        mark = _mark(cluster).open("r+", encoding="utf-8")
    except FileNotFoundError:
        return
    with mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if engine.is_running():
            return
        if engine.is_empty():
            report.detail("the first update of this cluster was killed: creating the cluster again")
            cluster.down(report)
        _mark(cluster).unlink(missing_ok=True)


def _mark(cluster: LocalCluster) -> Path:
    """Return a file that exists from the beginning of a first update to its end, or to the removal of its cluster."""
    return cluster.layout.folder / "first-update"


MONITORING_URNS = f"**{MONITORING_COMPONENT}**"
"""Fits the component and, whose URNs hold their parents' types, all that belongs to it."""
_SHOWN_DIGITS = (0, 77, 154, 231)
_NEXT = "Next: make predict IMAGE=42 · make status · make logs JOB=digits-training · make preview · make down"
_POLL_SECONDS = 0.5
_READY_POD_ANSWERS_SECONDS = 60.0
"""Seconds that an address may stay silent before its pods are checked: kube-proxy follows a ready pod in seconds."""
# Go modules and build cache, Python packages, four copies of the image's layers (docs/benchmarks.md).
_COLD_DISK_BYTES = 25 * 2**30


def up(console: Console, report: Progress) -> None:
    """Start what does not run yet, train, serve, and show the result. Safe to run again at any time."""
    settings = stack.local_settings()
    missing = [group for group in GROUPS if not programs(settings, group).are_present()]
    forecast = Forecast.of(report, _steps(settings, missing), missing)
    with Background(stack.STACK, missing, report, on_share=forecast.on_share) as background:
        _Run(settings=settings, console=console, report=report, background=background).up()
    discard_sources(report)


def _steps(settings: Settings, missing: Sequence[str]) -> list[str]:
    own_cluster, digits = settings.runs_on_own_local_cluster, settings.digits.enabled
    steps = {
        "preflight": own_cluster,
        "trainer image": own_cluster and CORE in missing,
        "tools": True,
        "local cluster": own_cluster,
        "images": own_cluster,
        "platform": True,
        "training": digits,
        "serving": digits,
        "monitoring": MONITORING in missing,
    }
    return [name for name, runs in steps.items() if runs]


@dataclass(frozen=True, kw_only=True)
class _Result:
    """The result of a run: the model, its predictions, and its address."""

    model: training_job.ExportedModel
    predictions: Sequence[model_service.Prediction]
    address: str
    address_in_cluster: str


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One `make up`."""

    settings: Settings
    console: Console
    report: Progress
    background: Background

    @cached_property
    def cluster(self) -> LocalCluster:
        """The local environment's own cluster."""
        return LocalCluster(LOCAL_CLUSTER_NAME, simulates_nodes=bool(self.settings.cluster.simulated_nodes))

    @cached_property
    def kubectl(self) -> Kubectl:
        """The user's kubectl on the stack's cluster, once the tools are there."""
        return stack.local_kubectl(self.settings, self.report)

    def up(self) -> None:
        """Run all steps."""
        if self.settings.runs_on_own_local_cluster:
            self._prepare_machine()
        with self.report.step("tools"):
            self.background.wait(CORE)
            commands.tools(self.report, [CORE])
        # Who has waited for the compiler wants to see a prediction, not the compiler at work for what watches it.
        serves_first = not self.background.is_ready(MONITORING)
        engine = stack.local_engine(self.report)
        is_new = False
        if self.settings.runs_on_own_local_cluster:
            is_new = self._start_cluster(engine, with_monitoring=not serves_first)
        outputs = self._make_platform(engine, is_new=is_new, with_monitoring=not serves_first)
        result = self._train_and_serve(outputs, until_exported=serves_first) if self.settings.digits.enabled else None
        if serves_first:
            self._show(result)
            with self.report.step("monitoring"):
                self.background.wait(MONITORING)
                self._load_images(programs(self.settings, MONITORING).in_images)
                engine.up()
                if result:
                    self._await_training(outputs)
        commands.status(self.console, self.report)
        if not serves_first:
            self._show(result)
        if result:
            self.console.print(f"\n{_NEXT}")

    def _prepare_machine(self) -> None:
        """Refuse a machine that cannot do it now, not after ten minutes of compilation; then use its idle moments.

        Raises:
            SystemPackageError: programs are missing and cannot be installed.
            PreflightError: naming everything that is missing, each with its fix.
        """
        with self.report.step("preflight"):
            system_packages.ensure_system_packages(self.report)
            # Only here the room for what is compiled: once it is, less is free, and enough.
            machine = LocalCluster(LOCAL_CLUSTER_NAME, requirements=_requirements())
            if not machine.status().running and (failures := machine.preflight()):
                raise PreflightError(failures)
        if not self.background.is_ready(CORE):
            with self.report.step("trainer image"):
                self.cluster.start_runtime(self.report)
                self._ensure_trainer_images()

    def _start_cluster(self, engine: Engine, *, with_monitoring: bool) -> bool:
        """Start the cluster, with all images and folders; return whether it is new."""
        with self.report.step("local cluster"):
            remove_half_made(self.cluster, engine, self.report)
            is_new = not self.cluster.is_created
            self.cluster.up(self.report)
            reach_local_clusters_directly(os.environ)  # the new cluster, too
        with self.report.step("images"):
            watching = programs(self.settings, MONITORING).in_images if with_monitoring else ()
            self._load_images([*VOLCANO_IMAGES, *watching])
            if self.settings.gateway.enabled:
                ensure_gateway_images(self.cluster.containerd_socket, self.report, place=mirror(self.settings.images))
            self._ensure_trainer_images()
            for claim in (DATA_CLAIM, OUTPUT_CLAIM, *local_monitoring.VOLUMES):
                local_volume_folder(claim).mkdir(parents=True, exist_ok=True)
        return is_new

    def _make_platform(self, engine: Engine, *, is_new: bool, with_monitoring: bool) -> dict[str, Any]:
        """Update the stack, on a cluster that may be new; return its outputs."""
        exclude = [] if with_monitoring else [MONITORING_URNS]
        with self.report.step("platform"):
            engine.prepare()
            if is_new and engine.is_empty():
                first_update(self.cluster, engine, exclude=exclude)
            else:
                engine.up(exclude=exclude)
            return engine.outputs()

    def _ensure_trainer_images(self) -> None:
        variant = self.settings.images.trainer_variant
        ensure_trainer_images(self.cluster.containerd_socket, ("training", "serving"), self.report, variant=variant)

    def _load_images(self, names: Sequence[str]) -> None:
        place = mirror(self.settings.images)
        ensure_platform_images(self.cluster.containerd_socket, names, self.report, place=place)

    def _train_and_serve(self, outputs: dict[str, Any], *, until_exported: bool) -> _Result:
        with self.report.step("training"):
            self._await_training(outputs, until_exported=until_exported)
        with self.report.step("serving"), stack.service_address(self.settings, self.kubectl) as address:
            self._await_model(address)
            predictions = model_service.predict(address, stack.MODEL, _SHOWN_DIGITS, stack.data_folder(self.settings))
        version = predictions[0].model_version
        model = training_job.exported_model(self.kubectl, self.settings.namespace, stack.SERVICE, stack.MODEL, version)
        return _Result(
            model=model, predictions=predictions, address=address, address_in_cluster=outputs["digits_service_url"]
        )

    def _await_model(self, address: str) -> None:
        """Wait while pods still start.

        Raises:
            ServingError: they are ready, and the address does not answer.
        """
        reached = time.monotonic() + _READY_POD_ANSWERS_SECONDS
        while not model_service.is_ready(address, stack.MODEL):
            time.sleep(_POLL_SECONDS)
            if (
                time.monotonic() > reached
                and self._has_ready_pods()
                and not model_service.is_ready(address, stack.MODEL)
            ):
                raise model_service.ServingError(
                    f"the pods of {stack.SERVICE!r} are ready, but http://{address} does not answer from this"
                    " machine. Fix: check for a firewall or VPN that uses these addresses, then run `make up` again"
                )

    def _has_ready_pods(self) -> bool:
        selector = f"{SERVICE_LABEL}={stack.SERVICE}"
        pods = self.kubectl.items("pods", self.settings.namespace, selector)
        conditions = (each for pod in pods for each in pod["status"].get("conditions", []))
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _await_training(self, outputs: dict[str, Any], *, until_exported: bool = False) -> None:
        namespace, job = outputs["namespace"], outputs["digits_training_job"]
        training_job.wait_for_job(self.kubectl, namespace, job, self.report, until_exported=until_exported)

    def _show(self, result: _Result | None) -> None:
        if result is None:
            return
        own_cluster, model = self.settings.runs_on_own_local_cluster, result.model
        rows = [
            ["test accuracy", f"{model.file.accuracy:.2%} of the held-out digits"],
            ["model", f"{stack.MODEL} version {model.version}, TorchScript of torch {model.torch_version}"],
            *([f"{name} variant", _compared(file, model.file)] for name, file in model.variants.items()),
            ["service", f"http://{result.address}/v2/models/{stack.MODEL}" if own_cluster else "`make predict`"],
            ["in the cluster", result.address_in_cluster],
        ]
        self.console.print(table("Result", ["what", "value"], rows))
        self.console.print(model_service.draw(result.predictions))


def _compared(variant: training_job.ModelFile, model: training_job.ModelFile) -> str:
    sizes = f"{variant.size_bytes / 1000:.0f} of the model's {model.size_bytes / 1000:.0f} kB"
    return f"{variant.accuracy:.2%} of the held-out digits, {sizes}"


def _requirements() -> Requirements:
    """Return the room that must be free: much more while the cache is empty, for it will hold what is built."""
    is_built = (paths().cache / "images").is_dir() and (paths().cache / "tools").is_dir()
    return Requirements() if is_built else Requirements(disk_bytes=_COLD_DISK_BYTES)
