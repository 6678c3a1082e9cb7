"""What `trainer.train` runs once its modules are there."""

from __future__ import annotations

import gc
import sys

from torch.distributed.elastic.multiprocessing.errors import record

from trainer.pytorch.config import parse
from trainer.pytorch.loop import Outcome, Trainer
from trainer.training.events import log_to_stderr
from trainer.training.signals import STOPPED_EXIT_STATUS, StopRequest


@record
def run() -> None:
    """Run the command line.

    Raises:
        SystemExit: 2 for wrong arguments, 143 after a stop on request.
    """
    config = parse()
    log_to_stderr()
    trainer = Trainer(config)
    gc.freeze()  # what is there now stays: later collections need not look at it
    gc.enable()
    # not before: a process that waits for others has nothing to save and should end at once when asked to
    stop = StopRequest()
    try:
        outcome = trainer.train(stop)
    finally:
        trainer.close()
        stop.close()
    if outcome is Outcome.STOPPED:
        sys.exit(STOPPED_EXIT_STATUS)
