"""Settings of the networks of pods with a trunk interface (Terway's PodNetworking resources)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from infra.settings.fields import DnsLabel, Model


class PodNetworkingSettings(Model):
    """A network of its own for some pods: workloads choose it with `network=TrunkEni(pod_networking="<name>")`."""

    name: DnsLabel
    """Its name in the cluster."""
    vswitch_ids: tuple[Annotated[str, StringConstraints(pattern=r"^vsw-[a-z0-9]+$")], ...] = ()
    """Vswitches that the pods get addresses from, in order of preference. Default: the environment's pod vswitches."""
    security_group_ids: tuple[Annotated[str, StringConstraints(pattern=r"^sg-[a-z0-9]+$")], ...] = Field(
        default=(), max_length=10
    )
    """Security groups of the pods' interfaces, at most 10. Default: the environment's."""
