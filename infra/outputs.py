"""The stack's outputs: a flat, typed, versioned contract without secrets, which other teams' programs read."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import pulumi

from infra.errors import RefusalError
from infra.pools import NO_OFFERS, PlatformOffers

if TYPE_CHECKING:
    from infra.platform import Platform

CONTRACT_VERSION = 1
"""Raised when an output is renamed, removed or changes its meaning; a new output alone does not raise it."""


@dataclass(frozen=True, kw_only=True)
class PlatformOutputs:
    """What every stack of this project exports about its platform, with the values resolved."""

    contract_version: int
    namespace: str
    queue: str
    data_claim: str
    output_claim: str
    trainer_image: str
    tensorflow_image: str = ""
    """Image of TensorFlow jobs; empty from a stack whose nodes could pull none."""
    offers: str = ""
    """Node pools and networks as JSON text (infra/pools.py); empty from a stack that does not tell them yet."""
    prometheus_url: str = ""
    """Prometheus inside the cluster; empty where the stack runs none of its own."""
    grafana_url: str = ""
    """Grafana inside the cluster; empty where the stack runs none."""
    logs_url: str = ""
    """The log store inside the cluster; empty where the stack runs none."""

    @property
    def platform_offers(self) -> PlatformOffers:
        """The same, typed.

        Raises:
            RefusalError: it is of a form that this code does not know.
        """
        return PlatformOffers.from_dict(json.loads(self.offers)) if self.offers else NO_OFFERS

    @classmethod
    def read(cls, stack: pulumi.StackReference) -> pulumi.Output[Self]:
        """Return another stack's outputs, checked when they are known.

        Raises:
            RefusalError: a key is missing, or the other stack follows a newer contract.
        """
        return stack.outputs.apply(cls.parse)

    @classmethod
    def parse(cls, found: dict[str, Any]) -> Self:
        """Check plain outputs and return them typed; unknown extra keys are ignored."""
        version = _whole_number(found.get("contract_version", 0))
        if version > CONTRACT_VERSION:
            raise RefusalError(
                "contract_version", version, f"this code knows contracts up to {CONTRACT_VERSION}", "update athanor"
            )
        required = [each.name for each in fields(cls) if each.default is MISSING]
        missing = [name for name in required if name not in found]
        if missing:
            raise RefusalError(
                "stack outputs", sorted(found), f"lack {', '.join(missing)}", "name a stack of the athanor project"
            )
        values = {each.name: found[each.name] for each in fields(cls) if each.name in found}
        values["contract_version"] = version
        return cls(**values)


def _whole_number(value: object) -> int:
    """Numbers come back from a stack's state as floats, from its command line as text."""
    try:
        return int(str(value).removesuffix(".0"))
    except ValueError:
        raise RefusalError("contract_version", value, "is no number", "name a stack of the athanor project") from None


def export_platform(platform: Platform) -> None:
    """Export the platform part of the contract."""
    pulumi.export("contract_version", CONTRACT_VERSION)
    for each in fields(PlatformOutputs):
        if each.name != "contract_version":
            pulumi.export(each.name, _exported(getattr(platform, each.name)))


def _exported(value: object) -> object:
    return json.dumps(value.to_dict(), sort_keys=True) if isinstance(value, PlatformOffers) else value
