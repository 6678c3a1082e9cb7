"""Services for clients outside the cluster: a real gateway in front of real pods, on the cluster of `make up`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import signal
import time
import urllib.request
from collections import Counter
from http import HTTPStatus
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from infra.gateway import ACTIVATOR, ACTIVATOR_METRICS_PORT, PROXY
from infra.gateway import NAMESPACE as GATEWAY_NAMESPACE
from infra.machine import LOCAL_CLUSTER_NAME
from infra.monitoring.kept_metrics import KEPT_METRICS
from infra.storage import OUTPUT_CLAIM
from tests.fixtures.gateway import DOMAIN, Gateway, bearer
from tests.fixtures.load import Load
from tests.fixtures.monitoring import Monitoring
from tests.waiting import KUBECTL_TIMEOUT, wait_until
from trainer.training import digits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.clone import Clone
    from tests.fixtures.team import Team

TOKEN = "token-of-alice"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
MODEL = "two-versions"
EXPOSED, SLEEPY, SIGNED = "exposed", "sleepy", "signed"
HOST, SLEEPY_HOST, SIGNED_HOST = (f"{name}.{DOMAIN}" for name in (EXPOSED, "shared", SIGNED))
SLEEPY_PATH = "/vision/sleepy"
ISSUER, AUDIENCE, KEY = "https://issuer.example.com", "models", b"0123456789abcdef0123456789abcdef"
CLIENTS, PODS = 8, 2
PARTS = """
from athanor import Autoscaling, Canary, Expose, OidcAuth, RateLimit, Resources, TokenAuth
from athanor import Thin, TorchScriptService, TorchScriptServiceArgs

small = Resources(cpu="100m", memory="1Gi")
"""
DECLARED = """
TorchScriptService("exposed", platform, TorchScriptServiceArgs(
    model="two-versions", version=1, canary={canary}, replicas=2, resources=small, runtime=Thin(grpc=True),
    expose=Expose(auth=TokenAuth(secret="clients")), grace_period_seconds={grace},
))
TorchScriptService("signed", platform, TorchScriptServiceArgs(
    model="digits", variant="int8", resources=small,
    expose=Expose(
        auth=OidcAuth(issuer={issuer!r}, audiences=["models"], keys={keys!r}),
        rate_limit=RateLimit(requests=20, per="hour"),
    ),
))
TorchScriptService("sleepy", platform, TorchScriptServiceArgs(
    model="digits", resources=small,
    expose=Expose(host="shared", path="/vision/sleepy", auth=TokenAuth(secret="clients")),
    autoscaling=Autoscaling(minimum=0, maximum=1, idle_seconds={idle}),
))
"""


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def signed_token(audience: str) -> str:
    """A JSON Web Token (RFC 7519) of our issuer, signed with HMAC."""
    claims = {"iss": ISSUER, "aud": audience, "exp": int(time.time()) + 600}
    parts = [encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "one", "typ": "JWT"}, claims)]
    signature = hmac.new(KEY, ".".join(parts).encode(), hashlib.sha256).digest()
    return ".".join([*parts, encoded(signature)])


def program(*, canary: str = "None", grace: int = 30, idle: int = 86_400) -> str:
    keys = json.dumps({"keys": [{"kty": "oct", "kid": "one", "alg": "HS256", "k": encoded(KEY)}]})
    return PARTS + DECLARED.format(canary=canary, grace=grace, idle=idle, issuer=ISSUER, keys=keys)


def roll_out(served: Clone, *deployments: str) -> None:
    for name in deployments:
        served.kubectl("rollout", "status", f"deployment/{name}", "-n", "athanor", KUBECTL_TIMEOUT)


def publish_two_versions(served: Clone) -> None:
    """Publish a model with two versions: that of the example, twice."""
    models = served.home / LOCAL_CLUSTER_NAME / "volumes" / OUTPUT_CLAIM / "models"
    target = models / MODEL
    target.mkdir()
    config = (models / "digits" / "config.pbtxt").read_text()
    (target / "config.pbtxt").write_text(config.replace('"digits"', f'"{MODEL}"'))
    for version in ("1", "2"):
        shutil.copytree(models / "digits" / "1", target / version)


@pytest.fixture(scope="module")
def exposed(served: Clone, team: Team, gateway: Gateway) -> Iterator[Gateway]:
    """The gateway with three services of another team behind it."""
    publish_two_versions(served)
    served.kubectl("create", "secret", "generic", "clients", "-n", "athanor", f"--from-literal=alice={TOKEN}")
    team.declare(program())
    team.up()
    roll_out(served, EXPOSED, SIGNED, SLEEPY)
    gateway.wait_for(HOST, "/v2/health/ready", TOKEN)
    yield gateway
    team.declare("")
    team.up()
    served.kubectl("delete", "secret", "clients", "-n", "athanor")


def load(gateway: Gateway, host: str = HOST, model: str = MODEL, **options: Any) -> Load:
    # A change that fails requests fails some of a few dozen in a second; more would starve what changes.
    options |= {"pause_seconds": 0.1, "headers": bearer(TOKEN)}
    return Load("", model, connect=lambda: gateway.connection(host), **options)


@pytest.mark.parametrize("token", [None, "token-of-mallory"])
def test_a_stranger_gets_no_answer(exposed: Gateway, token: str | None) -> None:
    assert exposed.ask(HOST, f"/v2/models/{MODEL}", token)[0] == HTTPStatus.UNAUTHORIZED


def test_a_client_gets_the_models_answer_and_nothing_that_manages_it(exposed: Gateway) -> None:
    status, body = exposed.ask(HOST, f"/v2/models/{MODEL}", TOKEN)
    assert (status, json.loads(body)["name"]) == (HTTPStatus.OK, MODEL)
    assert exposed.ask(HOST, "/v2/repository/index", TOKEN)[0] == HTTPStatus.NOT_FOUND
    assert exposed.ask(f"other.{DOMAIN}", f"/v2/models/{MODEL}", TOKEN)[0] == HTTPStatus.NOT_FOUND


def test_grpc_passes_with_the_same_token(exposed: Gateway, tmp_path: Any) -> None:
    (tmp_path / "ca.pem").write_bytes(exposed.certificate)
    names = [("grpc.ssl_target_name_override", HOST), ("grpc.default_authority", HOST)]
    images = digits.from_source("held_out").images[:1]
    tensor = triton.InferInput("image", list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    with triton.InferenceServerClient(
        f"{exposed.address}:443", ssl=True, root_certificates=str(tmp_path / "ca.pem"), channel_args=names
    ) as client:
        answer = client.infer(MODEL, [tensor], headers=HEADERS)
        assert answer.get_response().model_name == MODEL
        with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
            client.infer(MODEL, [tensor])
        streamed: Queue[Any] = Queue()
        client.start_stream(lambda result, error: streamed.put(error or result), headers=HEADERS)
        client.async_stream_infer(MODEL, [tensor])
        assert streamed.get(timeout=60).get_response().model_name == MODEL
        client.stop_stream()
        with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
            client.get_model_repository_index(headers=HEADERS)


@pytest.mark.usefixtures("exposed")
def test_a_service_answers_with_the_variant_that_it_names(served: Clone) -> None:
    held_out = digits.from_source("held_out")
    images, labels = held_out.images[:50], held_out.labels[:50]
    logits = {name: answers_of(served, name, images) for name in (SIGNED, SLEEPY)}
    assert not np.allclose(logits[SIGNED], logits[SLEEPY], atol=1e-3)
    for each in logits.values():
        assert (each.argmax(axis=1) == labels).mean() >= 0.96


def answers_of(served: Clone, service: str, images: Any) -> Any:
    """Return what the pods of a service say of images, asked in the cluster."""
    address = served.object("services", service)["spec"]["clusterIP"]
    tensor = triton_http.InferInput("image", list(images.shape), "FP32")
    tensor.set_data_from_numpy(images)
    with triton_http.InferenceServerClient(f"{address}:8000") as client:
        return client.infer("digits", [tensor]).as_numpy("logits")


def test_a_signed_token_is_for_its_audience_and_requests_are_limited(exposed: Gateway) -> None:
    exposed.wait_for(SIGNED_HOST, "/v2/health/live", signed_token(AUDIENCE))
    assert exposed.ask(SIGNED_HOST, "/v2/health/live", signed_token("others"))[0] == HTTPStatus.FORBIDDEN
    assert exposed.ask(SIGNED_HOST, "/v2/health/live", TOKEN)[0] == HTTPStatus.UNAUTHORIZED
    statuses = [exposed.ask(SIGNED_HOST, "/v2/health/live", signed_token(AUDIENCE))[0] for _ in range(25)]
    assert statuses[-1] == HTTPStatus.TOO_MANY_REQUESTS
    assert set(statuses) <= {HTTPStatus.OK, HTTPStatus.TOO_MANY_REQUESTS}


def test_requests_that_pass_and_that_are_refused_are_counted(served: Clone, exposed: Gateway) -> None:
    assert exposed.ask(HOST, "/v2/health/ready")[0] == HTTPStatus.UNAUTHORIZED
    prometheus = Monitoring(served)
    passed = f'envoy_cluster_upstream_rq{{namespace="athanor", workload="{EXPOSED}", envoy_response_code="200"}} > 0'
    series = wait_until(lambda: prometheus.query(passed), "the answer to be counted for the service")
    for each in series:
        labels = each["metric"]
        assert labels["job"] == PROXY
        assert labels["envoy_cluster_name"].startswith(f"httproute/athanor/{EXPOSED}/rule/")
        assert not labels.keys() & {"pod", "container"}
    for refused in (
        "envoy_http_api_key_auth_unauthorized > 0",
        'envoy_http_downstream_rq_xx{envoy_response_code_class="4"} > 0',
    ):
        series = wait_until(lambda query=refused: prometheus.query(query), f"{refused}: the refusal to be counted")
        assert all(not each["metric"].keys() & {"namespace", "workload", "pod"} for each in series)


@pytest.mark.usefixtures("exposed")
def test_what_is_kept_of_the_proxies_exists_and_nothing_else_is_stored(served: Clone) -> None:
    def stored() -> set[str]:
        return {name for name in Monitoring(served).names(PROXY) if name.startswith("envoy_")}

    expected = set(KEPT_METRICS[PROXY])
    wait_until(lambda: expected <= stored(), lambda: f"{sorted(expected - stored())} to be stored")
    assert stored() == expected


def test_a_canary_gets_its_share_of_the_requests_whatever_its_pods(served: Clone, team: Team, exposed: Gateway) -> None:
    """One of two pods, and 10 percent of the requests. No client notices its start, a canary without a model, or its
    death."""
    with load(exposed) as clients:
        clients.clients(4)

        def answers(number: int) -> None:
            before = clients.answered
            wait_until(
                lambda: clients.answered > before + number or clients.failures,
                lambda: f"answers: {clients.answered}, {clients.failures[:3]}",
            )

        team.declare(program(canary="Canary(version=9, percent=50)"))
        team.up()
        answers(200)
        assert clients.versions.keys() == {"1"}
        team.declare(program(canary="Canary(version=2, percent=10)"))
        team.up()
        roll_out(served, f"{EXPOSED}-canary")
        wait_until(lambda: clients.versions["2"] > 0, lambda: f"the canary to answer: {clients.versions}")
        before = Counter(clients.versions)
        answers(600)
        seen = clients.versions - before
        kill_a_server(served, track="canary")
        answers(200)
    assert clients.failures == []
    assert 0.04 < seen["2"] / seen.total() < 0.18


def test_changes_under_load_fail_no_request(served: Clone, team: Team, exposed: Gateway) -> None:
    """A canary's larger share and end, a rollout, a drained node, and killed servers."""
    with load(exposed) as clients:
        clients.clients(CLIENTS)
        team.declare(program(canary="Canary(version=2, percent=99)"))
        team.up()
        seen = clients.versions["2"]
        wait_until(lambda: clients.versions["2"] > seen + 100, lambda: f"the canary to answer: {clients.versions}")
        team.declare(program(canary="None", grace=31))
        team.up()
        roll_out(served, EXPOSED)
        # The canary's pod and those of the roll-out leave after it.
        wait_until(lambda: len(pod_names(served)) == PODS, lambda: f"two pods: {pod_names(served)}")
        before = pod_names(served)
        pods = f"--pod-selector=athanor.dev/service={EXPOSED}"
        node = served.cluster.node_name
        # The disruption budget keeps the second pod: no other node could take its replacement.
        options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=20s")
        served.kubectl("drain", node, pods, *options, check=False)
        served.kubectl("uncordon", node)
        roll_out(served, EXPOSED)
        assert len(before & pod_names(served)) == 1
        kill_a_server(served)
        answered = clients.answered
        wait_until(lambda: clients.answered > answered + 200, lambda: f"answers: {clients.failures[:3]}")
    assert clients.failures == []


def pod_names(served: Clone, track: str = "stable") -> set[str]:
    return {pod["metadata"]["name"] for pod in pods_of(served, track)}


def pods_of(served: Clone, track: str) -> list[dict[str, Any]]:
    labels = {"athanor.dev/service": EXPOSED, "athanor.dev/track": track}
    about = [(pod, pod["metadata"]) for pod in served.objects("pods")]
    return [
        pod
        for pod, metadata in about
        if labels.items() <= metadata["labels"].items() and "deletionTimestamp" not in metadata
    ]


def kill_a_server(served: Clone, track: str = "stable") -> None:
    """SIGKILL the server in one of the pods, in the middle of its requests."""
    name = min(pod_names(served, track)).encode()
    processes = [process for process in Path("/proc").iterdir() if process.name.isdecimal()]
    own = [each for each in processes if b"HOSTNAME=" + name in words(each / "environ")]
    [server] = [each for each in own if b"trainer.serve" in words(each / "cmdline")]
    os.kill(int(server.name), signal.SIGKILL)


def words(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []


def replicas(served: Clone) -> int:
    return served.object("deployments", SLEEPY)["spec"]["replicas"]


def activator_counts(served: Clone) -> dict[tuple[str, str], float]:
    """What the activator counted, by name of the series and outcome."""
    pods = f"api/v1/namespaces/{GATEWAY_NAMESPACE}/pods?labelSelector=app.kubernetes.io/name={ACTIVATOR}"
    [pod] = served.get(pods)["items"]
    address = f"http://{pod['status']['podIP']}:{ACTIVATOR_METRICS_PORT}/metrics"
    with urllib.request.urlopen(address, timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    samples = [sample for family in families for sample in family.samples]
    own = [sample for sample in samples if sample.labels.get("workload") == SLEEPY]
    return {(sample.name, sample.labels.get("outcome", "")): sample.value for sample in own}


def test_a_service_sleeps_when_nobody_asks_and_the_next_request_wakes_it(
    served: Clone, team: Team, exposed: Gateway
) -> None:
    """Requests of strangers do not; all that come meanwhile are answered."""
    path = f"{SLEEPY_PATH}/v2/models/digits/ready"
    exposed.wait_for(SLEEPY_HOST, path, TOKEN)
    team.declare(program(canary="None", grace=31, idle=5))
    team.up()
    wait_until(lambda: replicas(served) == 0, "no pod")
    assert exposed.ask(SLEEPY_HOST, path)[0] == HTTPStatus.UNAUTHORIZED
    assert replicas(served) == 0
    with load(exposed, SLEEPY_HOST, "digits", path=SLEEPY_PATH) as clients:
        clients.clients(CLIENTS)
        wait_until(lambda: clients.answered > 100, lambda: f"answers: {clients.failures[:3]}")
    assert clients.failures == []
    counts = activator_counts(served)
    assert counts["athanor_activator_starts_total", ""] == 1
    assert counts["athanor_activator_requests_total", "held"] >= CLIENTS
    wait_until(lambda: replicas(served) == 0, "no pod again")
