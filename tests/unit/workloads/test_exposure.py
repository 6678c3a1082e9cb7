"""Services for clients outside the cluster: routes, who may use them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.errors import RefusalError
from infra.offers import GatewayOffer, PlatformOffers
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import plain_platform
from workloads.autoscaling import Autoscaling, QueueDepth
from workloads.canary import Canary
from workloads.exposure import Expose, OidcAuth, RateLimit, TokenAuth
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.triton import Thin, Triton

PRIVATE = GatewayOffer(domain="models.internal", public=False)
PUBLIC = GatewayOffer(domain="models.example.com", public=True)
OIDC = {"issuer": "https://login.example.com", "audiences": ["models"]}


def expose(gateway=PRIVATE, **asked):
    args = TorchScriptServiceArgs(**{"model": "digits", "expose": Expose(), **asked})
    offers = PlatformOffers(gateway=gateway)
    return record(lambda: TorchScriptService("digits", replace(plain_platform(), offers=offers), args), preview=False)


def exposed_canary(**asked):
    return TorchScriptServiceArgs(
        model="digits", version=1, canary=Canary(version=2, percent=10), expose=Expose(), **asked
    )


def route(recording):
    [declared] = recording.of_kind("HTTPRoute")
    return declared.inputs["spec"]


def paths(rule):
    return {(match["path"]["type"], match["path"]["value"]) for match in rule["matches"]}


def test_the_host_is_the_services_name_below_the_domain():
    recording = expose()
    assert route(recording)["hostnames"] == ["digits.models.internal"]
    [service] = recording.of_type("athanor:workloads:TorchScriptService")
    assert service.outputs["external_url"] == "https://digits.models.internal"


def test_inference_health_and_metadata_pass_and_nothing_else():
    [rule] = route(expose())["rules"]
    assert paths(rule) == {("Exact", "/v2"), ("PathPrefix", "/v2/models"), ("PathPrefix", "/v2/health")}


def test_grpc_methods_that_manage_the_server_have_no_route():
    grpc, stream, _ = route(expose(runtime=Thin(grpc=True)))["rules"]
    methods = {value.rpartition("/")[2] for rule in (grpc, stream) for _, value in paths(rule)}
    assert "ModelInfer" in methods
    assert not [name for name in methods if "Repository" in name or "Setting" in name or "Shared" in name]
    assert grpc["backendRefs"] == stream["backendRefs"] == [{"name": "digits", "port": 8001, "weight": 100}]


def test_an_answer_has_its_time_and_a_stream_of_them_goes_on():
    rules = route(expose(expose=Expose(timeout_seconds=5), runtime=Thin(grpc=True)))["rules"]
    times = {rule["name"]: rule["timeouts"]["request"] for rule in rules}
    assert times == {"grpc": "5s", "grpc-stream": "0s", "http": "5s"}


@each_row(("path", "below"), [("/", ""), ("/a.b", "/a\\.b")])
def test_nobody_outside_changes_what_triton_traces(path, below):
    asked = {"expose": Expose(path=path), "resources": Resources(gpus=1)}
    closed, *others = route(expose(runtime=Triton(), **asked))["rules"]
    assert paths(closed) == {("RegularExpression", f"{below}/v2/models/.*/trace/setting")}
    assert closed["filters"][0]["urlRewrite"]["path"] == {"type": "ReplaceFullPath", "replaceFullPath": "/v2/closed"}
    assert all(rule["backendRefs"] for rule in others)
    assert "closed" not in {rule["name"] for rule in route(expose(expose=Expose(path=path)))["rules"]}


def test_below_a_path_there_is_no_grpc_and_the_server_sees_its_own_paths():
    spec = route(expose(expose=Expose(host="shared", path="/a/b"), runtime=Thin(grpc=True)))
    assert spec["hostnames"] == ["shared.models.internal"]
    assert set().union(*(paths(rule) for rule in spec["rules"])) == {
        ("Exact", "/a/b/v2"),
        ("PathPrefix", "/a/b/v2/models"),
        ("PathPrefix", "/a/b/v2/health"),
    }
    rewritten = [rule["filters"][0]["urlRewrite"]["path"] for rule in spec["rules"]]
    originals = [each.get("replacePrefixMatch", each.get("replaceFullPath")) for each in rewritten]
    assert originals == ["/v2", "/v2/models", "/v2/health"]


def test_a_canary_gets_its_share_of_requests_with_one_pod():
    recording = expose(version=1, canary=Canary(version=2, percent=1), replicas=3)
    [rule] = route(recording)["rules"]
    weights = {each["name"]: each["weight"] for each in rule["backendRefs"]}
    assert weights == {"digits-stable": 99, "digits-canary": 1}
    deployments = [each.inputs for each in recording.of_kind("Deployment")]
    replicas = {each["metadata"]["name"]: each["spec"]["replicas"] for each in deployments}
    assert replicas == {"digits": 2, "digits-canary": 1}


def test_by_default_each_version_has_a_pod():
    recording = expose(version=1, canary=Canary(version=2, percent=10))
    replicas = {each.name: each.inputs["spec"]["replicas"] for each in recording.of_kind("Deployment")}
    assert replicas == {"digits": 1, "digits-canary": 1}


def test_a_canary_finds_the_other_pods_as_it_needs_them():
    """Their label and Service are there before it; nothing is asked of proxies that know no pod of a Service yet."""
    alone = expose(version=1, replicas=2)
    both = expose(version=1, replicas=2, canary=Canary(version=2, percent=10))
    before, after = (recording.one("digits", "Deployment").inputs["spec"]["template"] for recording in (alone, both))
    assert before == after
    services = [
        {each.name: each.inputs["spec"]["selector"] for each in recording.of_kind("Service")}
        for recording in (alone, both)
    ]
    assert services[0].items() < services[1].items()
    assert services[0]["digits-stable"].items() <= before["metadata"]["labels"].items()
    assert route(alone)["rules"][0]["backendRefs"] == [{"name": "digits", "port": 8000, "weight": 100}]
    [policy] = alone.of_kind("BackendTrafficPolicy")
    assert "routingType" not in policy.inputs["spec"]
    [policy] = both.of_kind("BackendTrafficPolicy")
    assert policy.inputs["spec"]["routingType"] == "Service"
    [service] = alone.of_type("athanor:workloads:TorchScriptService")
    assert service.outputs["track_urls"] == {}


@each_row(
    ("maximum", "minimum", "percent", "pods", "limits"),
    [(2, 1, 10, 1, (1, 1)), (10, 1, 10, 1, (1, 9)), (10, 4, 25, 2, (2, 8)), (10, 1, 99, 9, (1, 1))],
)
def test_an_autoscaled_service_gives_its_canary_the_pods_of_the_highest_load(maximum, minimum, percent, pods, limits):
    recording = expose(
        version=1, canary=Canary(version=2, percent=percent), autoscaling=Autoscaling(minimum=minimum, maximum=maximum)
    )
    stable, canary = (recording.one(name, "Deployment").inputs["spec"] for name in ("digits", "digits-canary"))
    assert "replicas" not in stable
    assert canary["replicas"] == pods
    [autoscaler] = recording.of_kind("HorizontalPodAutoscaler")
    assert autoscaler.inputs["spec"]["scaleTargetRef"]["name"] == "digits"
    assert (autoscaler.inputs["spec"]["minReplicas"], autoscaler.inputs["spec"]["maxReplicas"]) == limits


def test_without_limits_nothing_asks_who_a_client_is():
    assert not expose().of_kind("SecurityPolicy")


def test_the_server_never_sees_a_token():
    [policy] = expose(expose=Expose(auth=TokenAuth(secret="clients"))).of_kind("SecurityPolicy")
    keys = policy.inputs["spec"]["apiKeyAuth"]
    assert keys["sanitize"] is True
    assert keys["credentialRefs"] == [{"group": "", "kind": "Secret", "name": "clients"}]


def test_tokens_of_a_provider_are_for_this_audience():
    keys_url = "https://login.example.com/keys.json"
    [policy] = expose(expose=Expose(auth=OidcAuth(**OIDC, keys_url=keys_url))).of_kind("SecurityPolicy")
    [provider] = policy.inputs["spec"]["jwt"]["providers"]
    assert provider == {
        "name": "oidc",
        "issuer": "https://login.example.com",
        "audiences": ["models"],
        "remoteJWKS": {"uri": keys_url},
    }


def test_a_limit_is_of_its_unit():
    [policy] = expose(expose=Expose(rate_limit=RateLimit(requests=7, per="minute"))).of_kind("BackendTrafficPolicy")
    [rule] = policy.inputs["spec"]["rateLimit"]["local"]["rules"]
    assert rule == {"limit": {"requests": 7, "unit": "Minute"}}


def test_a_request_waits_longer_for_a_pod_with_a_gpu():
    sleeps = {
        "model": "digits",
        "expose": Expose(),
        "autoscaling": Autoscaling(minimum=0, maximum=1, targets=[QueueDepth()]),
    }
    assert TorchScriptServiceArgs(**sleeps).hold_seconds == 120
    on_gpus = TorchScriptServiceArgs(**sleeps, runtime=Triton(), resources=Resources(gpus=1))
    assert on_gpus.hold_seconds == 900


def test_a_service_that_sleeps_is_woken_through_the_gateway():
    autoscaling = Autoscaling(minimum=0, maximum=3, targets=[QueueDepth()], idle_seconds=60, hold_seconds=90)
    recording = expose(autoscaling=autoscaling)
    [deployment] = recording.of_kind("Deployment")
    labels = deployment.inputs["metadata"]["labels"]
    assert (labels["athanor.dev/idle-seconds"], labels["athanor.dev/hold-seconds"]) == ("60", "90")
    assert "replicas" not in deployment.inputs["spec"]
    [policy] = recording.of_kind("SecurityPolicy")
    hold = policy.inputs["spec"]["extAuth"]
    assert (hold["http"]["pathOverride"], hold["timeout"]) == ("/hold/digits", "95s")
    [autoscaler] = recording.of_kind("HorizontalPodAutoscaler")
    assert autoscaler.inputs["spec"]["minReplicas"] == 1
    [traffic] = recording.of_kind("BackendTrafficPolicy")
    assert traffic.inputs["spec"]["routingType"] == "Service"


def test_one_pod_or_none_needs_no_measurements():
    recording = expose(autoscaling=Autoscaling(minimum=0, maximum=1))
    assert not recording.of_kind("HorizontalPodAutoscaler")


@each_row(
    ("gateway", "asked", "words"),
    [
        (None, {}, ("expose", "has no gateway", "gateway.enabled")),
        (PUBLIC, {}, ("expose.auth = None", "on the internet", "TokenAuth")),
    ],
)
def test_what_the_platform_does_not_offer_is_refused(gateway, asked, words):
    with pytest.raises(RefusalError) as refusal:
        expose(gateway, **asked)
    assert all(word in str(refusal.value) for word in words)


@each_row(
    ("make", "words"),
    [
        (lambda: Expose(host="a.b"), ("expose.host", "'a.b'")),
        (lambda: Expose(path="vision"), ("expose.path", "'vision'", "after a slash")),
        (lambda: Expose(path="/a/"), ("expose.path",)),
        (lambda: Expose(path="/a/../b"), ("expose.path",)),
        (lambda: Expose(timeout_seconds=0), ("expose.timeout_seconds = 0", "1 to 3600")),
        (lambda: RateLimit(requests=0), ("expose.rate_limit.requests = 0", "1 to 1000000")),
        (lambda: OidcAuth(issuer="http://a", audiences=["b"], keys="{}"), ("expose.auth.issuer", "https")),
        (lambda: OidcAuth(**{**OIDC, "audiences": []}, keys="{}"), ("expose.auth.audiences", "anybody else's")),
        (lambda: OidcAuth(**OIDC), ("expose.auth", "keys_url or keys")),
        (lambda: OidcAuth(**OIDC, keys="{}", keys_url="https://a/b"), ("expose.auth", "keys_url or keys")),
        (lambda: OidcAuth(**OIDC, keys_url="https://0x7f.1/b"), ("expose.auth.keys_url", "the address 127.0.0.1")),
        (lambda: Autoscaling(maximum=2, idle_seconds=60), ("autoscaling.idle_seconds = 60", "minimum=1", "minimum=0")),
        (lambda: Autoscaling(minimum=0, maximum=2, hold_seconds=1), ("autoscaling.hold_seconds = 1", "5 to 3000")),
        (
            lambda: TorchScriptServiceArgs(model="digits", autoscaling=Autoscaling(minimum=0, maximum=2)),
            ("autoscaling.minimum = 0", "only the gateway can", "expose=Expose()"),
        ),
        (lambda: exposed_canary(replicas=1), ("replicas = 1", "pod of its own", "replicas=2 or more")),
        (
            lambda: exposed_canary(autoscaling=Autoscaling(minimum=0, maximum=2)),
            ("canary = ", "autoscaling.minimum=0", "set autoscaling.minimum to 1"),
        ),
        (
            lambda: exposed_canary(autoscaling=Autoscaling(maximum=1)),
            ("autoscaling.maximum = 1", "pod of its own", "2 or more"),
        ),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(RefusalError) as refusal:
        make()
    assert all(word in str(refusal.value) for word in words), str(refusal.value)
