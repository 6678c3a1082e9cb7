"""128 GPUs on this machine: the real code divides the model, the numbers follow from the published formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch.distributed as dist

from trainer.common.validation import SettingsError
from trainer.dry_run import DryRunConfig, estimates, main
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig

pytestmark = pytest.mark.long

SMALL = GptConfig(layers=4, heads=8, width=64, context=32, vocabulary=128)
PARAMETERS = 12 * 4 * 64**2 + (2 * 128 + 32) * 64 + 9 * 2 * 64


def test_replicas_keep_everything_and_send_twice_their_gradients():
    [cost] = estimates(DryRunConfig(ranks=128, batch_size=128, model=SMALL))
    assert cost.parameters == PARAMETERS
    assert cost.state_bytes == 16 * PARAMETERS
    assert cost.replicate_traffic_bytes == round(2 * 127 / 128 * 4 * PARAMETERS)
    assert (cost.shard_traffic_bytes, cost.tensor_traffic_bytes, cost.pipeline_traffic_bytes) == (0, 0, 0)
    # one sample of 16 values per feature and layer, and its logits twice
    assert cost.activation_bytes == 4 * 16 * 32 * 64 * 4 + 32 * 128 * 8


def test_the_state_is_that_of_the_chosen_optimizer(capsys):
    for optimizer, values in (
        (OptimizerConfig(optimizer="sgd"), 3),
        (OptimizerConfig(optimizer="sgd", sgd_momentum=0), 2),
    ):
        [cost] = estimates(DryRunConfig(ranks=128, batch_size=128, model=SMALL, optimizer=optimizer))
        assert cost.state_bytes == 4 * values * PARAMETERS
    main(["--ranks", "1", "--optimizer", "sgd"])
    assert "    state (fp32, SGD)  " in capsys.readouterr().out


def test_shards_divide_the_state_and_send_the_parameters_three_times_those_outside_blocks_twice():
    parallel = ParallelConfig(data_parallel_shard=128)
    [cost] = estimates(DryRunConfig(ranks=128, batch_size=128, model=SMALL, parallel=parallel))
    # a tensor whose first dimension is not a multiple of 128 leaves some ranks with one more row than others
    assert cost.parameters == pytest.approx(PARAMETERS / 128, rel=1.0)
    # two embeddings, the last norm and the head stay gathered between forward and backward
    outside = 128 * 64 + 32 * 64 + 2 * 64 + 64 * 128
    assert cost.shard_traffic_bytes == round(127 / 128 * 4 * (3 * PARAMETERS - outside))
    [bf16] = estimates(
        DryRunConfig(
            ranks=128, batch_size=128, model=SMALL, parallel=parallel, precision=PrecisionConfig(precision="bf16")
        )
    )
    assert bf16.shard_traffic_bytes == round(127 / 128 * ((2 * 2 + 4) * PARAMETERS - 2 * outside))


def test_stages_and_tensor_groups_divide_layers_activations_and_messages():
    parallel = ParallelConfig(data_parallel_shard=8, tensor_parallel=8, pipeline_parallel=2, microbatches=2)
    costs = estimates(DryRunConfig(ranks=128, batch_size=16, model=SMALL, parallel=parallel))
    first, last = costs
    assert sum(64 * cost.parameters for cost in costs) == pytest.approx(PARAMETERS, rel=0.05)
    features = 32 * 64 * 4
    assert first.pipeline_traffic_bytes == last.pipeline_traffic_bytes == 2 * features // 8
    assert first.tensor_traffic_bytes == 7 / 8 * 2 * 8 * 2 * features
    assert last.tensor_traffic_bytes == first.tensor_traffic_bytes + 7 / 8 * 2 * 32 * 128 * 4
    # the first stage has two microbatches under way, the last one
    # of 16 values in a block two are gathered
    assert first.activation_bytes == 2 * 2 * (14 / 8 + 2) * features
    assert last.activation_bytes == 2 * (14 / 8 + 2) * features + 32 * 128 * 8


def test_gradients_of_microbatches_are_whole_until_the_last_one():
    def cost(**degrees):
        parallel = ParallelConfig(data_parallel_shard=128, **degrees)
        return estimates(DryRunConfig(ranks=128, batch_size=256, model=SMALL, parallel=parallel))[0]

    one, two = cost(), cost(microbatches=2)
    assert one.whole_gradient_bytes == 0
    assert two.whole_gradient_bytes == 4 * (PARAMETERS - two.parameters)
    assert two.memory_bytes == one.memory_bytes + two.whole_gradient_bytes - one.activation_bytes / 2


def test_tensor_groups_repeat_messages_with_what_they_compute_again():
    def sent(mode: str) -> int:
        blocks = BlocksConfig(activation_checkpointing=mode)
        parallel = ParallelConfig(tensor_parallel=8)
        [cost] = estimates(DryRunConfig(ranks=8, batch_size=1, model=SMALL, parallel=parallel, blocks=blocks))
        return cost.tensor_traffic_bytes

    three_per_block = 7 / 8 * 4 * 3 * 32 * 64 * 4
    assert sent("full") == sent("selective") == sent("none") + three_per_block


def test_recomputing_keeps_less():
    kept = [
        estimates(DryRunConfig(ranks=8, batch_size=8, model=SMALL, blocks=BlocksConfig(activation_checkpointing=mode)))[
            0
        ].activation_bytes
        for mode in ("none", "selective", "full")
    ]
    assert kept == sorted(kept, reverse=True)
    assert len(set(kept)) == 3


def test_the_command_prints_a_layout_of_128_gpus(capsys):
    degrees = [
        "--data_parallel_shard",
        "8",
        "--tensor_parallel",
        "8",
        "--pipeline_parallel",
        "2",
        "--microbatches",
        "8",
    ]
    main(["--ranks", "128", "--model", "gpt", "--size", "7b", "--batch_size", "512", "--precision", "bf16", *degrees])
    said = capsys.readouterr().out
    assert "6,863,462,400 parameters" in said
    assert "replicate 1 x shard 8 x tensor 8 x pipeline 2" in said
    assert said.count("a rank of pipeline stage") == 2
    assert not dist.is_initialized()


def test_a_plan_that_forgets_a_parameter_or_names_no_module_is_refused(monkeypatch):
    whole = SMALL.plan()
    forgotten = ["blocks.1.attention.query", "head.norm"]
    styles = {name: style for name, style in whole.tensor.items() if name not in forgotten}

    def divide(**changes):
        monkeypatch.setattr(GptConfig, "plan", lambda _: replace(whole, **changes))
        return estimates(DryRunConfig(ranks=2, model=SMALL, parallel=ParallelConfig(tensor_parallel=2)))

    names = r"blocks\.1\.attention\.query\.weight, head\.norm\.weight, head\.norm\.bias"
    with pytest.raises(
        SettingsError, match=rf"^tensor_parallel=2: the plan of gpt .* each rank has of {names}\. Fix: "
    ):
        divide(tensor=styles)
    assert len(divide(tensor=styles, replicated=forgotten)) == 1
    for changes in ({"blocks": ["blocks.9"]}, {"replicated": ["blocks.9"]}, {"tensor": {"blocks.9": None}}):
        with pytest.raises(SettingsError, match=r"^model=gpt: its plan has blocks\.9, the network has embedding, "):
            divide(**changes)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--ranks 128 --model gpt --tensor_parallel 3",
            "tensor_parallel=3: a tensor-parallel group would leave a node",
        ),
        ("--ranks 128 --model gpt --tensor_parallel 8", "does not divide heads=4"),
        ("--ranks 128 --batch_size 100", "batch_size=100: 128 data-parallel ranks cannot share it evenly"),
        ("--ranks 12 --data_parallel_shard 8", "degrees is 8, which does not divide the number of ranks, 12"),
        ("--ranks 2 --model transformer", "model='transformer': no model has that name"),
    ],
)
def test_a_layout_that_does_not_fit_ends_with_status_2(capsys, monkeypatch, words, message):
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as exit_:
        main(words.split())
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err
    assert not dist.is_initialized()
