"""Direct connections to local clusters, past the proxies in the environment, which cannot reach those addresses.

kubectl, the engine and its providers read the variables themselves and know networks in NO_PROXY (Go's httpproxy
package); Python's urllib knows names only, so its requests are decided here.
"""

from __future__ import annotations

import urllib.request
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tools.local_cluster import state
from tools.local_cluster.layout import STATE_FILE
from tools.paths import paths

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from http.client import HTTPResponse
    from ipaddress import IPv4Network

_THIS_MACHINE = ("localhost", "127.0.0.1")
"""The engine, its plugins and the program talk over loopback, and gRPC for Python would ask the proxy for that, too."""
_NO_PROXY = ("NO_PROXY", "no_proxy")
_PROXIES = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def reach_local_clusters_directly(environment: MutableMapping[str, str]) -> None:
    """Add this machine and the networks of this user's local clusters to NO_PROXY, where a proxy is set."""
    if not any(environment.get(name) for name in _PROXIES):
        return
    for name in _NO_PROXY:
        # Programs read one of both spellings: one that was unset must not hide what the user set in the other.
        own = environment.get(name) or environment.get(_NO_PROXY[0]) or environment.get(_NO_PROXY[1]) or ""
        listed = [entry for entry in own.split(",") if entry]
        environment[name] = ",".join(dict.fromkeys([*listed, *_THIS_MACHINE, *map(str, _networks())]))


def urlopen(request: urllib.request.Request, *, timeout_seconds: float) -> HTTPResponse:
    """Send a request: directly to a local cluster and to this machine, to others as the environment says.

    Raises:
        OSError: the server cannot be reached, or answers with an error status (urllib.error.HTTPError).
    """
    handlers = [urllib.request.ProxyHandler({})] if _is_near(request.full_url) else []
    return urllib.request.build_opener(*handlers).open(request, timeout=timeout_seconds)


def _is_near(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        address = ip_address(host)
        return address.is_loopback or any(address in network for network in _networks())
    return host == "localhost"


def _networks() -> list[IPv4Network]:
    states = (state.load(file) for file in sorted(paths().home.glob(f"*/{STATE_FILE}")))
    return [stored.network.block for stored in states if stored is not None]
