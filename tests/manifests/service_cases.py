"""Services by runtime, network and what decides their pods: cases of the golden manifests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from infra.offers import GatewayOffer
from infra.pod_network_modes import HostNetwork
from tests.manifests.placement_cases import ACK, platform_of
from tests.recording_engine import Recording, record
from workloads.accelerators import GpuMemory
from workloads.autoscaling import Autoscaling, QueueDepth
from workloads.canary import Canary
from workloads.exposure import Expose, OidcAuth, RateLimit, TokenAuth
from workloads.inference import TorchScriptService, TorchScriptServiceArgs
from workloads.resources import Resources
from workloads.served_models import ServedModel
from workloads.shadow import Shadow
from workloads.triton import Triton

if TYPE_CHECKING:
    from collections.abc import Callable


def _service(**asked: object) -> Callable[[object], Recording]:
    args = TorchScriptServiceArgs(**{"model": "resnet", "resources": Resources(cpu="4", memory="8Gi"), **asked})
    return lambda _: record(lambda: TorchScriptService("resnet", platform_of(ACK), args), preview=False)


def _triton(gpus: object, pool: str, **asked: object) -> Callable[[object], Recording]:
    return _service(runtime=Triton(), pool=pool, resources=Resources(cpu="4", memory="8Gi", gpus=gpus), **asked)


def _exposed(**asked: object) -> Callable[[object], Recording]:
    args = TorchScriptServiceArgs(**{"model": "resnet", "resources": Resources(cpu="4", memory="8Gi"), **asked})

    def program() -> None:
        plain = platform_of(ACK)
        gateway = GatewayOffer(domain="models.example.com", public=True)
        TorchScriptService("resnet", replace(plain, offers=replace(plain.offers, gateway=gateway)), args)

    return lambda _: record(program, preview=False)


_OIDC = OidcAuth(
    issuer="https://login.example.com", audiences=["models"], keys_url="https://login.example.com/keys.json"
)
_ROUTED = ("BackendTrafficPolicy", "Deployment", "HTTPRoute", "HorizontalPodAutoscaler", "SecurityPolicy", "Service")
_SHARE = GpuMemory(gib=8, core_percentage=30)
SERVICE_CASES: dict[str, tuple[Callable[[object], Recording], tuple[str, ...]]] = {
    "large-service": (_service(replicas=4), ()),
    "service-autoscaled": (_service(autoscaling=Autoscaling(minimum=2, maximum=8)), ()),
    "service-canary": (_service(replicas=10, version=3, canary=Canary(version=4, percent=20)), ()),
    "service-exposed": (
        _exposed(
            expose=Expose(auth=TokenAuth(secret="clients"), rate_limit=RateLimit(requests=100)),
            replicas=4,
            version=3,
            canary=Canary(version=4, percent=5),
        ),
        _ROUTED,
    ),
    "service-to-zero": (
        _exposed(
            expose=Expose(host="shared", path="/resnet", auth=_OIDC, timeout_seconds=120),
            autoscaling=Autoscaling(minimum=0, maximum=4, targets=[QueueDepth()]),
        ),
        _ROUTED,
    ),
    "service-shadow": (_service(replicas=4, version=3, shadow=Shadow(version=3, variant="int8", percent=5)), ()),
    "service-models": (
        _service(
            model=None,
            models=[
                ServedModel(model="resnet", version=3, max_queue_size=64, cpu_threads=2, max_memory_mib=2048),
                ServedModel(model="digits", variant="int8", cpu_threads=1),
                ServedModel(model="letters"),
            ],
        ),
        ("Deployment",),
    ),
    "service-triton": (_triton(1, "train", replicas=4), ()),
    "service-triton-autoscaled": (
        _triton(1, "train", autoscaling=Autoscaling(maximum=8, targets=[QueueDepth()])),
        ("Deployment", "HorizontalPodAutoscaler"),
    ),
    "service-triton-canary": (
        _triton(1, "train", replicas=4, version=3, canary=Canary(version=4, percent=25)),
        ("Deployment", "Service"),
    ),
    "service-gpu-memory": (_triton(_SHARE, "infer", replicas=2), ("Deployment",)),
    "service-host-network": (
        _triton(_SHARE, "infer", replicas=2, network=HostNetwork(port_offset=10)),
        ("Deployment", "Service", "NetworkPolicy"),
    ),
}
