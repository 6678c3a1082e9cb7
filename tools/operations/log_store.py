"""Access to the log store through a port that kubectl forwards."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from athanor.inspection.log_store import LogStore
from infra.monitoring import NAMESPACE, VICTORIA_LOGS, VICTORIA_LOGS_PORT
from tools.errors import ExpectedError
from tools.process import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator

    from tools.kubectl import Kubectl


class NoLogStoreError(ExpectedError):
    """The cluster has none."""


@contextmanager
def log_store(kubectl: Kubectl) -> Generator[LogStore]:
    """Reach a cluster's store while the block runs.

    Raises:
        NoLogStoreError: there is none; the message says how to get one.
        CommandError: this user may not forward ports there, or the cluster could not be asked.
    """
    target = f"service/{VICTORIA_LOGS}"
    try:
        # Asked first: what kubectl says of a service without pods is about a timeout.
        kubectl.run("get", target, "-n", NAMESPACE, "-o", "name")
    except CommandError as error:
        if "(NotFound)" in error.output:
            raise NoLogStoreError(_NONE) from None
        raise
    with kubectl.port_forward(target, NAMESPACE, VICTORIA_LOGS_PORT) as address:
        store = LogStore(address)
        try:
            yield store
        finally:
            store.close()


_NONE = (
    f"this cluster has no log store (no service {VICTORIA_LOGS!r} in namespace {NAMESPACE!r}). Fix: set"
    " athanor:monitoring.logs.kind to victoria_logs and run `pulumi up`; with kind sls, read them in the Log Service's"
    " console"
)
