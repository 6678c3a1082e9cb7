from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cross_entropy

from trainer.pytorch.agreement import StopVote
from trainer.pytorch.data.dataset import InMemoryDataset
from trainer.pytorch.evaluation import mean_score, sums_of
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.evaluation import sharded_mean_score
from trainer.pytorch.parallel.layout import Layout
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.task import NOT_COUNTED, Task
from trainer.training.digits import DataError, refuse_labels

FP32 = PrecisionConfig()


def scores_of_all_ranks(model, held_out, task, world_size) -> tuple[float, ...]:
    """Evaluate on each rank in turn, and return the means that they would have agreed on."""
    total = sums_of(task)
    means = None
    for rank in range(world_size):
        distributed = SimpleNamespace(
            rank=rank, world_size=world_size, device=torch.device("cpu"), sum=lambda own: own.copy_(total.add_(own))
        )
        means = mean_score(model, held_out, task, distributed, lambda: True, samples_per_call=3, precision=FP32)
    return means


@pytest.mark.parametrize("world_size", [1, 2, 3, 11])
def test_accuracy_and_loss_count_every_sample_once(world_size):
    images = torch.rand(10, 1, 8, 8)
    model = DigitsCnnConfig(width=4).build()
    labels = model.eval()(images).argmax(dim=1)
    labels[:3] = (labels[:3] + 1) % 10  # three of ten are wrong
    model.train()
    held_out = InMemoryDataset(images, labels, classes=10)
    with torch.no_grad():
        loss = cross_entropy(model.eval()(images), labels).item()
    means = scores_of_all_ranks(model.train(), held_out, Task.CLASSIFICATION, world_size)
    assert means == pytest.approx((0.7, loss))
    assert model.training
    assert Task.CLASSIFICATION.scores(means) == {"accuracy": means[0], "loss": means[1]}


@pytest.mark.parametrize("world_size", [1, 3])
def test_loss_of_a_language_model_is_the_mean_over_all_counted_tokens(world_size):
    config = GptConfig(layers=1, heads=2, width=16, context=8, vocabulary=32)
    tokens = torch.randint(32, (7, 9))
    targets = tokens[:, 1:].where(torch.rand(7, 8) < 0.5, NOT_COUNTED)
    targets[4] = NOT_COUNTED
    model = config.build()
    with torch.no_grad():
        expected = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), targets.flatten()).item()
    held_out = InMemoryDataset(tokens[:, :-1], targets, classes=32)
    [mean] = scores_of_all_ranks(model, held_out, Task.LANGUAGE_MODELLING, world_size)
    assert mean == pytest.approx(expected, rel=1e-5)
    assert Task.LANGUAGE_MODELLING.scores([mean]) == {"loss": mean, "perplexity": pytest.approx(math.exp(mean))}


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_are_asked_equally_often_whether_to_go_on(rank):
    """Seven samples: four for one rank, three for the other, which has no second batch."""
    distributed = SimpleNamespace(rank=rank, world_size=2, device=torch.device("cpu"), sum=lambda _: None)
    held_out = InMemoryDataset(torch.rand(7, 1, 8, 8), torch.zeros(7, dtype=torch.int64), classes=10)
    model, asked = DigitsCnnConfig(width=4).build(), []
    mean_score(
        model,
        held_out,
        Task.CLASSIFICATION,
        distributed,
        lambda: not asked.append(1),
        samples_per_call=3,
        precision=FP32,
    )
    assert len(asked) == 2


def test_an_evaluation_that_is_broken_off_computes_no_further_batch_and_has_no_result(alone):
    seen = []
    model = DigitsCnnConfig(width=4).build()
    model.register_forward_hook(lambda _module, inputs, _output: seen.append(len(inputs[0])))
    held_out = InMemoryDataset(torch.rand(9, 1, 8, 8), torch.zeros(9, dtype=torch.int64), classes=10)
    vote = StopVote(alone, lambda: len(seen) > 1)
    how = {"samples_per_call": 2, "precision": FP32}
    assert mean_score(model, held_out, Task.CLASSIFICATION, alone, vote.go_on, **how) is None
    # the answer to the third question was on its way when the second batch was computed
    assert len(seen) == 3
    assert model.training


def test_what_is_not_counted_adds_nothing_to_a_score():
    logits, targets = torch.randn(4, 5), torch.tensor([1, NOT_COUNTED, 3, NOT_COUNTED])
    for task in Task:
        assert torch.equal(task.score(logits, targets), task.score(logits[::2], targets[::2]))


@pytest.mark.parametrize("target", [10, -1, NOT_COUNTED])
def test_a_target_that_is_not_a_class_is_an_error_with_its_value(alone, target):
    labels = torch.zeros(4, dtype=torch.int64)
    held_out = InMemoryDataset(torch.rand(4, 1, 8, 8), labels, classes=10)
    labels[2] = target  # as in a data set that does not check its own
    replicas = Recipe(model=DigitsCnnConfig(width=4)).build(Layout(ParallelConfig().degrees(1), "cpu"), alone.device)
    of_replicas = {"samples_per_call": 4, "precision": FP32}
    message = rf"^label {target}, one of 1 that are not 0 to 9\. Fix: "
    with pytest.raises(DataError, match=message):
        mean_score(replicas.module, held_out, Task.CLASSIFICATION, alone, lambda: True, **of_replicas)
    with pytest.raises(DataError, match=message):
        sharded_mean_score(replicas, held_out, Task.CLASSIFICATION, 4, lambda: True)


def test_samples_without_a_counted_target_say_nothing_of_a_model(alone):
    config = GptConfig(layers=1, heads=2, width=16, context=8, vocabulary=32)
    tokens = torch.randint(32, (2, 8))
    held_out = InMemoryDataset(tokens, torch.full_like(tokens, NOT_COUNTED), classes=32)
    how = {"samples_per_call": 2, "precision": FP32}
    with pytest.raises(DataError, match=r"^held-out samples: none of their targets is counted\. Fix: "):
        mean_score(config.build(), held_out, Task.LANGUAGE_MODELLING, alone, lambda: True, **how)


def test_a_language_model_may_leave_out_targets_but_not_have_others_than_classes():
    logits, targets = torch.randn(2, 3, 5), torch.tensor([[0, NOT_COUNTED, 4], [NOT_COUNTED] * 3])
    task = Task.LANGUAGE_MODELLING
    refuse_labels(targets, 5, not_counted=task.not_counted)
    assert task.loss_sum(logits, targets) == pytest.approx(cross_entropy(logits[0, ::2], targets[0, ::2]).item() * 2)
    assert task.loss_sum(logits, targets[1].repeat(2, 1)) == 0
    for target in (5, -1):
        targets[1, 1] = target
        assert task.loss_sum(logits, targets).isnan()
        with pytest.raises(
            DataError, match=rf"^label {target} of sample 1, .* 0 to 4, nor -100 for what is not counted\."
        ):
            refuse_labels(targets, 5, not_counted=task.not_counted)


def test_perplexity_of_a_model_that_diverged_is_still_a_number():
    assert math.isfinite(Task.LANGUAGE_MODELLING.scores([1e9])["perplexity"])


def test_an_evaluation_computes_in_the_numbers_and_the_layout_of_training(alone):
    seen = []
    convolution = torch.nn.Conv2d(3, 8, 3)
    model = torch.nn.Sequential(convolution, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 10))
    convolution.register_forward_hook(lambda _module, inputs, output: seen.append((inputs[0], output.dtype)))
    held_out = InMemoryDataset(torch.rand(4, 3, 32, 32), torch.zeros(4, dtype=torch.int64), classes=10)
    precision = PrecisionConfig(precision="bf16_autocast", channels_last=True)
    how = {"samples_per_call": 4, "precision": precision}
    mean_score(model, held_out, Task.CLASSIFICATION, alone, lambda: True, **how)
    [(inputs, dtype)] = seen
    assert inputs.is_contiguous(memory_format=torch.channels_last)
    assert dtype == torch.bfloat16
