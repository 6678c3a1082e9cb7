"""The main part of `trainer.train`, which runs once its modules are imported."""

from __future__ import annotations

import gc
import logging
import sys

from torch.distributed.elastic.multiprocessing.errors import get_error_handler, record

from trainer.common.validation import SettingsError
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.config import TrainConfig, parse
from trainer.pytorch.data.readers import DataWorkerError
from trainer.pytorch.distributed import MainRankError
from trainer.pytorch.export_config import ExportError
from trainer.pytorch.guard import PeersLostError
from trainer.pytorch.limits import LimitError
from trainer.pytorch.loop import NonFiniteError, Outcome, Trainer
from trainer.pytorch.out_of_memory import OutOfMemoryError
from trainer.pytorch.shared_volume import FolderError
from trainer.training.digits import DataError
from trainer.training.events import log_to_stderr
from trainer.training.signals import STOPPED_EXIT_STATUS, StopRequest

logger = logging.getLogger(__name__)

_FAILURES = (
    SettingsError,
    DataError,
    DataWorkerError,
    FolderError,
    LimitError,
    CheckpointError,
    ExportError,
    NonFiniteError,
    PeersLostError,
    MainRankError,
    OutOfMemoryError,
)
"""Errors whose messages say what happened and what to do: a traceback would hide that."""

NOT_AGAIN_EXIT_STATUS = 78
"""Exit status of what would fail in the same way again: EX_CONFIG of sysexits.h. Jobs do not restart it
(workloads/pytorch.py)."""
_WRONG_ARGUMENTS = 2
"""Exit status of wrong arguments by convention. Others fail with 2 for whatever reason, so jobs restart that."""


def run() -> None:
    """Run the command line.

    Raises:
        SystemExit: 1 after saying why training failed, 78 if it would fail again, for wrong arguments or lack of
            memory, 143 after a stop on request.
    """
    try:
        config = parse()
    except SystemExit as end:
        sys.exit(NOT_AGAIN_EXIT_STATUS if end.code == _WRONG_ARGUMENTS else end.code)
    log_to_stderr()
    outcome = _train(config)
    if outcome is Outcome.STOPPED:
        sys.exit(STOPPED_EXIT_STATUS)


@record
def _train(config: TrainConfig) -> Outcome:
    """Train; torchrun reads from what is recorded which rank failed first, and why."""
    try:
        return _outcome(config)
    except _FAILURES as error:
        logger.error("%s", error)  # noqa: TRY400  without the traceback
        _record_message(error)
        again = isinstance(error, OutOfMemoryError) and error.happens_again
        sys.exit(NOT_AGAIN_EXIT_STATUS if again else 1)


def _record_message(error: Exception) -> None:
    """Record an error as `record` would, but without the traceback, which torchrun prints for each rank."""
    error.__traceback__ = error.__cause__ = None
    error.__suppress_context__ = True
    get_error_handler().record_exception(error)


def _outcome(config: TrainConfig) -> Outcome:
    trainer = Trainer(config)
    gc.freeze()  # what is there now stays: later collections need not look at it
    gc.enable()
    # not before: a process that waits for others has nothing to save and should end at once when asked to
    stop = StopRequest()
    try:
        return trainer.train(stop)
    finally:
        trainer.close()
        stop.close()
