"""A shadow next to a service: pods that no client reaches, and flags that send it a share of the requests."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from infra.pod_network_modes import HostNetwork
from tests.tables import each_row
from tests.unit.workloads.serving import flags, serve
from trainer.serve.shadow_config import ShadowConfig
from workloads.autoscaling import Autoscaling
from workloads.canary import Canary
from workloads.inference import TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.shadow import Shadow
from workloads.triton import Thin, Triton

NEXT = {"version": 3, "shadow": Shadow(version=4)}


def _recorded(**asked: object):
    recording = serve(**{**NEXT, **asked})
    return recording, {each.name: each.inputs["spec"] for each in recording.of_kind("Deployment")}


def _command(deployment: dict) -> dict[str, str]:
    [container] = deployment["template"]["spec"]["containers"]
    return flags(container["command"])


def _labels(deployment: dict) -> dict[str, str]:
    return deployment["template"]["metadata"]["labels"]


def _matched(selector: dict[str, str], deployments: dict) -> set[str]:
    return {name for name, spec in deployments.items() if selector.items() <= _labels(spec).items()}


def test_the_service_knows_its_shadow_and_the_shadow_none():
    _, deployments = _recorded()
    service, shadow = _command(deployments["digits"]), _command(deployments["digits-shadow"])
    assert (service["model_version"], shadow["model_version"]) == ("3", "4")
    assert service["shadow_url"] == "http://digits-shadow.team.svc:8000"
    assert service["shadow_share"] == "0.1"
    assert not {name for name in shadow if "shadow" in name}


@each_row("asked", [{}, {"replicas": 4, "canary": Canary(version=5, percent=25)}], ids=["alone", "canary"])
def test_no_service_of_clients_reaches_the_shadow(asked):
    recording, deployments = _recorded(**asked)
    services = {
        each.inputs["metadata"]["name"]: each.inputs["spec"]["selector"] for each in recording.of_kind("Service")
    }
    matched = {name: _matched(selector, deployments) for name, selector in services.items()}
    assert matched.pop("digits-shadow") == {"digits-shadow"}
    assert matched
    assert not any("digits-shadow" in names for names in matched.values())


def test_policies_open_the_way_to_the_shadow_and_no_other():
    recording, deployments = _recorded()
    policies = {
        each.inputs["metadata"]["name"].split(".")[1]: each.inputs["spec"]
        for each in recording.of_kind("NetworkPolicy")
    }
    [way] = policies["digits"]["egress"]
    assert way["ports"] == [{"protocol": "TCP", "port": 8000}]
    assert [_matched(peer["podSelector"]["matchLabels"], deployments) for peer in way["to"]] == [{"digits-shadow"}]
    [called, _scraped] = policies["digits-shadow"]["ingress"]
    assert called["ports"] == way["ports"]
    assert [_matched(peer["podSelector"]["matchLabels"], deployments) for peer in called["from"]] == [{"digits"}]
    assert "egress" not in policies["digits-shadow"]


def test_pods_that_serve_a_canary_send_nothing():
    _, deployments = _recorded(replicas=4, canary=Canary(version=5, percent=25))
    assert {name for name, spec in deployments.items() if "shadow_url" in _command(spec)} == {"digits"}


def test_the_service_scales_and_its_shadow_does_not():
    recording, deployments = _recorded(autoscaling=Autoscaling(maximum=8), shadow=Shadow(version=4, replicas=2))
    assert "replicas" not in deployments["digits"]
    assert deployments["digits-shadow"]["replicas"] == 2
    assert [each.inputs["metadata"]["name"] for each in recording.of_kind("HorizontalPodAutoscaler")] == ["digits"]
    assert [each.inputs["metadata"]["name"] for each in recording.of_kind("PodDisruptionBudget")] == ["digits"]


def test_a_variant_of_the_same_version():
    _, deployments = _recorded(shadow=Shadow(variant="int8", percent=50, tolerance=0.25))
    service, shadow = _command(deployments["digits"]), _command(deployments["digits-shadow"])
    assert (shadow["model_version"], shadow["model_variant"]) == ("3", "int8")
    assert (service["shadow_share"], service["shadow_tolerance"]) == ("0.5", "0.25")
    assert "model_variant" not in service


def test_the_model_itself_as_the_shadow_of_its_variant():
    _, deployments = _recorded(variant="int8", shadow=Shadow())
    assert "model_variant" not in _command(deployments["digits-shadow"])


def test_another_model_with_what_its_version_policy_says():
    shadow = Shadow(model="larger", resources=Resources(cpu="2"), classes=False, tolerance=0.1)
    _, deployments = _recorded(shadow=shadow)
    service, other = _command(deployments["digits"]), _command(deployments["digits-shadow"])
    assert (other["model_name"], "model_version" in other) == ("larger", False)
    assert (service["shadow_model"], service["no_shadow_classes"]) == ("larger", "")
    [container] = deployments["digits-shadow"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "2"


def test_the_shadow_answers_http_alone():
    recording, deployments = _recorded(runtime=Thin(grpc=True))
    assert "grpc_port" in _command(deployments["digits"])
    assert "grpc_port" not in _command(deployments["digits-shadow"])
    shadow = recording.one("digits-shadow", "Service").inputs["spec"]
    assert [port["name"] for port in shadow["ports"]] == ["http", "metrics"]


def test_ports_of_the_hosts_network():
    recording, _ = _recorded(network=HostNetwork(port_offset=10))
    [policy] = [each for each in recording.of_kind("NetworkPolicy") if each.name == "digits-network"]
    assert policy.inputs["spec"]["egress"][0]["ports"] == [{"protocol": "TCP", "port": 8010}]


def test_a_shadow_replaces_nothing_that_runs():
    before, (after, _) = serve(version=3), _recorded()
    assert before.resources.keys() <= after.resources.keys()


@each_row(
    "shadow",
    [
        Shadow(),
        Shadow(model="other", percent=1),
        Shadow(percent=100, tolerance=1e-7),
        Shadow(classes=False, tolerance=5),
    ],
)
def test_the_server_takes_every_flag(shadow):
    given = flags(list(shadow.arguments("http://digits-shadow.team.svc:8000", "digits")))
    if "no_shadow_classes" in given:
        given.pop("no_shadow_classes")
        assert not shadow.classes
    numbers = {name: float(value) for name, value in given.items() if name not in ("shadow_url", "shadow_model")}
    texts = {name: value for name, value in given.items() if name not in numbers}
    config = ShadowConfig(shadow_classes=shadow.classes, **numbers, **texts)
    assert config.shadow_share == pytest.approx(shadow.percent / 100)
    assert config.shadow_tolerance == shadow.tolerance
    assert config.shadow_model == shadow.model


@each_row(
    ("changes", "words"),
    [
        ({"shadow": {}}, ("shadow = ", "serves the same as the service", "name another version")),
        ({"shadow": {"version": 3}}, ("shadow = ", "serves the same")),
        ({"shadow": {"model": "digits"}}, ("shadow = ", "serves the same")),
        ({"variant": "int8", "shadow": {"variant": "int8"}}, ("shadow = ", "serves the same")),
        ({"version": None, "shadow": {"version": 4}}, ("shadow = ", "they would load the shadow's", "add version=")),
        (
            {"runtime": Triton(), "resources": Resources(gpus=1), "shadow": {"version": 4}},
            ("shadow = ", "is for the thin runtime", "omit shadow, or runtime"),
        ),
        ({"shadow": {"version": 0}}, ("shadow.version = 0", "1 to 1000000000")),
        ({"shadow": {"percent": 0}}, ("shadow.percent = 0", "1 to 100")),
        ({"shadow": {"percent": 101}}, ("shadow.percent = 101", "1 to 100")),
        ({"shadow": {"replicas": 0}}, ("shadow.replicas = 0", "1 to 1000")),
        ({"shadow": {"tolerance": -1.0}}, ("shadow.tolerance = -1.0", "from 0")),
        ({"shadow": {"tolerance": float("nan")}}, ("shadow.tolerance = nan", "finite")),
        ({"shadow": {"classes": False}}, ("shadow.classes = False", "add tolerance")),
        ({"shadow": {"variant": "int3"}}, ("shadow.variant",)),
    ],
)
def test_what_cannot_be_compared_is_refused(changes, words):
    def build() -> None:
        TorchScriptServiceArgs(**{"model": "digits", "version": 3, **changes, "shadow": Shadow(**changes["shadow"])})

    with pytest.raises(RefusalError) as caught:
        build()
    assert all(word in str(caught.value) for word in words), str(caught.value)
