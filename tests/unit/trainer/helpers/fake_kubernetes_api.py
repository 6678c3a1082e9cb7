"""A Kubernetes API server on loopback, as far as our programs speak to one: lists in pages, changes, deletions, TLS."""

from __future__ import annotations

import http.server
import json
import threading
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from datetime import datetime

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/athanor/jobs"
PODS = "/api/v1/namespaces/athanor/pods"
TOKEN = "bound-token"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class FakeKubernetesApi:
    """Keeps objects by path; answers of the next requests can be replaced."""

    def __init__(self, tls: ssl.SSLContext, now: datetime) -> None:
        self.now = now
        """Its clock."""
        self.objects: dict[str, dict[str, dict[str, Any]]] = {JOBS: {}, PODS: {}}
        """Objects by collection and name."""
        self.page_limit = 1000
        """It gives no longer pages than this, whatever is asked for."""
        self.answers: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = {}
        """By method and path: answers to give instead of its own, one each."""
        self.before_delete: Callable[[str], object] = lambda _name: None
        """Called with a pod's name when its deletion has been asked for."""
        self.requests: list[tuple[str, str]] = []
        """Methods and paths, with queries, in their order."""
        self.changes: dict[str, dict[str, Any]] = {}
        """By path: the last change of an object."""
        self.says_date = True
        self.connections = 0
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, url: str, accept: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Return status and content."""
        self.requests.append((method, url))
        parts = urlsplit(url)
        if replaced := self.answers.get((method, parts.path)):
            return replaced.pop(0)
        if method == "GET":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            return self._list(parts.path, query, metadata_only=accept == METADATA_ONLY)
        if method == "POST":
            return self._create(parts.path, json.loads(body))
        if method == "PATCH":
            self.changes[parts.path] = json.loads(body)
            return 200, {}
        return self._delete(parts.path, json.loads(body))

    def _list(self, path: str, query: dict[str, str], *, metadata_only: bool) -> tuple[int, dict[str, Any]]:
        selected = [each for _, each in sorted(self.objects[path].items()) if _is_selected(each, query)]
        start, size = int(query.get("continue", "0")), min(int(query["limit"]), self.page_limit)
        items = selected[start : start + size]
        rest = {"continue": str(start + size)} if start + size < len(selected) else {}
        if metadata_only:
            items = [{"metadata": each["metadata"]} for each in items]
        return 200, {"kind": "List", "metadata": rest, "items": items}

    def _create(self, path: str, manifest: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        present = self.objects.setdefault(path, {})
        name = manifest["metadata"]["name"]
        if name in present:
            return status(409, f'"{name}" already exists')
        present[name] = manifest
        return 201, manifest

    def _delete(self, path: str, options: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        collection, _, name = path.rpartition("/")
        self.before_delete(name)
        stored = self.objects[collection].get(name)
        if stored is None:
            return status(404, f'pods "{name}" not found')
        if options["preconditions"]["uid"] != stored["metadata"]["uid"]:
            return status(409, "the UID in the precondition does not match the UID in record")
        del self.objects[collection][name]
        return 200, stored

    def _handler(api) -> type[http.server.BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                api.connections += 1
                super().setup()

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers["Authorization"] == f"Bearer {TOKEN}":
                    code, content = api.answer(self.command, self.path, self.headers["Accept"], body)
                else:
                    code, content = status(401, "Unauthorized")
                data = json.dumps(content).encode()
                self.send_response_only(code)
                if api.says_date:
                    self.send_header("Date", format_datetime(api.now, usegmt=True))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_DELETE = do_PATCH = do_POST = do_GET  # noqa: N815 - the base class's habit

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


def status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    """Return an answer as Kubernetes gives it when it refuses."""
    return code, {"kind": "Status", "status": "Failure", "code": code, "message": message}


def _is_selected(stored: dict[str, Any], query: dict[str, str]) -> bool:
    """Whether an object has the label, and the phase if one is asked for."""
    _, _, phase = query.get("fieldSelector", "").partition("status.phase=")
    has_phase = not phase or stored["status"]["phase"] == phase
    return has_phase and query["labelSelector"] in stored["metadata"].get("labels", {})
