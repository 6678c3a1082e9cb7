"""Exposure of a service to clients outside the cluster: host, path, authentication and limits at the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import urlsplit

from infra.closed_addresses import check_open
from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import DnsLabel, DnsSubdomain, matching
from workloads.checks import check_range

if TYPE_CHECKING:
    from infra.offers import GatewayOffer, PlatformOffers

_MOST_REQUESTS = 1_000_000
_MOST_SECONDS = 3600

Path = Annotated[
    str,
    matching(
        r"/|(/(?!\.\.?(/|\Z))[A-Za-z0-9._~-]+){1,8}",
        "is not a path. Fix: write up to eight words of letters, digits and ._~-, each after a slash, such as /vision",
    ),
]
HttpsUrl = Annotated[
    str,
    matching(
        r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/%-]*)?",
        "is not an https address without a query. Fix: write https://HOST/PATH",
    ),
]


@checked("expose.auth")
@dataclass(frozen=True, kw_only=True)
class TokenAuth:
    """Clients send `Authorization: Bearer TOKEN`, each its own."""

    secret: DnsSubdomain
    """Secret of the services' namespace: each key is a client's name, its value that client's token. It must exist."""


@checked("expose.auth")
@dataclass(frozen=True, kw_only=True)
class OidcAuth:
    """Clients send `Authorization: Bearer JWT`, signed by an OpenID Connect provider."""

    issuer: HttpsUrl
    """The provider, as `iss` of the tokens says."""
    audiences: Sequence[str]
    """For whom tokens may be, as their `aud` says: one of these."""
    keys_url: HttpsUrl | None = None
    """Where the provider publishes its keys: `jwks_uri` of its discovery document. The gateway must reach it."""
    keys: str | None = None
    """The keys themselves (a JSON Web Key Set, RFC 7517), where the gateway cannot reach the provider."""

    def __post_init__(self) -> None:
        """Refuse what would let everybody in, or nobody."""
        if not self.audiences:
            limit = "would admit tokens that the provider issued for anybody else's service"
            raise RefusalError("expose.auth.audiences", self.audiences, limit, "name this service's audience")
        if (self.keys_url is None) == (self.keys is None):
            limit = "needs either keys_url or keys"
            raise RefusalError("expose.auth", self, limit, "set keys_url to jwks_uri of the discovery document")
        if self.keys_url:
            check_open("expose.auth.keys_url", self.keys_url, urlsplit(self.keys_url).hostname or "")


Auth = TokenAuth | OidcAuth


@checked("expose.rate_limit")
@dataclass(frozen=True, kw_only=True)
class RateLimit:
    """How many requests of all clients together each proxy of the gateway forwards; more get status 429."""

    requests: int
    """Of one unit of time."""
    per: Literal["second", "minute", "hour"] = "second"
    """The unit."""

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        check_range("expose.rate_limit.requests", self.requests, 1, _MOST_REQUESTS)


@checked("expose")
@dataclass(frozen=True, kw_only=True)
class Expose:
    """How clients outside the cluster reach a service: over TLS, through the platform's gateway.

    They reach inference, health and metadata, and nothing that manages models.
    """

    host: DnsLabel | None = None
    """First word of the host; the rest is the gateway's domain. Default: the service's name."""
    path: Path = "/"
    """What the path of all requests begins with. gRPC, whose paths are fixed, needs `/`."""
    auth: Auth | None = None
    """Who may ask. Default: everybody who reaches the gateway; refused where that is the internet."""
    rate_limit: RateLimit | None = None
    """How many requests pass. Default: all."""
    timeout_seconds: int = 60
    """Time for an answer; status 504 after it."""

    def __post_init__(self) -> None:
        """Refuse what no request could be answered in."""
        check_range("expose.timeout_seconds", self.timeout_seconds, 1, _MOST_SECONDS)

    def address(self, service: str, offer: GatewayOffer) -> str:
        """Return the address that clients use."""
        return f"https://{self.full_host(service, offer)}{self.path.rstrip('/')}"

    def full_host(self, service: str, offer: GatewayOffer) -> str:
        """Return the host, with the domain."""
        return f"{self.host or service}.{offer.domain}"

    def check_offered(self, offers: PlatformOffers) -> GatewayOffer:
        """Return the platform's gateway.

        Raises:
            RefusalError: there is none, or it is public and anybody could ask.
        """
        gateway = offers.gateway
        if gateway is None:
            fix = "have the platform's owner set gateway.enabled to true, or omit expose"
            raise RefusalError("expose", self, "the platform has no gateway", fix)
        if gateway.public and self.auth is None:
            limit = "the gateway is on the internet, where anybody could use the model"
            fix = 'add auth=TokenAuth(secret="…") or OidcAuth(…)'
            raise RefusalError("expose.auth", None, limit, fix)
        return gateway
