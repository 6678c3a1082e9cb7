"""Models with parameters that not every step, or none, changes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from tests.unit.trainer.pytorch.small_runs import losses, run
from trainer.common.validation import SettingsError
from trainer.pytorch.loop import Outcome, Trainer
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.model_config import ShardingPlan
from trainer.pytorch.precision import PrecisionConfig


class WithAuxiliaryHead(nn.Module):
    """A classifier with layers that its forward does not use, as the poolers of some published models."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(64, 10)
        self.auxiliary = nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(x.flatten(1))


@dataclass(frozen=True, kw_only=True)
class WithAuxiliaryHeadConfig(DigitsCnnConfig):
    frozen: bool = False

    def build(self) -> nn.Module:
        model = WithAuxiliaryHead()
        model.auxiliary.requires_grad_(not self.frozen)
        return model

    def plan(self) -> ShardingPlan:
        return ShardingPlan()


class LeavingOutLayers(nn.Module):
    """A classifier that computes its residual layer in the first step alone, as stochastic depth may."""

    def __init__(self) -> None:
        super().__init__()
        self.residual, self.classifier = nn.Linear(64, 64), nn.Linear(64, 10)
        self.is_first = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        if self.is_first:
            x = x + self.residual(x)
        self.is_first = False
        return self.classifier(x)


@dataclass(frozen=True, kw_only=True)
class LeavingOutLayersConfig(DigitsCnnConfig):
    def build(self) -> nn.Module:
        return LeavingOutLayers()

    def plan(self) -> ShardingPlan:
        return ShardingPlan()


def test_layers_that_a_step_leaves_out_are_refused_with_the_fix(small):
    config = small(model=LeavingOutLayersConfig())
    with pytest.raises(SettingsError, match=r"^layers of the model: the step before left out some.* Fix: .* times 0"):
        run(config)
    assert list(losses(config)) == [1, 2]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_parameters_that_no_gradient_reaches_are_refused_by_name_before_the_first_update(small, precision):
    config = small(model=WithAuxiliaryHeadConfig(), precision=PrecisionConfig(precision=precision))
    with pytest.raises(
        SettingsError, match=r"^parameters auxiliary\.weight, auxiliary\.bias: .* Fix: .* requires_grad"
    ):
        run(config)
    assert losses(config) == {}


def test_a_model_with_frozen_parameters_resumes_on_the_same_curve(small, tmp_path):
    model = WithAuxiliaryHeadConfig(frozen=True)
    reference = small(model=model, output_dir=tmp_path / "reference")
    run(reference)
    config = small(model=model)
    run(config, stop_at=5)
    assert run(config)[0] is Outcome.FINISHED
    assert losses(config) == losses(reference)


def test_a_step_asks_its_device_once_for_all_that_it_must_know(small, monkeypatch):
    trainer = Trainer(small())
    try:
        trainer.train_step(stop_requested=False)
        asked = []
        for name in ("tolist", "item", "cpu", "numpy", "new_tensor", "__bool__", "__float__", "__int__"):
            former = getattr(torch.Tensor, name)

            def noted(self, *arguments, _name=name, _former=former, **options):
                asked.append((_name, tuple(self.shape)))
                return _former(self, *arguments, **options)

            monkeypatch.setattr(torch.Tensor, name, noted)
        trainer.train_step(stop_requested=False)
    finally:
        trainer.close()
    # own loss and targets; all losses, targets, bad ranks and stops; the norm
    assert asked == [("tolist", (7,))]
