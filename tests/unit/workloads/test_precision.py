"""PyTorchJob's precision: checked against GPUs and layout at preview, and read by the trainer as it was meant."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest

from infra.errors import RefusalError
from infra.offers import PlatformOffers
from infra.pod_network_modes import SharedEni
from tests.recording_engine import record
from tests.tables import each_row
from tests.unit.workloads.job_cases import gpu_pool, plain_platform, words_for_the_trainer
from trainer.pytorch.config import parse
from workloads.parallel import Parallel
from workloads.placement import Placement
from workloads.precision import check_precision
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.resources import Resources

A10 = gpu_pool("ecs.gn7i-c8g1.2xlarge", name="a10", gpus_per_node=1, gpu_memory_gib=24)
T4 = gpu_pool("ecs.gn6i-c4g1.xlarge", name="t4", gpus_per_node=1, gpu_memory_gib=16)
UNKNOWN = dataclasses.replace(A10, name="unknown", compute_capability=None)
PROGRAM = ("-m", "trainer.train", "--data_dir=/d", "--output_dir=/o")


def job(program=PROGRAM, gpus=0, **fields) -> PyTorchJobArgs:
    return PyTorchJobArgs(program=program, workers=2, resources=Resources(gpus=gpus), **fields)


def placement(pool, gpus=1):
    return Placement(pods=1, own_labels={}, resources=Resources(gpus=gpus), network=SharedEni(), pool=pool, rdma=None)


@each_row("precision", ["fp32", "bf16_autocast", "bf16", None])
def test_the_trainer_reads_the_precision_that_the_job_was_given(precision):
    assert parse(words_for_the_trainer(job(precision=precision))).precision.precision == (precision or "fp32")


@each_row("float32_matmul", ["highest", "high", "medium", None])
def test_the_trainer_multiplies_as_exactly_as_the_job_says(float32_matmul):
    read = parse(words_for_the_trainer(job(float32_matmul=float32_matmul, precision="fp32"))).precision
    assert read.float32_matmul == (float32_matmul or "highest")


@each_row(
    ("fields", "refusal"),
    [
        ({"float32_matmul": "low"}, r"float32_matmul"),
        ({"float32_matmul": "high", "program": (*PROGRAM, "--float32_matmul=high")}, r"which float32_matmul sets"),
        (
            {"float32_matmul": "high", "precision": "bf16"},
            r"float32_matmul = 'high': .* with precision='bf16' they are in bfloat16\. Fix: omit one of them",
        ),
        ({"precision": "fp16"}, r"precision"),
        ({"precision": "bf16", "program": (*PROGRAM, "--precision=fp32")}, r"has --precision, which precision sets"),
        (
            {"precision": "bf16_autocast", "parallel": Parallel(shard=2)},
            r"precision = 'bf16_autocast': .*2 ranks divide it.* Fix: use bf16",
        ),
    ],
)
def test_what_the_trainer_would_refuse_is_refused_at_preview(fields, refusal):
    with pytest.raises(RefusalError, match=refusal):
        job(**fields)


def test_a_divided_model_computes_in_bfloat16_and_replicas_may_use_autocast():
    assert job(precision="bf16", parallel=Parallel(shard=2)).precision == "bf16"
    assert job(precision="bf16_autocast", parallel=Parallel(replicate=2)).precision == "bf16_autocast"


@each_row(
    ("precision", "pool", "pools", "gpus"),
    [
        ("bf16", "a10", (A10, T4), 1),
        ("bf16", None, (A10, UNKNOWN), 1),
        ("bf16", "unknown", (UNKNOWN,), 1),
        ("bf16", None, (T4,), 0),
        ("fp32", "t4", (T4,), 1),
        (None, "t4", (T4,), 1),
    ],
)
def test_gpus_that_compute_the_numbers_are_taken(precision, pool, pools, gpus):
    check_precision(precision, placement(pool, gpus), PlatformOffers(pools=pools))


@each_row(("precision", "pool"), product(["bf16", "bf16_autocast"], ["t4", None]))
def test_bfloat16_is_refused_where_the_pods_may_get_older_gpus(precision, pool):
    refusal = (
        rf"precision = '{precision}': needs GPUs of compute capability 8\.0 .* pool 't4', .* has 7\.5\. Fix: use fp32"
    )
    with pytest.raises(RefusalError, match=refusal):
        check_precision(precision, placement(pool), PlatformOffers(pools=(A10, T4)))


def test_a_job_is_refused_at_preview():
    def declare():
        platform = dataclasses.replace(plain_platform(), offers=PlatformOffers(pools=(T4,)))
        PyTorchJob("job", platform, job(gpus=1, pool="t4", precision="bf16"))

    with pytest.raises(RefusalError, match=r"precision = 'bf16'"):
        record(declare, preview=True)
