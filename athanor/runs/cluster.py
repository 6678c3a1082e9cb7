"""The cluster that a command uses, through kubectl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from athanor.inspection.reader import Asked
from athanor.runs.context import choose_cluster
from athanor.runs.kubeconfig import kubeconfig_files, standing_alone
from infra.contract_object import CONTRACT_OBJECT, read_contract
from infra.errors import RefusalError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator, Sequence

    from infra.outputs import PlatformOutputs

_TIMEOUT_SECONDS = 60
_PATIENCE_SECONDS = 5
"""Seconds after which a server that has not answered is tried without kubectl, which may wait for a login in a
browser."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A context of a kubeconfig, which kubectl finds. Neither a state nor a command line gets its credentials."""

    where: Sequence[str]
    """Words that name it to kubectl."""
    context: str
    namespace: str
    server: str
    """Address of the API server: what tells clusters apart whose contexts are called alike."""
    kubeconfig: str | None = None
    """The file that was named; None: those that kubectl finds."""
    proxy: str | None = None
    """Address of the proxy that the kubeconfig names for this server."""
    tls_name: str | None = None
    """Name of the server in its certificate, where it is not that of its address."""
    has_typed_namespace: bool = False
    """Whether the command line names the namespace; else it is the context's, which is only where to look first."""
    has_platform_option: bool = False
    """Whether the command line could name the platform's stack with --platform."""

    @classmethod
    def of(cls, given: argparse.Namespace) -> Cluster:
        """Return the cluster of a command line.

        Raises:
            RefusalError: kubectl cannot be started, or finds no such context.
        """
        choose_cluster(given)
        if shutil.which("kubectl") is None:
            raise RefusalError(
                "kubectl", "PATH", "has no kubectl", "install it, or start the local environment: make up"
            )
        named = {"kubeconfig": given.kubeconfig, "context": given.context}
        where = [f"--{name}={value}" for name, value in named.items() if value]
        view = _view(given, where)
        context, cluster = view["contexts"][0], view["clusters"][0]["cluster"]
        return cls(
            where=where,
            context=context["name"],
            namespace=given.namespace or context["context"].get("namespace", "default"),
            server=cluster["server"],
            kubeconfig=given.kubeconfig,
            proxy=cluster.get("proxy-url"),
            tls_name=cluster.get("tls-server-name"),
            has_typed_namespace=bool(given.namespace),
            has_platform_option="platform" in given,
        )

    def within(self, namespace: str) -> Cluster:
        """Return the same cluster with another namespace."""
        return replace(self, namespace=namespace)

    @property
    def prefix(self) -> list[str]:
        """The words of a kubectl command up to the verb."""
        return ["kubectl", *self.where, f"--context={self.context}", f"--namespace={self.namespace}"]

    @contextmanager
    def variables(self) -> Generator[dict[str, str]]:
        """Yield the environment variables for an engine: a kubeconfig with this context alone, as long as it runs.

        kubectl has its own ways to find and to merge files, and the provider has others.
        """
        view = self.run("config", "view", "--minify", "--flatten", "--raw", "--output=json")
        content = standing_alone(view, kubeconfig_files(self.kubeconfig, os.environ), Path.cwd())
        with tempfile.TemporaryDirectory(prefix="athanor-run-") as folder:
            file = Path(folder) / "kubeconfig"
            file.touch(mode=0o600)
            file.write_text(content, encoding="utf-8")
            yield {"KUBECONFIG": str(file)}

    def items(self, kind: str, selector: str) -> list[dict[str, Any]]:
        """Return the objects of a kind with some labels.

        Raises:
            RefusalError: the cluster does not answer, or not to this user.
        """
        return json.loads(self.run("get", kind, f"--selector={selector}", "--output=json"))["items"]

    @property
    def asked(self) -> Asked:
        """The cluster as those ask it who look for causes, or create a job again."""
        return Asked(run=self.run, items=self.listed, failure=RefusalError)

    def listed(self, kind: str, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind, or of several with commas, in any namespace; None: in all of them.

        Nothing where the cluster does not know the kind; of several, it must know all.

        Raises:
            RefusalError: as `items`.
        """
        where = ["--all-namespaces"] if namespace is None else [f"--namespace={namespace}"]
        try:
            answer = self.run("get", kind, *where, f"--selector={selector}", "--output=json")
        except RefusalError as error:
            if "," not in kind and "doesn't have a resource type" in error.limit:
                return []
            raise
        return json.loads(answer)["items"]

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object; None if there is none of that name.

        Raises:
            RefusalError: as `items`.
        """
        answer = self.run("get", kind, name, "--ignore-not-found", "--output=json")
        return json.loads(answer) if answer.strip() else None

    def create(self, manifest: dict[str, Any]) -> str:
        """Create an object; return its name, of which a manifest may have the beginning alone (generateName).

        Raises:
            RefusalError: as `items`, or the server does not accept it.
        """
        words = [*self.prefix[1:], "create", "--filename=-", "--output=json"]
        answer = _kubectl(words, content=json.dumps(manifest), asked=self)
        return json.loads(answer)["metadata"]["name"]

    def delete(self, kind: str, name: str) -> None:
        """Begin to delete an object; one that is gone is not missed.

        Raises:
            RefusalError: as `items`.
        """
        self.run("delete", kind, name, "--ignore-not-found", "--wait=false")

    def platform(self) -> PlatformOutputs:
        """Return the contract of the namespace's platform.

        Without one in the namespace of a context, it is the platform of the only namespace that has one.

        Raises:
            RefusalError: there is none, or it may not be asked.
        """
        own = self.find("configmap", CONTRACT_OBJECT)
        if own:
            return read_contract(own, self.namespace)
        others = self._platforms_elsewhere()
        if len(others) == 1 and not self.has_typed_namespace:
            return read_contract(others[0], others[0]["metadata"]["namespace"])
        raise self._no_platform([each["metadata"]["namespace"] for each in others])

    def _no_platform(self, elsewhere: Sequence[str]) -> RefusalError:
        """Return the refusal of a namespace without a platform, given those that have one."""
        have = f", but {', '.join(elsewhere)} {'has' if len(elsewhere) == 1 else 'have'}" if elsewhere else ""
        limit = f"has no platform (a ConfigMap {CONTRACT_OBJECT}){have}"
        one = f"write --namespace {elsewhere[0]}" if len(elsewhere) == 1 else ""
        fix = one or "name the workloads' namespace with --namespace"
        or_stack = ", or name the platform's stack with --platform" if self.has_platform_option else ""
        field = "--namespace" if self.has_typed_namespace else "namespace"
        return RefusalError(field, self.namespace, limit, fix + or_stack)

    def _platforms_elsewhere(self) -> list[dict[str, Any]]:
        """Return the contracts of all namespaces; nothing for those who may see only their own."""
        chosen = f"--field-selector=metadata.name={CONTRACT_OBJECT}"
        try:
            answer = self.run("get", "configmaps", "--all-namespaces", chosen, "--output=json")
        except RefusalError:
            return []
        return json.loads(answer)["items"]

    def run(self, *words: str) -> str:
        """Run kubectl in the namespace, which words may still change, and return its output.

        Raises:
            RefusalError: as `items`.
        """
        return _kubectl([*self.prefix[1:], *words], asked=self)


def _view(given: argparse.Namespace, where: Sequence[str]) -> dict[str, Any]:
    """Return the part of the kubeconfig that the command line names.

    Raises:
        RefusalError: the file or the context does not exist, or no context is current.
    """
    try:
        view: dict[str, Any] = json.loads(_kubectl([*where, "config", "view", "--minify", "--output=json"]))
    except RefusalError as refusal:
        raise _no_context(given, refusal) from None
    if not view.get("contexts") or not view.get("clusters"):
        raise _no_context(given, None)
    return view


def _no_context(given: argparse.Namespace, refusal: RefusalError | None) -> RefusalError:
    """Return why no context can be used; kubectl's own message leaves out the file."""
    files = kubeconfig_files(given.kubeconfig, os.environ)
    named = os.pathsep.join(map(str, files))
    if not any(file.exists() for file in files):
        fix = "name your kubeconfig with --kubeconfig or in $KUBECONFIG"
        return RefusalError("kubeconfig", named, "does not exist", fix)
    said = refusal.limit if refusal else ""
    if given.context and "context" in said:
        fix = "name one that `kubectl config get-contexts` lists, or another file with --kubeconfig"
        return RefusalError("--context", given.context, f"is not in {named}", fix)
    if not said or "current-context" in said:
        return RefusalError("kubeconfig", named, "has no current context", "name the context with --context")
    return RefusalError(
        "kubeconfig", named, f"cannot be read ({said})", "correct it, or name another with --kubeconfig"
    )


def _kubectl(words: Sequence[str], content: str = "", asked: Cluster | None = None) -> str:
    """Run kubectl; return its output.

    Args:
        words: Behind `kubectl`.
        content: Its standard input.
        asked: The cluster that it asks; None if it asks none.

    Raises:
        RefusalError: it fails, or the server does not answer.
    """
    verb = " ".join([word for word in words if not word.startswith("-")][:2])
    with subprocess.Popen(
        ["kubectl", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            output, errors = _ended(process, content, asked)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        said = (errors.strip().splitlines() or [f"ended with {process.returncode}"])[-1]
        raise RefusalError("kubectl", verb, said, "check the kubeconfig, its context and your rights")
    return output


def _ended(process: subprocess.Popen[str], content: str, asked: Cluster | None) -> tuple[str, str]:
    """Wait for kubectl's end; return what it wrote to standard output and standard error.

    Raises:
        RefusalError: the server does not answer.
    """
    try:
        return process.communicate(content, timeout=_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        from athanor.runs.reach import is_silent  # noqa: PLC0415 - TLS and proxies, which a server that answers spares

        if asked and is_silent(asked.server, proxy=asked.proxy, tls_name=asked.tls_name):
            raise _silent(asked, "does not answer") from None
    try:
        return process.communicate(timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise _silent(asked, f"did not answer in {_TIMEOUT_SECONDS} s") from None


def _silent(asked: Cluster | None, limit: str) -> RefusalError:
    through = f" through the proxy {urlsplit(asked.proxy).hostname}" if asked and asked.proxy else ""
    return RefusalError(
        "API server",
        f"{asked.server if asked else ''}{through}",
        limit,
        "check the network, such as a VPN, and the kubeconfig",
    )
