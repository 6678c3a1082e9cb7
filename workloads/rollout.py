"""Rolling updates without failed requests: replacement, start and termination of a service's pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.pod_network_modes import HostNetwork
from workloads.service_args import DRAIN_SECONDS
from workloads.triton import Triton

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.pod_network_modes import PodNetwork
    from workloads.canary import Track
    from workloads.service_args import TorchScriptServiceArgs

DRAIN_BEFORE_STOP: Manifest = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", str(DRAIN_SECONDS)]}}}}
"""Hook of Triton's container, which would end without such a delay; the thin server has its own."""
_SHUTDOWN_MARGIN_SECONDS = 2
_RESTART_SECONDS = 30
"""For the process of one of several models: the pod stays ready meanwhile, or the others would get no requests."""


def probes(args: TorchScriptServiceArgs, track: Track) -> Manifest:
    """Return the probes of a pod: alive while it waits for models, ready when that of its track, or all, are loaded."""
    of_version = "" if track.version is None else f"/versions/{track.version}"
    live = {"httpGet": {"path": "/v2/health/live", "port": "http"}}
    of_model = "health" if args.model is None else f"models/{args.model}{of_version}"
    ready = {"httpGet": {"path": f"/v2/{of_model}/ready", "port": "http"}}
    # Triton answers nothing before it has loaded what was there when it started.
    startup_seconds = 900 if isinstance(args.runtime, Triton) else 120
    return {
        "startupProbe": {**live, "periodSeconds": 1, "failureThreshold": startup_seconds},
        "livenessProbe": {**live, "periodSeconds": 10},
        "readinessProbe": {**ready, "periodSeconds": 1, "failureThreshold": 2 if args.model else _RESTART_SECONDS},
    }


def drain_timeout_seconds(args: TorchScriptServiceArgs) -> int:
    """Return how long a pod that stops may take for the requests under way."""
    return args.grace_period_seconds - DRAIN_SECONDS - _SHUTDOWN_MARGIN_SECONDS


def rolling_update(network: PodNetwork) -> dict[str, int]:
    """Return a strategy in which a new pod answers before an old one stops, so that no request fails.

    On the hosts' network the new pod needs the old one's port, and perhaps its node, so the old one stops first.
    """
    on_host = isinstance(network, HostNetwork)
    return {"maxSurge": 0 if on_host else 1, "maxUnavailable": 1 if on_host else 0}
