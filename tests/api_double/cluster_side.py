"""What an account needs of the real cluster behind its ACK clusters, and what stands there where there is none."""

from __future__ import annotations

from typing import Protocol


class ClusterSide(Protocol):
    """A real cluster that is kept like the account's clusters."""

    @property
    def kubeconfig(self) -> str | None:
        """What the API hands out; None where no cluster can be reached."""
        ...

    @property
    def server(self) -> str:
        """Address of the API server."""
        ...

    @property
    def busy(self) -> bool:
        """Whether the cluster is not yet as the account is."""
        ...

    def start(self) -> None:
        """Begin to keep the cluster as the account is."""

    def close(self) -> None:
        """Stop."""

    def changed(self) -> None:
        """Say that the account has changed."""

    def await_idle(self) -> None:
        """Wait until the cluster is as the account is, or cannot be."""


class NoCluster:
    """The side of an account whose clusters and node pools exist in the API alone."""

    kubeconfig: str | None = None
    server = "https://127.0.0.1:6443"
    busy = False

    def start(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def changed(self) -> None:
        """Do nothing."""

    def await_idle(self) -> None:
        """Do nothing: nothing has to follow."""
