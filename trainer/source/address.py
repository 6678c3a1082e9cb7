"""Addresses of repositories in git's forms, for the supported servers: URLs, and host:path over ssh.

Source: git's documentation, git-fetch(1), "GIT URLS".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_HOST_AND_PATH = re.compile(r"(?P<place>(?:[^@/:\s]+@)?[^@/:\s]+):(?!:|//|[^/]*@)(?P<path>.+)", re.DOTALL)
_PORTS = {"https": 443, "http": 80, "ssh": 22}


def as_url(address: str) -> str:
    """Return an address as a URL, its scheme in lower case; `git@host:team/code` and git+ssh:// as ssh://."""
    if match := _host_and_path(address):
        return f"ssh://{match['place']}/{quote(match['path'].removeprefix('/'))}"
    scheme, is_url, rest = address.partition("://")
    known = "ssh" if scheme.lower() in {"git+ssh", "ssh+git"} else scheme.lower()
    return f"{known}://{rest}" if is_url else address


def _host_and_path(address: str) -> re.Match[str] | None:
    return None if "://" in address else _HOST_AND_PATH.fullmatch(address)


def path_on_server(address: str) -> str:
    """Return the path that an ssh server is asked for: of host:path exactly that, which may begin in a home folder."""
    if match := _host_and_path(address):
        return match["path"]
    return unquote(urlsplit(as_url(address)).path)


def server_of(address: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of an address."""
    url = urlsplit(as_url(address))
    return url.scheme, url.hostname or "", url.port or _PORTS.get(url.scheme)


def resolved(parent: str, address: str) -> str:
    """Return the address of a submodule; one that begins with ./ or ../ is relative to its parent's.

    As git resolves it (remote.c, relative_url): a folder up is what comes before the last slash, or else colon. So
    enough of them lead to another host, as in ../../../other.example/team/code.git. One that leads nowhere stays.
    """
    place, rest, separator = parent.rstrip("/"), address, "/"
    while rest.startswith(("./", "../")):
        if rest.startswith("../"):
            cut = place.rfind("/" if "/" in place else ":")
            if cut < 0:
                return address
            separator = place[cut]
            place = place[:cut]
        rest = rest.partition("/")[2]
    return address if rest == address else f"{place}{separator}{rest}".rstrip("/")


def reached_as(parent: str, address: str) -> str:
    """Return how a submodule is fetched: over https, as its parent is, where it names the same server for ssh.

    Only the parent's user name and password are there, and hosts of repositories answer to both.
    """
    scheme, host, port = server_of(address)
    if (scheme, port) != ("ssh", 22) or server_of(parent)[:2] != ("https", host):
        return address
    own: SplitResult = urlsplit(parent)
    return urlunsplit(own._replace(path=f"/{quote(path_on_server(address).lstrip('/'))}"))
