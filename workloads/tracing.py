"""Tracing of a service's requests: the collector's endpoint, and the network policy rule that allows it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from infra.closed_addresses import check_open
from infra.descriptions import checked
from infra.errors import RefusalError

if TYPE_CHECKING:
    from infra.manifests import Manifest

_SERVICE = re.compile(
    r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?\.(?P<namespace>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)\.svc(\.cluster\.local)?"
)


@checked("tracing")
@dataclass(frozen=True, kw_only=True)
class Tracing:
    """Traces of requests, sent to a collector by OTLP over gRPC (OpenTelemetry)."""

    endpoint: str
    """Address of the collector: `http://<service>.<namespace>.svc:4317`, or an IP address in place of the Service. The
    Service's pods must listen on the same port: network policies see theirs alone."""
    sample_ratio: float = 0.01
    """Share of the requests without a `traceparent` that are traced, 0 to 1. With one, the client has decided."""

    def __post_init__(self) -> None:
        """Refuse a collector that no network policy could name, and an impossible share.

        Raises:
            RefusalError: naming the field, its value and what to write instead.
        """
        if not 0 <= self.sample_ratio <= 1:
            raise RefusalError("tracing.sample_ratio", self.sample_ratio, "must be 0 to 1", "write 0.01 for 1 percent")
        fix = "write http://<service>.<namespace>.svc:4317, or an IP address in place of the Service"
        url = _split(self.endpoint)
        if url is None or self.endpoint not in (f"http://{url.netloc}", f"https://{url.netloc}") or not url.port:
            limit = "must be http or https, a host and a port, and nothing else"
            raise RefusalError("tracing.endpoint", self.endpoint, limit, fix)
        if _address(url) is None and not _SERVICE.fullmatch(url.hostname or ""):
            limit = "is neither a Service of the cluster nor an address, and network policies cannot use other hosts"
            raise RefusalError("tracing.endpoint", self.endpoint, limit, fix)
        check_open("tracing.endpoint", self.endpoint, url.hostname or "")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the server."""
        return f"--otlp_endpoint={self.endpoint}", f"--trace_sample_ratio={self.sample_ratio}"

    @property
    def collector(self) -> Manifest:
        """Return the rule of a network policy that opens the way to the collector, and to nothing else."""
        url = urlsplit(self.endpoint)
        ports = [{"protocol": "TCP", "port": url.port}]
        if address := _address(url):
            return {"to": [{"ipBlock": {"cidr": str(ipaddress.ip_network(address))}}], "ports": ports}
        match = _SERVICE.fullmatch(url.hostname or "")
        namespace = match["namespace"] if match else ""
        return {
            "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}],
            "ports": ports,
        }


def _split(endpoint: str) -> SplitResult | None:
    try:
        url = urlsplit(endpoint)
        _ = url.port  # parsed on access
    except ValueError:
        return None
    return None if url.username is not None else url


def _address(url: SplitResult) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(url.hostname or "")
    except ValueError:
        return None
