"""Types of values that settings share, each refused with the limit and the fix."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from infra.errors import RefusalError
from infra.instance_types import instance_type
from infra.kubernetes import grammar
from infra.kubernetes.quantities import quantity_value

if TYPE_CHECKING:
    from collections.abc import Iterable

_Comparable = TypeVar("_Comparable", str, tuple[str, str])
_IN_BYTES = {"memory", "storage", "ephemeral-storage"}
"""Resources whose amounts are bytes (Kubernetes, "Resource Management for Pods and Containers", "Resource Quotas")."""
_FEWEST_BYTES = quantity_value("1Mi")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_RESOURCE_NAME = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PINNED_IMAGE = re.compile(r"\S+@sha256:[0-9a-f]{64}|[^\s@]+:(?!latest$)\w[\w.-]{0,127}", re.ASCII)


def _number_as_text(value: object) -> object:
    """Let `2` stand for `"2"`: YAML reads an unquoted quantity without a unit as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _no_truth_value(value: object) -> object:
    """Python counts `true` as 1."""
    if isinstance(value, bool):
        raise ValueError("is not a number. Fix: write it in digits")  # noqa: TRY004 - pydantic collects these
    return value


def _quantity(value: str) -> str:
    if not _QUANTITY.fullmatch(value):
        raise ValueError(
            "is not a valid Kubernetes quantity. Fix: write a number with an optional unit, such as 500m, 2 or 4Gi"
        )
    return value


def _no_few_bytes(amounts: dict[str, str]) -> dict[str, str]:
    """Refuse memory and disks that a unit is missing from: 64 would be 64 bytes. 0 is how nothing is allowed."""
    for name, amount in amounts.items():
        in_bytes = name.removeprefix("requests.").removeprefix("limits.") in _IN_BYTES
        if in_bytes and 0 < quantity_value(amount) < _FEWEST_BYTES:
            raise ValueError(
                f"{name} = {amount!r}: a number without a unit counts bytes. Fix: write it with its unit, such as 64Gi"
            )
    return amounts


def _resource_name(name: str) -> str:
    """Refuse what the API server would refuse (IsQualifiedName)."""
    if not _RESOURCE_NAME.fullmatch(name):
        raise ValueError("is not a valid resource name. Fix: write it as Kubernetes does: cpu, memory, nvidia.com/gpu")
    return name


def _pinned_image(value: str) -> str:
    if not _PINNED_IMAGE.fullmatch(value):
        raise ValueError(
            "is not a pinned image reference. Fix: end it with a tag other than latest, or with @sha256: and the digest"
        )
    return value


def known_instance_type(value: str) -> str:
    """Return the name of an instance type if infra/instance_types.py knows it."""
    try:
        return instance_type(value).name
    except RefusalError as refusal:
        raise ValueError(f"{refusal.limit}. Fix: {refusal.fix}") from None


Count = Annotated[int, BeforeValidator(_no_truth_value)]
NUMBER_AS_TEXT = BeforeValidator(_number_as_text)
DnsLabel = grammar.DnsLabel
DnsSubdomain = grammar.DnsSubdomain
Quantity = Annotated[str, NUMBER_AS_TEXT, AfterValidator(_quantity)]
CpuQuantity = Annotated[grammar.Cpu, NUMBER_AS_TEXT]
MemoryQuantity = Annotated[grammar.Memory, NUMBER_AS_TEXT]
Amounts = Annotated[dict[Annotated[str, AfterValidator(_resource_name)], Quantity], AfterValidator(_no_few_bytes)]
"""Quantities by resource name."""
PinnedImage = Annotated[str, AfterValidator(_pinned_image)]


def repeated(values: Iterable[_Comparable]) -> list[_Comparable]:
    """Return what is among the values more than once, sorted."""
    return sorted(value for value, times in Counter(values).items() if times > 1)


class Model(BaseModel):
    """Base of all settings: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
