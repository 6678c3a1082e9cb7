"""Which cluster and namespace a question is about: a stack's, or what the command line names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cluster import existing_cluster_args
from infra.errors import RefusalError, choices
from infra.outputs import PlatformOutputs
from infra.settings.parse import parse_settings
from tools.engine import Engine, make_private_folders, stack_config
from tools.kubectl import Kubectl
from tools.process import CommandError, run
from tools.toolchain import ensure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.settings.stack import Settings
    from tools.progress import Progress

_USERS_KUBECONFIG = "~/.kube/config"


@dataclass(frozen=True, kw_only=True)
class Place:
    """What the command line says about where to look; None: not said."""

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

    The namespace is the stack's, from its outputs. The cluster is the one in the stack's settings; credentials of a
    cloud's cluster are no outputs, so there the user's own kubeconfig and context say it.

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
            raise RefusalError("STACK", place.stack, limit, "`make up` starts the local cluster")
    else:
        kubeconfig, context = _users(place, program, environment)
    namespace = place.namespace or _namespace(place.stack, settings, report)
    return Target(
        kubectl=Kubectl(program=program, kubeconfig=kubeconfig, context=context),
        namespace=namespace,
        local=own and settings is not None and settings.runs_on_own_local_cluster,
    )


def _settings(stack: str | None) -> Settings | None:
    """Return a stack's settings; None where no stack is meant, or another project's, whose outputs alone are known."""
    if stack is None or not Engine(pulumi=Path("pulumi"), stack=stack).config_file.is_file():
        return None
    return parse_settings(stack_config(stack))


def _users(place: Place, kubectl: Path, environment: Mapping[str, str]) -> tuple[Path, str]:
    listed = place.kubeconfig or environment.get("KUBECONFIG") or _USERS_KUBECONFIG
    files = [Path(name).expanduser() for name in listed.split(os.pathsep) if name]
    found = [file for file in files if file.is_file()]
    if not found:
        limit = "is no file, and the credentials of a cluster are not part of a stack's outputs"
        raise RefusalError("KUBECONFIG", listed, limit, "name your kubeconfig of the cluster: KUBECONFIG=…")
    contexts = {name: file for file in reversed(found) for name in _context_names(kubectl, file)}
    if place.context is None:
        limit = "which of the kubeconfig's contexts is the cluster must be said"
        fix = f"CONTEXT= one of {', '.join(sorted(contexts)) or '(there is none)'}"
        raise RefusalError("CONTEXT", None, limit, fix)
    if place.context not in contexts:
        raise RefusalError("CONTEXT", place.context, f"is not in {listed}", choices(place.context, contexts))
    return contexts[place.context], place.context


def _context_names(kubectl: Path, kubeconfig: Path) -> list[str]:
    command = [kubectl, f"--kubeconfig={kubeconfig}", "config", "get-contexts", "--output=name"]
    return run(command, timeout_seconds=60).split()


def _namespace(stack: str | None, settings: Settings | None, report: Progress) -> str:
    """Return the namespace in the stack's outputs; of a local stack that was never made, the one in its settings."""
    if stack is None:
        raise RefusalError("namespace", None, "is not said, and no stack that has it", "--namespace, or --stack")
    make_private_folders()
    outputs = _outputs(Engine(pulumi=ensure(["pulumi"], report)["pulumi"], stack=stack))
    if outputs:
        return PlatformOutputs.parse(outputs).namespace
    if settings is not None and settings.alicloud is None:
        return settings.namespace
    raise RefusalError(
        "STACK", stack, "has no outputs in this backend", f"`pulumi up -s {stack}` first, or name NAMESPACE="
    )


def _outputs(engine: Engine) -> dict[str, object]:
    try:
        return engine.outputs()
    except CommandError as error:
        if "no stack named" in error.output:
            return {}
        raise
