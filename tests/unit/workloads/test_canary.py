"""Two versions behind one Service: split by pods, each pod its own version, each track with an address of its own."""

from __future__ import annotations

import pulumi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import RefusalError
from infra.pod_network_modes import HostNetwork
from tests.tables import each_row
from tests.unit.workloads.serving import flags, serve
from workloads.autoscaling import Autoscaling
from workloads.canary import Canary
from workloads.inference import TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.triton import Triton

CANARY = {"version": 3, "replicas": 10, "canary": Canary(version=4, percent=10)}
RUNTIMES = [{}, {"runtime": Triton(), "resources": Resources(gpus=1)}]


def _deployments(**asked: object):
    return {
        deployment.name: deployment.inputs["spec"] for deployment in serve(**{**CANARY, **asked}).of_kind("Deployment")
    }


def _matched(selector: dict[str, str], deployments: dict) -> set[str]:
    return {
        name for name, spec in deployments.items() if selector.items() <= spec["template"]["metadata"]["labels"].items()
    }


def test_the_pods_are_split():
    assert {name: spec["replicas"] for name, spec in _deployments().items()} == {"digits": 9, "digits-canary": 1}


def test_every_pod_serves_its_own_version_and_is_ready_with_it():
    versions = {}
    for name, spec in _deployments().items():
        [container] = spec["template"]["spec"]["containers"]
        version = flags(container["command"])["model_version"]
        assert container["readinessProbe"]["httpGet"]["path"] == f"/v2/models/digits/versions/{version}/ready"
        versions[name] = version
    assert versions == {"digits": "3", "digits-canary": "4"}


@each_row("runtime", RUNTIMES, ids=["thin", "triton"])
def test_one_service_reaches_all_and_one_each_track(runtime):
    recording = serve(**CANARY, **runtime)
    deployments = {deployment.name: deployment.inputs["spec"] for deployment in recording.of_kind("Deployment")}
    services = {service.inputs["metadata"]["name"]: service.inputs["spec"] for service in recording.of_kind("Service")}
    assert {name: _matched(spec["selector"], deployments) for name, spec in services.items()} == {
        "digits": {"digits", "digits-canary"},
        "digits-stable": {"digits"},
        "digits-canary": {"digits-canary"},
    }
    assert services["digits"]["ports"] == services["digits-stable"]["ports"] == services["digits-canary"]["ports"]


def test_policy_and_budget_cover_both_tracks():
    recording = serve(**CANARY)
    deployments = {deployment.name: deployment.inputs["spec"] for deployment in recording.of_kind("Deployment")}
    [policy], [budget] = recording.of_kind("NetworkPolicy"), recording.of_kind("PodDisruptionBudget")
    for selector in (policy.inputs["spec"]["podSelector"], budget.inputs["spec"]["selector"]):
        assert _matched(selector["matchLabels"], deployments) == {"digits", "digits-canary"}


def test_every_deployment_selects_its_own_pods():
    deployments = _deployments()
    for name, spec in deployments.items():
        assert name in _matched(spec["selector"]["matchLabels"], deployments)
    assert _matched(deployments["digits-canary"]["selector"]["matchLabels"], deployments) == {"digits-canary"}


def test_a_canary_replaces_nothing_that_runs():
    """Logical names and selectors are identities: a change of either would take all pods away at once."""
    before, after = serve(version=3, replicas=10), serve(**CANARY)
    assert before.resources.keys() <= after.resources.keys()
    [plain] = before.of_kind("Deployment")
    stable = after.one("digits", "Deployment")
    assert plain.inputs["spec"]["selector"] == stable.inputs["spec"]["selector"]


def test_both_tracks_keep_apart_on_the_hosts_network():
    """They use the same ports."""
    deployments = _deployments(network=HostNetwork(), replicas=2, canary=Canary(version=4, percent=50))
    for spec in deployments.values():
        [term] = spec["template"]["spec"]["affinity"]["podAntiAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert _matched(term["labelSelector"]["matchLabels"], deployments) == {"digits", "digits-canary"}


def test_addresses_of_the_tracks_are_outputs():
    [service] = serve(**CANARY).of_type("athanor:workloads:TorchScriptService")
    assert service.outputs["url"] == "http://digits.team.svc:8000"
    assert service.outputs["track_urls"] == {
        "stable": "http://digits-stable.team.svc:8000",
        "canary": "http://digits-canary.team.svc:8000",
    }
    [alone] = serve().of_type("athanor:workloads:TorchScriptService")
    assert alone.outputs["track_urls"] == {}


@each_row(("replicas", "warnings"), [(10, []), (19, ["canary: 1 of 19 pods, which is 5.3%, for the requested 10"])])
def test_a_rounded_share_is_reported(replicas, warnings, monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda message, _resource: messages.append(message))
    serve(**{**CANARY, "replicas": replicas})
    assert len(messages) == len(warnings)
    assert all(message.startswith(start) for message, start in zip(messages, warnings, strict=True))


@given(replicas=st.integers(1, 1000), percent=st.integers(1, 99))
def test_the_canary_never_gets_more_than_asked_for_nor_all(replicas, percent):
    canary = Canary(version=4, percent=percent)
    try:
        pods = canary.pods(replicas)
    except RefusalError as refusal:
        assert replicas * percent < 100
        needed = int(refusal.fix.partition("replicas=")[2].split()[0])
        assert canary.pods(needed) == 1
        assert (needed - 1) * percent < 100
        possible = [int(word) for word in refusal.fix.partition("percent=")[2].split(" or ") if word]
        assert [Canary(version=4, percent=share).pods(replicas) for share in possible] == [
            count + 1 for count in range(len(possible))
        ]
    else:
        assert 1 <= pods < replicas
        assert pods * 100 <= percent * replicas < (pods + 1) * 100


@each_row(
    ("changes", "words"),
    [
        ({"canary": {"percent": 0}}, ("canary.percent = 0", "1 to 99")),
        ({"canary": {"percent": 100}}, ("canary.percent = 100", "1 to 99")),
        ({"canary": {"version": 0}}, ("canary.version = 0", "1 to 1000000000")),
        ({"canary": {"version": 3}}, ("canary.version = 3", "is also the version of all other pods")),
        ({"version": None}, ("canary = ", "they would load the canary's", "add version=")),
        ({"replicas": 2}, ("canary.percent = 10", "one pod of 2", "replicas=10 or more, or percent=50")),
        ({"replicas": 3}, ("canary.percent = 10", "one pod of 3", "percent=34 or 67")),
        ({"replicas": None}, ("canary.percent = 10", "one pod of 1", "replicas=10 or more")),
        ({"replicas": 0}, ("canary.percent = 10", "one pod of 0", "replicas=10 or more")),
        ({"replicas": None, "autoscaling": Autoscaling(maximum=9)}, ("canary = ", "fixed number", "set replicas")),
    ],
)
def test_what_cannot_be_split_is_refused(changes, words):
    def build() -> None:
        canary = Canary(**{"version": 4, "percent": 10, **changes.get("canary", {})})
        TorchScriptServiceArgs(model="digits", **{**CANARY, **changes, "canary": canary})

    with pytest.raises(RefusalError) as caught:
        build()
    assert all(word in str(caught.value) for word in words), str(caught.value)
