"""Reads kubeconfig files: one context of them, self-contained and without paths."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, Field, ValidationError

from infra.errors import RefusalError, choices

if TYPE_CHECKING:
    from pathlib import Path

_FILE_KEYS = ("certificate-authority", "client-certificate", "client-key")


class _Context(BaseModel):
    cluster: str
    user: str
    namespace: str | None = None


class _NamedContext(BaseModel):
    name: str
    context: _Context


class _NamedCluster(BaseModel):
    name: str
    cluster: dict[str, Any]


class _NamedUser(BaseModel):
    name: str
    user: dict[str, Any]


class _Kubeconfig(BaseModel):
    """The parts of a kubeconfig we use (format: kubernetes.io, "Organizing Cluster Access Using kubeconfig Files")."""

    api_version: str = Field(default="v1", alias="apiVersion")
    kind: str = "Config"
    current_context: str = Field(default="", alias="current-context")
    contexts: list[_NamedContext]
    clusters: list[_NamedCluster]
    users: list[_NamedUser]


def minified_kubeconfig(file: Path, context: str) -> str:
    """Return a kubeconfig reduced to one context, with the files it names put inside.

    So neither other clusters' credentials nor paths of this machine enter the state.

    Raises:
        RefusalError: the file is missing, is not a kubeconfig, or lacks the context or something that it refers to.
    """
    config = _read(file)
    contexts = {entry.name: entry.context for entry in config.contexts}
    if context not in contexts:
        raise RefusalError("athanor:cluster.context", context, f"is not in {file}", choices(context, contexts))
    chosen = contexts[context]
    clusters = {entry.name: entry.cluster for entry in config.clusters}
    users = {entry.name: entry.user for entry in config.users}
    for kind, name, known in (("cluster", chosen.cluster, clusters), ("user", chosen.user, users)):
        if name not in known:
            raise RefusalError(
                f"{kind} of context {context}", name, f"is not in {file}", f"repair the file: {choices(name, known)}"
            )
    reduced = _Kubeconfig(
        **{"current-context": context},
        contexts=[_NamedContext(name=context, context=chosen)],
        clusters=[_NamedCluster(name=chosen.cluster, cluster=_inlined(clusters[chosen.cluster], file.parent))],
        users=[_NamedUser(name=chosen.user, user=_inlined(users[chosen.user], file.parent))],
    )
    return yaml.safe_dump(reduced.model_dump(by_alias=True, exclude_none=True), sort_keys=True)


def _read(file: Path) -> _Kubeconfig:
    try:
        return _Kubeconfig.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise RefusalError(
            "athanor:cluster.kubeconfig",
            str(file),
            f"cannot be read ({error.strerror})",
            "start the local cluster with `make up`, or set cluster.kubeconfig and cluster.context",
        ) from None
    except (yaml.YAMLError, ValidationError, UnicodeDecodeError):
        raise RefusalError(
            "athanor:cluster.kubeconfig",
            str(file),
            "is not a valid kubeconfig",
            "set it to a file that `kubectl` accepts",
        ) from None


def _inlined(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Replace each named file by its content; relative paths count from the kubeconfig's folder."""
    inlined = dict(entry)
    for key in _FILE_KEYS:
        path = inlined.pop(key, None)
        if path is not None:
            inlined[f"{key}-data"] = base64.b64encode(_named_file(key, folder / str(path))).decode()
    token_file = inlined.pop("tokenFile", None)
    if token_file is not None:
        inlined["token"] = _named_file("tokenFile", folder / str(token_file)).decode().strip()
    return inlined


def _named_file(key: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise RefusalError(
            key, str(file), f"is referenced in the kubeconfig but cannot be read ({error.strerror})", "log in again"
        ) from None
