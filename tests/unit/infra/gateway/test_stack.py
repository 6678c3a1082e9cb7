"""The gateway of a stack: what it may do, where it listens, and how it is configured."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from infra.gateway import PROXY
from infra.gateway.controller import configuration
from infra.gateway.proxies import class_manifests, gateway_manifests
from infra.settings.gateway import GatewaySettings
from infra.settings.stack import Settings
from infra.workload_labels import LONGEST_HOLD_SECONDS
from tests.pod_security import pod_specs, violations
from tests.tables import each_row

ENABLED = {"gateway": {"enabled": True, "domain": "models.example.com"}, "monitoring": {"kind": "none"}}


def of_name(recording, kind, name):
    [declared] = [each for each in recording.of_kind(kind) if each.inputs["metadata"]["name"] == name]
    return declared.inputs


def proxies(**settings):
    manifests = class_manifests(GatewaySettings(enabled=True, **settings), "athanor", str)
    return manifests["gateway-proxies"]["spec"]["provider"]["kubernetes"]


def test_nothing_of_it_is_there_unless_it_is_asked_for(record_stack):
    recording = record_stack({"monitoring": {"kind": "none"}})
    assert not recording.of_kind("Gateway")
    assert not [each for each in recording.of_kind("CustomResourceDefinition") if "gateway" in each.urn]


def test_its_own_pods_are_restricted(record_stack):
    own = [
        pod
        for each in record_stack(ENABLED).objects()
        if each.inputs.get("metadata", {}).get("namespace") == "gateway-system"
        for pod in pod_specs(each.inputs)
    ]
    assert len(own) == 3
    assert [violations(pod) for pod in own] == [[], [], []]


def test_the_controller_reads_secrets_of_two_namespaces_and_of_no_other(record_stack):
    recording = record_stack(ENABLED)
    roles = [*recording.of_kind("Role"), *recording.of_kind("ClusterRole")]
    reading = [
        (role.kind, role.inputs["metadata"].get("namespace"))
        for role in roles
        if role.inputs["metadata"]["name"] == "athanor-envoy-gateway"
        for rule in role.inputs["rules"]
        if "secrets" in rule["resources"]
    ]
    assert sorted(reading) == [("Role", "athanor"), ("Role", "gateway-system")]
    watch = configuration("athanor", str)["provider"]["kubernetes"]["watch"]
    assert watch == {"type": "Namespaces", "namespaces": ["gateway-system", "athanor"]}


def test_the_activator_scales_deployments_of_the_workloads_and_does_nothing_else(record_stack):
    role = of_name(record_stack(ENABLED), "Role", "athanor-activator")
    assert role["metadata"]["namespace"] == "athanor"
    allowed = {(kind, verb) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
    assert allowed == {("deployments", "list"), ("deployments/scale", "patch")}


def test_it_listens_inside_the_cluster_unless_the_settings_say_otherwise():
    assert proxies()["envoyService"] == {"name": "gateway", "type": "ClusterIP"}


@each_row(("address", "kind"), [("internal", "intranet"), ("public", "internet")])
def test_a_load_balancer_is_of_the_asked_kind(address, kind):
    service = proxies(address=address, allowed_cidrs=["203.0.113.0/24"])["envoyService"]
    assert service["type"] == "LoadBalancer"
    assert list(service["annotations"].values()) == [kind]
    assert service["loadBalancerSourceRanges"] == ["203.0.113.0/24"]


def test_authentication_comes_before_anything_is_woken():
    spec = class_manifests(GatewaySettings(enabled=True), "athanor", str)["gateway-proxies"]["spec"]
    assert [each["name"] for each in spec["filterOrder"]] == ["envoy.filters.http.ext_authz"] * 3
    later = {each["after"].rpartition(".")[2] for each in spec["filterOrder"]}
    assert later == {"api_key_auth", "jwt_authn", "local_ratelimit"}


def test_images_of_pods_that_it_makes_itself_come_from_the_mirror(record_stack):
    images = {"registry": "mirror.example/team", "pull_secrets": ["team-registry"]}
    config = of_name(record_stack({**ENABLED, "images": images}), "ConfigMap", "envoy-gateway-config")
    provider = json.loads(config["data"]["envoy-gateway.yaml"])["provider"]["kubernetes"]
    assert provider["shutdownManager"]["image"].startswith("mirror.example/team/envoyproxy/gateway:")


def test_an_own_certificate_is_used_and_none_is_signed(record_stack):
    gateway = {"enabled": True, "domain": "models.example.com", "certificate_secret": "wildcard"}
    recording = record_stack({**ENABLED, "gateway": gateway})
    [listener] = of_name(recording, "Gateway", "athanor")["spec"]["listeners"]
    assert listener["tls"]["certificateRefs"] == [{"kind": "Secret", "name": "wildcard"}]
    job = of_name(recording, "Job", "gateway-certificates")
    assert "initContainers" not in job["spec"]["template"]["spec"]


@each_row(
    ("gateway", "words"),
    [
        ({"domain": "models.example.com"}, "domain would have no effect"),
        ({"enabled": True, "allowed_cidrs": ["10.0.0.0/8"]}, "address = 'cluster' has none"),
        ({"enabled": True, "address": "public"}, "the local cluster has no load balancers"),
        ({"enabled": True, "domain": "Models"}, "DNS subdomain"),
        ({"enabled": True, "replicas": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_without_effect_are_refused(gateway, words):
    with pytest.raises(ValidationError, match=words):
        Settings.model_validate({"gateway": gateway})


def test_the_proxies_end_no_request_that_waits_for_its_service_to_start():
    """Until the last filter has seen all of it, a request counts as one that still arrives."""
    policy = gateway_manifests("example.org", "athanor", "certificate")[f"{PROXY}-clients"]
    times = policy["spec"]["timeout"]["http"]
    for name in ("requestReceivedTimeout", "streamIdleTimeout"):
        assert int(times[name].removesuffix("s")) > LONGEST_HOLD_SECONDS + 5
    assert times["requestHeadersReceivedTimeout"] == "60s"
