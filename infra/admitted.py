"""Demands on objects of the workloads' namespace: one table for the API server and for the policy pack.

infra/admission.py writes it in CEL, for all that is sent to the cluster; policies/admission.py holds a preview against
it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TYPE_CHECKING, TypeAlias, cast

from infra.closed_addresses import METADATA_RANGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LARGEST_ROLE = 1000
"""Most pods of a role of a job, or of a service."""
MOST_ROLES = 16
VOLCANO_QUEUES = ("default", "root")
"""Queues of Volcano's own, which no stack shares out."""
KUBERNETES_CLASSES = "system-"
"""Prefix of the PriorityClasses that Kubernetes reserves for critical parts of a cluster."""
CONTROL_PLANE_TAINTS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
CAPABILITIES = ("IPC_LOCK", "NET_BIND_SERVICE", "SYS_RESOURCE")
"""Capabilities that containers may add: what RDMA needs, and a port below 1024."""

SERVICES = ("/services",)
NETWORK_POLICIES = ("networking.k8s.io/networkpolicies",)
COMMANDS = ("bus.volcano.sh/commands",)
JOBS = ("batch.volcano.sh/jobs",)
POD_GROUPS = ("scheduling.volcano.sh/podgroups",)
SETS = ("apps/deployments", "apps/replicasets", "apps/statefulsets", "/replicationcontrollers")
"""Kinds that keep a number of pods, which their subresource `scale` changes, too."""
WITH_PODS = (*SETS, "apps/daemonsets", "batch/jobs", "batch/cronjobs", *JOBS, "/pods")


@dataclass(frozen=True, kw_only=True)
class OneOf:
    """A text out of several, or none where there are none."""

    values: Sequence[str]
    required: bool = False

    def holds(self, value: object) -> bool:
        """Whether it is one of them."""
        return value in self.values or not (value or self.required)

    def cel(self, value: str) -> str:
        """Return the same in CEL."""
        return f"{value} in {cel_list(self.values if self.required else ('', *self.values))}"

    def value_text(self, value: str) -> str:
        """Return the text itself."""
        return value


@dataclass(frozen=True, kw_only=True)
class NoneOf:
    """A text other than some."""

    values: Sequence[str] = ()
    prefix: str | None = None
    """Prefix that is refused, too."""
    required: bool = False

    def holds(self, value: object) -> bool:
        """Whether it is another one."""
        text = value or ""
        begins = self.prefix is not None and isinstance(text, str) and text.startswith(self.prefix)
        return text not in self.values and not begins and bool(text or not self.required)

    def cel(self, value: str) -> str:
        """Return the same in CEL."""
        refused = (*self.values, *([""] if self.required else []))
        tests = [f"{value} in {cel_list(refused)}"] if refused else []
        tests += [] if self.prefix is None else [f"{value}.startsWith({json.dumps(self.prefix)})"]
        return f"!({' || '.join(tests)})"

    def value_text(self, value: str) -> str:
        """Return the text itself."""
        return value


@dataclass(frozen=True, kw_only=True)
class AtMost:
    """A number, or a list of as many elements."""

    number: int
    items: bool = False
    """Whether it is a list."""
    required: bool = False

    def holds(self, value: object) -> bool:
        """Whether it is not above."""
        if isinstance(value, list):
            return len(cast("list[object]", value)) <= self.number
        return not isinstance(value, int | float) or value <= self.number

    def cel(self, value: str) -> str:
        """Return the same in CEL."""
        return f"{self._counted(value)} <= {self.number}"

    def value_text(self, value: str) -> str:
        """Return the number."""
        return f"string({self._counted(value)})"

    def _counted(self, value: str) -> str:
        return f"size({value})" if self.items else value


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """No object at all."""

    required: bool = False

    def holds(self, value: object) -> bool:
        """Whether it is not there."""
        return value is None

    def cel(self, value: str) -> str:  # noqa: ARG002 - it is there
        """Return the same in CEL."""
        return "false"

    def value_text(self, value: str) -> str:  # noqa: ARG002 - too large for a message
        """Return that there is one."""
        return '"given"'


@dataclass(frozen=True, kw_only=True)
class Off:
    """A switch that is not on."""

    required: bool = False

    def holds(self, value: object) -> bool:
        """Whether it is off."""
        return not value

    def cel(self, value: str) -> str:
        """Return the same in CEL."""
        return f"!{value}"

    def value_text(self, value: str) -> str:  # noqa: ARG002 - it is on
        """Return that it is on."""
        return '"true"'


@dataclass(frozen=True, kw_only=True)
class Something:
    """A list with elements."""

    required: bool = True

    def holds(self, value: object) -> bool:
        """Whether it has any."""
        return bool(value)

    def cel(self, value: str) -> str:
        """Return the same in CEL."""
        return f"size({value}) > 0"

    def value_text(self, value: str) -> str:  # noqa: ARG002 - it has none
        """Return that there is nothing."""
        return '"nothing"'


@dataclass(frozen=True, kw_only=True)
class AwayFrom:
    """A range of addresses (ipBlock) that has none of some others."""

    ranges: Sequence[str]
    required: bool = False

    def holds(self, value: object) -> bool:
        """Whether it has none of them."""
        block = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        without = [ip_network(str(each), strict=False) for each in cast("list[object]", block.get("except") or [])]
        cidr = block.get("cidr")
        opened = ip_network(cidr, strict=False) if isinstance(cidr, str) else None
        closed = [ip_network(each) for each in self.ranges]
        return opened is None or not any(
            opened.overlaps(one) and not any(_contains(each, one) for each in without) for one in closed
        )

    def cel(self, value: str) -> str:
        """Return the same in CEL."""
        overlaps = f"(cidr({value}.cidr).containsCIDR(closed) || cidr(closed).containsCIDR({value}.cidr))"
        without = f"has({value}.except) && {value}.except.exists(each, cidr(each).containsCIDR(closed))"
        return f"{cel_list(self.ranges)}.all(closed, !{overlaps} || ({without}))"

    def value_text(self, value: str) -> str:
        """Return the range."""
        return f"{value}.cidr"


Limit: TypeAlias = OneOf | NoneOf | AtMost | Nothing | Off | Something | AwayFrom
"""What a field may be; each says it of a value here, and in CEL of a field that is there."""


@dataclass(frozen=True, kw_only=True)
class Demand:
    """One field, what it may be, and what is said where it is not."""

    name: str
    """An identifier."""
    on: Sequence[str]
    """Kinds as <group>/<plural>, each with `/scale` where that has the field, too."""
    path: str
    """Names with dots between them; `[]` after one that is a list."""
    allowed: Limit
    limit: str
    fix: str
    of_pods: bool = False
    """Whether the path begins at the spec of each pod that the object describes."""
    at_creation: bool = False
    """Whether it is for new objects alone: somebody else sets the field later."""


_PODS = (
    Demand(
        name="nodeName",
        on=WITH_PODS,
        of_pods=True,
        at_creation=True,
        path="nodeName",
        allowed=OneOf(values=()),
        limit="gets past the scheduler, its queues and the taints of nodes",
        fix="select nodes by their labels (nodeSelector)",
    ),
    Demand(
        name="toleratedTaints",
        on=WITH_PODS,
        of_pods=True,
        path="tolerations[].key",
        allowed=NoneOf(values=CONTROL_PLANE_TAINTS, required=True),
        limit="tolerates the taints of the control plane, or all that there are if it is empty",
        fix="name the key of a taint of your nodes",
    ),
    Demand(
        name="ephemeralClaims",
        on=WITH_PODS,
        of_pods=True,
        path="volumes[].ephemeral",
        allowed=Nothing(),
        limit="lets Kubernetes create a claim for each pod, whatever its author may create",
        fix="use an emptyDir, or mount a claim that exists",
    ),
)
# Pod Security refuses them, too, but at the level `privileged`, for which the host's network is the reason.
_NODE_LIMIT = "gives the pod its node, and what all others there have"
_CONTAINERS = ("containers", "initContainers")
_OF_NODES = tuple(
    Demand(
        name=f"{name}{number}",
        on=WITH_PODS,
        of_pods=True,
        path=path,
        allowed=allowed,
        limit=_NODE_LIMIT,
        fix=fix,
    )
    for name, allowed, fix, paths in (
        ("hostPath", Nothing(), "mount a claim", ["volumes[].hostPath"]),
        ("hostNamespace", Off(), "omit it", ["hostPID", "hostIPC"]),
        ("privileged", Off(), "omit it", [f"{each}[].securityContext.privileged" for each in _CONTAINERS]),
        (
            "capability",
            OneOf(values=CAPABILITIES),
            f"use {', '.join(CAPABILITIES)} or none",
            [f"{each}[].securityContext.capabilities.add[]" for each in _CONTAINERS],
        ),
    )
    for number, path in enumerate(paths)
)
_SERVICES = (
    Demand(
        name="serviceType",
        on=SERVICES,
        path="spec.type",
        allowed=OneOf(values=("ClusterIP",)),
        limit="workloads have addresses inside the cluster alone",
        fix="omit it; what clients outside may reach has a route (expose)",
    ),
    Demand(
        name="externalIPs",
        on=SERVICES,
        path="spec.externalIPs[]",
        allowed=OneOf(values=()),
        limit="takes over addresses of other hosts, those of nodes included",
        fix="omit it",
    ),
)
_NETWORK_POLICIES = (
    Demand(
        name="egressPeers",
        on=NETWORK_POLICIES,
        path="spec.egress[].to",
        allowed=Something(),
        limit="opens every address, that of the nodes' metadata included",
        fix="name whom the pods connect to",
    ),
    Demand(
        name="egressRanges",
        on=NETWORK_POLICIES,
        path="spec.egress[].to[].ipBlock",
        allowed=AwayFrom(ranges=METADATA_RANGES),
        limit="opens the metadata of nodes, from which a program may get their credentials",
        fix=f"name another range, or leave out {' and '.join(METADATA_RANGES)} (except)",
    ),
)
_COMMANDS = tuple(
    Demand(
        name=name,
        on=COMMANDS,
        path=path,
        allowed=OneOf(values=(value,), required=True),
        limit="commands are for jobs of their own namespace: queues belong to everybody",
        fix=f"name a job: {value}",
    )
    for name, path, value in (
        ("commandKind", "target.kind", "Job"),
        ("commandVersion", "target.apiVersion", "batch.volcano.sh/v1alpha1"),
    )
)
_SIZES = (
    Demand(
        name="roles",
        on=JOBS,
        path="spec.tasks",
        allowed=AtMost(number=MOST_ROLES, items=True),
        limit=f"a job has at most {MOST_ROLES} roles",
        fix="divide it into several jobs",
    ),
    Demand(
        name="podsOfRoles",
        on=JOBS,
        path="spec.tasks[].replicas",
        allowed=AtMost(number=LARGEST_ROLE),
        limit=f"a role has at most {LARGEST_ROLE} pods",
        fix="use fewer",
    ),
    Demand(
        name="podsOfSets",
        on=(*SETS, *(f"{kind}/scale" for kind in SETS)),
        path="spec.replicas",
        allowed=AtMost(number=LARGEST_ROLE),
        limit=f"it has at most {LARGEST_ROLE} pods",
        fix="use fewer",
    ),
    Demand(
        name="claimsOfJobs",
        on=JOBS,
        path="spec.volumes[].volumeClaim",
        allowed=Nothing(),
        limit="lets Volcano create a claim, whatever the job's author may create",
        fix="name a claim that exists (volumeClaimName)",
    ),
    Demand(
        name="schedulerOfJobs",
        on=JOBS,
        path="spec.schedulerName",
        allowed=OneOf(values=("volcano",), required=True),
        limit="any other scheduler knows no queues",
        fix="write volcano",
    ),
)


def demands(queues: Iterable[str] = (), priority_classes: Iterable[str] = ()) -> tuple[Demand, ...]:
    """Return all demands on objects of a workloads' namespace.

    Args:
        queues: Those that its jobs may use. None: not known; then all but Volcano's own.
        priority_classes: Those that its pods may have. None: not known, or the stack has none of its own; then all but
            those of Kubernetes.
    """
    own_queues, own_classes = tuple(queues), tuple(priority_classes)
    queue = OneOf(values=own_queues, required=True) if own_queues else NoneOf(values=VOLCANO_QUEUES, required=True)
    others = NoneOf(prefix=KUBERNETES_CLASSES)
    class_limit = "puts them before what the cluster itself needs, or before other teams"
    class_fix = f"use {' or '.join(own_classes)}" if own_classes else f"use one without {KUBERNETES_CLASSES}"
    return (
        *_SERVICES,
        *_NETWORK_POLICIES,
        *_COMMANDS,
        Demand(
            name="queue",
            on=(*JOBS, *POD_GROUPS),
            path="spec.queue",
            allowed=queue,
            limit="jobs of this namespace wait in its own queues",
            fix=f"use {' or '.join(own_queues) or 'a queue of the platform'}",
        ),
        *(
            Demand(name=name, on=on, of_pods=of_pods, path=path, allowed=allowed, limit=class_limit, fix=class_fix)
            for name, on, of_pods, path, allowed in (
                ("priorityOfJobs", (*JOBS, *POD_GROUPS), False, "spec.priorityClassName", _of(own_classes, others)),
                ("priorityOfPods", WITH_PODS[:-1], True, "priorityClassName", _of(own_classes, others)),
                # A pod has a class although nobody named one where the cluster has a default class.
                ("priorityOfEachPod", WITH_PODS[-1:], True, "priorityClassName", others),
            )
        ),
        *_PODS,
        *_OF_NODES,
        *_SIZES,
    )


def _of(values: tuple[str, ...], without: Limit) -> Limit:
    return OneOf(values=values) if values else without


def _contains(outer: IPv4Network | IPv6Network, inner: IPv4Network | IPv6Network) -> bool:
    return outer.version == inner.version and inner.subnet_of(outer)  # pyright: ignore[reportArgumentType]


def cel_list(values: Iterable[str]) -> str:
    """Return a list of texts in CEL, which writes texts as JSON does."""
    return json.dumps(list(values))
