"""The role `evaluator`: measures each checkpoint on the test images, until the final one."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from trainer.common.files import read_json, write_atomically
from trainer.tf import framework, run
from trainer.tf.model import accuracy
from trainer.training import cifar

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.tf.config import RunConfig
    from trainer.tf.stop import Stop

logger = logging.getLogger("trainer")

EVALUATION_FILE = "evaluation.jsonl"
_LOOK_SECONDS = 0.5


def evaluate(config: RunConfig, rank: int, stop: Stop) -> int:
    """Write a line {step, accuracy} per checkpoint to evaluation.jsonl; skip those that a faster chief left behind.

    Raises:
        DataError: the data set cannot be used.
        DeviceError: see `framework.load`.
    """
    records = cifar.load_records(config.data_dir, "test")
    tf = framework.load(num_gpu=config.num_gpu, one_gpu=True)
    # only now: a task that is refused leaves nothing behind
    events = run.open_log(config, rank)
    state = run.State.create(tf, config)
    checkpoint = state.checkpoint(tf)
    path = config.folders.run / EVALUATION_FILE
    done = _read(path)
    while True:
        # before the checkpoint: the result comes after the final one, so none can be missed
        result = read_json(config.folders.result)
        latest = tf.train.latest_checkpoint(str(config.folders.checkpoints))
        if latest and run.step_of(latest) not in {line["step"] for line in done}:
            if _restore(tf, checkpoint, latest):
                done.append({"step": state.current_step, "accuracy": accuracy(tf, state.network, records)})
                write_atomically(path, "".join(json.dumps(line) + "\n" for line in done).encode())
                events.write("evaluated", **done[-1])
                logger.info("step %d: accuracy %.4g", done[-1]["step"], done[-1]["accuracy"])
        elif result is not None:
            events.write("finished", step=result["steps"], role="evaluator 0")
            return 0
        else:
            stop.wait(_LOOK_SECONDS)


def _restore(tf: Any, checkpoint: Any, path: str) -> bool:  # noqa: ANN401
    """Read a checkpoint; False when the chief has removed it meanwhile."""
    try:
        checkpoint.restore(path).assert_consumed()
    except tf.errors.NotFoundError:
        return False
    return True


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the measurements from before a restart."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
