from __future__ import annotations

import pytest
import torch
from torch import nn

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
