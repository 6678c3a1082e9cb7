"""Degrees that do not fit are refused with what would fit, before anything is built."""

from __future__ import annotations

import pytest

from tests.tables import each_row
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig

GPT = GptConfig().plan()


@pytest.mark.parametrize(
    ("values", "ranks", "message"),
    [
        ({"data_parallel_shard": 3}, 4, r"data_parallel_shard=3: .*4\. Fix: data_parallel_shard one of 1, 2, 4,"),
        (
            {"tensor_parallel": 3},
            8,
            r"tensor_parallel=3: .* Fix: tensor_parallel x pipeline_parallel one of 1, 2, 4, 8",
        ),
        (
            {"data_parallel_shard": 2, "tensor_parallel": 2, "data_parallel_replicate": 4},
            8,
            r"the product of the degrees is 16, but the number of ranks is 8\. Fix: data_parallel_shard one",
        ),
        ({"data_parallel_shard": 8}, 4, r"degrees is 8, which does not divide the number of ranks, 4\. Fix: "),
        ({"data_parallel_replicate": 1}, 4, r"^data_parallel_replicate=1: .* is 1, but the number of ranks is 4\. "),
    ],
)
def test_degrees_that_do_not_make_the_ranks(values, ranks, message):
    with pytest.raises(ValueError, match=message):
        ParallelConfig(**values).degrees(ranks)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tensor_parallel": 0}, "tensor_parallel=0: must be at least 1"),
        ({"pipeline_parallel": 4, "microbatches": 2}, r"microbatches=2: fewer than the 4 .* Fix: --microbatches 16"),
        (
            {"pipeline_parallel": 2, "microbatches": 3, "pipeline_schedule": "interleaved_1f1b"},
            r"microbatches=3: interleaved_1f1b needs whole rounds\. Fix: a multiple of 2, for example 4",
        ),
    ],
)
def test_values_that_fit_no_ranks(values, message):
    with pytest.raises(ValueError, match=message):
        ParallelConfig(**values)


def test_replicas_take_the_ranks_that_are_left():
    degrees = ParallelConfig(data_parallel_shard=2, tensor_parallel=4).degrees(32)
    assert (degrees.replicate, degrees.shard, degrees.tensor, degrees.data) == (4, 2, 4, 8)
    assert ParallelConfig().degrees(3).only_replicas


@each_row(
    ("values", "plan", "message"),
    [
        ({"tensor_parallel": 8}, GPT, r"tensor_parallel=8: does not divide heads=4\. Fix: one of 1, 2, 4"),
        (
            {"tensor_parallel": 2},
            GptConfig(heads=3, width=63).plan(),
            r"tensor_parallel=2: does not divide heads=3\. Fix: 1$",
        ),
        (
            {"tensor_parallel": 2},
            DigitsCnnConfig().plan(),
            r"tensor_parallel=2: m has no plan for it\. Fix: --data_par",
        ),
        ({"pipeline_parallel": 2, "microbatches": 2}, DigitsCnnConfig().plan(), r"m cannot be cut into stages"),
        (
            {"pipeline_parallel": 8, "microbatches": 8},
            GPT,
            r"8 stages do not divide the 4 layers .*Fix: one of 2, 4, or",
        ),
        (
            {"pipeline_parallel": 4, "microbatches": 4, "pipeline_schedule": "interleaved_1f1b"},
            GPT,
            r"8 stages do not divide the 4 layers .*Fix: 2, or",
        ),
    ],
)
def test_degrees_that_the_model_cannot_be_divided_by(values, plan, message):
    with pytest.raises(ValueError, match=message):
        ParallelConfig(**values).degrees(8).check_model("m", plan)


def test_degrees_are_suggested_that_the_ranks_can_have():
    plan = GptConfig(layers=6, heads=3, width=63, context=63, vocabulary=255).plan()
    with pytest.raises(ValueError, match=r"does not divide heads=3.*\. Fix: 1$"):  # 3 would divide them
        ParallelConfig(tensor_parallel=2).degrees(2).check_model("m", plan)
    with pytest.raises(ValueError, match=r"Fix: one of 1, 3$"):
        ParallelConfig(tensor_parallel=2).degrees(6).check_model("m", plan)
    with pytest.raises(ValueError, match=r"4 stages do not divide the 6 layers evenly\. Fix: 2, or another number"):
        ParallelConfig(pipeline_parallel=4, microbatches=4).degrees(4).check_model("m", plan)
    with pytest.raises(ValueError, match=r"Fix: tensor_parallel x pipeline_parallel one of 1, 2$"):
        ParallelConfig(data_parallel_shard=2, tensor_parallel=3).degrees(4)
    with pytest.raises(ValueError, match=r"one of 1, 2, 4, and data_parallel_shard left out$"):
        ParallelConfig(data_parallel_shard=3, tensor_parallel=3).degrees(4)


def test_every_block_is_in_one_stage_and_stages_go_around_the_ranks():
    looped = ParallelConfig(pipeline_parallel=2, microbatches=2, pipeline_schedule="interleaved_1f1b").degrees(2)
    assert [looped.blocks_of_stages(rank, 8) for rank in (0, 1)] == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    plain = ParallelConfig(pipeline_parallel=2, microbatches=2).degrees(2)
    assert [plain.blocks_of_stages(rank, 4) for rank in (0, 1)] == [[[0, 1]], [[2, 3]]]


def test_autocast_is_for_replicas_and_channels_last_for_images():
    with pytest.raises(ValueError, match=r"bf16_autocast: is for replicas .* Fix: --precision bf16"):
        PrecisionConfig(precision="bf16_autocast").check(only_replicas=False, reads_images=True)
    with pytest.raises(ValueError, match=r"channels_last=True: the model reads no images"):
        PrecisionConfig(channels_last=True).check(only_replicas=False, reads_images=False)
    PrecisionConfig(precision="bf16", channels_last=True).check(only_replicas=False, reads_images=True)


def test_a_compiler_that_is_not_there_is_refused_before_training(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ValueError, match=r"compile=inductor: needs no-such-compiler, .* Fix: .*--compile off"):
        BlocksConfig(compile="inductor").check("cpu", model="gpt", blocks=["blocks.0"])
    BlocksConfig(compile="aot_eager").check("cpu", model="gpt", blocks=["blocks.0"])


def test_options_of_blocks_are_refused_for_a_model_without_any():
    limit = r"activation_checkpointing=full, compile=aot_eager: works on blocks, and the plan of own has none\. Fix: "
    with pytest.raises(ValueError, match=limit):
        BlocksConfig(activation_checkpointing="full", compile="aot_eager").check("cpu", model="own", blocks=())
    BlocksConfig().check("cpu", model="own", blocks=())
