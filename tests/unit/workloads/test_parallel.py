"""PyTorchJob's degrees of parallelism: checked against the ranks, and handed to the trainer as it reads them."""

from __future__ import annotations

import dataclasses

import pytest

from infra.errors import RefusalError
from tests.tables import each_row
from tests.unit.workloads.job_cases import manifest_of, pod, words_for_the_trainer
from trainer.pytorch.config import parse
from trainer.pytorch.parallel.degrees import ParallelConfig
from workloads.parallel import Parallel
from workloads.pytorch import PyTorchJobArgs
from workloads.resources import Resources

ARGS = PyTorchJobArgs(
    program=("-m", "trainer.train", "--data_dir=/d", "--output_dir=/o"),
    workers=4,
    processes_per_worker=8,
    resources=Resources(gpus=8),
)


def _args(parallel: Parallel, **changes: object) -> PyTorchJobArgs:
    return dataclasses.replace(ARGS, parallel=parallel, **changes)


@each_row(
    "parallel",
    [
        Parallel(shard=8, tensor=2),
        Parallel(replicate=2, shard=2, tensor=4, pipeline=2, schedule="interleaved_1f1b", microbatches=4),
        Parallel(),
    ],
)
def test_the_trainer_reads_the_degrees_that_the_job_was_given(parallel):
    read = parse(words_for_the_trainer(_args(parallel))).parallel
    assert read == ParallelConfig(
        data_parallel_replicate=parallel.replicate or 0,
        data_parallel_shard=parallel.shard,
        tensor_parallel=parallel.tensor,
        pipeline_parallel=parallel.pipeline,
        pipeline_schedule=parallel.schedule,
        microbatches=parallel.microbatches,
    )
    assert read.degrees(32).data == 32 // (parallel.tensor * parallel.pipeline)


def test_a_job_without_degrees_runs_its_program_as_it_is():
    [container] = pod(manifest_of(ARGS), "worker")["containers"]
    assert container["args"][-4:] == list(ARGS.program)


@each_row(
    ("parallel", "changes", "message"),
    [
        (Parallel(tensor=16), {}, r"parallel\.tensor = 16: .*8 ranks of a worker.* Fix: use one of 1, 2, 4, 8,"),
        (Parallel(shard=3), {}, r"shard x tensor x pipeline is 3, .* 32 ranks.* Fix: .*one of 1, 2, 4, 8, 16, 32"),
        (Parallel(pipeline=3, microbatches=3), {}, r"is 3, .* the 32 ranks.* Fix: use 3 ranks, or a multiple of that"),
        (
            Parallel(replicate=2, shard=8),
            {},
            r"parallel\.replicate = 2: needs 16 ranks, 8 per replica, but there are 32.* Fix: use 4",
        ),
        (Parallel(shard=16), {"minimum_workers": 2}, r"is 16, but any worker of an elastic job may be lost"),
        (Parallel(replicate=4), {"minimum_workers": 2}, r"parallel\.replicate = 4: .*come and go.* Fix: omit it"),
        (
            Parallel(shard=8),
            {"program": ("-m", "trainer.train", "--tensor_parallel=2")},
            r"has --tensor_parallel, which parallel sets, too",
        ),
    ],
)
def test_degrees_that_do_not_fit_the_ranks_are_refused(parallel, changes, message):
    with pytest.raises(RefusalError, match=message):
        _args(parallel, **changes)


@each_row(
    ("values", "message"),
    [
        ({"shard": 0}, r"parallel\.shard = 0"),
        ({"replicate": 0}, r"parallel\.replicate = 0"),
        ({"pipeline": 4}, r"parallel\.microbatches = 1: .*the 4 stages.* Fix: use 16"),
        ({"pipeline": 2, "microbatches": 3, "schedule": "interleaved_1f1b"}, r"multiple of the 2 stages"),
        ({"schedule": "zero_bubble"}, r"parallel\.schedule"),
    ],
)
def test_degrees_that_no_job_can_have_are_refused(values, message):
    with pytest.raises(RefusalError, match=message):
        Parallel(**values)


def test_an_elastic_job_may_shard_within_a_worker():
    _args(Parallel(shard=4, tensor=2), minimum_workers=1)
