"""A minimal client of the Kubernetes API, for bringing a cluster up."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tools.local_cluster.errors import ClusterError

if TYPE_CHECKING:
    from pathlib import Path

    from tools.local_cluster.pki import Identity

_REQUEST_SECONDS = 60.0
"""Timeout of an answer. A busy machine takes longer than a moment, and bringing a cluster up must not end for that."""
_READY_SECONDS = 10.0
FIELD_MANAGER = "athanor-local-cluster"


class ApiError(ClusterError):
    """The API server answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(f"Kubernetes API: status {status}: {text[:500]}")


class ApiUnreachableError(ClusterError):
    """The API server did not answer."""


@dataclass(frozen=True)
class ApiClient:
    """An administrator's connection to a cluster's API server."""

    address: str
    port: int
    authority: Path
    identity: Identity

    @cached_property
    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.identity.certificate, self.identity.key)
        return context

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        timeout_seconds: float = _REQUEST_SECONDS,
    ) -> str:
        """Send a request and return the answer's body.

        Raises:
            ApiUnreachableError: the server did not answer.
            ApiError: it refused.
        """
        connection = http.client.HTTPSConnection(
            self.address, self.port, timeout=timeout_seconds, context=self._context
        )
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": content_type} if payload else {})
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            why = f"did not answer {method} {path}: {error or repr(error)}"
            fix = "Fix: `make up` starts what has ended; on a busy machine, try again"
            raise ApiUnreachableError(f"the API server at {self.address}:{self.port} {why}. {fix}") from error
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise ApiError(response.status, text)
        return text

    def get(self, path: str) -> dict[str, Any]:
        """Return an object or a list."""
        return json.loads(self.request("GET", path))

    def apply(self, path: str, manifest: dict[str, Any]) -> None:
        """Make an object as its manifest says (server-side apply), whether it exists or not."""
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        self.request("PATCH", f"{path}?{query}", manifest, content_type="application/apply-patch+yaml")

    def is_ready(self) -> bool:
        """Return whether the API server and its database serve requests."""
        try:
            return self.request("GET", "/readyz", timeout_seconds=_READY_SECONDS) == "ok"
        except (ApiUnreachableError, ApiError):
            return False
