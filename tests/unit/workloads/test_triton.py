"""Triton in place of the thin server: same repository, same ports and probes, on GPUs."""

from __future__ import annotations

import shlex
import string
import subprocess
from typing import TYPE_CHECKING

import pulumi
import pytest

from infra.errors import RefusalError
from infra.images import TRITON_IMAGE
from infra.pod_network_modes import HostNetwork
from tests.pod_security import violations
from tests.tables import each_row
from tests.unit.workloads.serving import POOL, flags, serve
from workloads.canary import Canary
from workloads.inference import TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.triton import Triton, repository_links

if TYPE_CHECKING:
    from pathlib import Path

TRITON = {"runtime": Triton(), "resources": Resources(cpu="4", memory="16Gi", gpus=1)}


def _pod(**asked: object):
    [deployment] = serve(**{**TRITON, **asked}).of_kind("Deployment")
    return deployment.inputs["spec"]["template"]["spec"]


def _server(**asked: object):
    [container] = _pod(**asked)["containers"]
    return container


def test_the_pinned_image_of_nvidia_serves_unless_another_is_named():
    assert _server()["image"] == TRITON_IMAGE
    assert _server(image="registry.example/triton:1")["image"] == "registry.example/triton:1"
    [thin] = serve().of_kind("Deployment")
    assert thin.inputs["spec"]["template"]["spec"]["containers"][0]["image"] == "trainer:1"


@each_row("network", [HostNetwork(), HostNetwork(port_offset=10)])
def test_every_port_is_opened_declared_probed_allowed_and_served(network):
    recording = serve(**TRITON, network=network)
    [deployment], [service] = recording.of_kind("Deployment"), recording.of_kind("Service")
    [container] = deployment.inputs["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    opened = flags(container["command"])
    assert ports == {name: int(opened[f"{name}-port"]) for name in ("http", "grpc", "metrics")}
    assert (ports["http"], ports["grpc"]) == (8000 + network.port_offset, 8001 + network.port_offset)
    called = {port["targetPort"]: port["port"] for port in service.inputs["spec"]["ports"]}
    assert called == {"http": 8000, "grpc": 8001, "metrics": 8002}
    [policy] = recording.of_kind("NetworkPolicy")
    allowed = [port["port"] for rule in policy.inputs["spec"]["ingress"] for port in rule["ports"]]
    assert allowed == list(ports.values())


def test_alive_at_once_and_ready_with_the_model():
    container = _server()
    assert container["livenessProbe"]["httpGet"] == {"path": "/v2/health/live", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/v2/models/digits/ready", "port": "http"}
    assert flags(container["command"])["exit-on-error"] == "false"


@each_row("grace", [10, 30, 3600])
def test_it_ends_by_itself_before_it_is_killed(grace):
    container = _server(grace_period_seconds=grace)
    [command, seconds] = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    timeout = int(flags(container["command"])["exit-timeout-secs"])
    assert timeout >= 1
    assert int(seconds) + timeout < grace
    assert _pod(grace_period_seconds=grace)["terminationGracePeriodSeconds"] == grace


def test_new_versions_are_looked_for():
    asked = flags(_server(runtime=Triton(poll_seconds=7))["command"])
    assert (asked["model-control-mode"], asked["repository-poll-secs"]) == ("poll", "7")


def test_pods_are_admitted_at_restricted_and_write_nothing_but_tmp():
    pod = _pod()
    assert violations(pod) == []
    for container in (*pod["initContainers"], *pod["containers"]):
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        assert writable == {"/tmp", "/dev/shm"}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"name": "HOME", "value": "/tmp"} in _server()["env"]


def test_every_models_name_is_a_word_of_the_shell():
    """The script has the name without quotes."""
    everything = f"0{string.ascii_lowercase}-_.{string.digits}"
    assert TorchScriptServiceArgs(model=everything).model == everything
    assert shlex.quote(everything) == everything


def test_the_links_take_no_gpu():
    [links] = _pod()["initContainers"]
    assert set(links["resources"]["limits"]) == {"memory"}


def _linked(version: int | None, here: Path) -> Path:
    """Run the init container's script with its two folders below `here`; return Triton's repository."""
    container = repository_links("triton", "digits", version)
    shell, flag, script = container.command
    script = script.replace("/data/output/models", str(here / "models")).replace("/tmp/models", str(here / "links"))
    for _ in range(2):  # a pod whose sandbox was lost runs it again
        subprocess.run([shell, flag, script], check=True)
    return here / "links"


def _publish(here: Path, version: int) -> None:
    folder = here / "models" / "digits" / str(version)
    folder.mkdir(parents=True)
    (folder / "model.pt").write_text(str(version))
    (here / "models" / "digits" / "config.pbtxt").write_text("config")
    (here / "models" / "other").mkdir(exist_ok=True)


def test_triton_sees_one_model_with_all_its_versions(tmp_path):
    links = _linked(None, tmp_path)
    assert not (links / "digits" / "config.pbtxt").exists()
    for version in (1, 2):
        _publish(tmp_path, version)
    assert sorted(path.name for path in (links / "digits").iterdir()) == ["1", "2", "config.pbtxt"]
    assert [path.name for path in links.iterdir()] == ["digits"]


def test_triton_sees_the_pinned_version_alone_once_it_is_there(tmp_path):
    links = _linked(2, tmp_path)
    _publish(tmp_path, 1)
    assert not (links / "digits" / "2").exists()
    _publish(tmp_path, 2)
    _publish(tmp_path, 3)
    assert sorted(path.name for path in (links / "digits").iterdir()) == ["2", "config.pbtxt"]
    assert (links / "digits" / "2" / "model.pt").read_text() == "2"
    assert (links / "digits" / "config.pbtxt").read_text() == "config"


def test_a_pinned_version_is_warmed_up_with_the_models_files_and_no_link_leads_nowhere_for_good(tmp_path):
    _publish(tmp_path, 3)
    links = _linked(3, tmp_path)
    assert sorted(path.name for path in (links / "digits").iterdir()) == ["3", "config.pbtxt"]
    inputs = tmp_path / "models" / "digits" / "warmup"
    inputs.mkdir()
    (inputs / "image").write_text("pixels")
    _linked(3, tmp_path)
    assert (links / "digits" / "warmup" / "image").read_text() == "pixels"


def test_a_canary_pins_each_track():
    recording = serve(**TRITON, version=1, replicas=2, canary=Canary(version=2, percent=50))
    scripts = {}
    for deployment in recording.of_kind("Deployment"):
        pod = deployment.inputs["spec"]["template"]["spec"]
        [links], [server] = pod["initContainers"], pod["containers"]
        scripts[server["readinessProbe"]["httpGet"]["path"]] = links["command"][-1]
    for version in (1, 2):
        script = scripts[f"/v2/models/digits/versions/{version}/ready"]
        assert script.endswith(f"ln -sfn /data/output/models/digits/{version} /tmp/models/digits/{version}")


@each_row(
    ("build", "words"),
    [
        (lambda: TorchScriptServiceArgs(model="digits", runtime=Triton()), ("runtime = Triton", "gpus=1", "Thin()")),
        (lambda: Triton(poll_seconds=0), ("runtime.poll_seconds = 0", "1 to 3600")),
    ],
)
def test_what_triton_cannot_serve_is_refused(build, words):
    with pytest.raises(RefusalError) as caught:
        build()
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_pool_that_shares_its_gpus_otherwise_is_refused():
    with pytest.raises(RefusalError, match=r"resources\.gpus = 3.*use one of 1, 2, 4, 8"):
        serve(preview=True, runtime=Triton(), pool=POOL, resources=Resources(gpus=3))


@pytest.mark.parametrize(
    ("asked", "warned"),
    [({"replicas": 15}, False), ({"replicas": 16}, True), ({"replicas": 2, "network": HostNetwork()}, False)],
)
def test_a_pool_without_room_for_a_rollout_is_reported(asked, warned, monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, _resource: messages.append(message))
    serve(**TRITON, pool=POOL, **asked)
    assert any("a rollout starts a new pod" in message for message in messages) is warned
