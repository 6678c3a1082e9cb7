"""Every layout of 1, 2 and 4 ranks learns what one process learns: real ranks, gloo over the loopback interface."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tables import each_row
from tests.unit.trainer.pytorch.parallel import own_driver
from tests.unit.trainer.pytorch.parallel.train_layouts import BATCH, STEPS, cases

FP32_TOLERANCE = 1e-5
"""Of each loss, relative: sums in another order. Seen: below 3e-7."""
DEEP_TOLERANCE = 1e-4
"""Of ResNet-18, whose loss rises at first: what is left of a sum in another order grows. Seen: below 6e-6."""
BF16_TOLERANCE = 3e-2
"""bfloat16 has 8 bits, a relative step of 0.4 %. Seen: below 1e-2."""
FP32_NORM_TOLERANCE, BF16_NORM_TOLERANCE = 1e-4, 2e-1
"""Of the norm of each gradient, which one counted target may decide alone. Seen: below 9e-6 and 7e-2."""


@pytest.fixture(scope="module")
def trained(run_ranks, tmp_path_factory) -> dict[int, dict[str, dict[str, Any]]]:
    """What all layouts of a number of ranks gave, trained one after the other in the same processes."""
    folder = tmp_path_factory.mktemp("layouts")
    for world_size in (1, 2, 4):
        run_ranks("tests.unit.trainer.pytorch.parallel.train_layouts", world_size, folder / f"{world_size}.json")
    return {world_size: json.loads((folder / f"{world_size}.json").read_text()) for world_size in (1, 2, 4)}


NAMES = [(n, case.name) for n in (1, 2, 4) for case in cases(n)]


@each_row(("world_size", "name"), NAMES, ids=[f"{n} ranks: {name}" for n, name in NAMES])
def test_a_layout_has_the_losses_and_the_gradients_of_one_process_with_every_mask(trained, world_size, name):
    model = name.partition(":")[0]
    alone = f"{model.removesuffix(' bf16')}: alone"
    tolerance = {"gpt bf16": BF16_TOLERANCE, "resnet": DEEP_TOLERANCE}.get(model, FP32_TOLERANCE)
    result, expected = trained[world_size][name], trained[1][alone]
    assert len(result["losses"]) == len(result["norms"]) == STEPS
    assert result["losses"] == pytest.approx(expected["losses"], rel=tolerance)
    norm_tolerance = BF16_NORM_TOLERANCE if model == "gpt bf16" else FP32_NORM_TOLERANCE
    assert result["norms"] == pytest.approx(expected["norms"], rel=norm_tolerance)


def test_layouts_learn_what_a_driver_learns_of_which_nothing_is_the_trainers(trained):
    """What all layouts are compared with is the trainer's own; here masks, clipping and updates are written out."""
    losses, norms = own_driver.train()
    assert 0.0 in losses, "a batch without a counted target"
    of_gpt = [(n, name) for n, name in NAMES if name.startswith("gpt: ")]
    assert len(of_gpt) > 12
    for world_size, name in of_gpt:
        result = trained[world_size][name]
        assert result["losses"] == pytest.approx(losses, rel=FP32_TOLERANCE), name
        assert result["norms"] == pytest.approx(norms, rel=FP32_NORM_TOLERANCE), name


@each_row(("world_size", "name"), NAMES, ids=[f"{n} ranks: {name}" for n, name in NAMES])
def test_ranks_evaluate_together_what_the_whole_model_answers(trained, world_size, name):
    result = trained[world_size][name]
    tolerance = BF16_TOLERANCE if "bf16" in name else FP32_TOLERANCE
    assert result["together"] == pytest.approx(result["alone"], rel=tolerance)


@each_row("world_size", [1, 2, 4])
def test_ranks_evaluate_as_many_samples_at_a_time_as_they_train_on(trained, world_size):
    """A rank that has memory for the logits of one microbatch has it for the evaluation, too."""
    for case in cases(world_size):
        parallel = case.then or case.parallel
        at_once = BATCH // parallel.degrees(world_size).data // parallel.microbatches
        assert trained[world_size][case.name]["most_logits"] == at_once, case.name


@each_row("name", ["gpt: alone", "deep gpt: alone"])
def test_what_is_compared_has_learned_something(trained, name):
    losses = trained[1][name]["losses"]
    assert losses[-1] < losses[0]  # of the same batch
    assert len(set(losses)) == STEPS


def test_bfloat16_is_not_float32(trained):
    alone = trained[1]["gpt: alone"]["losses"]
    assert trained[2]["gpt bf16: shard 2"]["losses"] != pytest.approx(alone, rel=FP32_TOLERANCE)
