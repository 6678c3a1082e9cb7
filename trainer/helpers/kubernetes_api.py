"""A small client of the Kubernetes API, for a pod that has a service account. Standard library only."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which Kubernetes mounts the token and the certificate of the API server's authority."""
_PAGE = 250
_LIST_ATTEMPTS = 3
_TIMEOUT_SECONDS = 30
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""A list without specs and states: for thousands of pods these are most of what would be sent."""


class ApiError(Exception):
    """The API server could not be asked, or said no."""


class Listed(NamedTuple):
    """Objects and the server's time when it had listed them."""

    items: list[dict[str, Any]]
    at: datetime


class _Answer(NamedTuple):
    status: int
    date: str | None
    content: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ApiAddress:
    """Address and credentials for the API server."""

    host: str
    port: int
    token: str
    authority: Path
    """File with the certificate that the server's own must be signed with."""

    @classmethod
    def in_cluster(cls) -> ApiAddress:
        """Return the access that Kubernetes passes to every pod whose service account's token is mounted.

        Raises:
            ApiError: this is not such a pod.
        """
        try:
            return cls(
                host=os.environ["KUBERNETES_SERVICE_HOST"],
                port=int(os.environ["KUBERNETES_SERVICE_PORT"]),
                token=(SERVICE_ACCOUNT / "token").read_text(encoding="utf-8").strip(),
                authority=SERVICE_ACCOUNT / "ca.crt",
            )
        except (KeyError, ValueError, OSError) as error:
            raise ApiError(f"this is not a pod with a service account's token: {error!r}") from error


class KubernetesApi:
    """One connection to the API server; a request after a failed one opens it again."""

    def __init__(self, address: ApiAddress) -> None:
        try:
            context = ssl.create_default_context(cafile=str(address.authority))
        except OSError as error:
            raise ApiError(f"{address.authority}: {error}") from error
        self._token = address.token
        self._connection = http.client.HTTPSConnection(
            address.host, address.port, timeout=_TIMEOUT_SECONDS, context=context
        )

    def listed(self, path: str, *, labels: str, fields: str = "", metadata_only: bool = False) -> Listed:
        """Return all objects below a path, page by page.

        Args:
            path: Such as `/api/v1/namespaces/athanor/pods`.
            labels: Label selector.
            fields: Field selector.
            metadata_only: Whether `metadata` is enough.

        Raises:
            ApiError: the server did not answer, or not with a list.
        """
        query = {"labelSelector": labels, **({"fieldSelector": fields} if fields else {}), "limit": str(_PAGE)}
        accept = _METADATA_ONLY if metadata_only else "application/json"
        for _ in range(_LIST_ATTEMPTS):
            answer = self._all_pages(path, query, accept)
            if answer is not None:
                return answer
        raise ApiError(f"GET {path}: what its pages are of expired {_LIST_ATTEMPTS} times before the last page")

    def delete(self, path: str, uid: str) -> Literal["deleted", "gone"]:
        """Delete the object at a path if it is the one with this uid: another may have its name by now.

        Returns:
            `gone` if it was not there any more.

        Raises:
            ApiError: the server did not answer, or refused for another reason.
        """
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        answer = self._ask("DELETE", path, body=body)
        if answer.status in {http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT}:
            return "gone"
        _expect_success("DELETE", path, answer)
        return "deleted"

    def merge(self, path: str, change: dict[str, Any]) -> None:
        """Change fields of the object at a path and leave the others as they are (JSON merge patch, RFC 7396).

        Raises:
            ApiError: the server did not answer, or did not accept the change.
        """
        _expect_success("PATCH", path, self._ask("PATCH", path, body=change, body_type="application/merge-patch+json"))

    def create(self, path: str, manifest: dict[str, Any]) -> Literal["created", "present"]:
        """Create an object below a path.

        Returns:
            `present` if there is one of its name, which stays as it is.

        Raises:
            ApiError: the server did not answer, or did not accept it.
        """
        answer = self._ask("POST", path, body=manifest)
        if answer.status == http.HTTPStatus.CONFLICT:
            return "present"
        _expect_success("POST", path, answer)
        return "created"

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _all_pages(self, path: str, query: Mapping[str, str], accept: str) -> Listed | None:
        """Return nothing where the server has forgotten the state that the pages are of."""
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            page = {**query, **({"continue": token} if token else {})}
            answer = self._ask("GET", f"{path}?{urlencode(page)}", accept=accept)
            if token and answer.status == http.HTTPStatus.GONE:
                return None
            _expect_success("GET", path, answer)
            items += answer.content.get("items") or []
            token = answer.content.get("metadata", {}).get("continue") or ""
            if not token:
                return Listed(items, _time(path, answer))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        accept: str = "application/json",
        body: dict[str, Any] | None = None,
        body_type: str = "application/json",
    ) -> _Answer:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        if body is not None:
            headers["Content-Type"] = body_type
        try:
            self._connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
            response = self._connection.getresponse()
            content = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            # Half an answer may still be on its way; the next request must not take it for its own.
            self._connection.close()
            raise ApiError(f"{method} {path.partition('?')[0]}: {error!r}") from error
        return _Answer(response.status, response.headers["Date"], content)


def _expect_success(method: str, path: str, answer: _Answer) -> None:
    if not 200 <= answer.status < 300:
        raise ApiError(f"{method} {path}: {answer.status} {answer.content.get('message', '')}".rstrip())


def _time(path: str, answer: _Answer) -> datetime:
    try:
        return parsedate_to_datetime(answer.date or "")
    except ValueError as error:
        raise ApiError(f"GET {path}: the answer has no date: {answer.date!r}") from error
