"""The admission policy of the workloads' namespace, in CEL: it binds every user and every tool.

It asks no webhook: the API server evaluates the policy itself. Source: Kubernetes, "Validating Admission Policy",
"Common Expression Language in Kubernetes".
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.admitted import WITH_PODS, cel_list, demands
from infra.contract_object import CONTRACT_OBJECT
from infra.manifests import Manifest, resource
from infra.run_module import RUN_MODULE_OBJECT
from infra.volcano import CONTROLLERS
from infra.volcano import NAMESPACE as VOLCANO_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.admitted import Demand
    from infra.settings.stack import Admission

_GROUP = "admissionregistration.k8s.io"
_VERSION = f"{_GROUP}/v1"
_CHANGES = ["CREATE", "UPDATE"]
_OF_JOBS = ["configmaps", "secrets", "services"]
"""Kinds that plugins of Volcano write for a job, by names that its author chooses."""
_SCALED = [f"{kind}{part}" for kind in ("deployments", "replicasets", "statefulsets") for part in ("", "/scale")]
_MATCHED: Sequence[tuple[str, str, Sequence[str], Sequence[str]]] = (
    # group, version, kinds, operations
    ("", "v1", _OF_JOBS, [*_CHANGES, "DELETE"]),
    ("networking.k8s.io", "v1", ["networkpolicies"], [*_CHANGES, "DELETE"]),
    ("", "v1", ["pods", "replicationcontrollers", "replicationcontrollers/scale"], _CHANGES),
    ("apps", "v1", ["daemonsets", *_SCALED], _CHANGES),
    ("batch", "v1", ["cronjobs", "jobs"], _CHANGES),
    ("batch.volcano.sh", "v1alpha1", ["jobs"], _CHANGES),
    ("scheduling.volcano.sh", "v1beta1", ["podgroups"], _CHANGES),
    ("bus.volcano.sh", "v1alpha1", ["commands"], _CHANGES),
)
_KIND = (
    "request.resource.group + '/' + request.resource.resource"
    " + (has(request.subResource) && request.subResource != '' ? '/' + request.subResource : '')"
)
_NAME = "object == null ? oldObject.metadata.name : has(object.metadata.name) ? object.metadata.name : ''"
_CHANGED = (
    "object != null && (oldObject == null || !has(object.spec) || !has(oldObject.spec)"
    " || object.spec != oldObject.spec)"
)
"""Whether the spec is new or another one: controllers may still label and end what an earlier release let in."""
_PODS = (
    f"!(variables.changed && variables.kind in {cel_list(WITH_PODS)}) ? []"
    " : variables.kind == '/pods' ? [object.spec]"
    " : variables.kind == 'batch/cronjobs' ? [object.spec.jobTemplate.spec.template.spec]"
    " : variables.kind == 'batch.volcano.sh/jobs' ? (has(object.spec.tasks) ? object.spec.tasks"
    ".filter(task, has(task.template) && has(task.template.spec)).map(task, task.template.spec) : [])"
    " : has(object.spec.template) && has(object.spec.template.spec) ? [object.spec.template.spec] : []"
)
_VOLCANO = f"system:serviceaccount:{VOLCANO_NAMESPACE}:{CONTROLLERS}"
_SECONDS_UNTIL_IN_FORCE = 2.0
"""The API server looks for changed policies once a second."""


def admission_manifests(
    namespace: str, queues: Sequence[str], classes: Sequence[str], action: Admission
) -> tuple[Manifest, Manifest]:
    """Return the policy of a workloads' namespace, and what binds the namespace to it.

    Args:
        namespace: The workloads'.
        queues: Those that its jobs may use.
        classes: Names of the PriorityClasses that its pods may have; empty: all but Kubernetes' own.
        action: What becomes of an object that the policy does not admit.
    """
    name = f"{namespace}.workloads"
    table = demands(queues, classes)
    variables = {"kind": _KIND, "name": _NAME, "changed": _CHANGED, "pods": _PODS}
    variables |= {demand.name: _wrong(demand) for demand in table}
    metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "athanor"}}
    policy: Manifest = {
        "apiVersion": _VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [_resource_rule(*matched) for matched in _MATCHED]},
            "variables": [{"name": name, "expression": expression} for name, expression in variables.items()],
            "validations": [
                *(
                    _validation(f'{text} != ""', demand.path, text, demand.limit, demand.fix)
                    for demand in table
                    for text in [f"variables.{demand.name}"]
                ),
                _validation(
                    _is_platform_object(name), "metadata.name", "variables.name",
                    "describes the platform to all who use it", "choose another name",
                ),
                _validation(
                    _is_not_volcanos(), "metadata.name", "variables.name",
                    "Volcano changes and deletes what it has made for a job", "give the job another name",
                ),
            ],
        },
    }  # fmt: skip
    binding: Manifest = {
        "apiVersion": _VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"] if action == "refuse" else ["Warn", "Audit"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    }
    return policy, binding


def _resource_rule(group: str, version: str, kinds: Sequence[str], operations: Sequence[str]) -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": list(kinds),
        # The API server writes its default into this list, which is compared as a whole.
        "scope": "*",
    }


def _validation(refused: str, path: str, value_text: str, limit: str, fix: str) -> Manifest:
    """Return what refuses an object of which a CEL expression is true, with what another one says was given."""
    said = f": {limit}. Fix: {fix}"
    return {
        "expression": f"!({refused})",
        "message": f"{path}{said}",
        "messageExpression": f"{json.dumps(f'{path} = ')} + {value_text} + {json.dumps(said)}",
        "reason": "Forbidden",
    }


def _wrong(demand: Demand) -> str:
    """Return the CEL expression of what breaks a demand, as a text; empty where nothing does."""
    if demand.of_pods:
        text = _each("variables.pods", demand.path, demand, 0)
    else:
        text = _given("object", demand.path, demand, 0)
    concerned = [] if demand.on == WITH_PODS else [f"variables.kind in {cel_list(demand.on)}"]
    concerned += ["oldObject == null"] if demand.at_creation else []
    return f'{" && ".join(["variables.changed", *concerned])} ? {text} : ""'


def _given(root: str, path: str, demand: Demand, depth: int) -> str:
    head, _, rest = path.partition(".")
    field = f"{root}.{head.removesuffix('[]')}"
    if head.endswith("[]"):
        text = _each(field, rest, demand, depth)
    elif rest:
        text = _given(field, rest, demand, depth)
    else:
        text = _leaf(field, demand)
    absent = "nothing" if demand.allowed.required and "[]" not in path else ""
    return f"(has({field}) ? {text} : {json.dumps(absent)})"


def _each(items: str, path: str, demand: Demand, depth: int) -> str:
    item = f"each{depth}"
    text = _given(item, path, demand, depth + 1) if path else _leaf(item, demand)
    return f'{items}.map({item}, {text}).filter(text, text != "").join(", ")'


def _leaf(field: str, demand: Demand) -> str:
    return f'({demand.allowed.cel(field)} ? "" : {demand.allowed.value_text(field)})'


def _is_platform_object(policy: str) -> str:
    """Return whether only those may write an object who may also delete the policy.

    These are administrators, who deploys the stack, and the controllers that empty a namespace. A dry run writes
    nothing, and is what previews ask for.
    """
    named = f"variables.kind == '/configmaps' && variables.name in {cel_list([CONTRACT_OBJECT, RUN_MODULE_OBJECT])}"
    may = f"authorizer.group('{_GROUP}').resource('validatingadmissionpolicies').name('{policy}').check('delete')"
    return f"{named} && !(has(request.dryRun) && request.dryRun) && !{may}.allowed()"


def _is_not_volcanos() -> str:
    """Return whether Volcano would change or delete an object although no job has it."""
    is_job = "owner.kind == 'Job' && owner.apiVersion.startsWith('batch.volcano.sh/')"
    owned = f"oldObject.metadata.ownerReferences.exists(owner, {is_job})"
    made = cel_list([*(f"/{kind}" for kind in _OF_JOBS), "networking.k8s.io/networkpolicies"])
    concerned = f"oldObject != null && request.userInfo.username == '{_VOLCANO}' && variables.kind in {made}"
    return f"{concerned} && !(has(oldObject.metadata.ownerReferences) && {owned})"


async def _wait(_: pulumi.ResourceHookArgs) -> None:
    await asyncio.sleep(_SECONDS_UNTIL_IN_FORCE)


@dataclass(frozen=True, kw_only=True)
class WorkloadAdmissionArgs:
    """Arguments of WorkloadAdmission."""

    namespace: str
    """The workloads'."""
    queues: Sequence[str]
    """Those that its jobs may use."""
    priority_classes: Sequence[str]
    """Names of those of the stack in the cluster."""
    action: Admission
    """What becomes of an object that the policy does not admit."""


class WorkloadAdmission(pulumi.ComponentResource):
    """The admission policy of the workloads' namespace, and its binding."""

    parts: tuple[pulumi.Resource, ...]
    """What must be up to date before the workloads are."""

    def __init__(self, name: str, args: WorkloadAdmissionArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:WorkloadAdmission", name, None, opts)
        policy, binding = admission_manifests(args.namespace, args.queues, args.priority_classes, args.action)
        # An earlier one would refuse a job in a queue that is new in this update.
        in_force = pulumi.ResourceHook(f"{name}-in-force", _wait)
        own = pulumi.ResourceOptions(parent=self, hooks=pulumi.ResourceHookBinding(after_update=[in_force]))
        declared = resource(f"{name}-policy", policy, own)
        bound = pulumi.ResourceOptions(parent=self, depends_on=[declared])
        self.parts = (declared, resource(f"{name}-binding", binding, bound))
        self.register_outputs({})
