"""Rules that hold for every resource of the whole program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.recorded_stack import REPOSITORY, UNWATCHED
from tests.pod_security import all_containers, pod_specs, violations
from tests.recording_engine import KUBERNETES_PROVIDER, STACK_TYPE, Recording, Registration, Secret, scalars
from tests.tables import each_row

GPU_NODES = {"cluster": {"simulated_nodes": [{"instance_type": "ecs.gn7i-c8g1.2xlarge", "count": 2}]}}
VARIANTS = {
    "default": {},
    "no-volcano": {"scheduling": {"install": False}},
    "large": {"digits": {"workers": 4, "replicas": 4}, **GPU_NODES, **UNWATCHED},
    "queues": {
        "scheduling": {"queues": [{"name": "a", "capability": {"cpu": "8"}}, {"name": "b", "weight": 3}]},
        **UNWATCHED,
    },
    "no-example": {"digits": {"enabled": False}, **UNWATCHED},
    "clean-up": {"clean_up": {"enabled": True}, **UNWATCHED},
}


RIGHTS = ("serviceaccount", "clusterrole", "clusterrolebinding")
OF_EVERY_CLUSTER = ("default", "kube-system")
"""Namespaces that nobody makes."""
OPEN_NAMESPACE = "monitoring-nodes"
"""The one that is not restricted: its pods read folders of their node."""


@pytest.fixture(params=VARIANTS)
def stack(request, record_stack) -> Recording:
    return record_stack(VARIANTS[request.param])


def _components(recording: Recording) -> list[Registration]:
    return [resource for resource in recording.resources.values() if not resource.custom]


def _pods(recording: Recording):
    for resource in recording.objects():
        if resource.kind != "CustomResourceDefinition":
            for pod in pod_specs(resource.inputs):
                yield resource, pod


def test_planning_asks_nobody(local_stack):
    """A preview must work without a cluster and without an account."""
    assert local_stack.invokes == []
    assert local_stack.reads == []


def _tried(resource: Registration) -> dict[str, Any]:
    """Inputs but the one that no preview knows of a PriorityClass, so that the provider does not try it."""
    return {name: value for name, value in resource.inputs.items() if name != "globalDefault"}


def test_a_preview_declares_what_an_update_declares(record_stack):
    planned, updated = record_stack(preview=True), record_stack(preview=False)
    assert set(planned.resources) == set(updated.resources)
    for urn, resource in updated.resources.items():
        assert _tried(planned.resources[urn]) == _tried(resource), urn
        assert planned.resources[urn].depends_on == resource.depends_on, urn
    assert planned.exports == updated.exports


def test_every_object_goes_through_the_explicit_provider(stack):
    [provider] = stack.of_type(KUBERNETES_PROVIDER)
    assert {resource.provider for resource in stack.objects()} == {provider.urn}


def test_every_resource_has_a_parent(stack):
    for resource in stack.resources.values():
        assert resource.parent in stack.resources or STACK_TYPE in resource.parent, resource.urn


def test_components_are_named_after_the_project_and_register_their_outputs(stack):
    assert _components(stack)
    for component in _components(stack):
        assert re.fullmatch(r"athanor:(infra|workloads):[A-Z]\w+", component.type)
        assert component.outputs is not None, f"{component.name} does not call register_outputs"


@each_row(
    ("name", "outputs"),
    [
        ("scheduling", {"queues": ["training"]}),
        ("storage", {"data_claim": "data", "output_claim": "output"}),
        ("digits-training", {"job_name": "digits_training_job"}),
        ("digits", {"url": "digits_service_url", "track_urls": {}, "external_url": ""}),
    ],
)
def test_components_register_what_they_offer(local_stack, name, outputs):
    [component] = [resource for resource in _components(local_stack) if resource.name == name]
    exports = local_stack.exports
    expected = {key: exports.get(value, value) if isinstance(value, str) else value for key, value in outputs.items()}
    assert component.outputs == expected


def _order(recording: Recording, later: Registration, earlier: Registration) -> bool:
    return earlier.urn in recording.ancestors(later)


VOLCANO = ("volcano-scheduler/Deployment", "volcano-controllers/Deployment")
CLAIMS = ("data", "output", "data-volume", "output-volume")
WAITS = {
    "digits-training/Job": (
        "queue-training",
        "digits-training-network",
        "admission-binding",
        "volcano-secrets-rolebinding",
        *CLAIMS,
    ),
    "digits/Deployment": CLAIMS,
    "queue-training": VOLCANO,
    VOLCANO[0]: ("scheduler-config", *(f"volcano-scheduler-{kind}" for kind in RIGHTS)),
    VOLCANO[1]: tuple(f"volcano-controllers-{kind}" for kind in RIGHTS),
}


@each_row(("later", "earlier"), [(later, earlier) for later, others in WAITS.items() for earlier in others])
def test_what_needs_something_waits_for_it(local_stack, later, earlier):
    """The reverse is the order of a destroy: no object may outlive the controller that finalizes it."""
    needing, needed = (local_stack.one(*name.split("/")) for name in (later, earlier))
    assert _order(local_stack, needing, needed)


def test_volcanos_parts_wait_for_its_crds(local_stack):
    crds = [crd for crd in local_stack.of_kind("CustomResourceDefinition") if "volcano" in crd.name]
    assert crds
    for part in VOLCANO:
        assert {crd.urn for crd in crds} <= local_stack.ancestors(local_stack.one(*part.split("/")))


def test_every_object_waits_for_its_namespace(stack):
    namespaces = {namespace.inputs["metadata"]["name"]: namespace for namespace in stack.of_kind("Namespace")}
    for resource in stack.objects():
        namespace = resource.inputs["metadata"].get("namespace")
        if namespace not in (None, *OF_EVERY_CLUSTER):
            assert _order(stack, resource, namespaces[namespace]), resource.urn


def test_every_custom_resource_waits_for_its_definition(local_stack):
    defined = {crd.inputs["spec"]["names"]["plural"]: crd for crd in local_stack.of_kind("CustomResourceDefinition")}
    for resource in (*local_stack.of_kind("Queue"), *local_stack.of_kind("Job")):
        assert _order(local_stack, resource, defined[f"{resource.kind.lower()}s"]), resource.urn


def test_every_namespace_enforces_restricted_but_that_of_the_pods_which_read_their_node(stack):
    for namespace in stack.of_kind("Namespace"):
        level = "privileged" if namespace.inputs["metadata"]["name"] == OPEN_NAMESPACE else "restricted"
        assert namespace.inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level


def test_every_pod_is_admitted_at_restricted(stack):
    problems_by_pod = {
        f"{owner.kind} {owner.name}": violations(pod) for owner, pod in _pods(stack) if not _reads_node(owner)
    }
    assert all(problems == [] for problems in problems_by_pod.values()), problems_by_pod


def test_what_reads_its_node_breaks_no_other_rule(stack):
    """Its folders, which it mounts; its network or its root's files, which it reads; never privileged."""
    allowed = ("hostPath", "hostNetwork", "port of the host", "runs as user 0", "runAsNonRoot to false", "run as root")
    for owner, pod in _pods(stack):
        if _reads_node(owner):
            assert [text for text in violations(pod) if not any(word in text for word in allowed)] == [], owner.name


def _reads_node(owner: Registration) -> bool:
    return owner.inputs["metadata"]["namespace"] == OPEN_NAMESPACE


def test_every_pod_has_a_read_only_root_and_states_its_requests(stack):
    for owner, pod in _pods(stack):
        for container in all_containers(pod):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True, owner.name
            requests, limits = container["resources"]["requests"], container["resources"]["limits"]
            assert {"cpu", "memory"} <= set(requests), owner.name
            assert "cpu" not in limits, f"{owner.name}: a throttled rank slows all others"
            assert "memory" in limits, owner.name


def test_only_the_platforms_own_parts_talk_to_the_api(stack):
    """Workload pods hold no token; the platform's parts that do name an account of their own."""
    for owner, pod in _pods(stack):
        metadata = owner.inputs["metadata"]
        if metadata["namespace"] == "athanor":
            assert "serviceAccountName" not in pod
        if metadata["namespace"] == "athanor" or "serviceAccountName" not in pod:
            assert pod["automountServiceAccountToken"] is False, owner.name
        else:
            assert pod["serviceAccountName"] == metadata["labels"]["app.kubernetes.io/name"]


def test_every_image_is_pinned(stack):
    images = [
        (path, value)
        for resource in stack.objects()
        for path, value in scalars(resource.inputs)
        if path.endswith(".image")
    ]
    assert {container["image"] for _, pod in _pods(stack) for container in all_containers(pod)} <= {
        image for _, image in images
    }
    for path, image in images:
        _, _, tag = str(image).rpartition(":")
        assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?|[0-9a-f]{16,64}", tag), f"{path} = {image}"


@each_row(
    ("name", "kind"),
    [
        ("digits", "Deployment"),
        ("digits", "Service"),
        ("data", "PersistentVolumeClaim"),
        ("output", "PersistentVolumeClaim"),
    ],
)
def test_up_does_not_wait_for_what_training_must_make_first(local_stack, name, kind):
    assert local_stack.one(name, kind).annotations["pulumi.com/skipAwait"] == "true"


def test_up_waits_for_volcano(local_stack):
    """Jobs created before the controllers run would be lost to nobody, but a broken install must fail `up`."""
    for part in ("volcano-scheduler", "volcano-controllers"):
        assert "pulumi.com/skipAwait" not in local_stack.one(part, "Deployment").annotations


def test_a_changed_job_is_deleted_before_the_new_one_is_made(local_stack):
    assert local_stack.one("digits-training", "Job").delete_before_replace


def test_nothing_is_ignored_or_protected_unnoticed(stack):
    ignoring = {
        resource.kind: resource.ignore_changes for resource in stack.resources.values() if resource.ignore_changes
    }
    assert ignoring == {"PriorityClass": ("globalDefault",)}
    assert [resource.urn for resource in stack.resources.values() if resource.protect] == []


def test_no_path_of_this_machine_enters_the_state(stack, machine_home, tmp_path_factory):
    """But for the folders of the local node's own volumes, which are what a node folder volume is."""
    marks = (str(machine_home), str(REPOSITORY), str(Path.home()), str(tmp_path_factory.getbasetemp()))
    for resource in stack.resources.values():
        for path, value in scalars(resource.inputs):
            if resource.kind == "PersistentVolume" and path == "spec.local.path":
                continue
            text = value.value if isinstance(value, Secret) else str(value)
            assert not any(mark in text for mark in marks), f"{resource.name}: {path} = {text}"


def test_the_kubeconfig_is_the_only_secret(local_stack):
    secrets = [
        (resource.type, path)
        for resource in local_stack.resources.values()
        for path, value in scalars(resource.inputs)
        if isinstance(value, Secret)
    ]
    assert secrets == [(KUBERNETES_PROVIDER, "kubeconfig")]


def test_workload_namespaces_are_closed_and_each_workload_opens_its_own(local_stack):
    policies = local_stack.of_kind("NetworkPolicy")
    closed = [policy for policy in policies if policy.inputs["spec"]["podSelector"] == {}]
    assert {policy.inputs["metadata"]["namespace"] for policy in closed} == {"athanor", "monitoring", OPEN_NAMESPACE}
    selected = [policy.inputs["spec"]["podSelector"]["matchLabels"] for policy in policies if policy not in closed]
    for owner, pod in _pods(local_stack):
        if owner.inputs["metadata"]["namespace"] == "athanor":
            labels = _template_labels(owner.inputs, pod)
            assert any(want.items() <= labels.items() for want in selected), owner.name


def _template_labels(manifest, pod):
    templates = [manifest["spec"].get("template"), *(task["template"] for task in manifest["spec"].get("tasks", []))]
    [labels] = [template["metadata"]["labels"] for template in templates if template and template["spec"] == pod]
    return labels


@each_row(("admission", "actions"), [("refuse", [["Deny"]]), ("warn", [["Warn", "Audit"]]), ("off", [])])
def test_the_api_server_refuses_or_warns(record_stack, admission, actions):
    stack = record_stack({"admission": admission, **UNWATCHED})
    bindings = stack.of_kind("ValidatingAdmissionPolicyBinding")
    assert [each.inputs["spec"]["validationActions"] for each in bindings] == actions
