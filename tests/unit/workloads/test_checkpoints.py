"""PyTorchJob's policy for checkpoints: checked at preview, and handed to the trainer as it reads it."""

from __future__ import annotations

import pytest

from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.workloads.job_cases import words_for_the_trainer
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.config import parse
from workloads.checkpoints import Checkpoints
from workloads.parallel import Parallel
from workloads.pytorch import PyTorchJobArgs
from workloads.resources import Resources

PROGRAM = ("-m", "trainer.train", "--data_dir=/d", "--output_dir=/o")


def _args(program=PROGRAM, **fields) -> PyTorchJobArgs:
    return PyTorchJobArgs(program=program, workers=2, resources=Resources(), **fields)


@each_row(
    ("checkpoints", "read"),
    [
        (Checkpoints(), CheckpointConfig()),
        (
            Checkpoints(mode="async", every=50, keep_latest=2, keep_every=500, keep_best="loss"),
            CheckpointConfig(
                checkpoint_mode="async",
                checkpoint_interval_steps=50,
                keep_latest_k=2,
                keep_every_n_steps=500,
                keep_best="loss",
            ),
        ),
    ],
)
def test_the_trainer_reads_the_policy_that_the_job_was_given(checkpoints, read):
    config = parse(words_for_the_trainer(_args(checkpoints=checkpoints, parallel=Parallel(shard=2))))
    assert config.checkpoint == read
    assert config.parallel.data_parallel_shard == 2


@each_row(
    ("values", "refusal"),
    [
        ({"every": 0}, r"checkpoints\.every = 0"),
        ({"keep_latest": 0}, r"checkpoints\.keep_latest = 0"),
        ({"keep_every": 150}, r"checkpoints\.keep_every = 150: .*not a multiple of every=100.* Fix: use 200"),
        ({"mode": "thread"}, r"checkpoints\.mode"),
        ({"keep_best": "best"}, r"checkpoints\.keep_best"),
    ],
)
def test_a_policy_that_the_trainer_would_refuse_is_refused_at_preview(values, refusal):
    with pytest.raises(RefusalError, match=refusal):
        Checkpoints(**values)


def test_the_program_does_not_say_it_again():
    with pytest.raises(RefusalError, match=r"program = .*has --keep_latest_k, which checkpoints sets, too"):
        _args((*PROGRAM, "--keep_latest_k=5"), checkpoints=Checkpoints())
