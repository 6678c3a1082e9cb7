"""Secrets of jobs: existing ones as files in the pods, and those whose values the program declares.

The Secret with a program's values has a fixed name. A digest of the values would become part of the job's name, from
which a short value could be guessed; so new values restart nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import pulumi

from infra.descriptions import Input, Masked, checked
from infra.errors import RefusalError
from infra.kubernetes.grammar import AbsolutePath, DnsSubdomain, Word
from infra.workload_labels import JOB_LABEL, OWNER_LABEL
from workloads.checks import OwnVariableName
from workloads.pods import Mount, check_mount_path

if TYPE_CHECKING:
    from infra.manifests import Manifest

SecretVariables = Annotated[Mapping[OwnVariableName, Input[Word]], Masked]
"""Variables whose values are secret; refusals do not repeat them."""


@checked("secret_files")
@dataclass(frozen=True, kw_only=True)
class SecretFiles:
    """A Secret that the pods see as a folder, read-only, with a file for each key."""

    secret: DnsSubdomain
    """Name of a Secret in the workloads' namespace."""
    path: AbsolutePath
    """The folder, such as /secrets/gcs."""

    def __post_init__(self) -> None:
        """Refuse a path that would hide what every pod has."""
        check_mount_path("secret_files.path", self.path)

    def __str__(self) -> str:
        """Return it as `athanor run --secret` takes it."""
        return f"{self.secret}:{self.path}"


def secret_mounts(files: Sequence[SecretFiles]) -> list[Mount]:
    """Return the user's Secrets as mounts; the group of the pod's user may read them."""
    return [
        Mount(name=f"secret-{number}", path=each.path, volume={"secret": _volume(each)})
        for number, each in enumerate(files)
    ]


def _volume(files: SecretFiles) -> Manifest:
    return {"secretName": files.secret, "defaultMode": 0o440}


def check_variables(secret: Mapping[str, object], plain: Mapping[str, str]) -> None:
    """Refuse a variable that is both secret and not.

    Raises:
        RefusalError: naming it.
    """
    if twice := sorted(set(secret) & set(plain)):
        raise RefusalError("secret_env", twice[0], "is in env, too", "write it in one of the two")


def own_secret_name(job: str, owner: str) -> str:
    """Return the name of a job's own Secret; no part of it contains a dot."""
    return f"secret.{job}.{owner}"


def own_secret_manifest(
    variables: Mapping[str, pulumi.Input[str]], job: str, owner: str, namespace: pulumi.Input[str]
) -> Manifest:
    """Return the Secret that holds a job's variables; the engine keeps its values encrypted.

    Args:
        variables: Values by the variables' names.
        job: The job's logical name.
        owner: The stack that declares it, as in the label athanor.dev/owner.
        namespace: The workloads' namespace.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": own_secret_name(job, owner),
            "namespace": namespace,
            "labels": {JOB_LABEL: job, OWNER_LABEL: owner},
        },
        "type": "Opaque",
        "data": pulumi.Output.secret(pulumi.Output.all(**variables).apply(_encoded)),
    }


def _encoded(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(value.encode()).decode() for name, value in variables.items()}
