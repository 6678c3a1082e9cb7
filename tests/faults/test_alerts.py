"""What breaks on the real cluster makes its own alert fire, and mending it ends the alert."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.cluster.test_job_life_cycle import TRAINING, names
from tests.cluster.test_training_jobs import KILL_TRAINING
from tests.fixtures.engineer import SMALL
from tests.fixtures.monitoring import Monitoring
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.clone import Clone
    from tests.fixtures.engineer import Engineer
    from tests.fixtures.team import Team

# Short enough to see an alert come and go.
IMPATIENT = {
    "monitoring.thresholds.training.stalled_seconds": 15,
    "monitoring.thresholds.training.stalled_for_seconds": 0,
    "monitoring.thresholds.training.failure_window_seconds": 30,
    "monitoring.thresholds.training.restarts": 1,
    "monitoring.thresholds.storage.full_for_seconds": 0,
    "monitoring.thresholds.serving.load_failure_window_seconds": 30,
}
HEARS, WEBHOOK_PORT = "hears-runs", 8080
"""The Secret of a webhook, and the pod that gets what is posted."""
HEAR = """
import http.server
class Hears(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("0.0.0.0", 8080), Hears).serve_forever()
"""
SIGNAL_TRAINING = KILL_TRAINING.replace("os.kill(pid, 9)", "os.kill(pid, {signal})")
SIGSTOP, SIGCONT = 19, 18
SMALL_VOLUME = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}


@pytest.fixture(scope="module")
def webhook(served: Clone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a Secret with the address of a pod, also its name, that prints what is posted to it."""
    labels = {"app": HEARS}
    address = f"http://{HEARS}.default.svc:{WEBHOOK_PORT}/own-path"
    container = {"name": "main", "image": served.outputs()["trainer_image"], "command": ["python3", "-c", HEAR]}
    objects = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": HEARS, "namespace": "monitoring"},
         "stringData": {"url": address}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": HEARS, "namespace": "default", "labels": labels},
         "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": HEARS, "namespace": "default"},
         "spec": {"selector": labels, "ports": [{"port": WEBHOOK_PORT}]}},
    ]  # fmt: skip
    manifests = tmp_path_factory.mktemp("webhook") / "hears.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), encoding="utf-8")
    served.kubectl("apply", "-f", str(manifests))
    try:
        yield HEARS
    finally:
        served.kubectl("delete", "-f", str(manifests), "--ignore-not-found", check=False)


@pytest.fixture(scope="module")
def monitoring(served: Clone, webhook: str) -> Iterator[Monitoring]:
    """The environment's monitoring with thresholds of seconds and a webhook for ends of runs, until the next update."""
    served.configure_local(**IMPATIENT, **{"monitoring.run_webhooks[0].secret": webhook})
    try:
        served.up()
        monitoring = Monitoring(served)
        wait_until(lambda: monitoring.posts_ends_of_runs(webhook), "Alertmanager with the webhook")
        yield monitoring
    finally:
        for path in ("thresholds", "run_webhooks"):
            served.pulumi("config", "rm", "--path", f"athanor:monitoring.{path}")


@pytest.fixture(scope="class")
def job(monitoring: Monitoring, team: Team) -> str:
    """Name of a training that runs for longer than any test here, until the team's end."""
    team.declare(TRAINING.format(name="watched", more=""))
    team.up()
    name = team.jobs()["watched"]["metadata"]["name"]
    wait_until(lambda: "checkpoint_saved" in names(team.clone, name), "first checkpoint")
    wait_until(lambda: monitoring.query('athanor_training_step{workload="watched"} > 0'), "its steps to be known")
    return name


def fires(monitoring: Monitoring, alert: str, **labels: str) -> bool:
    firing = monitoring.firing().get(alert, [])
    return any(labels.items() <= each.items() for each in firing)


def comes(monitoring: Monitoring, alert: str, **labels: str) -> None:
    wait_until(lambda: fires(monitoring, alert, **labels), lambda: f"{alert} {labels}, firing: {monitoring.firing()}")


def goes(monitoring: Monitoring, alert: str, **labels: str) -> None:
    wait_until(lambda: not fires(monitoring, alert, **labels), f"{alert} {labels} to end")


def signal_training(clone: Clone, pod: str, signal: int) -> None:
    clone.kubectl("exec", pod, "-n", "athanor", "--", "python3", "-c", SIGNAL_TRAINING.format(signal=signal))


def test_a_version_that_cannot_be_loaded_is_reported(monitoring: Monitoring, served: Clone, tmp_path: Path) -> None:
    models = served.home / "local" / "volumes" / "output" / "models" / "digits"
    good = next(folder for folder in models.iterdir() if folder.name.isdigit())
    shutil.copytree(good, tmp_path / "99")
    (tmp_path / "99" / "model.pt").write_bytes(b"no model")
    shutil.move(tmp_path / "99", models / "99")
    try:
        comes(monitoring, "ModelLoadFailed", workload="digits", model="digits")
    finally:
        shutil.rmtree(models / "99")
    goes(monitoring, "ModelLoadFailed", workload="digits")
    assert "✓" in served.make("predict", "IMAGE=0")


@contextmanager
def small_disk(clone: Clone) -> Iterator[Path]:
    """A file system of 16 MiB on the clone's node, at the path that it gives."""
    node = clone.cluster._node.init()
    assert node is not None
    folder = clone.home / "local" / "volumes" / "small"
    inside = ["nsenter", f"--target={node.pid}", "--mount", "--"]
    folder.mkdir()
    subprocess.run([*inside, "mount", "-t", "tmpfs", "-o", "size=16m,mode=1777", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        # Gone already if the kubelet took its end for the volume's: the node's end would take it away, too.
        subprocess.run([*inside, "umount", "--lazy", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def small_volume(folder: Path, node: str) -> list[dict[str, object]]:
    """Return a volume on the folder and a pod that fills it, and lives on."""
    on_node = {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}  # fmt: skip
    size = {"storage": "16Mi"}
    place = {"local": {"path": str(folder)}, "nodeAffinity": {"required": on_node}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "small"},
         "spec": {**SMALL_VOLUME, **place, "capacity": size, "claimRef": {"name": "small", "namespace": "athanor"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "small", "namespace": "athanor"},
         "spec": {**SMALL_VOLUME, "resources": {"requests": size}, "volumeName": "small"}},
    ]  # fmt: skip


def filling_pod(image: str) -> dict[str, object]:
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
                  "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip
    fill = "head -c 16M /dev/zero > /small/all; exec sleep 3600"
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fills", "namespace": "athanor"},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "small", "persistentVolumeClaim": {"claimName": "small"}}],
            "containers": [{
                "name": "main", "image": image, "command": ["sh", "-c", fill], "securityContext": restricted,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                "volumeMounts": [{"name": "small", "mountPath": "/small"}],
            }],
        },
    }  # fmt: skip


def test_a_volume_that_is_full_is_reported(monitoring: Monitoring, served: Clone, tmp_path: Path) -> None:
    [node] = [each["metadata"]["name"] for each in served.objects("nodes")]
    image = served.outputs()["trainer_image"]
    with small_disk(served) as folder:
        manifests = tmp_path / "small.json"
        items = [*small_volume(folder, node), filling_pod(image)]
        manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
        served.kubectl("apply", "-f", str(manifests))
        try:
            comes(monitoring, "VolumeFull", persistentvolumeclaim="small", severity="page")
            served.kubectl("exec", "fills", "-n", "athanor", "--", "rm", "/small/all")
            goes(monitoring, "VolumeFull", persistentvolumeclaim="small")
        finally:
            served.kubectl("delete", "-f", str(manifests), "--ignore-not-found")


@pytest.mark.usefixtures("monitoring")
def test_a_webhook_hears_that_a_run_ended(engineer: Engineer, webhook: str) -> None:
    def heard() -> list[dict[str, str]]:
        lines = engineer.clone.kubectl("logs", webhook, "-n", "default").splitlines()
        posted = [json.loads(line) for line in lines if line.startswith("{")]
        return [alert["labels"] for each in posted for alert in each["alerts"]]

    def ended(run: str, alert: str) -> bool:
        return any((labels["workload"], labels["alertname"]) == (run, alert) for labels in heard())

    for run, command, alert in (("well", "true", "JobCompleted"), ("badly", "false", "JobFailed")):
        # With a deadline, a run that fails does not start again.
        words = f"--no-code --kind batch --deadline 1h --name {run} {SMALL} --follow"
        engineer.shell(f"athanor run {words} -- {command}", check=False)
        wait_until(lambda run=run, alert=alert: ended(run, alert), lambda run=run: f"the end of {run}; {heard()}")


class TestTraining:
    """The last, because the training runs until the team is gone."""

    def test_a_job_whose_rank_hangs_is_stalled(self, monitoring: Monitoring, served: Clone, job: str) -> None:
        assert not fires(monitoring, "TrainingStalled", workload="watched")
        signal_training(served, f"{job}-worker-0", SIGSTOP)
        comes(monitoring, "TrainingStalled", workload="watched", severity="page")
        signal_training(served, f"{job}-worker-0", SIGCONT)
        goes(monitoring, "TrainingStalled", workload="watched")

    def test_a_job_whose_ranks_die_is_reported_with_its_restarts(
        self, monitoring: Monitoring, served: Clone, job: str
    ) -> None:
        before = names(served, job).count("resumed")
        signal_training(served, f"{job}-worker-0", 9)
        comes(monitoring, "JobRestartsOften", workload="watched")
        wait_until(lambda: names(served, job).count("resumed") > before, "the job to go on")
        goes(monitoring, "JobRestartsOften", workload="watched")
