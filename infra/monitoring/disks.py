"""The disks of Prometheus and Alertmanager: one for each pod that the operator creates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.kubernetes.quantities import gib_quantity
from infra.monitoring import NAMESPACE
from infra.storage import VolumeRequest

if TYPE_CHECKING:
    from infra.manifests import Manifest
    from infra.settings.monitoring import VolumeSettings
    from infra.storage import Backing

_ACCESS_MODE = "ReadWriteOnce"


@dataclass(frozen=True, kw_only=True)
class InstanceDisk:
    """The disk of one part."""

    storage: Manifest
    """`spec.storage` of the custom resource."""
    volume: Manifest | None
    """The PersistentVolume to declare; None: a class makes it, or nothing outlives the pod."""


def instance_disk(part: str, settings: VolumeSettings, backing: Backing | None) -> InstanceDisk:
    """Return the disk of a part. `backing`: what holds it; None: nothing that outlives the pod."""
    if backing is None:
        empty = {"emptyDir": {"sizeLimit": gib_quantity(settings.size_gib)}}
        return InstanceDisk(storage=empty, volume=None)
    request = VolumeRequest(
        claim=part, volume=f"{NAMESPACE}-{part}", size_gib=settings.size_gib, access_mode=_ACCESS_MODE
    )
    spec = {
        "accessModes": [_ACCESS_MODE],
        "resources": {"requests": {"storage": gib_quantity(settings.size_gib)}},
        **backing.claim_source(request),
    }
    template = {"metadata": {"name": part}, "spec": spec}
    return InstanceDisk(storage={"volumeClaimTemplate": template}, volume=backing.volume(request))
