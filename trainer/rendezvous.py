"""Hosts the rendezvous store of an elastic job: `python3 -m trainer.rendezvous --port 29400`.

Without it the first torchrun hosts the store, and losing that one pod loses the job. The torchruns take
`--rdzv-backend=c10d --rdzv-endpoint=<this pod>:<port> --rdzv-conf=is_host=false,…`.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.distributed as dist

from trainer.common import command_line
from trainer.common.validation import between
from trainer.training.signals import STOP_SIGNALS

if TYPE_CHECKING:
    from types import FrameType

_BACKLOG = 1024  # a thousand pods that start together connect within one second


@dataclass(frozen=True, kw_only=True)
class RendezvousConfig:
    """Serve the c10d store through which the torchruns of an elastic job find each other, until SIGTERM."""

    port: int = 29400
    """TCP port; 0 takes a free one and says which."""
    host: str = "0.0.0.0"  # noqa: S104  the other pods of the job connect from outside of this pod
    """Address to listen on."""

    def __post_init__(self) -> None:
        between("port", self.port, 0, 65535)


class RendezvousStore:
    """A listening c10d store; it lives in threads of this process."""

    def __init__(self, config: RendezvousConfig) -> None:
        """Start to listen.

        Raises:
            OSError: the address is not one of this machine's, or the port is taken.
        """
        # a socket of our own: the store by itself listens on every address
        listener = socket.create_server((config.host, config.port), backlog=_BACKLOG)
        address, self.port = listener.getsockname()
        self._store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
            "127.0.0.1" if address == "0.0.0.0" else address,  # noqa: S104  where it connects to itself
            self.port,
            is_master=True,
            wait_for_workers=False,
            # the store owns the descriptor from here on
            master_listen_fd=listener.detach(),
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 after a stop on request, 1 when it cannot listen."""
    config = command_line.parse(RendezvousConfig, "trainer.rendezvous", arguments)
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    previous = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
    try:
        store = RendezvousStore(config)
    except OSError as error:
        print(f"rendezvous: host={config.host} port={config.port}: {error.strerror}", file=sys.stderr)
        return 1
    else:
        print(f"rendezvous: listening on {config.host}:{store.port}", flush=True)
        stop.wait()
        return 0
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
