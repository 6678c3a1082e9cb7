"""The estimate of a dry run against what two real ranks keep and send."""

from __future__ import annotations

import json

import pytest

from tests.unit.trainer.pytorch.parallel.measure_memory import GPT, SAMPLES
from trainer.dry_run import DryRunConfig, estimates
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.estimate import _MESSAGES_OF_BLOCK, _REPEATED_MESSAGES
from trainer.pytorch.precision import PrecisionConfig

TOLERANCE = 0.03
"""Of a block's activations: the means of normalisations and the sums of attention are not estimated."""


@pytest.fixture(scope="module")
def measured(run_ranks, tmp_path_factory) -> dict:
    output = tmp_path_factory.mktemp("memory") / "measured.json"
    run_ranks("tests.unit.trainer.pytorch.parallel.measure_memory", 2, output)
    return json.loads(output.read_text())


@pytest.mark.parametrize("mode", ["none", "selective", "full"])
def test_a_block_keeps_and_sends_what_is_estimated(measured, mode):
    kept, messages = measured[mode]
    values = GPT.plan().activations.kept_by_block[mode].of_rank(2)
    assert kept == pytest.approx(values * 4 * SAMPLES, rel=TOLERANCE)
    assert messages == _MESSAGES_OF_BLOCK + (0 if mode == "none" else _REPEATED_MESSAGES)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_fsdp_keeps_whole_gradients_in_float32_between_microbatches(measured, precision):
    parallel = ParallelConfig(data_parallel_shard=2, microbatches=2)
    own = PrecisionConfig(precision=precision)
    [cost] = estimates(DryRunConfig(ranks=2, batch_size=4, model=GPT, parallel=parallel, precision=own))
    # the gradients of its own parameters are a part of the state
    assert measured["gradients"][precision] == cost.whole_gradient_bytes + 4 * cost.parameters
