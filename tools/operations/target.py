"""The cluster and namespace of a query: a stack's, or those that the command line names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cluster_access import existing_cluster_args
from infra.errors import RefusalError, choices
from infra.outputs import PlatformOutputs
from infra.settings.parse import parse_settings
from tools.kubectl import Kubectl
from tools.process import CommandError, run
from tools.stacks.engine import Engine, make_private_folders, stack_config
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.settings.stack import Settings
    from tools.progress import Progress

_USERS_KUBECONFIG = "~/.kube/config"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Options of the command line about the cluster and namespace; None: not given."""

    stack: str | None = None
    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True)
class Target:
    """A namespace of a cluster."""

    kubectl: Kubectl
    namespace: str
    local: bool
    """Whether the cluster is the one of `make up`."""


def resolve(place: Place, report: Progress, environment: Mapping[str, str] = os.environ) -> Target:
    """Return where to look.

    The namespace is the stack's: the one in its settings if its own cluster has it, which is quickly asked, else the
    one in its outputs. The cluster is the one in the stack's settings; credentials of a cloud cluster are not outputs,
    so there the user's own kubeconfig and context say it.

    Raises:
        RefusalError: something is missing; the message says what.
    """
    settings, program = _settings(place.stack), ensure(["kubectl"], report)["kubectl"]
    # Named on the command line, a kubeconfig counts for any stack; one that is in the environment, say because a shell
    # exports it, never turns a stack to another cluster than its own.
    own = settings is not None and settings.alicloud is None and not (place.kubeconfig or place.context)
    if own and settings is not None:
        args = existing_cluster_args(settings.cluster)
        kubeconfig, context = args.kubeconfig, args.context
        if not kubeconfig.is_file():
            limit = f"its cluster has no kubeconfig yet ({kubeconfig})"
            raise RefusalError("STACK", place.stack, limit, "run `make up` to start the local cluster")
    else:
        if settings is None and place.stack and "/" not in place.stack:  # one with slashes is of another project
            Engine(pulumi=ensure(["pulumi"], report)["pulumi"], stack=place.stack).check_described()
        kubeconfig, context = _users(place, program, environment)
    kubectl = Kubectl(program=program, kubeconfig=kubeconfig, context=context)
    expected = settings.namespace if own and settings is not None else None
    namespace = place.namespace or (expected if expected and _is_there(kubectl, expected) else None)
    return Target(
        kubectl=kubectl,
        namespace=namespace or _namespace(place.stack, settings, report),
        local=own and settings is not None and settings.runs_on_own_local_cluster,
    )


def _is_there(kubectl: Kubectl, namespace: str) -> bool:
    try:
        kubectl.run("get", "--raw", f"/api/v1/namespaces/{namespace}")
    except CommandError:  # it is not there, or this user may not know: the engine does
        return False
    return True


def _settings(stack: str | None) -> Settings | None:
    """Return a stack's settings; None where no stack is meant, or another project's, whose outputs alone are known."""
    if stack is None or not Engine(pulumi=Path("pulumi"), stack=stack).config_file.is_file():
        return None
    return parse_settings(stack_config(stack))


def _users(place: Place, kubectl: Path, environment: Mapping[str, str]) -> tuple[Path, str]:
    listed = place.kubeconfig or environment.get("KUBECONFIG") or _USERS_KUBECONFIG
    files = [Path(name).expanduser() for name in listed.split(os.pathsep) if name]
    existing = [file for file in files if file.is_file()]
    if not existing:
        limit = "is not a file, and a stack's outputs do not include the credentials of its cluster"
        raise RefusalError("KUBECONFIG", listed, limit, "set KUBECONFIG=… to the cluster's kubeconfig")
    contexts = {name: file for file in reversed(existing) for name in _context_names(kubectl, file)}
    if place.context is None:
        limit = "the kubeconfig has several contexts, and none is selected"
        fix = f"set CONTEXT= to one of {', '.join(sorted(contexts)) or '(none exists)'}"
        raise RefusalError("CONTEXT", None, limit, fix)
    if place.context not in contexts:
        raise RefusalError("CONTEXT", place.context, f"is not in {listed}", choices(place.context, contexts))
    return contexts[place.context], place.context


def _context_names(kubectl: Path, kubeconfig: Path) -> list[str]:
    command = [kubectl, f"--kubeconfig={kubeconfig}", "config", "get-contexts", "--output=name"]
    return run(command, timeout_seconds=60).split()


def _namespace(stack: str | None, settings: Settings | None, report: Progress) -> str:
    """Return the namespace in the stack's outputs; of a local stack that was never created, the one in its settings."""
    if stack is None:
        raise RefusalError(
            "namespace", None, "is not set, and neither is a stack that has it", "use --namespace or --stack"
        )
    make_private_folders()
    outputs = _outputs(Engine(pulumi=ensure(["pulumi"], report)["pulumi"], stack=stack))
    if outputs:
        return PlatformOutputs.parse(outputs, f"stack {stack}").namespace
    if settings is not None and settings.alicloud is None:
        return settings.namespace
    raise RefusalError(
        "STACK", stack, "has no outputs in this backend", f"run `pulumi up -s {stack}` first, or set NAMESPACE="
    )


def _outputs(engine: Engine) -> dict[str, object]:
    try:
        return engine.outputs()
    except CommandError as error:
        if "no stack named" in error.output:
            return {}
        raise
