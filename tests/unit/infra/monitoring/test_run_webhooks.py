"""Who is notified when a job ends: the configuration, and what the real Alertmanager posts with it."""

from __future__ import annotations

import json
import socket
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from infra.closed_addresses import ANYWHERE
from infra.monitoring.alertmanager import SECRETS_FOLDER, alertmanager_manifests, configuration
from infra.settings.monitoring import MonitoringSettings
from tests.api_double.dispatch import Answer
from tests.api_double.server import LOOPBACK, LoopbackServer
from tests.waiting import wait_until
from tools import toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from tests.api_double.wire import Call

BOTH = {"run_webhooks": [{"secret": "all-runs"}, {"secret": "research-chat", "queue": "research"}]}


def settings(**values: object) -> MonitoringSettings:
    return MonitoringSettings.model_validate(values)


def test_a_configuration_of_ones_own_has_all_routes():
    with pytest.raises(ValidationError, match="run_webhooks would have no effect"):
        settings(alertmanager_config_secret="on-call", **BOTH)


def test_a_prometheus_of_somebody_else_notifies_by_itself():
    with pytest.raises(ValidationError, match="run_webhooks would have no effect"):
        settings(kind="managed", **BOTH)


def test_the_addresses_are_read_from_secrets_that_alertmanager_mounts():
    manifests = alertmanager_manifests(settings(**BOTH), None)
    assert manifests["alertmanager"]["spec"]["secrets"] == ["all-runs", "research-chat"]
    assert "://" not in manifests["alertmanager-config"]["stringData"]["alertmanager.yaml"]
    files = [each["webhook_configs"][0]["url_file"] for each in configuration(settings(**BOTH))["receivers"][1:]]
    assert files == [f"{SECRETS_FOLDER}/all-runs/url", f"{SECRETS_FOLDER}/research-chat/url"]


def test_alertmanager_connects_out_only_to_notify():
    def opened(**values: object) -> Any:
        return alertmanager_manifests(settings(**values), None)["alertmanager-network"]["spec"]["egress"]

    assert {"to": ANYWHERE} in opened(**BOTH)
    assert {"to": ANYWHERE} not in opened()


@dataclass(frozen=True)
class Webhooks:
    """Receivers of what Alertmanager posts, each with its address in a file, as from a mounted Secret."""

    folder: Path
    bodies: dict[str, list[dict[str, Any]]]
    """What was posted, by the Secret's name."""

    def alerts(self, secret: str) -> set[str]:
        """Return the names of the alerts that a webhook has heard of."""
        return {alert["labels"]["alertname"] for body in self.bodies[secret] for alert in body["alerts"]}


@pytest.fixture
def webhooks(tmp_path):
    """Listen on loopback."""
    bodies: dict[str, list[dict[str, Any]]] = {"all-runs": [], "research-chat": []}

    def answer(call: Call) -> Answer:
        bodies[call.path.strip("/")].append(json.loads(call.body))
        return Answer(200)

    server = LoopbackServer(answer)
    server.start()
    for secret in bodies:
        (tmp_path / secret).mkdir()
        (tmp_path / secret / "url").write_text(f"http://{server.address}/{secret}\n", encoding="utf-8")
    yield Webhooks(tmp_path, bodies)
    server.stop()


@pytest.fixture
def api(webhooks):
    """Run the real Alertmanager with the configuration, and return the address of its API."""
    text = json.dumps(configuration(settings(**BOTH))).replace(SECRETS_FOLDER, str(webhooks.folder))
    (webhooks.folder / "alertmanager.yaml").write_text(text, encoding="utf-8")
    address = f"{LOOPBACK}:{_free_port()}"
    command = [
        toolchain.ensure(["alertmanager"])["alertmanager"],
        f"--config.file={webhooks.folder}/alertmanager.yaml",
        f"--storage.path={webhooks.folder}/data",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ]
    with (
        (webhooks.folder / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        wait_until(lambda: _ready(address) or process.poll() is not None, (webhooks.folder / "log").read_text)
        assert process.poll() is None, (webhooks.folder / "log").read_text(encoding="utf-8")
        yield f"http://{address}/api/v2"
        process.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def _alert(name: str, workload: str, queue: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, "namespace": "team", "workload": workload, "queue": queue}}


@pytest.mark.built
def test_a_webhook_hears_of_the_ends_of_its_queues_jobs_and_of_nothing_else(api, webhooks):
    alerts = [
        _alert("TrainingStalled", "slow", "research"),
        _alert("JobCompleted", "good", "research"),
        _alert("JobFailed", "bad", "training"),
    ]
    post = urllib.request.Request(
        f"{api}/alerts", json.dumps(alerts).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(post, timeout=60) as answer:
        assert answer.status == 200
    wait_until(
        lambda: len(webhooks.alerts("all-runs")) == 2 and webhooks.alerts("research-chat"),
        lambda: f"webhooks to be called: {webhooks.bodies}",
    )
    assert webhooks.alerts("all-runs") == {"JobCompleted", "JobFailed"}
    assert webhooks.alerts("research-chat") == {"JobCompleted"}
    with urllib.request.urlopen(f"{api}/status", timeout=60) as answer:
        configured = json.load(answer)["config"]["original"]
    assert str(webhooks.folder) in configured
    assert "http://" not in configured
