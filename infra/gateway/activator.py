"""The activator: starts a service that scaled to zero on a request, and stops one that has been idle for a while.

The proxies ask it before they forward a request to such a service, and wait for its answer. Program: trainer/activator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gateway import ACTIVATOR, ACTIVATOR_METRICS_PORT, ACTIVATOR_PORT
from infra.gateway.parts import grant, metadata, network_policy, peer
from infra.gateway.proxies import PROXY_LABELS
from infra.kubernetes.access import rule, service_account_manifest
from infra.kubernetes.controllers import ONE_AT_MOST, PodTemplate, deployment_manifest
from infra.kubernetes.parts import labels
from infra.kubernetes.pods import container_security, pod_security, resources
from infra.metrics_access import METRICS_PORT_NAME, READERS
from infra.workload_labels import HOLD_SECONDS_LABEL, IDLE_SECONDS_LABEL

if TYPE_CHECKING:
    from infra.manifests import Manifest

_USER = 65532


def activator_manifests(workloads: str, image: str) -> dict[str, Manifest]:
    """Return all objects by logical name, in the order in which they need each other.

    Args:
        workloads: Namespace of the services.
        image: The platform's trainer image.
    """
    rules = [rule("apps", "deployments", ("list",)), rule("apps", "deployments/scale", ("patch",))]
    roles = grant(ACTIVATOR, rules, workloads)
    return {
        f"{ACTIVATOR}-account": service_account_manifest(metadata(ACTIVATOR)),
        **{f"{ACTIVATOR}-{kind.lower()}": manifest for kind, manifest in roles.items()},
        f"{ACTIVATOR}-network": network_policy(
            ACTIVATOR,
            labels(ACTIVATOR),
            {ACTIVATOR_PORT: [peer(PROXY_LABELS)], ACTIVATOR_METRICS_PORT: READERS},
            # The API server, whose addresses no policy can name.
            [{}],
        ),
        f"{ACTIVATOR}-grant": _reference_grant(workloads),
        ACTIVATOR: _deployment(workloads, image),
        f"{ACTIVATOR}-service": _service(),
    }


def _reference_grant(workloads: str) -> Manifest:
    """Allow policies of the services to refer to the activator, which is in another namespace."""
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "ReferenceGrant",
        "metadata": metadata(ACTIVATOR),
        "spec": {
            "from": [{"group": "gateway.envoyproxy.io", "kind": "SecurityPolicy", "namespace": workloads}],
            "to": [{"group": "", "kind": "Service", "name": ACTIVATOR}],
        },
    }


def _service() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(ACTIVATOR),
        "spec": {
            "selector": labels(ACTIVATOR),
            "ports": [{"name": "http", "port": ACTIVATOR_PORT, "targetPort": "http"}],
        },
    }


def _deployment(workloads: str, image: str) -> Manifest:
    program = [
        *("python3", "-m", "trainer.activator"),
        f"--namespace={workloads}",
        f"--idle_label={IDLE_SECONDS_LABEL}",
        f"--hold_label={HOLD_SECONDS_LABEL}",
        "--host=0.0.0.0",
        f"--port={ACTIVATOR_PORT}",
        f"--metrics_port={ACTIVATOR_METRICS_PORT}",
    ]
    container = {
        "name": ACTIVATOR,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": program,
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
        "ports": [
            {"name": "http", "containerPort": ACTIVATOR_PORT},
            {"name": METRICS_PORT_NAME, "containerPort": ACTIVATOR_METRICS_PORT},
        ],
        # It answers when it has seen the services once.
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 10, "timeoutSeconds": 5},
        "resources": resources("20m", "64Mi", "256Mi"),
        "securityContext": container_security(),
    }
    pod = {
        "serviceAccountName": ACTIVATOR,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": pod_security(_USER),
        "containers": [container],
    }
    pods = PodTemplate(selector={"app.kubernetes.io/name": ACTIVATOR}, labels=labels(ACTIVATOR), spec=pod)
    # One: it alone knows when a service was asked last.
    return deployment_manifest(metadata(ACTIVATOR), pods, ONE_AT_MOST)
