"""The configuration of Envoy Gateway: the class, its proxies, and the Gateway that services' routes attach to.

Source: Gateway API 1.6; Envoy Gateway 1.9, api/v1alpha1 (EnvoyProxy, ClientTrafficPolicy). The load balancer's kind:
Alibaba Cloud, "Add annotations to the YAML file of a Service to configure CLB instances".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.closed_addresses import ANYWHERE
from infra.gateway import GATEWAY_NAME, HTTPS_PORT, NAMESPACE, PROXY, PROXY_METRICS_PORT
from infra.gateway.parts import metadata, network_policy, peer
from infra.images import ENVOY_IMAGE
from infra.kubernetes.pods import resources
from infra.metrics_access import READERS
from infra.workload_labels import LONGEST_HOLD_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.manifests import Manifest
    from infra.settings.gateway import GatewaySettings

_OWN = "gateway.envoyproxy.io/v1alpha1"
_API = "gateway.networking.k8s.io/v1"
CONTROLLER_NAME = "gateway.envoyproxy.io/gatewayclass-controller"
_ADDRESS_TYPE = "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-address-type"
_CONTAINER_PORT = 10443
"""Envoy Gateway adds 10,000 to ports below 1024, which its proxies may not listen on."""
_DRAIN_SECONDS = 60
_GRACE_SECONDS = _DRAIN_SECONDS + 15
"""Grace period of the proxies' pods. Envoy Gateway would give them five minutes more than they may drain, and the
controller of namespaces looks at the pods of one that is being deleted only after half of that."""
_MOST_CONNECTIONS = 10_000
_LARGEST_RETRIED = "1Mi"
"""Requests up to this size can be tried again on another pod; larger ones are not kept."""
_HEADER_SECONDS = 60
_REQUEST_SECONDS = LONGEST_HOLD_SECONDS + 60
"""For the body, too. While a service is started, Envoy holds its request before the last filter, and counts that as
time in which the request arrives (ClientTrafficPolicy, `requestReceivedTimeout`: until "the last byte of the request is
sent upstream"), and as time without activity."""
PROXY_LABELS = {
    "app.kubernetes.io/component": "proxy",
    "gateway.envoyproxy.io/owning-gateway-name": GATEWAY_NAME,
    "gateway.envoyproxy.io/owning-gateway-namespace": NAMESPACE,
}
"""Labels of the proxies' pods, set by Envoy Gateway."""


def class_manifests(
    settings: GatewaySettings, workloads: str, rewrite: Callable[[str], str], pull_secrets: Sequence[str] = ()
) -> dict[str, Manifest]:
    """Return by logical name what describes the proxies; it comes before the Gateway, which starts them.

    Args:
        settings: Address, number of proxies.
        workloads: Namespace of the services.
        rewrite: Gives the reference by which nodes pull an image.
        pull_secrets: Secrets that they need for it.
    """
    return {
        f"{PROXY}-network": _network_policy(workloads),
        f"{PROXY}-proxies": _proxies(settings, rewrite(ENVOY_IMAGE), pull_secrets),
        f"{PROXY}-class": _gateway_class(),
    }


def gateway_manifests(domain: str, workloads: str, certificate: str) -> dict[str, Manifest]:
    """Return by logical name the Gateway, and what its clients are held to.

    Args:
        domain: Domain of all hosts.
        workloads: Namespace whose routes may attach.
        certificate: Secret of the certificate that clients see.
    """
    return {PROXY: _gateway(domain, workloads, certificate), f"{PROXY}-clients": _client_policy()}


def _network_policy(workloads: str) -> Manifest:
    egress = [
        {"to": [peer({}, workloads)]},
        {"to": [peer({})]},
        # Where an issuer of tokens publishes its keys.
        {"to": ANYWHERE, "ports": [{"protocol": "TCP", "port": HTTPS_PORT}]},
    ]
    ingress = {_CONTAINER_PORT: (), PROXY_METRICS_PORT: READERS}
    return network_policy(PROXY, PROXY_LABELS, ingress, egress)


def _proxies(settings: GatewaySettings, image: str, pull_secrets: Sequence[str]) -> Manifest:
    secrets = {"imagePullSecrets": [{"name": name} for name in pull_secrets]} if pull_secrets else {}
    deployment = {
        "name": PROXY,
        "replicas": settings.replicas,
        "container": {"image": image, "resources": resources("100m", "128Mi", "1Gi")},
        "patch": {
            "type": "StrategicMerge",
            "value": {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": _GRACE_SECONDS}}}},
        },
        **({"pod": secrets} if secrets else {}),
    }
    return {
        "apiVersion": _OWN,
        "kind": "EnvoyProxy",
        "metadata": metadata(GATEWAY_NAME, part=PROXY),
        "spec": {
            "provider": {
                "type": "Kubernetes",
                "kubernetes": {
                    "envoyDeployment": deployment,
                    "envoyService": {"name": PROXY, **_service(settings)},
                    **({"envoyPDB": {"maxUnavailable": 1}} if settings.replicas > 1 else {}),
                },
            },
            "shutdown": {"drainTimeout": f"{_DRAIN_SECONDS}s"},
            # Metrics count requests; the servers log those that fail.
            "telemetry": {"accessLog": {"disable": True}},
            # Else requests of strangers would start services that scaled to zero.
            "filterOrder": [
                {"name": "envoy.filters.http.ext_authz", "after": f"envoy.filters.http.{name}"}
                for name in ("api_key_auth", "jwt_authn", "local_ratelimit")
            ],
        },
    }


def _service(settings: GatewaySettings) -> Manifest:
    if settings.address == "cluster":
        return {"type": "ClusterIP"}
    address = "internet" if settings.address == "public" else "intranet"
    admitted = {"loadBalancerSourceRanges": [str(cidr) for cidr in settings.allowed_cidrs]}
    return {
        "type": "LoadBalancer",
        "annotations": {_ADDRESS_TYPE: address},
        **(admitted if settings.allowed_cidrs else {}),
    }


def _gateway_class() -> Manifest:
    parameters = {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": GATEWAY_NAME, "namespace": NAMESPACE}
    return {
        "apiVersion": _API,
        "kind": "GatewayClass",
        "metadata": metadata(GATEWAY_NAME, None, part=PROXY),
        "spec": {
            "controllerName": CONTROLLER_NAME,
            "parametersRef": parameters,
        },
    }


def _gateway(domain: str, workloads: str, certificate: str) -> Manifest:
    admitted = {"matchLabels": {"kubernetes.io/metadata.name": workloads}}
    listener = {
        "name": "https",
        "port": HTTPS_PORT,
        "protocol": "HTTPS",
        "hostname": f"*.{domain}",
        "tls": {"mode": "Terminate", "certificateRefs": [{"kind": "Secret", "name": certificate}]},
        "allowedRoutes": {"namespaces": {"from": "Selector", "selector": admitted}, "kinds": [{"kind": "HTTPRoute"}]},
    }
    return {
        "apiVersion": _API,
        "kind": "Gateway",
        "metadata": metadata(GATEWAY_NAME, part=PROXY),
        "spec": {"gatewayClassName": GATEWAY_NAME, "listeners": [listener]},
    }


def _client_policy() -> Manifest:
    """Return the limits on all clients: slow ones must not hold connections, nor many of them all memory."""
    target = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": GATEWAY_NAME}
    return {
        "apiVersion": _OWN,
        "kind": "ClientTrafficPolicy",
        "metadata": metadata(GATEWAY_NAME, part=PROXY),
        "spec": {
            "targetRefs": [target],
            "tls": {"minVersion": "1.2"},
            "timeout": {
                "http": {
                    "requestHeadersReceivedTimeout": f"{_HEADER_SECONDS}s",
                    "requestReceivedTimeout": f"{_REQUEST_SECONDS}s",
                    "streamIdleTimeout": f"{_REQUEST_SECONDS}s",
                }
            },
            "connection": {"connectionLimit": {"value": _MOST_CONNECTIONS}, "bufferLimit": _LARGEST_RETRIED},
        },
    }
