"""A client of GitHub's REST API for pipelines: paginated lists, JSON bodies, readable errors.

Protocol: docs.github.com/en/rest, version 2022-11-28: "Using pagination", "Rate limits for the REST API". The token is
sent only in a header and only to one address: a redirect is an error.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from infra.errors import RefusalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from email.message import Message
    from http.client import HTTPMessage, HTTPResponse

_TIMEOUT_SECONDS = 30
_PER_PAGE = 100
_MOST_PAGES = 100
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="next"')
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9._-]+")
_LONGEST_MESSAGE = 300
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class GitHubError(RuntimeError):
    """GitHub did not do what it was asked for; the message says why, and what to do about it."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: urllib would send the token to wherever it leads."""

    def redirect_request(  # noqa: PLR0913, PLR0917 - urllib's own signature
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        """Follow none."""


_OPENER = urllib.request.build_opener(_NoRedirects)


@dataclass(frozen=True, kw_only=True)
class GitHub:
    """One repository."""

    repository: str
    """OWNER/NAME."""
    token: str = field(repr=False)
    permission: str
    """Permission that the token needs, such as `issues: write`: named where it is refused."""
    address: str = "https://api.github.com"

    def __post_init__(self) -> None:
        if not _REPOSITORY.fullmatch(self.repository):
            raise RefusalError("--repository", self.repository, "is not OWNER/NAME", "write for example team/platform")
        place = urlsplit(self.address)
        if place.scheme != "https" and not (place.scheme == "http" and place.hostname in _LOOPBACK):
            raise RefusalError("GITHUB_API_URL", self.address, "is not an https address", "use https://api.github.com")
        if not self.token:
            raise RefusalError("GITHUB_TOKEN", "", "no token is set", "set the variable to the job's token")
        if not (self.token.isascii() and self.token.isprintable()):
            raise RefusalError("GITHUB_TOKEN", "[hidden]", "has characters that no token has", "set it again")

    def every(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield all elements of a list, page after page.

        Args:
            path: below the repository, with its query: `issues/7/comments`.

        Raises:
            GitHubError: it could not be read.
        """
        url = f"{self._url(path)}{'&' if '?' in path else '?'}per_page={_PER_PAGE}"
        for _ in range(_MOST_PAGES):
            content, headers = self._call("GET", url)
            yield from content
            following = _NEXT.search(headers.get("Link") or "")
            if following is None:
                return
            url = following[1]
            if not url.startswith(f"{self.address}/"):
                raise GitHubError(f"the next page of {path} is not below {self.address}: {url[:_LONGEST_MESSAGE]}")
        raise GitHubError(f"{path} has more than {_MOST_PAGES * _PER_PAGE} elements")

    def send(self, method: str, path: str, content: Mapping[str, object]) -> dict[str, Any]:
        """Create (POST) or change (PATCH) something and return it as it is now.

        Raises:
            GitHubError: it was refused.
        """
        return self._call(method, self._url(path), content)[0]

    def _url(self, path: str) -> str:
        return f"{self.address}/repos/{self.repository}/{path}"

    def _call(self, method: str, url: str, content: Mapping[str, object] | None = None) -> tuple[Any, Message]:
        request = urllib.request.Request(  # noqa: S310 - https, or http on loopback: checked above
            url,
            data=None if content is None else json.dumps(content).encode(),
            method=method,
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
                "User-Agent": "athanor",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        answer: HTTPResponse
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read()), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                raise GitHubError(self._reason(error)) from None
        except urllib.error.URLError as error:
            raise GitHubError(f"{self.address} cannot be reached: {error.reason}") from None
        except (OSError, ValueError) as error:
            raise GitHubError(f"{self.address} did not answer as GitHub does: {error}") from None

    def _reason(self, error: urllib.error.HTTPError) -> str:
        until = _limited_until(error)
        if until:
            return f"GitHub takes no more requests of this token until {until} UTC. Fix: run it again then"
        fixes = {
            HTTPStatus.UNAUTHORIZED: "GitHub does not accept this token. Fix: set GITHUB_TOKEN to one that is valid",
            HTTPStatus.FORBIDDEN: f"the token may not do this in {self.repository}. Fix: give the job the permission"
            f" `{self.permission}`; the token of a pull request from a fork can only read",
            HTTPStatus.NOT_FOUND: f"{self.repository} has no such number, or hides it from this token. Fix: check"
            f" the repository and the number, and give the job the permission `{self.permission}`",
            HTTPStatus.GONE: f"issues are switched off in {self.repository}. Fix: switch them on in its settings",
        }
        what = f"{error.status} {_message(error)}"
        fix = fixes.get(HTTPStatus(error.status)) if error.status in set(HTTPStatus) else None
        return f"{fix} ({what})" if fix else f"GitHub answered {what}"


def _limited_until(error: urllib.error.HTTPError) -> str:
    """Return until when a rate limit holds, such as 18:05; "" where none is the reason."""
    if error.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS}:
        return ""
    wait, reset = error.headers.get("Retry-After") or "", error.headers.get("X-RateLimit-Reset") or ""
    if wait.isdecimal():
        moment = time.time() + int(wait)
    elif error.headers.get("X-RateLimit-Remaining") == "0" and reset.isdecimal():
        moment = int(reset)
    elif error.status == HTTPStatus.TOO_MANY_REQUESTS:
        # Without a header, GitHub asks to wait for at least a minute.
        moment = time.time() + 60
    else:
        return ""
    return time.strftime("%H:%M", time.gmtime(moment))


def _message(error: urllib.error.HTTPError) -> str:
    try:
        said = str(json.loads(error.read())["message"])
    except (OSError, ValueError, KeyError, TypeError):
        said = error.reason
    return said[:_LONGEST_MESSAGE]
