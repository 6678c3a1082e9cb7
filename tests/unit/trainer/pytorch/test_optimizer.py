from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from trainer.pytorch.optimizer import OptimizerConfig


def test_learning_rate_rises_then_falls_to_zero():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=10)
    rates = [config.learning_rate_at(step, 110) for step in range(111)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.5)
    assert rates[110] == pytest.approx(0.0)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_learning_rate_without_warm_up_begins_at_the_top():
    assert OptimizerConfig(learning_rate=1.0, warmup_steps=0).learning_rate_at(0, 10) == 1.0


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("cosine", {0: 1.0, 50: 0.6, 100: 0.2}),
        ("linear", {0: 1.0, 25: 0.8, 50: 0.6, 100: 0.2}),
        ("constant", {0: 1.0, 50: 1.0, 99: 1.0}),
        ("wsd", {0: 1.0, 80: 1.0, 90: 0.6, 100: 0.2}),
    ],
)
def test_schedules_fall_to_their_minimum(schedule, expected):
    config = OptimizerConfig(
        learning_rate=1.0, warmup_steps=0, schedule=schedule, minimum_learning_rate=0.2, decay_fraction=0.2
    )
    assert {step: config.learning_rate_at(step, 100) for step in expected} == pytest.approx(expected)
    warm = replace(config, warmup_steps=95)
    assert warm.learning_rate_at(94, 100) == 1.0
    assert (warm.learning_rate_at(99, 100) < 1.0) == (schedule != "constant")


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.linear = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Linear(4, 3)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_biases_and_norms_do_not_decay_unless_asked_for(optimizer):
    def decayed(config: OptimizerConfig) -> set[str]:
        model = Normalised()
        for parameter in model.parameters():
            nn.init.ones_(parameter)
            parameter.grad = torch.zeros_like(parameter)
        config.build(model.parameters()).step()
        return {name for name, value in model.named_parameters() if not torch.equal(value, torch.ones_like(value))}

    config = OptimizerConfig(optimizer=optimizer, weight_decay=0.1)
    assert decayed(config) == {"convolution.weight", "linear.weight"}
    assert decayed(replace(config, weight_decay_on="all")) == set(Normalised().state_dict())


def test_options_reach_the_optimizer():
    layer = nn.Linear(2, 2)
    adamw = OptimizerConfig(adam_betas=(0.8, 0.95), adam_epsilon=1e-5).build(layer.parameters())
    assert isinstance(adamw, torch.optim.AdamW)
    assert (adamw.defaults["betas"], adamw.defaults["eps"]) == ((0.8, 0.95), 1e-5)
    sgd = OptimizerConfig(optimizer="sgd", sgd_momentum=0.5).build(layer.parameters())
    assert isinstance(sgd, torch.optim.SGD)
    assert sgd.defaults["momentum"] == 0.5


@pytest.mark.parametrize(
    "config",
    [
        OptimizerConfig(),
        OptimizerConfig(weight_decay_on="all"),
        OptimizerConfig(optimizer="sgd"),
        OptimizerConfig(optimizer="sgd", sgd_momentum=0.0),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_an_optimizer_continues_from_its_state(config, bias):
    """Without a bias one of the groups has no parameter."""
    torch.manual_seed(0)
    layers = [nn.Linear(4, 3, bias=bias) for _ in range(2)]
    first, second = (config.build(layer.parameters()) for layer in layers)
    inputs = torch.randn(2, 4)

    def step(layer: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        layer(inputs).square().sum().backward()
        optimizer.step()

    step(layers[0], first)
    weights, state = get_state_dict(layers[0], first)
    # as it is read from a checkpoint: tensors of its own
    set_state_dict(layers[1], second, model_state_dict=weights, optim_state_dict=copy.deepcopy(state))
    for layer, optimizer in zip(layers, (first, second), strict=True):
        step(layer, optimizer)
    assert torch.equal(layers[0].weight, layers[1].weight)


def test_kernels_compute_the_same_update():
    updated = []
    for kernels in ("fused", "foreach", "single"):
        torch.manual_seed(0)
        layer = nn.Linear(4, 3)
        optimizer = OptimizerConfig(optimizer_kernels=kernels).build(layer.parameters())
        layer(torch.ones(2, 4)).square().sum().backward()
        optimizer.step()
        assert (optimizer.defaults["fused"], optimizer.defaults["foreach"]) == (
            kernels == "fused",
            kernels == "foreach",
        )
        updated.append(layer.weight.detach())
    torch.testing.assert_close(updated[1], updated[0])
    torch.testing.assert_close(updated[2], updated[0])
