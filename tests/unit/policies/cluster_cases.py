"""Cases of rules about Kubernetes objects that are not pods."""

from __future__ import annotations

from typing import Any

from infra.closed_addresses import ANYWHERE
from tests.unit.policies.case import UNKNOWN, Case, manifest

ADDRESS_TYPE = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type"
LEVEL = "pod-security.kubernetes.io/enforce"


def service(*, annotations: Any = None, **spec: Any) -> Any:
    return manifest("core/v1", "Service", metadata={"name": "thing", "annotations": annotations}, spec=spec)


def namespace(labels: Any = None) -> Any:
    return manifest("core/v1", "Namespace", metadata={"name": "team", "labels": labels})


def closing(**spec: Any) -> Any:
    return manifest("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, **spec})


def opening(peer: Any) -> Any:
    return manifest("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, "egress": [{"to": [peer]}]})


def role(kind: str = "Role", **rule: Any) -> Any:
    everything_named = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    return manifest("rbac.authorization.k8s.io/v1", kind, rules=[{**everything_named, **rule}])


def binding(kind: str = "RoleBinding", role_name: Any = "reader", subject: Any = "trainer") -> Any:
    subjects = [{"kind": "ServiceAccount", "name": subject}]
    return manifest("rbac.authorization.k8s.io/v1", kind, roleRef={"name": role_name}, subjects=subjects)


def volume(policy: Any) -> Any:
    return manifest("core/v1", "PersistentVolume", spec={"persistentVolumeReclaimPolicy": policy})


def proxies(service: Any) -> Any:
    spec = {"provider": {"kubernetes": {"envoyService": service}}}
    return manifest("gateway.envoyproxy.io/v1alpha1", "EnvoyProxy", spec=spec)


CASES = {
    "no-public-services": Case(
        keeps=[
            service(),
            service(type="ClusterIP"),
            service(type="LoadBalancer", annotations={ADDRESS_TYPE: "intranet"}),
            proxies({"type": "ClusterIP"}),
            proxies({"type": "LoadBalancer", "annotations": {ADDRESS_TYPE: "intranet"}}),
        ],
        breaks={
            "spec.type = 'NodePort'": service(type="NodePort"),
            "= 'internet': a load balancer is public": proxies(
                {"type": "LoadBalancer", "annotations": {ADDRESS_TYPE: "internet"}}
            ),
            "= None: a load balancer is public": proxies({}),
            "a load balancer is public without it": service(type="LoadBalancer"),
            "spec.externalIPs = '192.0.2.1'": service(externalIPs=["192.0.2.1"]),
        },
        undecided=[
            service(type=UNKNOWN),
            service(type="LoadBalancer", annotations=UNKNOWN),
            proxies({"type": UNKNOWN}),
        ],
    ),
    "no-egress-to-the-internet": Case(
        keeps=[
            opening({"ipBlock": {"cidr": "203.0.113.0/24"}}),
            opening({"ipBlock": {"cidr": "100.64.0.0/10"}}),
            opening({"podSelector": {}}),
            closing(egress=[{"ports": [{"port": 443}]}]),
            closing(egress=[{"to": ANYWHERE, "ports": [{"port": 443}]}]),
        ],
        breaks={
            "spec.egress = '0.0.0.0/0'": opening({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}),
            "spec.egress = '0.0.0.0/1'": opening({"ipBlock": {"cidr": "0.0.0.0/1"}}),
            "spec.egress = '::ffff:0:0/96'": opening({"ipBlock": {"cidr": "::ffff:0:0/96"}}),
            "spec.egress = ['11.0.0.0/16'": closing(
                egress=[{"to": [{"ipBlock": {"cidr": f"11.{part}.0.0/16"}}]} for part in range(2)]
            ),
            "spec.egress = '::/0'": opening({"ipBlock": {"cidr": "::/0"}}),
        },
        undecided=[opening(UNKNOWN), closing(egress=UNKNOWN)],
    ),
    "namespace-pod-security": Case(
        keeps=[namespace({LEVEL: "restricted"}), namespace({LEVEL: "baseline"})],
        breaks={"= 'privileged'": namespace({LEVEL: "privileged"}), "= None": namespace()},
        undecided=[namespace(UNKNOWN), namespace({LEVEL: UNKNOWN})],
    ),
    "namespace-network-policy": Case(
        keeps=[
            [namespace(), closing(policyTypes=["Ingress"])],
            [namespace(), closing()],
            [namespace(), closing(podSelector={"matchLabels": {}})],
            [namespace(), closing(ingress=[{"from": [{"podSelector": {}}]}])],
            [namespace(), closing(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]}])],
        ],
        breaks={
            "nothing closes namespace team": [namespace()],
            "closes namespace team:": [namespace(), closing(podSelector={"matchLabels": {"app": "a"}})],
            "every pod of the cluster reaches": [namespace(), closing(policyTypes=["Egress"])],
            "nothing closes": [namespace(), closing(ingress=[{}])],
            "nothing closes namespace": [namespace(), closing(ingress=[{"from": [{"namespaceSelector": {}}]}])],
            "closes namespace team": [namespace(), closing(ingress=[{"from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}])],
            "namespace team: every pod": [namespace(), closing(ingress=[{"ports": [{"port": 80}]}])],
        },
        undecided=[[namespace(), closing(podSelector=UNKNOWN)]],
    ),
    "no-wildcard-rbac": Case(
        keeps=[role(), role("ClusterRole", apiGroups=[], nonResourceURLs=["/metrics", "/logs/*"])],
        breaks={
            "rules[0].verbs = ['*']": role(verbs=["*"]),
            "rules[0].resources = ['pods', '*']": role("ClusterRole", resources=["pods", "*"]),
            "rules[0].nonResourceURLs = ['/*']": role("ClusterRole", nonResourceURLs=["/*"]),
            "rules[0].resources = ['*/scale']": role(resources=["*/scale"]),
            "aggregationRule.clusterRoleSelectors[0] = {}": manifest(
                "rbac.authorization.k8s.io/v1", "ClusterRole", aggregationRule={"clusterRoleSelectors": [{}]}
            ),
            "'operator': 'DoesNotExist'": manifest(
                "rbac.authorization.k8s.io/v1",
                "ClusterRole",
                aggregationRule={
                    "clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}]
                },
            ),
            "rules[0].apiGroups = ['*']": role(apiGroups=["*"]),
        },
        undecided=[role(verbs=UNKNOWN), manifest("rbac.authorization.k8s.io/v1", "Role", rules=UNKNOWN)],
    ),
    "no-rights-of-others": Case(
        keeps=[role(), role(resources=["serviceaccounts/token"], verbs=["get"]), role(resources=["nodes"])],
        breaks={
            "rules[0].verbs = ['get', 'impersonate']": role(resources=["users"], verbs=["get", "impersonate"]),
            "rules[0].verbs = ['escalate']": role("ClusterRole", resources=["clusterroles"], verbs=["escalate"]),
            "rules[0].verbs = ['bind']": role("ClusterRole", resources=["roles"], verbs=["bind"]),
            "resources = 'nodes/proxy'": role("ClusterRole", resources=["nodes", "nodes/proxy"]),
            "resources = 'serviceaccounts/token'": role(resources=["serviceaccounts/token"], verbs=["create"]),
            "resources = 'signers'": role("ClusterRole", resources=["signers"], verbs=["approve"]),
        },
        undecided=[role(verbs=UNKNOWN), manifest("rbac.authorization.k8s.io/v1", "Role", rules=UNKNOWN)],
    ),
    "no-cluster-admins": Case(
        keeps=[binding(), binding("ClusterRoleBinding", "view"), binding("RoleBinding", "edit")],
        breaks={
            "roleRef.name = 'admin'": binding("ClusterRoleBinding", "admin"),
            "roleRef.name = 'system:controller:job-controller'": binding(role_name="system:controller:job-controller"),
            "subjects = 'system:unauthenticated'": binding(subject="system:unauthenticated"),
            "roleRef.name = 'cluster-admin'": binding("ClusterRoleBinding", "cluster-admin"),
            "subjects = 'system:authenticated'": binding(subject="system:authenticated"),
            "subjects = 'system:serviceaccounts'": binding(subject="system:serviceaccounts"),
        },
        undecided=[binding(role_name=UNKNOWN), binding(subject=UNKNOWN)],
    ),
    "volumes-retained": Case(
        keeps=[volume("Retain"), manifest("core/v1", "PersistentVolume", spec={})],
        breaks={"persistentVolumeReclaimPolicy = 'Delete'": volume("Delete")},
        undecided=[volume(UNKNOWN)],
    ),
}
