"""The platform that a command line refers to: that of a named stack, or that of the cluster."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from athanor.runs.backend import engine_variables
from infra.errors import RefusalError
from infra.outputs import PlatformOutputs

if TYPE_CHECKING:
    import argparse

    from athanor.runs.cluster import Cluster

_ENGINE_SECONDS = 120


def platform_of(given: argparse.Namespace, cluster: Cluster) -> PlatformOutputs:
    """Return the platform's outputs: in the stack of --platform, else in the cluster.

    Raises:
        RefusalError: there is no such stack, its outputs are not a platform's, or as `Cluster.platform`.
    """
    return outputs_of_stack(given.platform) if given.platform else cluster.platform()


def outputs_of_stack(stack: str) -> PlatformOutputs:
    """Return the outputs of a platform's stack.

    Args:
        stack: Its name, such as organization/athanor/local.

    Raises:
        RefusalError: the user's Pulumi backend has no such stack or does not answer, or it is not a platform's.
    """
    words = ["pulumi", "stack", "output", "--json", "--non-interactive", "--stack", stack]
    variables = {**os.environ, **engine_variables()}
    try:
        done = subprocess.run(
            words, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=_ENGINE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _unread(stack, f"was not read in {_ENGINE_SECONDS} s") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or [f"pulumi ended with {done.returncode}"])[-1]
        raise _unread(stack, f"cannot be read: {said.removeprefix('error: ')}")
    try:
        outputs = json.loads(done.stdout)
    except ValueError:
        raise _unread(stack, "cannot be read: pulumi wrote no JSON") from None
    return PlatformOutputs.parse(outputs, f"stack {stack}")


def _unread(stack: str, limit: str) -> RefusalError:
    return RefusalError("--platform", stack, limit, "name the stack as `pulumi stack ls --all` lists it")
