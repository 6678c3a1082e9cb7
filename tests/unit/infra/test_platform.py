"""Another team's program builds the same platform handle from the owning stack's outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from infra.errors import RefusalError
from infra.outputs import FIELD_NAMES
from infra.platform import Platform
from tests.fixtures.recorded_stack import REPOSITORY, UNWATCHED
from tests.recording_engine import KUBERNETES_PROVIDER, record
from tests.tables import each_row
from workloads.pytorch import PyTorchJob, PyTorchJobArgs

OWNER = "organization/athanor/prod"
OUTPUTS = json.loads((Path(__file__).parent / "contract_v1.json").read_text(encoding="utf-8")) | {
    "namespace": "platform",
    "queue": "research",
    "serving_image": "registry.example/serving:1",
    "tensorflow_image": "registry.example/tensorflow:1",
    "prometheus_url": "http://prometheus.example",
    "grafana_url": "http://grafana.example",
    "logs_url": "http://logs.example",
}
FIELDS = tuple(name for name in FIELD_NAMES if name != "offers")


def _consumer() -> None:
    """What another team writes."""
    provider = kubernetes.Provider("their-own", kubeconfig="{}")
    platform = Platform.from_stack(OWNER, provider)
    for name in FIELDS:
        pulumi.export(name, getattr(platform, name))
    PyTorchJob("theirs", platform, PyTorchJobArgs(program=("train.py",), workers=2))


@pytest.fixture(params=[True, False], ids=["preview", "update"])
def consumer(request):
    return record(_consumer, preview=request.param, stack="theirs", stacks={OWNER: OUTPUTS})


def test_the_handle_holds_the_owners_outputs(consumer):
    assert consumer.exports == {name: OUTPUTS[name] for name in FIELDS}


def test_the_owner_is_referred_to_and_nothing_of_it_is_created(consumer):
    assert consumer.reads == [("pulumi:pulumi:StackReference", OWNER)]
    assert consumer.invokes == []
    kinds = {resource.kind for resource in consumer.objects()}
    assert kinds == {"Job", "NetworkPolicy"}


def test_their_job_runs_in_the_owners_namespace_and_queue_with_their_own_credentials(consumer):
    job = consumer.one("theirs", "Job")
    assert job.inputs["metadata"]["namespace"] == "platform"
    assert job.inputs["spec"]["queue"] == "research"
    [pod] = [task["template"]["spec"] for task in job.inputs["spec"]["tasks"]]
    assert pod["containers"][0]["image"] == OUTPUTS["trainer_image"]
    [provider] = consumer.of_type(KUBERNETES_PROVIDER)
    assert {resource.provider for resource in consumer.objects()} == {provider.urn}


@each_row("preview", [True, False])
def test_the_cluster_describes_the_platform_to_those_without_its_state(preview):
    described = {"metadata": {"annotations": {"athanor.dev/outputs": json.dumps(OUTPUTS)}}}

    def program() -> None:
        platform = Platform.from_cluster("platform", kubernetes.Provider("their-own", kubeconfig="{}"))
        for name in FIELDS:
            pulumi.export(name, getattr(platform, name))

    objects = {"platform/athanor-platform": described}
    recording = record(program, preview=preview, stack="theirs", objects=objects)
    assert recording.exports == {name: OUTPUTS[name] for name in FIELDS}
    assert recording.reads == [("kubernetes:core/v1:ConfigMap", "platform/athanor-platform")]
    assert recording.objects() == []


def test_a_description_in_another_namespace_is_refused():
    described = {"metadata": {"annotations": {"athanor.dev/outputs": json.dumps(OUTPUTS)}}}

    def program() -> None:
        Platform.from_cluster("other", kubernetes.Provider("their-own", kubeconfig="{}"))

    with pytest.raises(RefusalError, match="namespace = 'platform': says so in the namespace 'other'"):
        record(program, preview=True, stack="theirs", objects={"other/athanor-platform": described})


def test_a_stack_that_is_not_a_platform_is_refused():
    with pytest.raises(RefusalError, match="use a stack of the athanor project"):
        record(_consumer, preview=True, stacks={OWNER: {"url": "http://example"}})


def test_an_owner_with_a_newer_contract_is_refused():
    with pytest.raises(RefusalError, match="update athanor"):
        record(_consumer, preview=True, stacks={OWNER: {**OUTPUTS, "contract_version": 2}})


def test_jobs_use_the_first_queue(record_stack):
    queues = [{"name": "research", "weight": 3}, {"name": "production"}]
    recording = record_stack({"scheduling": {"queues": queues}, **UNWATCHED})
    assert recording.exports["queue"] == "research"
    assert recording.one("digits-training", "Job").inputs["spec"]["queue"] == "research"
    assert {queue.name for queue in recording.of_kind("Queue")} == {"queue-research", "queue-production"}


def test_a_cluster_with_volcano_keeps_its_own(record_stack):
    recording = record_stack({"scheduling": {"install": False}, **UNWATCHED})
    assert recording.of_kind("CustomResourceDefinition") == []
    assert recording.of_kind("ClusterRole") == []
    assert {deployment.name for deployment in recording.of_kind("Deployment")} == {"digits"}
    assert [queue.name for queue in recording.of_kind("Queue")] == ["queue-training"]


def test_the_namespace_of_the_settings_holds_all_workloads(record_stack):
    recording = record_stack({"namespace": "team-a", **UNWATCHED})
    namespaces = {resource.inputs["metadata"].get("namespace") for resource in recording.objects()} - {None}
    assert namespaces == {"team-a", "volcano-system"}
    assert recording.exports["digits_service_url"] == "http://digits.team-a.svc:8000"


def test_a_stack_on_another_cluster_does_not_load_the_clouds_sdk():
    program = "import sys, infra.platform; sys.exit('pulumi_alicloud' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, check=False).returncode == 0


def test_a_program_does_not_load_the_kubernetes_sdks_classes():
    """They take a second of every preview, and only `from_cluster` needs one."""
    program = "import sys, athanor.public; sys.exit('pulumi_kubernetes.core.v1' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=REPOSITORY).returncode == 0
