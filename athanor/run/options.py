"""Errors of the job classes in terms of command-line options, in place of the classes' fields.

The classes' messages name nothing in Python that a user of the command line could have written. Checks that concern
only options, or need other words there, come earlier: pasted.py, torchrun.py, mpirun.py, description.py and fit.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from infra.errors import RefusalError
from workloads.accelerators import WholeGpus

_COMMAND = "command"
OPTIONS = {
    "job name": "--name",
    "workers": "--workers",
    "pods": "--workers",
    "minimum_workers": "--elastic",
    "processes_per_worker": "--processes",
    "slots_per_worker": "--processes",
    "program": _COMMAND,
    "command": _COMMAND,
    "mpirun_options": _COMMAND,
    "source": "--workdir",
    "image": "--image",
    "prepare": "--prepare",
    "requirements": "--requirements",
    "cache": "--cache",
    "run_as_user": "--run-as-user",
    "read_only_root": "--writable-root",
    "env": "--env",
    "secrets": "--secret",
    "secret_files": "--secret",
    "egress": "--egress",
    "volumes": "--volume",
    "queue": "--queue",
    "deadline_seconds": "--deadline",
    "max_restarts": "--max-restarts",
    "priority_class": "--priority",
    "resources.gpus": "--gpus",
    "resources.cpu": "--cpu",
    "resources.memory": "--memory",
    "resources.shared_memory": "--shared-memory",
    "node_labels": "--selector",
    "tolerations": "--toleration",
    "source.repository": "--git",
    "source.branch": "--git",
    "source.tag": "--git",
    "source.commit": "--git",
    "source.secret": "--git-secret",
    "source.subdirectory": "--git-folder",
    "parameter_servers.replicas": "--ps",
    "parameter_servers.resources.cpu": "--ps-cpu",
    "parameter_servers.resources.memory": "--ps-memory",
    "pool": "--pool",
}
"""Options by the fields of the classes, which also stand for what is in a field."""
_FIELD = re.compile(r"(?P<path>[^\[]+)(?:\['(?P<key>[^']*)'\])?.*", re.DOTALL)
"""A field, such as env['A'], program[0] or resources.gpus.count."""


@contextmanager
def refused_in_options() -> Generator[None]:
    """Refuse what the block refuses by the options that were typed.

    Raises:
        RefusalError: with an option, or `command`, as its field.
    """
    try:
        yield
    except RefusalError as refusal:
        raise in_options(refusal) from None


def in_options(refusal: RefusalError) -> RefusalError:
    """Return a refusal of a class by its option; one that has none, or names it already, stays as it is."""
    match = _FIELD.fullmatch(refusal.field)
    option = _option(match["path"]) if match else None
    if match is None or option is None:
        return refusal
    field = f"{option} {match['key']}" if match["key"] else option
    return RefusalError(field, _typed(refusal.value), refusal.limit, refusal.fix)


def _option(path: str) -> str | None:
    """Return the option of a field, or of the one that it is part of: resources.gpus.count is of resources.gpus."""
    while path and path not in OPTIONS:
        path = path.rpartition(".")[0]
    return OPTIONS.get(path)


def _typed(value: Any) -> Any:  # noqa: ANN401 - of any field
    """Return a value as it was typed."""
    if isinstance(value, WholeGpus):
        return value.count
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return shlex.join(str(word) for word in cast("Sequence[object]", value))
    return value
