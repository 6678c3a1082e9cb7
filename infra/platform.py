"""The platform handle: the only object through which workloads know the platform."""

from __future__ import annotations

import json
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self

import pulumi

from infra.contract_object import CONTRACT_OBJECT, read_contract
from infra.offers import PlatformOffers
from infra.outputs import CONTRACT_VERSION, FIELD_NAMES, VERSION_KEY, PlatformFields, PlatformOutputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, kw_only=True)
class ResolvedPlatform(PlatformFields[str, PlatformOffers]):
    """A platform with every Output known: what builders of manifests take."""

    @classmethod
    def of(cls, outputs: PlatformOutputs) -> Self:
        """Return the platform that a stack's outputs describe.

        Raises:
            RefusalError: this code cannot read its offers.
        """
        values: dict[str, Any] = {name: getattr(outputs, name) for name in FIELD_NAMES}
        values["offers"] = outputs.platform_offers
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Platform(PlatformFields[pulumi.Input[str], pulumi.Input[PlatformOffers]]):
    """A platform for workloads: of `create_platform` in its own stack, of `from_stack` or `from_cluster` in others."""

    provider: kubernetes.Provider
    """Provider of the cluster."""
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies of every workload, created before and deleted after it."""

    @classmethod
    def from_stack(cls, stack: str, provider: kubernetes.Provider) -> Self:
        """Return the platform that another stack owns, from its outputs.

        Args:
            stack: Full name of the owning stack, such as `organization/athanor/prod`.
            provider: Provider of that stack's cluster. Credentials are not part of the outputs: every team brings
                its own.

        Raises:
            RefusalError: (when the outputs are read) they miss a key or follow a newer contract than this code.
        """
        return cls.from_outputs(PlatformOutputs.read(pulumi.StackReference(stack)), provider)

    @classmethod
    def from_cluster(cls, namespace: str, provider: kubernetes.Provider) -> Self:
        """Return the platform that describes itself in a namespace of the cluster: no state of its stack is needed.

        Args:
            namespace: The workloads' namespace.
            provider: Provider of the cluster, whose user may read ConfigMaps there.

        Raises:
            RefusalError: (when it is read) it follows a newer contract than this code, or names another namespace.
        """
        # a second of every other program's start
        from pulumi_kubernetes.core.v1 import ConfigMap  # noqa: PLC0415

        name = f"{namespace}/{CONTRACT_OBJECT}"
        config_map = ConfigMap.get(name, name, opts=pulumi.ResourceOptions(provider=provider))
        outputs = config_map.metadata.apply(
            lambda read: read_contract({"metadata": {"annotations": read.annotations}}, namespace)
        )
        return cls.from_outputs(outputs, provider)

    @classmethod
    def from_outputs(cls, outputs: pulumi.Output[PlatformOutputs], provider: kubernetes.Provider) -> Self:
        """Return the platform that a stack's outputs describe, wherever they were read.

        Args:
            outputs: The contract between stacks.
            provider: Provider of the platform's cluster.
        """
        resolved = outputs.apply(ResolvedPlatform.of)
        values: dict[str, Any] = {name: resolved.apply(attrgetter(name)) for name in FIELD_NAMES}
        return cls(provider=provider, **values)

    def resolved(self) -> pulumi.Output[ResolvedPlatform]:
        """Return the platform's values, all of them known."""
        values = pulumi.Output.all(**self._values())
        return values.apply(lambda known: ResolvedPlatform(**known))

    def outputs(self) -> dict[str, object]:
        """Return this platform's part of the contract by the outputs' names; values may be Outputs."""
        return {VERSION_KEY: CONTRACT_VERSION, **{name: _exported(value) for name, value in self._values().items()}}

    def _values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELD_NAMES}


def _exported(value: object) -> object:
    return json.dumps(value.to_dict(), sort_keys=True) if isinstance(value, PlatformOffers) else value
