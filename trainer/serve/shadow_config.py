"""Settings of the shadow: a second server that gets a share of the requests."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainer.common.validation import at_least, between, file_name, more_than

MEBIBYTE = 1 << 20
_ADDRESS = re.compile(r"http://(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, kw_only=True)
class ShadowConfig:
    """Send a share of the answered requests to another server, and compare its answers; clients never see those."""

    shadow_url: str | None = None
    """Server of the same protocol, http://HOST:PORT. None: no shadow."""
    shadow_model: str | None = None
    """Name of the model there; None: the name that it has here. Inputs and outputs have the same names."""
    shadow_share: float = 0.1
    """Share of the requests that were answered, above 0 to 1."""
    shadow_tolerance: float | None = None
    """Largest absolute difference between two fractions that counts as equal; None: any. Whole numbers and booleans
    are equal or not."""
    shadow_classes: bool = True
    """The place of the largest value in each row of an output of fractions is a class, and must be the same."""
    shadow_timeout_seconds: float = 10.0
    """For one request to the shadow, the connection included; failed after it."""
    shadow_queue_size: int = 64
    """Requests for the shadow, waiting and under way; what comes beyond is dropped."""
    shadow_queue_bytes: int = 64 * MEBIBYTE
    """Bytes of their inputs and outputs; what comes beyond is dropped."""

    def __post_init__(self) -> None:
        if self.shadow_url is not None:
            shadow_address(self.shadow_url)
        if self.shadow_model is not None:
            file_name("shadow_model", self.shadow_model)
        more_than("shadow_share", self.shadow_share, 0)
        between("shadow_share", self.shadow_share, 0, 1)
        if self.shadow_tolerance is not None:
            at_least("shadow_tolerance", self.shadow_tolerance, 0)
        elif not self.shadow_classes:
            limit = "nothing of an output of fractions would be compared. Fix: add --shadow_tolerance"
            raise ValueError(f"shadow_classes={self.shadow_classes}: {limit}")
        more_than("shadow_timeout_seconds", self.shadow_timeout_seconds, 0)
        at_least("shadow_queue_size", self.shadow_queue_size, 1)
        at_least("shadow_queue_bytes", self.shadow_queue_bytes, 1)


def shadow_address(url: str) -> tuple[str, int]:
    """Return host and port of a shadow.

    Raises:
        ValueError: it is not http://HOST:PORT.
    """
    match = _ADDRESS.fullmatch(url)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise ValueError(f"shadow_url={url!r}: must be http://HOST:PORT")
    return match["host"].strip("[]"), int(match["port"])
