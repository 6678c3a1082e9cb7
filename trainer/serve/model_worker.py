"""The process of one model, seen from the server: started, called, and started again when it dies."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from trainer.serve import worker_channel
from trainer.serve.errors import ModelLoadError, RequestError, WorkerDiedError, unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.repository import Candidate

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 60.0
"""How long a call waits for a process that is being started."""
_STEADY_SECONDS = 60.0
"""A process that lived for so long is restarted at once; after that the pauses double."""
_MAX_PAUSE_SECONDS = 30.0
_END_SECONDS = 5.0
_MAX_DEATHS = 2
"""While a version is loaded: then the version is at fault, not the machine."""


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """The settings that the process of a model is started with."""

    folder: Path
    """The model's, in the repository."""
    warmup_budget_seconds: float
    num_cpu_threads: int
    variant: str | None = None
    max_memory_mib: int | None = None

    @property
    def name(self) -> str:
        """The model's."""
        return self.folder.name

    def command(self, control_socket: int) -> list[str]:
        """Return the words that start the process."""
        return [
            *(sys.executable, "-m", "trainer.serve.worker"),
            f"--control_socket={control_socket}",
            f"--model_folder={self.folder}",
            f"--warmup_budget_seconds={self.warmup_budget_seconds}",
            *([] if self.variant is None else [f"--model_variant={self.variant}"]),
            *([] if self.max_memory_mib is None else [f"--max_memory_mib={self.max_memory_mib}"]),
        ]


class _Process:
    """One process, and the sockets of calls that are idle."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._popen = subprocess.Popen(
                settings.command(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OMP_NUM_THREADS": str(settings.num_cpu_threads)},
            )
        self._idle: SimpleQueue[socket.socket] = SimpleQueue()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def wait_until_ready(self) -> bool:
        """Return whether it takes calls; False where it has ended."""
        try:
            return bool(self._control.recv(1))
        except OSError:
            return False

    def call(self, document: dict[str, Any], arrays: Sequence[Array] = ()) -> tuple[dict[str, Any], list[Array]]:
        """Send a call and return its answer; an OSError where the process ends meanwhile."""
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = self._connect()
        try:
            worker_channel.send(connection, document, arrays)
            answer = worker_channel.receive(connection)
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return answer

    def release(self, handle: int) -> None:
        """Ask it to free a version, without waiting: the event loop must not block."""
        message = json.dumps({"release": handle}).encode()
        try:
            self._control.send(message, socket.MSG_DONTWAIT)
        except OSError as error:
            logger.debug("version %d is not released: %s", handle, error)

    def kill(self) -> None:
        self._popen.kill()

    def wait(self, seconds: float | None = None) -> str:
        """Return how it ended."""
        status = self._popen.wait(seconds)
        if status >= 0:
            return f"ended with exit code {status}"
        return f"was killed by signal {-status} ({signal.strsignal(-status)})"

    def close(self) -> None:
        self._control.close()
        while not self._idle.empty():
            self._idle.get().close()

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"c"], [theirs.fileno()])
        return ours


class RemoteModel:
    """A version in a model's process, with the interface of a LoadedModel; callable from any thread."""

    def __init__(self, worker: ModelWorker, handle: int, spec: ModelSpec, candidate: Candidate) -> None:
        self.spec = spec
        self.version = candidate.version
        self.handle = handle
        self.load_seconds = 0.0
        self.warmup_seconds = 0.0
        self.lost = ""
        self.deaths = 0
        """Of the process while it loaded this version again."""
        self._worker = worker
        self._config_text = candidate.config_text

    @property
    def problem(self) -> str:
        """Why it answers nothing at the moment."""
        return self.lost or self._worker.away

    @property
    def load_call(self) -> dict[str, Any]:
        """The call that loads it."""
        return {"call": "load", "handle": self.handle, "version": self.version, "config": self._config_text}

    def infer(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model in its process; see `Servable.infer`."""
        return self._worker.infer(self, inputs)

    def release(self) -> None:
        """Free the version in its process."""
        self._worker.release(self)


class ModelWorker:
    """Keeps the process of one model alive; the first version to load starts it."""

    def __init__(self, settings: WorkerSettings) -> None:
        self.name = settings.name
        self.restarts = 0
        """Since the server's start."""
        self._settings = settings
        self._changed = threading.Condition()
        self._process: _Process | None = None
        """The one that is being started, or takes calls."""
        self._takes_calls = False
        self.away = "its process is starting"
        """Why it takes no calls at the moment; empty while it does."""
        self._fails_to_start = False
        self._models: dict[int, RemoteModel] = {}
        self._handles = count(1)
        self._supervisor: threading.Thread | None = None
        self._stopping = threading.Event()

    def load(self, candidate: Candidate, spec: ModelSpec) -> RemoteModel:
        """Return a version that is ready to answer; see `servable.Load`. Belongs to the loader's thread."""
        if self._supervisor is None:
            self._supervisor = threading.Thread(target=self._supervise, name=f"worker-{self.name}", daemon=True)
            self._supervisor.start()
        model = RemoteModel(self, next(self._handles), spec, candidate)
        deaths = 0
        while True:
            try:
                self._load(model)
            except RequestError as error:
                raise OSError(str(error)) from error
            except WorkerDiedError as error:
                deaths += 1
                if deaths >= _MAX_DEATHS:
                    raise ModelLoadError(f"died {deaths} times while it was loaded: {error}") from error
            else:
                return model

    def infer(self, model: RemoteModel, inputs: Sequence[Array]) -> list[Array]:
        """Run a version in the process, once it is there; see `Servable.infer`."""
        process = self._running()
        if model.lost:
            raise unavailable(f"model {self.name!r}: {model.lost}")
        answer, outputs = self._call(process, {"call": "infer", "handle": model.handle}, inputs)
        _raise_error(answer)
        return outputs

    def release(self, model: RemoteModel) -> None:
        """Free a version."""
        with self._changed:
            self._models.pop(model.handle, None)
            process = self._process if self._takes_calls else None
        if process is not None:
            process.release(model.handle)

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._stopping.set()
        with self._changed:
            process = self._process
            self._changed.notify_all()
        if process is not None:
            process.kill()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                logger.warning("%s: its process %d does not end", self.name, process.pid)

    def _load(self, model: RemoteModel) -> None:
        process = self._running()
        answer, _ = self._call(process, model.load_call)
        _raise_error(answer)
        model.load_seconds, model.warmup_seconds = answer["load_seconds"], answer["warmup_seconds"]
        with self._changed:
            if self._process is not process:
                raise WorkerDiedError("it ended after that")
            self._models[model.handle] = model

    def _running(self) -> _Process:
        """Return the process once it takes calls."""

        def is_decided() -> bool:
            return self._takes_calls or self._fails_to_start or self._stopping.is_set()

        with self._changed:
            self._changed.wait_for(is_decided, _PATIENCE_SECONDS)
            if self._process is None or not self._takes_calls:
                raise unavailable(f"model {self.name!r} is not ready: {self.away}")
            return self._process

    def _call(
        self, process: _Process, document: dict[str, Any], arrays: Sequence[Array] = ()
    ) -> tuple[dict[str, Any], list[Array]]:
        try:
            return process.call(document, arrays)
        except OSError:
            # so that the reason is known, and nobody gets this process again
            process.kill()
            with self._changed:
                self._changed.wait_for(lambda: self._process is not process or self._stopping.is_set(), _END_SECONDS)
                raise WorkerDiedError(self.away or "the server stops") from None

    def _supervise(self) -> None:
        pause_seconds = 0.0
        while not self._stopping.is_set():
            began = time.monotonic()
            end = self._run_process()
            if self._stopping.is_set():
                return
            if time.monotonic() - began > _STEADY_SECONDS:
                pause_seconds = 0.0
            self._note_end(end, pause_seconds)
            self._stopping.wait(pause_seconds)
            pause_seconds = min(_MAX_PAUSE_SECONDS, max(1.0, 2 * pause_seconds))

    def _run_process(self) -> str:
        """Start a process and wait for its end; returns how it ended."""
        try:
            process = _Process(self._settings)
        except OSError as error:
            return f"cannot be started: {error}"
        with self._changed:
            self._process = process
        if self._stopping.is_set():
            process.kill()  # `stop` may have looked for it before it was there
        elif process.wait_until_ready() and self._load_again(process):
            self._announce(process)
        return process.wait()

    def _load_again(self, process: _Process) -> bool:
        """Load in a new process what the one before had; returns whether it survived that."""
        with self._changed:
            models = list(self._models.values())
        for model in models:
            try:
                answer, _ = process.call(model.load_call)
            except OSError:
                model.deaths += 1
                if model.deaths >= _MAX_DEATHS:
                    self._lose(model, f"its process died {model.deaths} times while it was loaded again")
                process.kill()
                return False
            model.deaths = 0
            if "error" in answer:
                self._lose(model, f"cannot be loaded again: {answer['error']}")
        return True

    def _lose(self, model: RemoteModel, reason: str) -> None:
        logger.error("%s version %d: %s", self.name, model.version, reason)
        with self._changed:
            model.lost = reason
            self._models.pop(model.handle, None)

    def _announce(self, process: _Process) -> None:
        with self._changed:
            self._takes_calls = True
            self._fails_to_start = False
            self.away = ""
            self._changed.notify_all()
        logger.info("%s: process %d takes calls", self.name, process.pid)

    def _note_end(self, end: str, pause_seconds: float) -> None:
        self.restarts += 1
        with self._changed:
            process, self._process = self._process, None
            # requests wait for one start; when that fails, too, they are refused until one succeeds
            self._fails_to_start = not self._takes_calls
            self._takes_calls = False
            self.away = f"its process {end} and is being restarted"
            self._changed.notify_all()
        which = "its process" if process is None else f"process {process.pid}"
        logger.error("%s: %s %s; the next one starts in %g s", self.name, which, end, pause_seconds)
        if process is not None:
            process.close()


def _raise_error(answer: dict[str, Any]) -> None:
    """Raise what the model's process answered instead of a result."""
    if "error" not in answer:
        return
    kinds: dict[str, type[Exception]] = {"load": ModelLoadError, "storage": OSError, "model": RuntimeError}
    raise kinds[answer["kind"]](answer["error"])
