"""A service's objects at the platform's gateway: its route, authentication, and handling of requests.

Source: Gateway API 1.6, HTTPRoute; Envoy Gateway 1.9, SecurityPolicy and BackendTrafficPolicy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from infra.gateway import ACTIVATOR, ACTIVATOR_PORT, GATEWAY_NAME
from infra.gateway import NAMESPACE as GATEWAY_NAMESPACE
from workloads.exposure import OidcAuth, TokenAuth

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from infra.manifests import Manifest
    from workloads.canary import Canary
    from workloads.exposure import Auth, Expose

ROUTE_KIND = ("gateway.networking.k8s.io/v1", "HTTPRoute")
SECURITY_KIND = ("gateway.envoyproxy.io/v1alpha1", "SecurityPolicy")
TRAFFIC_KIND = ("gateway.envoyproxy.io/v1alpha1", "BackendTrafficPolicy")
H2C = "kubernetes.io/h2c"
"""`appProtocol` of a Service's port that speaks HTTP/2 without TLS, as gRPC does (Kubernetes, KEP-3726)."""
_METADATA = "/v2"
_PREFIXES = ("/v2/models", "/v2/health")
_GRPC_SERVICE = "/inference.GRPCInferenceService"
_GRPC_METHODS = (
    "ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelConfig", "ModelStatistics",
    "ModelInfer",
)  # fmt: skip
"""Without those of the repository, of traces and of the log: they manage the server."""
_GRPC_STREAM = "ModelStreamInfer"
_UNLIMITED = "0s"
_NOWHERE = "/v2/closed"
_REQUESTS_PER_CONNECTION = 1000
"""To a Service's address, which gives a connection to one of its pods: long-lived ones would keep new pods idle."""
_TO_SERVICES = {
    "routingType": "Service",
    "circuitBreaker": {"maxRequestsPerConnection": _REQUESTS_PER_CONNECTION},
}
_RETRIES = 8
_RETRIED = ["connect-failure", "refused-stream", "reset", "retriable-status-codes"]
_FIRST_RETRY, _LONGEST_RETRY = "50ms", "1s"


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The backend of a route."""

    shares: Sequence[tuple[str, int]]
    """Names of Services with their shares of the requests, in percent."""
    ports: Mapping[str, int]
    """The Services' ports by name."""
    has_trace_settings: bool
    """Whether the server lets clients change what it traces, below its models' paths."""


def route_manifest(metadata: Manifest, upstream: Upstream, expose: Expose, host: str) -> Manifest:
    """Return the route of a service.

    Args:
        metadata: Of the route.
        upstream: What answers.
        expose: What the user asked for.
        host: Whole name of the host.
    """
    ports, timeout = upstream.ports, f"{expose.timeout_seconds}s"
    http = partial(_rule, backends=upstream.shares, port=ports["http"], timeout=timeout)
    rules = [_closed(expose.path, http)] if upstream.has_trace_settings else []
    if expose.path != "/":
        rules += _rules_below(expose.path, http)
    else:
        rules += [*(_grpc_rules(http, ports["grpc"]) if "grpc" in ports else []), http("http", _plain_matches())]
    parent = {"name": GATEWAY_NAME, "namespace": GATEWAY_NAMESPACE}
    spec = {"parentRefs": [parent], "hostnames": [host], "rules": rules}
    return _manifest(ROUTE_KIND, metadata, spec)


def shares(name: str, canary: Canary | None) -> list[tuple[str, int]]:
    """Return the Services that answer, with their shares in percent: of requests, whatever the number of pods."""
    if canary is None:
        return [(name, 100)]
    return [(f"{name}-stable", 100 - canary.percent), (f"{name}-canary", canary.percent)]


def security_manifest(metadata: Manifest, service: str, auth: Auth | None, hold_seconds: int | None) -> Manifest:
    """Return who may use a route, and that a service without pods is started first."""
    holds = {} if hold_seconds is None else _hold(service, hold_seconds)
    return _manifest(
        SECURITY_KIND, metadata, {"targetRefs": _targets(metadata), **(_auth(auth) if auth else {}), **holds}
    )


def traffic_manifest(metadata: Manifest, expose: Expose, *, to_services: bool) -> Manifest:
    """Return the traffic policy of a route: limits, and a second try for requests whose pod disappeared.

    Args:
        metadata: Of the policy.
        expose: What the user asked for.
        to_services: Whether the proxies use the Services' addresses, which stay, rather than choose among the pods that
            they know: they know none yet of a service that was started a moment ago, and answer 503 themselves, without
            another try, to the share of a canary that has no ready pod.
    """
    limit = expose.rate_limit
    rules = [{"limit": {"requests": limit.requests, "unit": limit.per.capitalize()}}] if limit else []
    spec = {
        "targetRefs": _targets(metadata),
        "retry": {
            "numRetries": _RETRIES,
            # Of requests whose pod went, or starts again (503). Inference has no side effects: twice is as once.
            "retryOn": {"triggers": _RETRIED, "httpStatusCodes": [503]},
            "perRetry": {"backOff": {"baseInterval": _FIRST_RETRY, "maxInterval": _LONGEST_RETRY}},
        },
        **({"rateLimit": {"type": "Local", "local": {"rules": rules}}} if rules else {}),
        **(_TO_SERVICES if to_services else {}),
    }
    return _manifest(TRAFFIC_KIND, metadata, spec)


def _plain_matches() -> list[Manifest]:
    return [_match("Exact", _METADATA), *(_match("PathPrefix", prefix) for prefix in _PREFIXES)]


def _grpc_matches() -> list[Manifest]:
    return [_match("Exact", f"{_GRPC_SERVICE}/{method}") for method in _GRPC_METHODS]


def _grpc_rules(rule: Callable[..., Manifest], port: int) -> list[Manifest]:
    """Return the rules of gRPC: an answer has its time, a stream of them may last."""
    stream = [_match("Exact", f"{_GRPC_SERVICE}/{_GRPC_STREAM}")]
    return [rule("grpc", _grpc_matches(), port=port), rule("grpc-stream", stream, port=port, timeout=_UNLIMITED)]


def _closed(path: str, rule: Callable[..., Manifest]) -> Manifest:
    """Return a rule that leads from a model's trace settings to a path that no server has."""
    settings = f"{re.escape(path.rstrip('/'))}/v2/models/.*/trace/setting"
    nowhere = {"type": "ReplaceFullPath", "replaceFullPath": _NOWHERE}
    return {**rule("closed", [_match("RegularExpression", settings)]), "filters": [_rewrite(nowhere)]}


def _rules_below(path: str, rule: Callable[[str, list[Manifest]], Manifest]) -> list[Manifest]:
    """Return a rule for each path of the protocol, for each loses what precedes it by a filter of its own."""
    whole = {"type": "ReplaceFullPath", "replaceFullPath": _METADATA}
    rules = [{**rule("metadata", [_match("Exact", f"{path}{_METADATA}")]), "filters": [_rewrite(whole)]}]
    for prefix in _PREFIXES:
        changed = {"type": "ReplacePrefixMatch", "replacePrefixMatch": prefix}
        own = rule(prefix.rpartition("/")[2], [_match("PathPrefix", f"{path}{prefix}")])
        rules.append({**own, "filters": [_rewrite(changed)]})
    return rules


def _match(kind: str, path: str) -> Manifest:
    return {"path": {"type": kind, "value": path}}


def _rewrite(path: Manifest) -> Manifest:
    return {"type": "URLRewrite", "urlRewrite": {"path": path}}


def _rule(
    name: str, matches: list[Manifest], *, backends: Sequence[tuple[str, int]], port: int, timeout: str
) -> Manifest:
    return {
        "name": name,
        "matches": matches,
        "timeouts": {"request": timeout},
        "backendRefs": [{"name": service, "port": port, "weight": share} for service, share in backends],
    }


def _auth(auth: Auth) -> Manifest:
    match auth:
        case TokenAuth():
            header = {"headers": ["Authorization"]}
            secret = {"group": "", "kind": "Secret", "name": auth.secret}
            # The server gets no token, so that none is in its logs.
            return {"apiKeyAuth": {"credentialRefs": [secret], "extractFrom": [header], "sanitize": True}}
        case OidcAuth():
            keys = (
                {"remoteJWKS": {"uri": auth.keys_url}}
                if auth.keys_url
                else {"localJWKS": {"type": "Inline", "inline": auth.keys}}
            )
            provider = {"name": "oidc", "issuer": auth.issuer, "audiences": list(auth.audiences), **keys}
            return {"jwt": {"providers": [provider]}}


def _hold(service: str, seconds: int) -> Manifest:
    activator = {"name": ACTIVATOR, "namespace": GATEWAY_NAMESPACE, "port": ACTIVATOR_PORT}
    return {
        "extAuth": {
            "http": {"backendRefs": [activator], "pathOverride": f"/hold/{service}"},
            # A little longer than it waits itself, so that its own answer comes first.
            "timeout": f"{seconds + 5}s",
            # Without it, a service that has pods answers nevertheless.
            "failOpen": True,
        }
    }


def _targets(metadata: Manifest) -> list[Manifest]:
    return [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": metadata["name"]}]


def _manifest(kind: tuple[str, str], metadata: Manifest, spec: Manifest) -> Manifest:
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec}
