"""The calls to a Kubernetes API server that the double needs: list, apply, patch, delete, watch."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import tempfile
import threading
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import httpx
import yaml

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object, or anything else that the API server sends as a JSON object."""

FIELD_MANAGER = "athanor-api-double"
NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CSI_DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 20.0
_RETRY_SECONDS = 1.0


class KubernetesApi:
    """An administrator's connection to the API server that a kubeconfig's current context names.

    Args:
        kubeconfig: text of a kubeconfig with embedded certificates.
    """

    def __init__(self, kubeconfig: str) -> None:
        content = yaml.safe_load(kubeconfig)
        context = _named(content["contexts"], content["current-context"])["context"]
        cluster = _named(content["clusters"], context["cluster"])["cluster"]
        user = _named(content["users"], context["user"])["user"]
        self.server: str = cluster["server"]
        self._tls = _tls_context(cluster, user)
        self._client = self._new_client(httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS))
        self._closed = threading.Event()
        self._watching: set[socket.socket] = set()

    def _new_client(self, timeout: httpx.Timeout) -> httpx.Client:
        # trust_env: a proxy of the environment has no way to a cluster on this machine
        return httpx.Client(base_url=self.server, verify=self._tls, timeout=timeout, trust_env=False)

    def interrupt(self) -> None:
        """End every watch."""
        self._closed.set()
        for watched in list(self._watching):
            # close() would leave the reader waiting forever
            with contextlib.suppress(OSError):
                watched.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def list(self, path: str, parameters: Mapping[str, str] | None = None) -> list[Object]:
        """Return the objects of a kind."""
        return self._get(path, parameters or {})["items"]

    def apply(self, path: str, manifest: Object) -> Object:
        """Make an object's fields those of the manifest (server-side apply) and return the object."""
        response = self._client.patch(
            f"{path}/{manifest['metadata']['name']}",
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            content=json.dumps(manifest),
            headers={"Content-Type": "application/apply-patch+yaml"},
        )
        return _content(response)

    def create(self, path: str, manifest: Object) -> None:
        """Create an object, unless it is there already."""
        response = self._client.post(path, json=manifest)
        if response.status_code != HTTPStatus.CONFLICT:
            _content(response)

    def patch_status(self, path: str, name: str, status: Object) -> None:
        """Merge fields into an object's status; an object that is gone is left alone."""
        response = self._client.patch(
            f"{path}/{name}/status",
            content=json.dumps({"status": status}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        if response.status_code != HTTPStatus.NOT_FOUND:
            _content(response)

    def delete(self, path: str, name: str, **parameters: str) -> None:
        """Delete an object, if it is there."""
        response = self._client.delete(f"{path}/{name}", params=parameters)
        if response.status_code != HTTPStatus.NOT_FOUND:
            _content(response)

    def evict(self, node: str) -> None:
        """Delete the pods that were on a node which is no more."""
        for pod in self.list(PODS, {"fieldSelector": f"spec.nodeName={node}"}):
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
            self.delete(path, metadata["name"], gracePeriodSeconds="0")

    def watch(self, path: str, parameters: Mapping[str, str] | None = None) -> Iterator[Object]:
        """Yield every object of a kind now, and then each new or changed one, until `interrupt` or the kind is gone."""
        selected = parameters or {}
        while not self._closed.is_set():
            try:
                listed = self._get(path, selected)
                yield from listed["items"]
                yield from self._changes(path, {**selected, "resourceVersion": listed["metadata"]["resourceVersion"]})
            except httpx.HTTPStatusError as error:
                if error.response.status_code == HTTPStatus.NOT_FOUND:
                    return
                self._closed.wait(_RETRY_SECONDS)
            except (httpx.HTTPError, OSError, ValueError):
                self._closed.wait(_RETRY_SECONDS)

    def _changes(self, path: str, parameters: Mapping[str, str]) -> Iterator[Object]:
        timeout = httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS, read=None)
        with (
            self._new_client(timeout) as client,
            client.stream("GET", path, params={**parameters, "watch": "true"}) as response,
            self._interruptible(response),
        ):
            response.raise_for_status()
            for line in response.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                if event["type"] in {"ADDED", "MODIFIED"}:
                    yield event["object"]

    @contextlib.contextmanager
    def _interruptible(self, response: httpx.Response) -> Generator[None]:
        watched: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
        self._watching.add(watched)
        try:
            if self._closed.is_set():
                raise ConnectionError("interrupted")
            yield
        finally:
            self._watching.discard(watched)

    def _get(self, path: str, parameters: Mapping[str, str]) -> Object:
        return _content(self._client.get(path, params=dict(parameters)))


def _content(response: httpx.Response) -> Object:
    if response.is_error:
        message = f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text[:500]}"
        raise httpx.HTTPStatusError(message, request=response.request, response=response)
    return response.json()


def _named(entries: list[Object], name: str) -> Object:
    return next(entry for entry in entries if entry["name"] == name)


def _tls_context(cluster: Object, user: Object) -> ssl.SSLContext:
    authority = cast("str | None", cluster.get("certificate-authority-data"))
    context = ssl.create_default_context(cadata=_decoded(authority) if authority else None)
    if user.get("client-certificate-data"):
        # the ssl module takes the client's certificate from files only
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder, "certificate"), Path(folder, "key")
            for file, content in ((certificate, user["client-certificate-data"]), (key, user["client-key-data"])):
                file.touch(mode=0o600)
                file.write_text(_decoded(content), encoding="utf-8")
            context.load_cert_chain(certificate, key)
    return context


def _decoded(content: str) -> str:
    return base64.b64decode(content).decode()
