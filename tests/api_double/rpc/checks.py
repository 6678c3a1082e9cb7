"""Checks of parameters that several products make in the same way."""

from __future__ import annotations

import re
from ipaddress import IPv4Network

from tests.api_double.protocol import ApiError

ZONE_LETTERS = "abcdefghijklmn"
"""Zones of a region; which of them exist differs, and the double has them all."""
_REGION = re.compile(r"(cn|ap|us|eu|me|na)-[a-z]+(-[a-z0-9]+)*")
_NAME = re.compile(r"[A-Za-z\u4e00-\u9fff][\w\u4e00-\u9fff.:-]{1,127}")


def name(value: str, parameter: str) -> str:
    """Return a resource name: 2 to 128 characters, a letter first, then letters, digits and `.:_-`.

    Raises:
        ApiError: it is another.
    """
    if value and (not _NAME.fullmatch(value) or value.startswith(("http://", "https://"))):
        raise ApiError(400, f"Invalid{parameter}.Malformed", f"The specified {parameter} {value!r} is not valid.")
    return value


def description(value: str) -> str:
    """Return a description: empty, or 2 to 256 characters that are not an address.

    Raises:
        ApiError: it is another.
    """
    if value and (not 2 <= len(value) <= 256 or value.startswith(("http://", "https://"))):
        raise ApiError(400, "InvalidDescription.Malformed", f"The specified description {value!r} is not valid.")
    return value


def network(value: str, *, shortest: int, longest: int) -> IPv4Network:
    """Return an address block whose prefix length is within limits.

    Raises:
        ApiError: it is none, or has host bits set.
    """
    try:
        block = IPv4Network(value)
    except ValueError as error:
        raise ApiError(400, "InvalidCidrBlock.Malformed", f"Specified CIDR block is not valid: {error}.") from None
    if not shortest <= block.prefixlen <= longest:
        raise ApiError(
            400, "InvalidCidrBlock.Malformed", f"CIDR block {value} is not between /{shortest} and /{longest}."
        )
    return block


def region(value: str) -> str:
    """Return a region id.

    Raises:
        ApiError: there is no such region.
    """
    if not _REGION.fullmatch(value):
        raise ApiError(404, "InvalidRegionId.NotFound", f"The specified RegionId {value!r} does not exist.")
    return value


def zone(value: str, of_region: str) -> str:
    """Return a zone id of a region.

    Raises:
        ApiError: the region has no such zone.
    """
    if value not in zones(of_region):
        raise ApiError(404, "InvalidZoneId.NotFound", f"Specified zone {value!r} does not exist in {of_region}.")
    return value


def zones(of_region: str) -> list[str]:
    """Return the zones of a region: cn-hangzhou-a and so on, but ap-southeast-1a."""
    separator = "" if of_region[-1].isdigit() else "-"
    return [f"{of_region}{separator}{letter}" for letter in ZONE_LETTERS]
