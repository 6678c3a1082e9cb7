"""Dropout of a run that resumes in another layout of as many ranks; on four ranks, too."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from tests.unit.trainer.pytorch.small_runs import StopAt
from trainer.pytorch import runtime
from trainer.pytorch.loop import Outcome, Trainer
from trainer.pytorch.parallel import random_numbers


@pytest.fixture
def dropped(run_ranks, data_dir, tmp_path):
    """Train to a step in a layout, and return what each rank dropped in it."""

    def train(stop_at: int, *, shard: int, tensor: int) -> list[list[bool]]:
        program = "tests.unit.trainer.pytorch.parallel.train_with_dropout"
        said = run_ranks(program, 4, data_dir, tmp_path, stop_at, shard, tensor)
        # of torch, which nobody who reads a run's log can act on
        assert "returned a view tensor" not in "".join(said)
        assert "sequential all_reduce operations" not in "".join(said)
        [printed] = [line for line in said[0].splitlines() if line.startswith("[[")]
        return json.loads(printed)

    return train


def test_ranks_of_a_group_drop_the_same_and_ranks_with_other_samples_do_not(dropped):
    sharded = dropped(2, shard=4, tensor=1)
    assert different(sharded) == 4
    divided = dropped(4, shard=2, tensor=2)
    assert divided[0] == divided[1]
    assert divided[2] == divided[3]
    assert different(divided) == 2


def different(masks: list[list[bool]]) -> int:
    return len({tuple(mask) for mask in masks})


def state(seed: int) -> dict[str, torch.Tensor]:
    return {"cpu": torch.Generator().manual_seed(seed).get_state()}


@pytest.mark.parametrize(
    ("ranks", "continues"),
    [
        ([(0, 0, 1), (0, 0, 1), (0, 1, 2), (0, 1, 2)], True),  # tensor-parallel groups, as they were saved
        ([(0, 0, 1), (0, 1, 1), (0, 2, 2), (0, 3, 2)], False),  # shards, saved by tensor-parallel groups
        ([(0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 2)], True),  # stages, which have drawn equally often
    ],
)
def test_ranks_with_other_samples_do_not_continue_with_the_same_numbers(ranks, continues):
    """Each rank: its stage, which samples it has, and the seed of the state that it reads."""
    torch.manual_seed(99)
    stage, data_rank, seed = ranks[1]
    mesh = [(stage, data, random_numbers._digest(state(seed))) for stage, data, seed in ranks]
    distributed = SimpleNamespace(rank=1, device=torch.device("cpu"), gather=lambda own: [own, *mesh])
    layout = SimpleNamespace(pipeline_rank=stage, data_rank=data_rank, tensor_rank=0)
    random_numbers.continue_from({"rank_00001": state(seed)}, distributed, layout)
    assert torch.equal(torch.get_rng_state(), state(seed if continues else 99)["cpu"])


def train(config, until: int | None = None) -> Outcome:
    trainer = Trainer(config)
    try:
        return trainer.train(StopAt(trainer, until))
    finally:
        trainer.close()


@pytest.mark.parametrize(("saved_on", "resumed_on"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_run_continues_on_another_kind_of_device(small, monkeypatch, caplog, saved_on, resumed_on):
    def as_if_on(device: str) -> None:
        state = runtime.random_state(torch.device("cpu"))
        if device == "cuda":
            state["cuda"] = state["cpu"].clone()
        monkeypatch.setattr(random_numbers, "random_state", lambda _device: state)

    as_if_on(saved_on)
    assert train(small(), until=6) is Outcome.STOPPED
    as_if_on(resumed_on)
    assert train(small()) is Outcome.FINISHED
    devices = {"cpu": "cpu", "cuda": "cpu and cuda"}
    assert (
        f"random numbers: the checkpoint has those of {devices[saved_on]}, this run draws from {devices[resumed_on]}: "
        "the samples continue exactly, dropout does not"
    ) in caplog.text
