"""Kinds of values that settings share, each refused with the limit and the fix."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from infra.errors import RefusalError
from infra.instance_types import instance_type

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL.pattern}(\.{_DNS_LABEL.pattern})*")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_CPU_QUANTITY = re.compile(r"[0-9]+m|[0-9]+(\.[0-9]+)?")
_PINNED_IMAGE = re.compile(r"\S+@sha256:[0-9a-f]{64}|[^\s@]+:(?!latest$)\w[\w.-]{0,127}", re.ASCII)


def _dns_label(value: str) -> str:
    if len(value) > 63 or not _DNS_LABEL.fullmatch(value):
        raise ValueError(
            "is no DNS label (RFC 1123). Fix: at most 63 of a-z, 0-9 and '-', starting with a letter or digit"
        )
    return value


def _dns_subdomain(value: str) -> str:
    if len(value) > 253 or not _DNS_SUBDOMAIN.fullmatch(value):
        raise ValueError(
            "is no DNS subdomain (RFC 1123). Fix: at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at both"
            " ends of each part"
        )
    return value


def _number_as_text(value: object) -> object:
    """Let `2` stand for `"2"`: YAML reads an unquoted quantity without a unit as a number."""
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _no_truth_value(value: object) -> object:
    """Python counts `true` as 1."""
    if isinstance(value, bool):
        raise ValueError("is no number. Fix: write one in digits")  # noqa: TRY004 - pydantic collects these
    return value


def _quantity(value: str) -> str:
    if not _QUANTITY.fullmatch(value):
        raise ValueError("is no Kubernetes quantity. Fix: write a number with an optional unit, such as 500m, 2 or 4Gi")
    return value


def _cpu_quantity(value: str) -> str:
    if not _CPU_QUANTITY.fullmatch(value):
        raise ValueError("is no CPU quantity. Fix: write cores or millicores, such as 2, 0.5 or 500m")
    return value


def _pinned_image(value: str) -> str:
    if not _PINNED_IMAGE.fullmatch(value):
        raise ValueError(
            "is no pinned image reference. Fix: end it in a tag other than latest, or in @sha256: and the digest"
        )
    return value


def known_instance_type(value: str) -> str:
    """Return the name of an instance type if infra/instance_types.py knows it."""
    try:
        return instance_type(value).name
    except RefusalError as refusal:
        raise ValueError(f"{refusal.limit}. Fix: {refusal.fix}") from None


Count = Annotated[int, BeforeValidator(_no_truth_value)]
DnsLabel = Annotated[str, AfterValidator(_dns_label)]
DnsSubdomain = Annotated[str, AfterValidator(_dns_subdomain)]
Quantity = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_quantity)]
CpuQuantity = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_cpu_quantity)]
PinnedImage = Annotated[str, AfterValidator(_pinned_image)]


class Model(BaseModel):
    """Base of all settings: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
