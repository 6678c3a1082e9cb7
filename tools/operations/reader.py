"""Reads the objects for a diagnosis from a cluster. No other module here sends requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from athanor.inspection.last_words import last_words
from athanor.inspection.reader import Asked
from athanor.inspection.reader import read as read_from
from athanor.inspection.reader import read_for_status as read_status_from
from tools.operations.log_lines import readable
from tools.process import CommandError

if TYPE_CHECKING:
    from athanor.inspection.containers import LogReference
    from athanor.inspection.objects import Snapshot
    from tools.kubectl import Kubectl

_TAIL_LINES = 400
"""Lines that are searched for the last error: after it come the reports of torchrun and of other ranks."""


def asked(kubectl: Kubectl) -> Asked:
    """Return the cluster of a kubectl, for those who ask in any way."""
    return Asked(run=kubectl.run, items=kubectl.items, failure=CommandError)


def read(kubectl: Kubectl, namespace: str) -> Snapshot:
    """Return the present state of the cluster, as far as this user may read it.

    Raises:
        CommandError: the cluster could not be asked.
    """
    return read_from(asked(kubectl), namespace)


def read_for_status(kubectl: Kubectl, namespace: str) -> Snapshot:
    """Return the state for the tables of `make status`; otherwise as `read`."""
    return read_status_from(asked(kubectl), namespace)


def last_lines(kubectl: Kubectl, namespace: str, log: LogReference) -> list[str]:
    """Return a container's last lines about its end, for people; nothing where its log was deleted with the pod."""
    words = ["logs", log.pod, "-n", namespace, "-c", log.container, f"--tail={_TAIL_LINES}"]
    try:
        said = kubectl.run(*words, *(["--previous"] if log.previous else []))
    except CommandError:
        return []
    lines = [readable(line.encode()).decode() for line in said.removesuffix("\n").split("\n")]
    return last_words([part for line in lines for part in line.split("\n")]) if said else []
