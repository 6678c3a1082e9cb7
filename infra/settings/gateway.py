"""Settings of the gateway, through which clients outside the cluster reach services."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Literal, Self

from pydantic import Field, model_validator

from infra.settings.fields import Count, DnsSubdomain, Model


class GatewaySettings(Model):
    """How clients outside the cluster reach services."""

    enabled: bool = False
    """Whether to run Envoy Gateway. Services with `expose` need it, and services that scale to zero."""
    domain: DnsSubdomain = "models.internal"
    """Domain of all hosts of services: `digits.models.internal`. Its DNS record, for all names below it, points to the
    gateway's address."""
    certificate_secret: DnsSubdomain | None = None
    """Secret of type kubernetes.io/tls in `gateway-system` with a certificate for all names below the domain, such
    as cert-manager keeps one. Default: one that the platform signs itself."""
    address: Literal["cluster", "internal", "public"] = "cluster"
    """Where it listens. `cluster`: on a Service inside the cluster; `internal`: on a load balancer inside the VPC, for
    stacks with alicloud; `public`: on one on the internet, where services without authentication are refused."""
    allowed_cidrs: tuple[IPv4Network, ...] = ()
    """Addresses that a load balancer admits, such as 203.0.113.0/24. Default: all."""
    replicas: Count = Field(default=1, ge=1, le=20)
    """Proxies; two keep answering while a node is lost. A rate limit holds for each of them."""

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> Self:
        useless = sorted(self.model_fields_set - {"enabled"})
        if not self.enabled and useless:
            raise ValueError(
                f"enabled = False: {', '.join(useless)} would have no effect. Fix: set enabled to true, or omit them"
            )
        if self.allowed_cidrs and self.address == "cluster":
            raise ValueError(
                "allowed_cidrs: limits a load balancer, and address = 'cluster' has none. Fix: omit it, or set address"
            )
        return self
