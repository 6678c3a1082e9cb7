"""Fetching over HTTP: responses that are accepted, retried, or final errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urljoin

import urllib3
from dulwich.client import Urllib3HttpGitClient, default_urllib3_manager
from urllib3.exceptions import HTTPError, SSLError

from trainer.source.address import server_of
from trainer.source.errors import ProtocolRefusedError, RetryableError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.source.credentials import Credentials

TIMEOUT = urllib3.Timeout(connect=10.0, read=60.0)
"""Timeout of one socket operation; a server at work on a big answer speaks every few seconds."""
PACKET_HEADER = 4
"""Length of the length in front of each packet of the protocol."""
ERROR_PACKET = b"ERR "
LONGEST_ERROR = 1000
ADVERTISEMENT = "application/x-git-upload-pack-advertisement"


_MOST_REDIRECTS = 20
"""The same limit as git's (http.c, CURLOPT_MAXREDIRS)."""


class _Manager(urllib3.PoolManager):
    def request(self, method: str, url: str, *args: object, **kwargs: object) -> urllib3.BaseHTTPResponse:
        return _checked(super().request, method, url, *args, **kwargs)


class _ProxyManager(urllib3.ProxyManager):
    def request(self, method: str, url: str, *args: object, **kwargs: object) -> urllib3.BaseHTTPResponse:
        return _checked(super().request, method, url, *args, **kwargs)


def open_client(repository: str, credentials: Credentials | None) -> Urllib3HttpGitClient:
    """Return a client that asks one repository, through the proxy that the environment names if any."""
    manager = default_urllib3_manager(
        None, pool_manager_cls=_Manager, proxy_manager_cls=_ProxyManager, base_url=repository
    )
    return Urllib3HttpGitClient(
        repository,
        pool_manager=manager,
        username=credentials and credentials.username,
        password=credentials and credentials.password,
        thin_packs=False,
        quiet=True,
    )


def _checked(
    send: Callable[..., urllib3.BaseHTTPResponse], method: str, url: str, *args: object, **kwargs: object
) -> urllib3.BaseHTTPResponse:
    kwargs |= {"redirect": False, "retries": False, "timeout": TIMEOUT}
    try:
        response = _following(send, method, url, *args, **kwargs)
    except SSLError as error:
        raise SourceError(
            f"the server's certificate is not accepted: {error}. "
            "Fix: for an authority of your own mount its certificate and name it in SSL_CERT_FILE"
        ) from error
    except HTTPError as error:
        raise RetryableError(str(error)) from error
    problem = _problem(response, url, cast("dict[str, str]", kwargs.get("headers") or {}))
    if problem is not None:
        response.close()
        raise problem
    return _watched(response)


def _following(
    send: Callable[..., urllib3.BaseHTTPResponse], method: str, url: str, *args: object, **kwargs: object
) -> urllib3.BaseHTTPResponse:
    """Follow redirects of the first question, as git does, on the same server: it knows a renamed repository.

    Others could lead from https to http, or to a server that nobody named, which would get the password.
    """
    for _ in range(_MOST_REDIRECTS):
        response = send(method, url, *args, **kwargs)
        location = response.get_redirect_location()
        target = urljoin(url, location) if location else ""
        if method != "GET" or not target or server_of(target) != server_of(url):
            return response
        response.close()
        url = target
    raise SourceError(f"the server redirects more than {_MOST_REDIRECTS} times. Fix: the URL that it leads to")


def _watched(response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    """Raise git's own error where it comes instead of a pack: dulwich would take it for a broken connection."""
    read = response.read
    head = b""

    def watching(*args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  as the method that it stands for
        nonlocal head
        data = read(*args, **kwargs)
        if len(head) < PACKET_HEADER + len(ERROR_PACKET):
            head += data
            if head[PACKET_HEADER:].startswith(ERROR_PACKET):
                message = (head + read(LONGEST_ERROR))[PACKET_HEADER + len(ERROR_PACKET) :]
                raise ProtocolRefusedError(f"the server refuses it: {message.decode(errors='replace').strip()}")
        return data

    response.read = watching
    return response


def _problem(response: urllib3.BaseHTTPResponse, url: str, sent: dict[str, str]) -> SourceError | None:
    if response.status in {408, 429} or response.status >= 500:
        return RetryableError(f"the server answers with status {response.status}")
    if response.status != 200:
        return SourceError(f"{_meaning(response, sent)} (status {response.status})")
    kind = response.headers.get("Content-Type", "none")
    if "/info/refs?" in url and kind.split(";")[0].strip() != ADVERTISEMENT:
        return SourceError(f"this is not a git server: content type {kind}. Fix: the URL that `git clone` takes")
    return None


def _meaning(response: urllib3.BaseHTTPResponse, sent: dict[str, str]) -> str:
    status = response.status
    if status in {401, 403} and "authorization" in sent:
        return "user name or password refused. Fix: correct the Secret; a token needs the right to read this repository"
    if status in {401, 403}:
        return "the server wants a user name and password. Fix: name a Secret with them"
    if status in {404, 410}:
        return (
            "no such repository, or hidden from this user. Fix: correct the URL, or give credentials that may read it"
        )
    target = response.headers.get("Location", "").split("?")[0].removesuffix("/info/refs")
    if target:
        return f"the repository has moved to {target}. Fix: name that URL, if you trust it"
    return "the server does not answer as a git server"
