"""A quick check whether an API server answers: kubectl waits up to a minute for one behind a VPN that is down."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_PORTS = {"https": 443, "http": 80, "socks5": 1080, "socks5h": 1080}
_SECONDS = 5.0


def is_silent(server: str, *, proxy: str | None = None, tls_name: str | None = None) -> bool:
    """Return whether nothing answers at the address that kubectl connects to, within some seconds.

    That is the kubeconfig's proxy, if it names one. False where the environment names a proxy. Who refuses the
    connection, or whose name is unknown, is not silent: kubectl says so at once.

    Args:
        server: Address of the API server, as a kubeconfig has it.
        proxy: Its proxy-url.
        tls_name: Its tls-server-name.
    """
    try:
        address = urlsplit(proxy or server)
        port = address.port or _PORTS[address.scheme]
    except (ValueError, KeyError):
        return False
    name = address.hostname or ""
    if not proxy and address.scheme in getproxies() and not proxy_bypass(name):
        return False
    try:
        with socket.create_connection((name, port), timeout=_SECONDS) as connection:
            if address.scheme == "https":
                _greet(connection, name if proxy else tls_name or name)
    except TimeoutError:
        return True
    except (OSError, ValueError):  # what it does not like about the greeting is an answer, too
        return False
    return False


def _greet(connection: socket.socket, name: str) -> None:
    """Begin TLS, without a credential and without trust: nothing but the answer counts."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.wrap_socket(connection, server_hostname=name).close()
