"""The estimate of a dry run against what two real ranks keep and send."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.trainer.pytorch.parallel.measure_memory import GPT, SAMPLES
from trainer.dry_run import DryRunConfig, estimates
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.estimate import _MESSAGES_OF_BLOCK, _REPEATED_MESSAGES
from trainer.pytorch.precision import PrecisionConfig

REPOSITORY = Path(__file__).resolve().parents[5]
PROGRAM = Path(__file__).with_name("measure_memory.py")
TOLERANCE = 0.03
"""Of a block's activations: the means of normalisations and the sums of attention are not estimated."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> dict:
    output = tmp_path_factory.mktemp("memory") / "measured.json"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", PROGRAM, str(rank), str(port), str(output)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [rank.communicate(timeout=300)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
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
