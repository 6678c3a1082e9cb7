"""GitHub's REST API on loopback, as far as comments and issues need it: pages, creation, changes, refusals.

Source: docs.github.com/en/rest, version 2022-11-28: issues, issue comments, "Using pagination".
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN = "ghs_0123456789abcdefghijABCDEFGHIJ"
REPOSITORY = "team/platform"
BOT = "github-actions[bot]"
_ISSUE = re.compile(r"issues/(\d+)")
NOTHING: tuple[int, Any, dict[str, str]] = (404, {"message": "Not Found"}, {})
_COMMENT = re.compile(r"issues/comments/(\d+)")


@dataclass(frozen=True)
class Refusal:
    """What the server answers to everything."""

    status: int
    message: str = "no"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class GitHubServer:
    """One repository: its issues, and the comments of pull request 7."""

    issues: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    comments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    requests: list[str] = field(default_factory=list[str])
    """Method and target of every request."""
    page: int = 2
    """Elements on a page at most, whatever is asked for."""
    refusal: Refusal | None = None

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def writes(self) -> list[str]:
        return [request for request in self.requests if not request.startswith("GET ")]

    def add_comment(self, body: str, author: str = BOT) -> dict[str, Any]:
        number = 1000 + len(self.comments)
        url = f"https://github.com/{REPOSITORY}/pull/7#issuecomment-{number}"
        self.comments.append({"id": number, "body": body, "user": {"login": author}, "html_url": url})
        return self.comments[-1]

    def add_issue(self, body: str | None, author: str = BOT, **more: Any) -> dict[str, Any]:
        number = 1 + len(self.issues)
        url = f"https://github.com/{REPOSITORY}/issues/{number}"
        issue = {"number": number, "title": "", "body": body, "user": {"login": author}, "state": "open"}
        self.issues.append({**issue, "html_url": url, **more})
        return self.issues[-1]

    def answer(self, method: str, target: str, content: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        place = urlsplit(target)
        path = place.path.removeprefix(f"/repos/{REPOSITORY}/")
        if method == "GET":
            return self._listed(path, place.path, {name: each[0] for name, each in parse_qs(place.query).items()})
        if method == "POST" and path == "issues/7/comments":
            return 201, self.add_comment(content["body"]), {}
        if method == "POST" and path == "issues":
            return 201, self.add_issue(content["body"], title=content["title"]), {}
        comment, issue = _COMMENT.fullmatch(path), _ISSUE.fullmatch(path)
        if method == "PATCH" and comment:
            return 200, _changed(self.comments, "id", int(comment[1]), content), {}
        if method == "PATCH" and issue:
            return 200, _changed(self.issues, "number", int(issue[1]), content), {}
        return NOTHING

    def _listed(self, path: str, whole: str, query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        if path == "issues/7/comments":
            return self._page(self.comments, whole, query)
        if path == "issues":
            return self._page([each for each in self.issues if each["state"] == query["state"]], whole, query)
        return NOTHING

    def _page(self, listed: list[dict[str, Any]], path: str, query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        number = int(query.get("page", "1"))
        size = min(int(query["per_page"]), self.page)
        last = number * size >= len(listed)
        state = f"&state={query['state']}" if "state" in query else ""
        following = f'<{self.address}{path}?per_page={size}{state}&page={number + 1}>; rel="next"'
        return 200, listed[(number - 1) * size : number * size], {} if last else {"Link": following}


def _changed(listed: list[dict[str, Any]], key: str, value: int, content: dict[str, Any]) -> dict[str, Any]:
    [changed] = [each for each in listed if each[key] == value]
    changed.update(content)
    return changed


def _handler(server: GitHubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            server.requests.append(f"{self.command} {self.path}")
            length = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(length)) if length else {}
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self._send(401, {"message": "Bad credentials"}, {})
            if server.refusal:
                return self._send(server.refusal.status, {"message": server.refusal.message}, server.refusal.headers)
            return self._send(*server.answer(self.command, self.path, content))

        def do_GET(self) -> None:
            self._handle()

        def do_POST(self) -> None:
            self._handle()

        def do_PATCH(self) -> None:
            self._handle()

        def _send(self, status: int, content: Any, headers: Mapping[str, str]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
