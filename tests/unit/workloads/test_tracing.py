"""Traces of a service: the server gets the collector's address, and its pods may reach that and nothing else."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.workloads.job_cases import PLATFORM
from workloads.inference import TorchScriptServiceArgs
from workloads.resolved import ResolvedWorkload
from workloads.resources import Resources
from workloads.service_objects import service_objects
from workloads.serving_pods import serve_command
from workloads.tracing import Tracing
from workloads.triton import Triton

SERVICE = "http://otel-collector.observability.svc:4317"
RESOLVED = ResolvedWorkload(platform=PLATFORM, owner="athanor-local", image="trainer:1")


def _egress(tracing: Tracing | None):
    args = TorchScriptServiceArgs(model="digits", tracing=tracing)
    [policy] = [each for each in service_objects("service", args) if each.kind[1] == "NetworkPolicy"]
    return policy.build(RESOLVED)["spec"].get("egress")


def test_off_by_default():
    flags = " ".join(serve_command(TorchScriptServiceArgs(model="digits")))
    assert "trace" not in flags
    assert "otlp" not in flags
    assert _egress(None) is None


def test_the_server_knows_the_collector():
    args = TorchScriptServiceArgs(model="digits", tracing=Tracing(endpoint=SERVICE, sample_ratio=0.5))
    assert {f"--otlp_endpoint={SERVICE}", "--trace_sample_ratio=0.5"} <= set(serve_command(args))


@each_row(
    ("endpoint", "peer"),
    [
        (SERVICE, {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}}),
        (
            "https://collector.tools.svc.cluster.local:4317",
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tools"}}},
        ),
        ("http://10.1.2.3:4317", {"ipBlock": {"cidr": "10.1.2.3/32"}}),
        ("http://[fd00::1]:4317", {"ipBlock": {"cidr": "fd00::1/128"}}),
    ],
)
def test_the_policy_opens_exactly_the_collector(endpoint, peer):
    assert _egress(Tracing(endpoint=endpoint)) == [{"to": [peer], "ports": [{"protocol": "TCP", "port": 4317}]}]


@each_row(
    ("endpoint", "limit"),
    [
        ("", "must be http or https"),
        ("collector:4317", "must be http or https"),
        ("grpc://collector.tools.svc:4317", "must be http or https"),
        ("http://collector.tools.svc", "must be http or https"),
        ("http://collector.tools.svc:0", "must be http or https"),
        ("http://collector.tools.svc:70000", "must be http or https"),
        ("http://collector.tools.svc:4317/v1/traces", "must be http or https"),
        ("http://user:secret@collector.tools.svc:4317", "must be http or https"),
        ("http://[fd00::1:4317", "must be http or https"),
        (f"http://collector.{'n' * 64}.svc:4317", "is neither a Service of the cluster nor an address"),
        ("http://collector:4317", "is neither a Service of the cluster nor an address"),
        ("https://traces.example.com:443", "is neither a Service of the cluster nor an address"),
        ("http://169.254.169.254:80", "leads to link-local addresses"),
    ],
)
def test_what_no_policy_could_name_is_refused(endpoint, limit):
    with pytest.raises(RefusalError, match=rf"tracing\.endpoint.*{limit}"):
        Tracing(endpoint=endpoint)


@each_row("ratio", [-0.1, 1.1, float("nan")])
def test_the_share_is_one(ratio):
    with pytest.raises(RefusalError, match=r"tracing\.sample_ratio"):
        Tracing(endpoint=SERVICE, sample_ratio=ratio)


def test_triton_is_refused():
    with pytest.raises(RefusalError, match="is for the thin runtime"):
        TorchScriptServiceArgs(
            model="digits", runtime=Triton(), resources=Resources(gpus=1), tracing=Tracing(endpoint=SERVICE)
        )
