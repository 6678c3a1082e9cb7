"""Envoy Gateway itself: reads Gateways, routes and policies, runs the proxies and configures them.

Source: Envoy Gateway 1.9, charts/gateway-helm and api/v1alpha1.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from infra.gateway import CERTIFICATES, CONTROLLER, NAMESPACE
from infra.gateway.parts import grant, metadata, network_policy, peer
from infra.gateway.proxies import CONTROLLER_NAME, PROXY_LABELS
from infra.images import ENVOY_GATEWAY_IMAGE
from infra.kubernetes.access import READ, rule, service_account_manifest
from infra.kubernetes.controllers import ONE_AT_MOST, PodTemplate, deployment_manifest
from infra.kubernetes.parts import labels
from infra.kubernetes.pods import container_security, pod_security, resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.manifests import Manifest

USER = 65532
"""The user that upstream's images run as."""
_PORTS = {"grpc": 18000, "ratelimit": 18001, "wasm": 18002, "metrics": 19001}
"""Ports of upstream's Service; the proxies get their configuration at the first."""
_CONFIG = f"{CONTROLLER}-config"
_OWN = "gateway.envoyproxy.io"
_API = "gateway.networking.k8s.io"
_WRITE = ("create", "get", "list", "delete", "deletecollection", "patch", "update", "watch")
_POLICIES = "backendtrafficpolicies clienttrafficpolicies envoyproxies securitypolicies"
_ROUTES = "gateways grpcroutes httproutes"


def controller_manifests(workloads: str, rewrite: Callable[[str], str]) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other.

    Args:
        workloads: Namespace of the services.
        rewrite: Gives the reference by which nodes pull an image, for the pods that it makes itself.
    """
    config = {"envoy-gateway.yaml": json.dumps(configuration(workloads, rewrite), indent=1)}
    return {
        f"{CONTROLLER}-account": service_account_manifest(metadata(CONTROLLER)),
        **_grants(workloads),
        f"{CONTROLLER}-network": network_policy(
            CONTROLLER, labels(CONTROLLER), {_PORTS["grpc"]: [peer(PROXY_LABELS)]}, [{}]
        ),
        _CONFIG: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(_CONFIG, part=CONTROLLER),
            "data": config,
        },
        CONTROLLER: _deployment(config),
        f"{CONTROLLER}-service": _service(),
    }


def configuration(workloads: str, rewrite: Callable[[str], str]) -> dict[str, Any]:
    """Return the controller's configuration file (kind EnvoyGateway)."""
    return {
        "apiVersion": f"{_OWN}/v1alpha1",
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": CONTROLLER_NAME},
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {
                # Else it would read the Secrets of the whole cluster.
                "watch": {"type": "Namespaces", "namespaces": [NAMESPACE, workloads]},
                "shutdownManager": {"image": rewrite(ENVOY_GATEWAY_IMAGE)},
                # One replica, replaced by Recreate.
                "leaderElection": {"disable": True},
                "proxyTopologyInjector": {"disabled": True},
            },
        },
        "logging": {"level": {"default": "warn"}},
    }


def _grants(workloads: str) -> dict[str, Manifest]:
    """Return roles and bindings: the configuration of both namespaces to read, the pods of its own one to run."""
    read = [
        rule("core", "configmaps secrets services", READ),
        rule("apps", "deployments daemonsets", READ),
        rule("discovery.k8s.io", "endpointslices", READ),
        rule(_OWN, _POLICIES, READ),
        rule(_OWN, " ".join(f"{kind}/status" for kind in _POLICIES.split()), ("update",)),
        rule(_API, f"{_ROUTES} referencegrants", READ),
        rule(_API, " ".join(f"{kind}/status" for kind in _ROUTES.split()), ("update",)),
    ]
    run = [
        rule("core", "serviceaccounts services configmaps", _WRITE),
        rule("apps", "deployments daemonsets", _WRITE),
        rule("autoscaling", "horizontalpodautoscalers", _WRITE),
        rule("policy", "poddisruptionbudgets", _WRITE),
        rule("core", "events", ("create", "patch")),
    ]
    everywhere = [
        rule("core", "nodes namespaces", READ),
        rule(_API, "gatewayclasses", (*READ, "patch", "update")),
        rule(_API, "gatewayclasses/status", ("update",)),
        rule("certificates.k8s.io", "clustertrustbundles", READ),
    ]
    roles = {
        "everywhere": grant(CONTROLLER, everywhere, None),
        "own": grant(CONTROLLER, [*read, *run], NAMESPACE),
        "workloads": grant(CONTROLLER, read, workloads),
    }
    return {
        f"{CONTROLLER}-{where}-{kind.lower()}": manifest
        for where, manifests in roles.items()
        for kind, manifest in manifests.items()
    }


def _service() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(CONTROLLER),
        "spec": {
            "selector": labels(CONTROLLER),
            "ports": [{"name": name, "port": port, "targetPort": port} for name, port in _PORTS.items()],
        },
    }


def _deployment(config: dict[str, str]) -> Manifest:
    health = {"port": 8081, "scheme": "HTTP"}
    container = {
        "name": CONTROLLER,
        "image": ENVOY_GATEWAY_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["server", "--config-path=/config/envoy-gateway.yaml"],
        "env": environment(),
        "ports": [{"name": name, "containerPort": port} for name, port in _PORTS.items()],
        "startupProbe": {"httpGet": {"path": "/healthz", **health}, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {"httpGet": {"path": "/healthz", **health}, "periodSeconds": 20},
        "readinessProbe": {"httpGet": {"path": "/readyz", **health}, "periodSeconds": 2},
        "resources": resources("50m", "128Mi", "1Gi"),
        "securityContext": container_security(),
        "volumeMounts": [
            {"name": "config", "mountPath": "/config", "readOnly": True},
            {"name": "certs", "mountPath": "/certs", "readOnly": True},
            {"name": "wasm", "mountPath": "/var/lib/eg/wasm"},
        ],
    }
    pod = {
        "serviceAccountName": CONTROLLER,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": pod_security(USER),
        "containers": [container],
        "volumes": [
            {"name": "config", "configMap": {"name": _CONFIG}},
            {"name": "certs", "secret": {"secretName": CONTROLLER}},
            {"name": "wasm", "emptyDir": {"sizeLimit": "64Mi"}},
        ],
    }
    digest = hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()[:16]
    pods = PodTemplate(
        selector={"app.kubernetes.io/name": CONTROLLER},
        labels=labels(CONTROLLER),
        annotations={"athanor.dev/config": digest},
        spec=pod,
    )
    return deployment_manifest(metadata(CONTROLLER), pods, ONE_AT_MOST)


def environment() -> list[Manifest]:
    """Return the variables that both of its programs expect."""
    return [
        {"name": "ENVOY_GATEWAY_NAMESPACE", "value": NAMESPACE},
        {"name": "KUBERNETES_CLUSTER_DOMAIN", "value": "cluster.local"},
    ]


def certificate_manifests(domain: str, image: str, *, signs_itself: bool) -> dict[str, Manifest]:
    """Return the Job that creates certificates once, and its account; what exists already stays.

    Controller and proxies know each other by certificates of an authority of their own. Its key is in a Secret of this
    namespace and nowhere else: the engine would keep it in its state.

    Args:
        domain: Domain of the services' hosts.
        image: The platform's trainer image, whose program creates the certificate that clients see.
        signs_itself: Whether it does.
    """
    rules = [rule("core", "secrets", ("get", "create", "update"))]
    return {
        f"{CERTIFICATES}-account": service_account_manifest(metadata(CERTIFICATES)),
        **{f"{CERTIFICATES}-{kind.lower()}": role for kind, role in grant(CERTIFICATES, rules, NAMESPACE).items()},
        f"{CERTIFICATES}-network": network_policy(CERTIFICATES, labels(CERTIFICATES), {}, [{}]),
        CERTIFICATES: _certificate_job(domain, image, signs_itself=signs_itself),
    }


def certificate_name(domain: str) -> str:
    """Return the name of the Secret with the certificate that the platform signs itself."""
    return f"certificate-{domain}"


def _certificate_job(domain: str, image: str, *, signs_itself: bool) -> Manifest:
    common = {"imagePullPolicy": "IfNotPresent", "securityContext": container_security()}
    container = {
        "name": "certgen",
        "image": ENVOY_GATEWAY_IMAGE,
        "command": ["envoy-gateway", "certgen", "--disable-topology-injector"],
        "env": environment(),
        "resources": resources("50m", "64Mi", "256Mi"),
        **common,
    }
    program = ["python3", "-m", "trainer.helpers.gateway_certificate", f"--domain={domain}"]
    own = {
        "name": "certificate",
        "image": image,
        "command": [*program, f"--namespace={NAMESPACE}", f"--secret={certificate_name(domain)}", "--folder=/work"],
        "resources": resources("20m", "64Mi", "256Mi"),
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
        **common,
    }
    pod = {
        "restartPolicy": "OnFailure",
        "serviceAccountName": CERTIFICATES,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": pod_security(USER),
        **({"initContainers": [own]} if signs_itself else {}),
        "containers": [container],
        # In memory: the key is on no disk.
        "volumes": [{"name": "work", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(CERTIFICATES),
        "spec": {"backoffLimit": 6, "template": {"metadata": {"labels": labels(CERTIFICATES)}, "spec": pod}},
    }
