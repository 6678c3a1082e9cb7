"""The process of one model, in a server of several: `python -m trainer.serve.worker`, started by `model_worker`.

It gets sockets for calls over the one that it was started with, and answers each on a thread of its own. It ends when
that first socket closes: it never outlives the server, however that ends.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import resource
import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer.common import command_line
from trainer.common.log_lines import log_to_stderr
from trainer.serve import model_config, repository, worker_channel
from trainer.serve.errors import ModelLoadError
from trainer.serve.local_models import LocalModels
from trainer.serve.repository import Candidate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.serve.model import LoadedModel
    from trainer.serve.protocol.tensors import Array

logger = logging.getLogger(__name__)

READY = b"r"
"""Message that the process sends once it takes calls."""
_MAX_MESSAGE_BYTES = 256
_MAX_REASON_CHARACTERS = 4000
_MEBIBYTE = 1 << 20
_PAGE_BYTES = resource.getpagesize()
_Answer = tuple[dict[str, Any], "Sequence[Array]"]


@dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """The process of one of several models. The server starts it."""

    control_socket: int
    """File descriptor of the socket over which the server hands out the sockets of calls."""
    model_folder: Path
    """The model's folder in the repository."""
    warmup_budget_seconds: float
    """Longest warm-up of a version."""
    model_variant: str | None = None
    """Variant of the versions to load."""
    max_memory_mib: int | None = None
    """Memory that it may take beyond what it has before it loads anything."""


class ModelCalls:
    """Loads versions of a model and runs them."""

    def __init__(self, folder: Path, warmup_budget_seconds: float, variant: str | None) -> None:
        self._folder = folder
        self._variant = variant
        self._models = LocalModels(warmup_budget_seconds, variant)
        self._loaded: dict[int, LoadedModel] = {}
        """By the number that the server gave each."""

    def release(self, handle: int) -> None:
        """Free a version."""
        loaded = self._loaded.pop(handle, None)
        if loaded is not None:
            loaded.release()

    def answer(self, call: dict[str, Any], inputs: Sequence[Array]) -> _Answer:
        """Return the answer to a call: of an error, its kind and its reason."""
        try:
            if call["call"] == "infer":
                return {}, self._loaded[call["handle"]].infer(inputs)
            return self._load(call["handle"], call["version"], call["config"]), ()
        except Exception as error:  # noqa: BLE001  whatever a model raises, the server has to know
            return {"error": _reason(error), "kind": _kind(error)}, ()

    def _load(self, handle: int, version: int, config_text: str) -> dict[str, Any]:
        spec = model_config.parse(config_text, self._folder.name, variant=self._variant)
        folder = self._folder / str(version)
        candidate = Candidate(
            version=version,
            folder=folder,
            model_file=repository.model_path(folder, spec),
            config_text=config_text,
            signature=(),
        )
        loaded = self._models.load(candidate, spec)
        self._loaded[handle] = loaded
        return {"load_seconds": loaded.load_seconds, "warmup_seconds": loaded.warmup_seconds}


def serve(control: socket.socket, calls: ModelCalls) -> None:
    """Answer calls until the server closes the control socket."""
    control.sendall(READY)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, _MAX_MESSAGE_BYTES, 1)
        if not message:
            return
        if descriptors:
            connection = socket.socket(fileno=descriptors[0])
            threading.Thread(target=_answer_calls, args=(connection, calls), daemon=True).start()
        else:
            calls.release(json.loads(message)["release"])


def _answer_calls(connection: socket.socket, calls: ModelCalls) -> None:
    try:
        while True:
            worker_channel.send(connection, *calls.answer(*worker_channel.receive(connection)))
    except OSError:
        connection.close()


def _reason(error: Exception) -> str:
    # the end of it has the reason: TorchScript puts its trace before it
    return (str(error) or type(error).__name__)[-_MAX_REASON_CHARACTERS:]


def _kind(error: Exception) -> str:
    if isinstance(error, ModelLoadError):
        return "load"
    return "storage" if isinstance(error, OSError) else "model"


def limit_memory(mebibytes: int) -> None:
    """Limit the memory that this process may allocate beyond its present use; more than that fails to allocate.

    RLIMIT_DATA counts private writable memory: heap, arrays, stacks. RLIMIT_AS would also count the libraries' files,
    gigabytes that take no memory; watching the resident size would notice too late, when the container is already being
    killed with all models in it.
    """
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    limit = pages * _PAGE_BYTES + mebibytes * _MEBIBYTE
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main() -> None:
    """Serve one model until the server goes."""
    # a terminal's Ctrl-C, and a service manager's SIGTERM, reach all processes: the server decides when this one ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    config = command_line.parse(WorkerConfig, "trainer.serve.worker")
    log_to_stderr(logging.getLogger())
    if config.max_memory_mib is not None:
        limit_memory(config.max_memory_mib)
    calls = ModelCalls(config.model_folder, config.warmup_budget_seconds, config.model_variant)
    gc.freeze()  # as the server does, for the same reason
    serve(socket.socket(fileno=config.control_socket), calls)
    # not through the interpreter's end, as the server: a thread may still be inside torch
    os._exit(0)


if __name__ == "__main__":
    main()
