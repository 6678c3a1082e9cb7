"""The stack's outputs: a flat, typed, versioned contract without secrets, which other teams' programs read."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from infra.errors import RefusalError
from infra.offers import NO_OFFERS, PlatformOffers, read_offers

if TYPE_CHECKING:
    import pulumi

CONTRACT_VERSION = 1
"""Raised when an output is renamed, removed or changes its meaning; a new output alone does not raise it."""
VERSION_KEY = "contract_version"
_FIX = "use a stack of the athanor project"


_Text = TypeVar("_Text")
_Offers = TypeVar("_Offers")
_EMPTY: Any = ""
_UNKNOWN_OFFERS: Any = NO_OFFERS


@dataclass(frozen=True, kw_only=True)
class PlatformFields(Generic[_Text, _Offers]):
    """What a platform is to workloads: the fields of the contract, declared once.

    `Platform` has them as inputs that may not be known yet, `ResolvedPlatform` as plain values, `PlatformOutputs` as a
    stack exports them.
    """

    namespace: _Text
    """Namespace of the workloads."""
    queue: _Text
    """Volcano queue of jobs that name none."""
    data_claim: _Text
    """PersistentVolumeClaim mounted at /data/data."""
    output_claim: _Text
    """PersistentVolumeClaim mounted at /data/output."""
    trainer_image: _Text
    """Image of PyTorch and MPI jobs, and of what the platform adds to jobs."""
    serving_image: _Text = _EMPTY
    """Image of services; empty from a stack whose `trainer_image` serves, too."""
    tensorflow_image: _Text = _EMPTY
    """Image of TensorFlow jobs; empty where the nodes could pull none."""
    offers: _Offers = _UNKNOWN_OFFERS
    """Node pools, networks and Pod Security level that workloads are checked against."""
    prometheus_url: _Text = _EMPTY
    """Prometheus inside the cluster; empty where the stack runs none of its own."""
    grafana_url: _Text = _EMPTY
    """Grafana inside the cluster; empty where the stack runs none."""
    logs_url: _Text = _EMPTY
    """The log store inside the cluster; empty where the stack runs none."""


_OBJECTS = frozenset({"namespace", "queue", "data_claim", "output_claim"})
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
FIELD_NAMES = tuple(each.name for each in fields(PlatformFields))


@dataclass(frozen=True, kw_only=True)
class PlatformOutputs(PlatformFields[str, str]):
    """What every stack of this project exports about its platform, with the values resolved."""

    contract_version: int
    offers: str = ""
    """JSON text (infra/offers.py); empty from a stack of an earlier release."""

    @property
    def platform_offers(self) -> PlatformOffers:
        """The offers, typed.

        Raises:
            RefusalError: this code cannot read them.
        """
        return read_offers(self.offers)

    @classmethod
    def read(cls, stack: pulumi.StackReference) -> pulumi.Output[Self]:
        """Return another stack's outputs, checked when they are known.

        Raises:
            RefusalError: as `parse`.
        """
        return stack.name.apply(lambda name: stack.outputs.apply(lambda outputs: cls.parse(outputs, f"stack {name}")))

    @classmethod
    def parse(cls, outputs: object, source: str = "another stack") -> Self:
        """Check plain outputs and return them typed; unknown extra keys are ignored.

        Args:
            outputs: A mapping by name, of which nothing is known.
            source: Where they are from, such as `stack organization/athanor/prod`, for messages.

        Raises:
            RefusalError: they lack something, are of another shape, or follow a newer contract.
        """
        if not isinstance(outputs, dict):
            raise RefusalError(f"outputs of {source}", outputs, "are not outputs by their names", _FIX)
        try:
            return cls._parsed(cast("dict[str, Any]", outputs))
        except RefusalError as refused:
            raise RefusalError(f"{refused.field} of {source}", refused.value, refused.limit, refused.fix) from None

    @classmethod
    def _parsed(cls, outputs: dict[str, Any]) -> Self:
        version = _whole_number(outputs.get(VERSION_KEY, 0))
        if version > CONTRACT_VERSION:
            raise RefusalError(
                VERSION_KEY, version, f"this code supports contracts up to {CONTRACT_VERSION}", "update athanor"
            )
        required = [each.name for each in fields(cls) if each.default is MISSING]
        missing = [name for name in required if name not in outputs]
        if missing:
            raise RefusalError("outputs", sorted(outputs), f"lack {', '.join(missing)}", _FIX)
        values = {name: outputs[name] for name in FIELD_NAMES if name in outputs}
        for name, value in values.items():
            if not isinstance(value, str):
                raise RefusalError(name, value, "is not text", _FIX)
            if name in _OBJECTS and not _NAME.fullmatch(value):
                raise RefusalError(name, value, "is not the name of an object of Kubernetes", _FIX)
        parsed = cls(contract_version=version, **values)
        # Now, while it is known where they are from.
        read_offers(parsed.offers)
        return parsed


def _whole_number(value: object) -> int:
    """Numbers come back from a stack's state as floats, from its command line as text."""
    try:
        return int(str(value).removesuffix(".0"))
    except ValueError:
        raise RefusalError(VERSION_KEY, value, "is not a number", _FIX) from None
